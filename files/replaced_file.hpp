#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace mailgrad {

/// A file that takes the place of an older one in one step, when it is whole: until then it is FILE.partial,
/// so that no reader ever sees half of one, and a crash leaves the older one as it was. A link is followed;
/// what is no file, a pipe or a device, is written into.
///
/// Two who write files of one name do not mix their bytes: FILE.partial is locked as long as it is written,
/// and the lock ends with the process. Where one waits for another, the later one's file stays.
/// Errors  none thrown: as of a file stream, and errno says why; EWOULDBLOCK: somebody else is writing it.
class replaced_file final : public std::ofstream {
public:
  /// What to do while somebody else writes a file of that name.
  enum class if_taken : std::uint8_t { wait, fail };

  explicit replaced_file(const std::string& path, if_taken what = if_taken::wait);
  /// Leaves nothing behind that was not kept.
  ~replaced_file() override;
  replaced_file(const replaced_file&) = delete;
  replaced_file& operator=(const replaced_file&) = delete;

  /// Nothing follows: the file takes its place. 0, or the errno for which it cannot.
  [[nodiscard]] int keep();

  /// Where a link leads, so that the file is replaced and not the link.
  static std::string without_links(const std::string& path);
  /// Whether `path` is free, or names a file; false for a pipe or a device.
  static bool can_replace(const std::string& path);
  /// Under which name a file is written until it takes the place of `path`.
  static std::string partial(const std::string& path) { return path + ".partial"; }
  /// Whether somebody is writing the file `partial` at this moment.
  static bool is_being_written(const std::string& partial);
  /// Renames the file `partial` to `to`, unless somebody is writing it or may be. Returns whether it did.
  static bool move_abandoned(const std::string& partial, const std::string& to);

private:
  std::string path_;
  std::string written_; ///< to this name; empty once that is done with
  int lock_ = -1;       ///< a file descriptor of `written_`; -1: none
};

} // namespace mailgrad

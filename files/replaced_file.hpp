#pragma once

#include <mailgrad/files/locks.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace mailgrad {

/// Waits until the names in a folder are on the disk; an empty path is the working folder. Returns 0 or an
/// errno. Some file systems cannot be asked, which is no failure.
int sync_folder(const std::filesystem::path& folder);

/// A file that atomically replaces an older one when it is complete. Until then its name is FILE.partial, so
/// a reader never sees half of it, and a crash leaves the older file unchanged. It has the older one's
/// permissions. A pipe or a device is written to directly.
///
/// Two writers of one name do not mix their bytes: FILE.partial is locked while it is written, and the lock
/// ends with the process. If one writer waits for another, the file of the later one remains.
/// Errors  none thrown: the stream fails and errno says why; EWOULDBLOCK: another process is writing it.
class replaced_file final : public std::ofstream {
public:
  /// What to do while another writer has a file of that name.
  using if_taken = if_locked;

  /// What to do with a link of that name: a user's own may be followed, while in a folder of ours nobody
  /// makes one with a good intent.
  enum class if_link : std::uint8_t { followed, replaced };

  explicit replaced_file(const std::string& path, if_taken what = if_taken::wait,
                         if_link link = if_link::followed);
  /// Removes the partial file unless keep() was called.
  ~replaced_file() override;
  replaced_file(const replaced_file&) = delete;
  replaced_file& operator=(const replaced_file&) = delete;

  /// Writes many bytes at the present place. The disk begins with the first of them while the last are still
  /// to come, so keep_on_disk() has less to wait for.
  void write_ahead(std::span<const std::byte> bytes);

  /// Waits until the bytes written so far are on the disk, and the name by which they are found before
  /// keep().
  /// Returns 0, or the errno of the failure. There is nothing to wait for in a pipe or a device.
  [[nodiscard]] int sync();

  /// Closes the complete file and moves it to its place. Returns 0, or the errno of the failure.
  [[nodiscard]] int keep();
  /// The same, but only when the bytes and the name are on the disk, so that they outlive a power failure.
  [[nodiscard]] int keep_on_disk();

  /// Gives the file up, but leaves FILE.partial with its first `bytes` bytes; with 0 it is removed. Returns
  /// the name of what is left; empty: nothing, or a pipe or a device.
  std::string leave(std::uint64_t bytes);

  /// The target of a link, so that the file is replaced and not the link.
  static std::string without_links(const std::string& path);
  /// Whether `path` does not exist or is a regular file; false for a pipe or a device.
  static bool can_replace(const std::string& path);
  /// The name of the file until it takes the place of `path`.
  static std::string partial(const std::string& path) { return path + ".partial"; }
  /// Whether a writer has the file `partial` open at this moment.
  static bool is_being_written(const std::string& partial);
  /// Renames the file `partial` to `to`, unless a writer has it open. Returns whether it was renamed.
  static bool move_abandoned(const std::string& partial, const std::string& to);

private:
  int keep(bool on_disk);

  std::string path_;
  std::string written_; ///< the name that is written; empty after keep()
  int lock_ = -1;       ///< a file descriptor of `written_`; -1: none
};

/// Makes room for new files of these names: renames what is there to NAME.old, or to NAME.old-2, NAME.old-3
/// and so on, so that nothing of an older name is lost. Files that belong together are given together, and
/// have the same ending. Only regular files with bytes in them are kept; a pipe or a device has nothing to
/// lose.
/// Errors  std::filesystem::filesystem_error: one cannot be renamed; those before it have been.
void keep_older(std::span<const std::filesystem::path> files);

} // namespace mailgrad

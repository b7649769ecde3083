#pragma once

#include <fstream>
#include <string>

namespace mailgrad {

/// A file that takes the place of an older one in one step, when it is whole: until then it is FILE.partial, so that
/// no reader ever sees half of one, and a crash leaves the older one as it was. A link is followed; what is no file, a
/// pipe or a device, is written into.
///
/// Errors  none thrown: as of a file stream, and errno says why.
class replaced_file final : public std::ofstream {
public:
  explicit replaced_file(const std::string& path);
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

private:
  std::string path_;
  std::string written_; ///< to this name; empty once that is done with
};

} // namespace mailgrad

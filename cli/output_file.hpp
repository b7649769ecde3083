#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace mailgrad {

/// Where something that a run leaves behind goes. The path is tried before the run, so that an hour of
/// training is not lost to a wrong one, and the file is replaced in one step after it, so that a reader never
/// sees half of one. A link is followed; a pipe or a device is written into. A run that does not end leaves
/// no file behind. The path "-" is standard output, as tools have it; a file of that name is "./-".
class output_file {
public:
  static constexpr std::string_view standard_output = "-";

  /// `what` it is, for errors: "report". An empty path is nowhere.
  ///
  /// Errors  std::system_error if `path` cannot be written.
  output_file(std::string what, const std::string& path);

  /// Whether both would replace the same file, or both go to standard output.
  bool same_file(const output_file& other) const;
  bool is_standard_output() const noexcept { return path_ == standard_output; }

  /// Errors  std::runtime_error, on a full disk for one; a file is what it was before.
  void write(const std::function<void(std::ostream&)>& content) const;

private:
  std::string what_;
  std::string path_;
};

} // namespace mailgrad

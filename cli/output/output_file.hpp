#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace mailgrad {

/// The destination of one output of a run. The path is checked before the run, so that a wrong one does not
/// cost an hour of training. The file is replaced atomically after the run, so that a reader never sees half
/// of it. A link is followed; a pipe or a device is written to directly. A run that is killed writes no file.
/// The path "-" is standard output; a file of that name is "./-".
class output_file {
public:
  static constexpr std::string_view standard_output = "-";

  /// `what` names the output in errors, such as "report". With an empty path nothing is written.
  ///
  /// Errors  std::system_error if `path` cannot be written.
  output_file(std::string what, const std::string& path);

  /// Whether both would replace the same file, or both go to standard output.
  bool same_file(const output_file& other) const;
  bool is_standard_output() const noexcept { return path_ == standard_output; }

  /// Errors  std::runtime_error, for example on a full disk; an older file is unchanged then.
  void write(const std::function<void(std::ostream&)>& content) const;

private:
  std::string what_;
  std::string path_;
};

} // namespace mailgrad

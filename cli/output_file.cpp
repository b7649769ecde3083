#include <mailgrad/cli/output_file.hpp>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace mailgrad {

namespace {

std::string partial(const std::string& path) { return path + ".partial"; }

/// A file can be replaced in one step; what else has a name (a pipe, a device) is written into.
bool replaceable(const std::string& path) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  return !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
}

/// Where a link leads, so that the file is replaced and not the link.
std::string without_links(const std::string& path) {
  std::error_code unknown;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, unknown);
  return unknown || !replaceable(path) ? path : real.string();
}

[[noreturn]] void cannot_write(const std::string& what, const std::string& path) {
  throw std::system_error(errno, std::generic_category(), what + " '" + path + "' cannot be written");
}

} // namespace

output_file::output_file(std::string what, const std::string& path)
    : what_(std::move(what)), path_(path.empty() ? path : without_links(path)) {
  if (path_.empty()) return;
  errno = EISDIR;
  if (std::filesystem::is_directory(path_)) cannot_write(what_, path_);
  if (!replaceable(path_)) return; // to open a pipe is to wait for its reader
  errno = 0;
  const bool writable = std::ofstream(partial(path_), std::ios::app).is_open();
  if (!writable) cannot_write(what_, path_);
  std::error_code ignored;
  std::filesystem::remove(partial(path_), ignored); // whatever ends the run now leaves nothing behind
}

bool output_file::same_file(const output_file& other) const {
  return !path_.empty() && path_ == other.path_ && replaceable(path_);
}

void output_file::write(const std::function<void(std::ostream&)>& content) const {
  if (path_.empty()) return;
  const std::string target = replaceable(path_) ? partial(path_) : path_;
  errno = 0;
  std::ofstream file(target, std::ios::trunc);
  content(file);
  file.close();
  if (!file) {
    const std::string why = std::generic_category().message(errno);
    std::error_code ignored;
    if (target != path_) std::filesystem::remove(target, ignored);
    throw std::runtime_error(what_ + " '" + path_ + "' cannot be written: " + why);
  }
  if (target != path_) std::filesystem::rename(target, path_);
}

} // namespace mailgrad

#include <mailgrad/data/replaced_file.hpp>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace mailgrad {

bool replaced_file::can_replace(const std::string& path) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  return !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
}

std::string replaced_file::without_links(const std::string& path) {
  std::error_code unknown;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, unknown);
  return unknown || !can_replace(path) ? path : real.string();
}

replaced_file::replaced_file(const std::string& path)
    : path_(without_links(path)), written_(can_replace(path_) ? path_ + ".partial" : path_) {
  errno = 0;
  open(written_, std::ios::binary | std::ios::trunc);
}

replaced_file::~replaced_file() {
  if (written_.empty() || written_ == path_ || !is_open()) return;
  close();
  std::error_code ignored;
  std::filesystem::remove(written_, ignored);
}

int replaced_file::keep() {
  if (good()) errno = 0; // else it is of what failed before
  close();
  std::error_code why;
  if (!*this) why.assign(errno != 0 ? errno : EIO, std::generic_category());
  const std::string written = std::exchange(written_, "");
  if (written == path_) return why.value();
  if (!why) std::filesystem::rename(written, path_, why);
  std::error_code ignored;
  if (why) std::filesystem::remove(written, ignored);
  return why.value();
}

} // namespace mailgrad

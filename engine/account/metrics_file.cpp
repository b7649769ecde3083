#include <mailgrad/engine/account/metrics_file.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace mailgrad {

namespace {

/// Only a regular file with bytes in it can be kept; a pipe or a device has nothing to lose.
void keep_older(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none) || std::filesystem::file_size(path, none) == 0) return;
  std::string older = path + ".old"; // of a run that was killed and resumed several times, there are several
  for (int n = 2; std::filesystem::exists(older, none); ++n) older = fmt::format("{}.old-{}", path, n);
  std::filesystem::rename(path, older);
}

} // namespace

metrics_file::metrics_file(std::string path) : path_(std::move(path)), csv_(path_.ends_with(".csv")) {
  keep_older(path_);
  errno = 0;
  out_.open(path_, std::ios::binary);
  if (!out_)
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("metrics '{}' cannot be written", path_));
  if (csv_) write(metrics_csv_header());
}

void metrics_file::add(const metrics_line& x) {
  if (failure_.empty()) write(csv_ ? to_csv(x) : to_json(x));
}

void metrics_file::write(const std::string& line) {
  errno = 0;
  out_ << line + '\n' << std::flush;
  if (out_) return;
  failure_ = fmt::format("metrics '{}' end early: {}", path_, std::generic_category().message(errno));
  out_.close();
}

} // namespace mailgrad

#include <mailgrad/engine/account/metrics_file.hpp>

#include <mailgrad/files/older_file.hpp>

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace mailgrad {

metrics_file::metrics_file(std::string path) : path_(std::move(path)), csv_(path_.ends_with(".csv")) {
  keep_older(std::array{std::filesystem::path(path_)});
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

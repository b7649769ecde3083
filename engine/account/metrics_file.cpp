#include <mailgrad/engine/account/metrics_file.hpp>

#include <mailgrad/files/lock_holder.hpp>
#include <mailgrad/files/locked_file.hpp>
#include <mailgrad/files/older_file.hpp>
#include <mailgrad/files/replaced_file.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace mailgrad {

metrics_file::metrics_file(std::string path) : path_(std::move(path)), csv_(path_.ends_with(".csv")) {
  const bool is_file = replaced_file::can_replace(path_);
  if (is_file && replaced_file::is_being_written(path_))
    throw std::invalid_argument(fmt::format("metrics '{}': another run writes there{}; name another file, or "
                                            "wait for its end",
                                            path_, lock_holder_in_words(path_)));
  keep_older(std::array{std::filesystem::path(path_)});
  if (is_file) lock_ = open_locked(path_, if_locked::fail);
  errno = 0;
  out_.open(path_, std::ios::binary);
  if (!out_)
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("metrics '{}' cannot be written", path_));
  if (csv_) write(metrics_csv_header());
}

metrics_file::~metrics_file() {
  if (lock_ >= 0) close(lock_);
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

#include <mailgrad/engine/account/figures.hpp>
#include <mailgrad/engine/account/metrics_line.hpp>
#include <mailgrad/files/locks.hpp>
#include <mailgrad/files/replaced_file.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace mailgrad {

std::vector<std::pair<std::string, std::optional<double>>> named_figures(const metrics_line& x) {
  std::vector<std::pair<std::string, std::optional<double>>> named;
  for (const figure& column : figures_of(x)) named.emplace_back(column.name, column.number());
  return named;
}

std::string to_json(const metrics_line& x) { return object_of(figures_of(x)).dump(); }

std::string metrics_csv_header() {
  std::string text;
  for (const figure& column : figures_of(metrics_line{}))
    text += (text.empty() ? "" : ",") + std::string(column.name);
  return text;
}

/// The first column is never empty.
std::string to_csv(const metrics_line& x) {
  std::string text;
  for (const figure& column : figures_of(x))
    text += (text.empty() ? "" : ",") +
            (std::isfinite(column.number().value_or(NAN)) ? column.value.dump() : std::string());
  return text;
}

namespace {

/// Removes every second line; with `tests_stay` only of those without a test.
void halve(std::vector<metrics_line>& lines, bool tests_stay) {
  bool goes = true;
  std::erase_if(lines, [&](const metrics_line& x) {
    if (tests_stay && x.tested()) return false;
    goes = !goes;
    return goes;
  });
}

} // namespace

void metrics_curve::add(const metrics_line& line) {
  last_ = line;
  const std::uint64_t number = line.tested() ? 0 : untested_++;
  if (number % stride_ != 0) return;
  if (kept_.size() + 1 >= most) {
    const auto tests = static_cast<std::size_t>(std::ranges::count_if(kept_, &metrics_line::tested));
    stride_ *= 2;
    halve(kept_, tests < most / 2);
    if (number % stride_ != 0) return;
  }
  kept_.push_back(line);
  last_.reset();
}

std::vector<metrics_line> metrics_curve::lines() const {
  std::vector<metrics_line> all = kept_;
  if (last_) all.push_back(*last_);
  return all;
}

metrics_file::metrics_file(std::string path) : path_(std::move(path)), csv_(path_.ends_with(".csv")) {
  const bool is_file = replaced_file::can_replace(path_);
  if (is_file && replaced_file::is_being_written(path_))
    throw std::invalid_argument(fmt::format("metrics '{}': another run writes there{}; name another file, or "
                                            "wait for its end",
                                            path_, format_lock_holder(path_)));
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

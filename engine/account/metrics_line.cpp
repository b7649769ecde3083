#include <mailgrad/engine/account/metrics_line.hpp>
#include <mailgrad/files/locks.hpp>
#include <mailgrad/files/replaced_file.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;
using figure = std::optional<double>;

/// A column that holds a member of a line as a number.
template <auto Member>
figure member(const metrics_line& x) {
  if constexpr (requires { (x.*Member).has_value(); }) {
    if (!(x.*Member)) return std::nullopt;
    return static_cast<double>(*(x.*Member));
  } else {
    return static_cast<double>(x.*Member);
  }
}

constexpr std::array columns{
    metrics_column{"time_s", figure_kind::measure, member<&metrics_line::time_s>},
    metrics_column{"steps", figure_kind::count, member<&metrics_line::steps>},
    metrics_column{"updates", figure_kind::count, member<&metrics_line::updates>},
    metrics_column{"samples", figure_kind::count, member<&metrics_line::samples>},
    metrics_column{"epoch", figure_kind::measure, member<&metrics_line::epoch>},
    metrics_column{"train_loss", figure_kind::measure, member<&metrics_line::train_loss>},
    metrics_column{"learning_rate", figure_kind::measure, member<&metrics_line::learning_rate>},
    metrics_column{"staleness_mean", figure_kind::measure, member<&metrics_line::staleness_mean>},
    metrics_column{"staleness_p99", figure_kind::count, member<&metrics_line::staleness_p99>},
    metrics_column{"computed", figure_kind::count, member<&metrics_line::computed>},
    metrics_column{"applied", figure_kind::count, member<&metrics_line::applied>},
    metrics_column{"merged", figure_kind::count, member<&metrics_line::merged>},
    metrics_column{"discarded", figure_kind::count, member<&metrics_line::discarded>},
    metrics_column{"samples_per_s", figure_kind::measure, member<&metrics_line::samples_per_s>},
    metrics_column{"waiting_s", figure_kind::measure, member<&metrics_line::waiting_s>},
    metrics_column{"test_loss", figure_kind::test, member<&metrics_line::test_loss>},
    metrics_column{"test_accuracy", figure_kind::test, member<&metrics_line::test_accuracy>},
    metrics_column{"test_rmse", figure_kind::test, member<&metrics_line::test_rmse>},
    metrics_column{"validation_loss", figure_kind::test, member<&metrics_line::validation_loss>},
    metrics_column{"validation_accuracy", figure_kind::test, member<&metrics_line::validation_accuracy>},
    metrics_column{"validation_rmse", figure_kind::test, member<&metrics_line::validation_rmse>},
};

json number(const metrics_column& column, double x) {
  return column.kind == figure_kind::count ? json(static_cast<std::uint64_t>(x)) : json(x);
}

/// `piece` gives the text of each column.
std::string joined(const auto& piece) {
  std::string text;
  for (const metrics_column& column : columns) text += (text.empty() ? "" : ",") + piece(column);
  return text;
}

} // namespace

std::span<const metrics_column> metrics_columns() { return columns; }

std::string to_json(const metrics_line& x) {
  json line;
  for (const metrics_column& column : columns) {
    const figure f = column.figure(x);
    if (f || column.kind != figure_kind::test)
      line[std::string(column.name)] = f ? number(column, *f) : json(nullptr);
  }
  return line.dump();
}

std::string metrics_csv_header() {
  return joined([](const metrics_column& column) { return std::string(column.name); });
}

/// The first column is never empty.
std::string to_csv(const metrics_line& x) {
  return joined([&](const metrics_column& column) {
    const figure f = column.figure(x);
    return f && std::isfinite(*f) ? number(column, *f).dump() : std::string();
  });
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

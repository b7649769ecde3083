#include <mailgrad/engine/account/metrics_curve.hpp>

#include <algorithm>

namespace mailgrad {

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

} // namespace mailgrad

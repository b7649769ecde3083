#pragma once

#include <mailgrad/files/archive.hpp>

#include <algorithm>
#include <cstdint>

namespace mailgrad {

/// Mean, least and greatest of a sampled figure.
class running_stat {
public:
  void add(double x) noexcept { merge({1, x, x, x}); }
  void merge(const running_stat& other) noexcept {
    if (other.empty()) return;
    least_ = empty() ? other.least_ : std::min(least_, other.least_);
    greatest_ = empty() ? other.greatest_ : std::max(greatest_, other.greatest_);
    count_ += other.count_;
    sum_ += other.sum_;
  }

  std::uint64_t count() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  /// These three are 0 if empty.
  double mean() const noexcept { return empty() ? 0 : sum_ / static_cast<double>(count_); }
  double least() const noexcept { return least_; }
  double greatest() const noexcept { return greatest_; }

  running_stat() = default;

  void keep(archive& a) {
    a.field("count", count_);
    a.field("sum", sum_);
    a.field("least", least_);
    a.field("greatest", greatest_);
  }

private:
  running_stat(std::uint64_t count, double sum, double least, double greatest)
      : count_(count), sum_(sum), least_(least), greatest_(greatest) {}

  std::uint64_t count_ = 0;
  double sum_ = 0;
  double least_ = 0;
  double greatest_ = 0;
};

} // namespace mailgrad

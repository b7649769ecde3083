#pragma once

#include <mailgrad/tests/support/manual_time.hpp>

#include <mailgrad/engine/delays/delay_law.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// A timer that calls its notices when the test moves its clock.
class played_timer final : public step_timer {
public:
  explicit played_timer(std::shared_ptr<manual_time> time) : time_(std::move(time)) {}

  void at(instant when, notice tell) override { due_.emplace(when, std::move(tell)); }

  /// Moves the clock to the next moment and calls its notice. Returns false if there is none.
  bool next() {
    if (due_.empty()) return false;
    const auto first = due_.extract(due_.begin());
    if (first.key() > time_->now()) time_->advance(first.key() - time_->now());
    first.mapped()();
    return true;
  }
  std::size_t waiting() const { return due_.size(); }

private:
  std::shared_ptr<manual_time> time_;
  std::multimap<instant, notice> due_;
};

/// The steps take these seconds, one after the other, and the last of them from then on.
class listed_delays final : public delay_law {
public:
  explicit listed_delays(std::vector<double> seconds) : seconds_(std::move(seconds)) {}
  double seconds(std::uint64_t step, double begins) override {
    begun.push_back(begins);
    return seconds_[std::min<std::size_t>(step, seconds_.size()) - 1];
  }
  std::vector<double> begun;

private:
  std::vector<double> seconds_;
};

} // namespace mailgrad::testing

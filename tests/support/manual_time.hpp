#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>

#include <atomic>

namespace mailgrad::testing {

/// A clock that stands still until the test moves it.
class manual_time final : public time_source {
public:
  instant now() const noexcept override { return instant{now_.load()}; }
  void advance(instant span) noexcept { now_ += span.count(); }

private:
  std::atomic<instant::rep> now_{1'000'000'000}; // not 0, which could be taken for an unknown time
};

/// For actors on one thread whose time stands still: every moment comes at once.
class hasty_timer final : public step_timer {
public:
  void at(instant, notice tell) override { tell(); }
};

} // namespace mailgrad::testing

#pragma once

#include <mailgrad/engine/account/time_source.hpp>

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

} // namespace mailgrad::testing

#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <atomic>
#include <cstdint>

namespace mailgrad::testing {

/// A clock that advances by a microsecond each time it is read. Everything thus takes time, and the same time
/// in every run.
class ticking_time final : public time_source {
public:
  instant now() const noexcept override { return std::chrono::microseconds{++ticks_}; }

private:
  mutable std::atomic<std::int64_t> ticks_ = 0;
};

} // namespace mailgrad::testing

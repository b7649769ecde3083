#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>

#include <cstdint>
#include <vector>

namespace mailgrad::lab {

/// A clock that stands still until its owner moves it to the next event.
///
/// Events come in the order of their moments, and those of one moment in the order in which they were asked
/// for, so a run on this clock has one order of events.
/// Threads one.
class virtual_clock final : public time_source, public step_timer {
public:
  instant now() const noexcept override { return now_; }

  /// A moment that is past is taken for now.
  void at(instant when, notice tell) override;

  /// Moves the clock to the next event and calls its notice. Returns false if there is none.
  bool next();

  /// Forgets all events.
  void clear() noexcept { events_.clear(); }

  std::size_t waiting() const noexcept { return events_.size(); }

private:
  struct event {
    instant when;
    std::uint64_t number; ///< how many were asked for before
    notice tell;
  };
  static bool is_later(const event& a, const event& b) noexcept {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }

  instant now_{0};
  std::uint64_t asked_ = 0;
  std::vector<event> events_; ///< a heap with the next one in front
};

} // namespace mailgrad::lab

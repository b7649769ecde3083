#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace mailgrad::lab {

/// A clock that stands still until its owner moves it to the next event.
///
/// Events come in the order of their moments, and those of one moment in the order in which they were asked
/// for, so a run on this clock has one order of events.
/// Threads one.
class virtual_clock final : public time_source, public step_timer {
public:
  /// The number of an owner of events, such as a rank.
  using owner = std::uint32_t;

  instant now() const noexcept override { return now_; }

  /// A moment that is past is taken for now.
  void at(instant when, notice tell) override { at(when, nobody, std::move(tell)); }
  void at(instant when, owner whose, notice tell);

  /// How many events come before one that is foreseen.
  enum class foresight : std::uint8_t { some = 8, few = 5, hardly_any = 2 };
  /// Whoever has thousands of owners fetches what belongs to one into the caches of the processor while the
  /// events before its own pass. `what` is called with the owner of an event that comes, as a rule three
  /// times, and changes nothing.
  void foresee(std::function<void(owner, foresight)> what) { foresee_ = std::move(what); }

  /// Moves the clock to the next event and calls its notice. Returns false if there is none.
  bool next();

  /// Forgets all events.
  void clear() noexcept;

  std::size_t waiting() const noexcept { return first_.size() + later_.size(); }

private:
  static constexpr owner nobody = 0xFFFFFFFF;

  /// Small, since some of thousands change their places with each event.
  struct event {
    instant when;
    std::uint64_t number; ///< how many were asked for before
    std::uint32_t place;  ///< of its notice
    owner whose;
  };
  static bool is_later(const event& a, const event& b) noexcept {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }
  std::uint32_t keep(notice tell);
  void take_first();
  void foresee_at(foresight before) const;

  instant now_{0};
  std::uint64_t asked_ = 0;
  std::vector<event> first_; ///< in their order; each is before those of `later_`
  std::vector<event> later_; ///< a heap with the next one in front
  std::vector<notice> notices_;
  std::vector<std::uint32_t> free_; ///< places in `notices_`
  std::function<void(owner, foresight)> foresee_;
};

} // namespace mailgrad::lab

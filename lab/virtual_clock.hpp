#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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
  /// `what` is called with the owner of an event that comes, as a rule three times, so that what belongs to
  /// it can be fetched into the caches of the processor while the events before its own pass. It changes
  /// nothing.
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

/// The steps under way in a run whose workers are interrupted: a step ends with the update that makes its
/// gradient too stale, and not when its law says. Whoever begins a step must have read the present weights.
///
/// An interrupted step leaves its event in the clock, which has no way to take one back. It serves the later
/// steps of its worker, so that a worker has few events there, however often it is interrupted.
///
/// Threads one.
class late_steps {
public:
  /// A gradient is too stale if more than `most_stale` updates were made since its weights were read.
  late_steps(std::shared_ptr<virtual_clock> clock, std::uint64_t most_stale)
      : clock_(std::move(clock)), most_stale_(most_stale) {}

  /// The timer of the steps of one worker.
  std::shared_ptr<step_timer> timer_of(rank whose);

  /// Called after each event, with the updates made so far: the steps that began in it have read what all of
  /// these made. Ends the steps that are too late now, and returns how many there were.
  std::size_t end(std::uint64_t version);

  /// Events of the clock with which no step ended.
  std::uint64_t passed() const noexcept { return notes_->passed; }

private:
  class timer;
  /// What timers note.
  struct notes {
    std::vector<timer*>
        begun; ///< the steps since the last call of end(); what they have read is not known yet
    std::uint64_t passed = 0;
  };

  std::shared_ptr<virtual_clock> clock_;
  std::uint64_t most_stale_;
  std::uint64_t version_ = 0; ///< at the last call of end()
  std::vector<std::shared_ptr<timer>> timers_;
  std::shared_ptr<notes> notes_ = std::make_shared<notes>();
};

} // namespace mailgrad::lab

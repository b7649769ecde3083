#pragma once

#include <mailgrad/engine/worker/step_timer.hpp>
#include <mailgrad/lab/virtual_clock.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad::lab {

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

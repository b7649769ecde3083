#pragma once

#include <mailgrad/engine/record/recorded_lives.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

/// Deals each worker the batches of a recording, to each of its incarnations those that this one had trained.
/// It holds the batches after a switch of policy back until the switch is complete. So every worker is paused
/// after the same step as in the recorded run, although a worker asks one batch ahead.
///
/// Threads one caller at a time.
class recorded_batches {
public:
  explicit recorded_batches(std::shared_ptr<const recording> what);

  /// Notes that a later incarnation asks from now on, or the first one of a seat that was empty.
  void begin(rank worker, incarnation life);
  /// Whether the worker must wait until the next switch is complete before it is dealt a batch or told the
  /// end.
  bool holds(rank worker) const;
  /// The last step that any shard had of the worker before that switch.
  step_number step_before_switch(rank worker) const { return lives_.step_before(passed_, worker.value); }
  /// Notes that the worker asked for a batch and is held.
  void wait(rank worker) { at_switch_[worker.value] = true; }
  /// Notes that the worker will not ask again.
  void leave(rank worker) { gone_[worker.value] = true; }

  /// The number of the worker's next batch; none after the last one of its incarnation.
  std::optional<std::uint64_t> next(rank worker);

  /// The number of the next switch, from 1, if all workers that take part have reached it. Returns it only
  /// once.
  std::optional<std::uint64_t> reached_switch();
  /// Notes that this switch is complete.
  void pass_switch();
  std::uint64_t switches_passed() const noexcept { return passed_; }

  /// Goes on where each worker has trained so many batches, by rank, and so many switches are complete.
  void go_on_from(std::span<const std::uint64_t> trained, std::uint64_t switches);

private:
  bool switch_left() const { return passed_ < what_->end.switches.size(); }
  bool is_at_switch(std::size_t r) const;
  bool takes_part(std::size_t r) const;

  std::shared_ptr<const recording> what_;
  recorded_lives lives_;
  std::vector<std::optional<incarnation>> now_; ///< by rank: who asks
  std::vector<std::uint64_t> dealt_;            ///< by rank
  std::vector<bool> at_switch_;                 ///< by rank
  std::vector<bool> gone_;                      ///< by rank
  std::uint64_t passed_ = 0;
  std::uint64_t told_ = 0;
};

} // namespace mailgrad

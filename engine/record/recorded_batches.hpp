#pragma once

#include <mailgrad/engine/record/recording.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

/// Deals each worker the batches of a recording. It holds the batches after a switch of policy back until the
/// switch is complete. So every worker is paused after the same step as in the recorded run, although a
/// worker asks one batch ahead.
///
/// Threads one caller at a time.
class recorded_batches {
public:
  explicit recorded_batches(std::shared_ptr<const recording> what);

  /// Whether the worker must wait until the next switch is complete before it is dealt a batch or told the
  /// end.
  bool holds(rank worker) const;
  /// Notes that the worker asked for a batch and is held.
  void wait(rank worker) { at_switch_[worker.value] = true; }
  /// Notes that the worker will not ask again.
  void leave(rank worker) { gone_[worker.value] = true; }

  /// The number of the worker's next batch; none after its last one.
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

  std::shared_ptr<const recording> what_;
  std::vector<std::uint64_t> dealt_; ///< by rank
  std::vector<bool> at_switch_;      ///< by rank
  std::vector<bool> gone_;           ///< by rank
  std::uint64_t passed_ = 0;
  std::uint64_t told_ = 0;
};

} // namespace mailgrad

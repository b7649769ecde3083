#pragma once

#include <mailgrad/engine/record/recording.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad {

/// Gives each worker the batches that a recording says, and holds back those it was to train after a switch
/// of policy until the switch is done. So every worker can be paused after just the step after which it was
/// paused then: it asks one batch ahead.
///
/// Threads one caller at a time.
class recorded_batches {
public:
  explicit recorded_batches(std::shared_ptr<const recording> what);

  /// Whether the worker's next batch, or the word that there is none, comes only after the next switch.
  bool holds(rank worker) const;
  /// The worker asked, and is held.
  void wait(rank worker) { at_switch_[worker.value] = true; }
  /// The worker asks no more.
  void leave(rank worker) { gone_[worker.value] = true; }

  /// The number of its next batch; nothing when it was dealt no more.
  std::optional<std::uint64_t> next(rank worker);

  /// The next switch, counted from 1, if all who take part in it have come to it. Says so once.
  std::optional<std::uint64_t> reached_switch();
  /// That switch is done.
  void pass_switch();
  std::uint64_t switches_passed() const noexcept { return passed_; }

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

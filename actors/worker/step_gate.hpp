#pragma once

#include <mailgrad/actors/protocol/messages.hpp>

namespace mailgrad {

/// A step that a worker has begun.
struct begun_step {
  std::shared_ptr<gradient> values; ///< that the step computes
  std::uint64_t number = 0;         ///< of the worker's mini-batches
  std::size_t samples = 0;          ///< of its batch
  instant since{0};                 ///< when it was begun
  bool repeats = false;             ///< it computes a batch once more, for a sample
  bool pushed = false;              ///< the gradient was pushed before it was there
};

/// The steps of a worker that have begun and not ended. They end in the order in which they were begun.
class steps_under_way {
public:
  /// At most `most` at once.
  explicit steps_under_way(std::size_t most = 1) : most_(most) { steps_.reserve(most); }

  bool empty() const noexcept { return steps_.empty(); }
  bool full() const noexcept { return steps_.size() >= most_; }
  /// Whether a gradient is computed that has not been pushed.
  bool compute() const noexcept { return !std::ranges::all_of(steps_, &begun_step::pushed); }

  void begin(begun_step x) { steps_.push_back(std::move(x)); }
  const begun_step& oldest() const { return steps_.front(); }
  begun_step& newest() { return steps_.back(); }
  begun_step take_oldest() {
    begun_step ended = std::move(steps_.front());
    steps_.erase(steps_.begin());
    return ended;
  }
  void clear() noexcept { steps_.clear(); }

private:
  std::size_t most_;
  std::vector<begun_step> steps_; ///< the oldest first
};

/// When a worker may begin its next step, and when it does instead what it was asked for: to pause for a
/// switch of policy, to stand still for a checkpoint, to leave.
///
/// A worker pauses and stands still between two steps. A step whose gradient was pushed when it began is over
/// in this sense, though its device may still compute it: for the shards the gradient has its place in the
/// order. The worker ends only when its last step has ended, since it tells the loss of each.
class step_gate {
public:
  explicit step_gate(std::size_t most_under_way) : steps_(most_under_way) {}

  steps_under_way& steps() noexcept { return steps_; }
  const steps_under_way& steps() const noexcept { return steps_; }

  void ask_for_pause(const pause_worker& x) { pause_ = x; }
  /// All steps up to `last` are to be pushed before the next pause.
  void ask_for_flush(step_number last) { flush_up_to_ = last; }
  void ask_for_hold(std::uint64_t checkpoint) { hold_ = checkpoint; }
  void ask_to_leave() { leaves_ = true; }
  void end_data() { data_ended_ = true; }
  void end() { finished_ = true; }

  bool leaves() const noexcept { return leaves_; }
  /// Whether another batch will come.
  bool expects_batch() const noexcept { return !data_ended_ && !leaves_; }
  /// Whether the worker trains no more.
  bool finished() const noexcept { return finished_; }

  /// Whether the next step may begin, if its weights are there. `summing`: the gradient of the last one is
  /// not pushed yet.
  bool may_begin(bool summing) const noexcept {
    return !finished_ && !busy(summing) && !steps_.full() && !held_since_;
  }
  /// Whether the worker may end, if it has nothing more to do.
  bool may_end() const noexcept { return steps_.empty(); }

  /// The last step to be pushed now, if the worker was asked to push and is between two steps.
  std::optional<step_number> flush_due(bool summing) const {
    return busy(summing) || finished_ ? std::nullopt : flush_up_to_;
  }
  void flushed() { flush_up_to_.reset(); }
  /// The pause that begins now, if there is one.
  std::optional<pause_worker> take_pause(bool summing) {
    if (flush_up_to_ || busy(summing) || finished_) return std::nullopt;
    return std::exchange(pause_, std::nullopt);
  }

  /// The checkpoint for which the worker stands still from `now` on, if it does. It asks whenever that may
  /// be.
  std::optional<std::uint64_t> begin_hold(bool summing, instant now) {
    if (!hold_ || held_since_ || busy(summing) || finished_) return std::nullopt;
    held_since_ = now;
    return hold_;
  }
  /// Ends it for that checkpoint. Returns since when the worker stood still, if it did.
  std::optional<instant> end_hold() {
    hold_.reset();
    return std::exchange(held_since_, std::nullopt);
  }
  std::optional<std::uint64_t> hold() const noexcept { return hold_; }
  std::optional<instant> held_since() const noexcept { return held_since_; }

private:
  bool busy(bool summing) const noexcept { return summing || steps_.compute(); }

  steps_under_way steps_;
  std::optional<pause_worker> pause_;
  std::optional<step_number> flush_up_to_;
  std::optional<std::uint64_t> hold_; ///< the number of the checkpoint
  std::optional<instant> held_since_;
  bool leaves_ = false;
  bool data_ended_ = false;
  bool finished_ = false;
};

} // namespace mailgrad

#pragma once

#include <mailgrad/actors/worker/exchange.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The lines from a worker to its shards: what it pushed, which answers are missing, the weights it holds,
/// and how long it has waited for them. A run of hogwild alone has no shards.
///
/// Guarantees  a gradient is pushed to all shards or to none. The worker releases all weights before a push,
///             so that a shard without other readers may update in place. A step that is under way on a card
///             holds its weights until it has ended.
/// Threads     those of the device actor that owns it.
class shard_lines {
public:
  shard_lines(const worker_context& of, std::vector<caf::actor> shards);

  /// Tells every shard that the worker takes part. Each will answer.
  void join();
  /// Tells every shard to wait for this worker no longer.
  void leave();

  std::size_t count() const noexcept { return shards_.size(); }
  bool all_answered() const noexcept { return missing_ == 0; }
  /// The epoch of the policy. Answers of another epoch are out of date.
  policy_epoch epoch() const noexcept { return epoch_; }
  /// The number of gradients, or of differences of local steps, pushed so far.
  step_number step() const noexcept { return step_; }

  /// Notes an answer, which was `taken` from the mailbox at that time. `read` is how long it took to get the
  /// weights into the model.
  void note(const shard_weights& x, instant taken, instant read);
  const snapshot& weights(std::uint32_t shard) const { return held_[shard].values; }

  /// Pushes to all shards. `with_weights`: the weights that the gradient was computed from are sent with it.
  /// `held_back`: what is trained, but not behind this gradient. `sum`: it is part of that. `values`
  /// is taken by value, because only the messages may hold it afterwards; null if another worker carries
  /// them.
  void push(std::shared_ptr<const gradient> values, float scale, instant at, std::optional<instant> spent,
            bool with_weights = false, trained_work held_back = {}, std::optional<sum_mark> sum = {});

  /// Asks every shard whether it will discard the next gradient.
  void ask_whether_discarded();
  /// Takes an answer. Returns whether all shards will discard it, when the last answer has come.
  std::optional<bool> take_foretold(const gradient_foretold& x);

  /// This incarnation begins now: what the report counts so far, earlier ones or another process have done.
  void begin_life() { before_ = {of_.report.steps, of_.report.samples}; }
  /// The batches that this incarnation has trained.
  std::uint64_t trained() const { return of_.report.steps - before_.batches; }
  /// The worker joins in this epoch.
  void join_in(policy_epoch epoch) { epoch_ = epoch; }

  /// Tells every shard that what was pushed so far belongs to a checkpoint.
  void mark(std::uint64_t checkpoint, const caf::actor& collector);
  /// Writes or reads which gradient was the last, and which shards have answered it.
  void keep(archive& a);
  /// Whether that shard had answered when what was read was kept. Its next answer is the same again.
  bool had_answered(std::uint32_t shard) const {
    return shard < had_answered_.size() && had_answered_[shard];
  }
  /// Whether such an answer has not come again. Until then it is not known which version the worker holds.
  bool awaits_again() const;

  /// Another policy begins. The weights are released, and all shards will send new ones.
  void begin_epoch(policy_epoch epoch);

  /// The steps whose gradients were pushed when they began have all ended `now`: the worker waits only from
  /// now on, if an answer is missing.
  void begin_idle(instant now) {
    if (missing_ > 0) idle_since_ = now;
  }

  /// Called at the beginning of a step: adds up how long the worker has waited for it.
  void end_waits();

  /// "the weights of 1 of 2 shards after step 3", and since when.
  std::string waits_for() const;
  instant waits_since() const noexcept { return waiting_since_; }

private:
  /// The weights of one shard as this worker last got them.
  struct held_weights {
    version_number version;
    snapshot values;
    instant read{0}; ///< how long it took to get the weights into the model
  };

  bool is_computing() const { return of_.steps != nullptr && !of_.steps->empty(); }
  void note_waits(const stay_at_shard& stay, instant taken);
  void trace(const shard_weights& x, instant taken) const;
  void trace_stay(const stay_at_shard& stay, std::uint32_t shard) const;

  worker_context of_;
  std::vector<caf::actor> shards_;
  std::vector<held_weights> held_; ///< by shard
  std::size_t missing_;            ///< number of shards that have not answered
  std::vector<bool> had_answered_; ///< by shard, until the first push; empty unless the run is resumed
  step_number step_;
  std::size_t foretold_missing_ = 0; ///< shards that have not said whether they will discard it
  bool all_discard_ = false;         ///< of those that have
  trained_work before_{};
  policy_epoch epoch_;
  instant waiting_since_;
  std::optional<instant> idle_since_;     ///< set while it is later than the push
  std::optional<instant> at_fence_since_; ///< set while a switch of policy holds the worker
  instant at_barrier_{0};                 ///< the longest wait of any shard for this step
  instant at_bound_{0};
};

} // namespace mailgrad

#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/training_progress.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad {

/// The coordinator's part in dealing again what a lost worker was dealt. Only the shards know what they took
/// of it, so it asks them all, and tells the feeder the most that any of them has taken.
///
///     coordinator --share_lost--> feeder, then --worker_left, tell_trained--> every shard
///     every shard --trained_told--> coordinator --deal_again--> feeder --share_ended--> coordinator
///
/// A batch whose gradient some shard has judged is not dealt again, although another shard may lack that
/// gradient. So a shard applies the work on a batch at most once.
/// Threads  those of the coordinator that owns it.
class lost_shares {
public:
  lost_shares(caf::event_based_actor* self, std::vector<caf::actor> shards, caf::actor feeder,
              std::shared_ptr<const time_source> time)
      : self_(self), shards_(std::move(shards)), gone_(shards_.size()), feeder_(std::move(feeder)),
        time_(std::move(time)) {}

  /// This incarnation is lost. Returns an answer that knows of no batch if there is no shard to ask.
  std::optional<trained_told> begin(const worker_left& lost);
  /// Returns the answer of all shards together, when the last of them is here.
  std::optional<trained_told> take(const trained_told& x);
  /// A shard is lost, and tells nothing more. Returns the questions that the others have answered.
  std::vector<trained_told> on_shard_lost(shard_index shard);
  /// Tells the feeder what is known of an incarnation. Called once for each answer that is returned above.
  void tell_feeder(const trained_told& most);

  bool any() const noexcept { return !open_.empty(); }
  /// The feeder has said what became of the batches of an incarnation. False: it was not asked.
  bool take(const share_ended& x);
  /// Whether it still has to say so of any.
  bool awaits_feeder() const noexcept { return !unended_.empty(); }
  /// Whether every shard is lost, so that nobody can say what a lost worker has done.
  bool nobody_knows() const { return !gone_.empty() && std::ranges::find(gone_, false) == gone_.end(); }
  /// Whether something is still to be told of an incarnation of this worker.
  bool has(rank worker) const;
  /// The shards or the feeder that it waits for, in words; nothing if it waits for none.
  std::optional<wait_named> name_wait() const;

private:
  struct question {
    trained_told most;          ///< of the answers so far
    std::vector<bool> answered; ///< by shard
    instant asked{0};
  };
  struct unended {
    rank worker;
    incarnation life;
    instant asked{0};
  };

  caf::event_based_actor* self_;
  std::vector<caf::actor> shards_;
  std::vector<bool> gone_; ///< by shard
  caf::actor feeder_;
  std::shared_ptr<const time_source> time_;
  std::vector<question> open_;
  std::vector<unended> unended_; ///< of which the feeder is asked what became of their batches
};

} // namespace mailgrad

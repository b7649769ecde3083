#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/optim/identity.hpp>

#include <stdexcept>

namespace mailgrad {

/// What a policy sees of a gradient when a shard takes it from its mailbox.
struct gradient_stamp {
  rank worker;
  step_number step;            ///< the worker's own count of its gradients, from 1
  version_number version_read; ///< of the weights it was computed from
  version_number version_now;  ///< of the shard
  std::int64_t arrived = 0;    ///< ns of the run's time source
};

/// What the shard does with a gradient.
enum class verdict : std::uint8_t {
  apply,   ///< makes an update by itself, at once
  merge,   ///< waits in the batch of the next update
  defer,   ///< waits for the next round, under a policy that has rounds
  discard, ///< is dropped, with a reason that the ledger counts
};

struct decision {
  verdict what = verdict::apply;
  std::string_view reason{}; ///< of a discard: a word or two, of static storage
};

/// What counts alike in the mean of a batch.
enum class weighing : std::uint8_t {
  gradients,
  samples, ///< a gradient weighs as many samples as it is of
  workers, ///< the gradients of a worker weigh together as much as those of any other
};

/// Decides how synchronous training is: a shard calls these functions and moves the messages.
///
///     a gradient arrives:  judge() -> apply | merge | defer | discard
///     merge:               while batch_complete(): one update from the batch, then batch_applied()
///     closes_at() is past: close(), and then as after a merge
///     after each of these: may_start(worker) for every worker that waits; yes sends it the weights
///                          (of those that wait until an update is made, none is asked for before)
///
/// A policy that has rounds keeps the gradients of a round for all of its updates: each update is made of all
/// that the round has by then, as the mean of each worker's mean. What is deferred waits for the next round.
///
/// A policy that takes some gradients and not others needs every shard of a run to take the same
/// (shards_agree): all shards then judge in the order of the first. A policy of your own derives from this
/// and stays where you want it (custom_policy.hpp). One of Mailgrad's is named in policy_spec.cpp and tested
/// by itself.
/// Source  Zhu, Naruse & Goto, "Learning Efficient Parameter Server Synchronization Policies for Distributed
///         SGD", ICLR 2020, Algorithm 1: one server loop for every policy.
/// Threads one caller at a time.
class policy {
public:
  virtual ~policy() = default;
  virtual std::string_view name() const noexcept = 0;

  /// Whether all shards must judge gradients in the same order.
  virtual bool shards_agree() const noexcept { return false; }

  /// Whether no gradient is ever applied to another version than it was computed from.
  virtual bool always_fresh() const noexcept { return false; }

  /// Whether an update may be made from more than one gradient.
  virtual bool makes_batches() const noexcept { return false; }

  /// How many of the gradients that wait make an update, those that came first; the others wait in a queue.
  /// 0: all of them.
  virtual std::size_t takes_first() const noexcept { return 0; }

  /// How many gradients may wait at a shard while no update is due, if takes_first() says that they queue.
  virtual std::size_t queue_length() const noexcept { return 0; }

  /// How the gradients of a batch weigh. A policy that has rounds weighs workers.
  virtual weighing weighs() const noexcept { return weighing::gradients; }

  /// Whether gradients are counted by rounds, in each of which a worker may be served once: verdict::merge is
  /// for this round, verdict::defer for the next one. Its gradients form no queue.
  virtual bool has_rounds() const noexcept { return false; }
  /// How many rounds are over. The number grows in batch_applied() and leave() alone, and not while a
  /// gradient of this round is in no update yet.
  virtual std::uint64_t rounds_over() const noexcept { return 0; }
  /// Of a policy with rounds: whether a worker that may start gets the present weights. If not, it goes on
  /// from those that it had.
  virtual bool renews(rank) const { return true; }

  /// The moment at which the pending batch is applied though others could still come, in ns of the run's time
  /// source; nothing: gradients alone complete it.
  virtual std::optional<std::int64_t> closes_at() const { return std::nullopt; }
  /// That moment has come: batch_complete() holds from now on, until the batch is applied.
  virtual void close() {}

  /// Whether the feeder deals batches to workers by rank, so that a run gives the same bits every time: a
  /// barrier for all of them makes the rest of it independent of the order of arrival.
  virtual bool deals_by_rank() const noexcept { return false; }

  /// The most versions that a gradient may be old and still be taken. One that is older is discarded, now and
  /// at any later time, so nobody need compute it. Nothing: there is no such limit.
  virtual std::optional<std::uint64_t> most_stale() const noexcept { return std::nullopt; }

  /// Whether a worker that waits goes on waiting until an update is made, or a worker joins or leaves. Nobody
  /// asks may_start() for it before, which takes time where thousands wait at a barrier.
  virtual bool holds_until_update() const noexcept { return false; }
  virtual void join(rank worker) = 0;
  /// The worker sends no more gradients; a batch that waited only for it may now be complete.
  virtual void leave(rank worker) = 0;
  virtual decision judge(const gradient_stamp& g) = 0;
  virtual bool batch_complete() const = 0;
  virtual void batch_applied() = 0;
  virtual bool may_start(rank worker) const = 0;

  /// The lowest rank of which the pending batch still waits for a gradient. All that the batch gets of lower
  /// ranks is then there, unless somebody joins, so a shard may add these up before the batch is complete.
  /// Nothing: the policy does not know whose gradients will come.
  virtual std::optional<rank> first_awaited() const { return std::nullopt; }

  /// Writes or reads the state of the policy, for checkpoints. A run with checkpoints refuses a policy
  /// without it. Times are of another clock when they are read.
  /// Errors  std::invalid_argument: the policy has none; those of archive.
  virtual void keep(archive&) {
    throw std::invalid_argument("policy '" + std::string(name()) + "' cannot be kept in a checkpoint");
  }
};

} // namespace mailgrad

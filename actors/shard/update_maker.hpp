#pragma once

#include <mailgrad/actors/shard/shard_telemetry.hpp>
#include <mailgrad/actors/shard/shard_updater.hpp>
#include <mailgrad/actors/shard/worker_slots.hpp>
#include <mailgrad/engine/shard/gradient_batch.hpp>
#include <mailgrad/engine/shard/gradient_queue.hpp>
#include <mailgrad/engine/shard/gradient_table.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/shard/shard_cure.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/policy.hpp>

#include <cstdint>
#include <deque>
#include <memory>

namespace mailgrad {

/// Makes updates of the gradients that a policy has taken. A gradient makes one by itself, or waits in the
/// batch and makes one together with others.
///
///     add() --> counted -----------------------------------> shard_updater --note_version()--> the ledgers
///     add_to_batch() --> waits --add_batch()--> counted -->--^
///     add_to_queue() --> waits --add_first()--> counted -->--^
///     add_to_round() --> waits --add_round()--> counted -->--^    and stays for all updates of its round
///
/// A gradient is counted once, just before the version that it helps to make: its gap is noted, and the cure
/// says what is applied in its place and how much of it.
/// Threads one caller at a time. The workers, the telemetry and the updater must outlive it.
class update_maker {
public:
  /// Errors  std::runtime_error if memory is lacking for what the cure keeps.
  update_maker(std::shared_ptr<shard> weights, const cure_spec& cure, worker_slots& workers,
               shard_telemetry& watch, shard_updater& updater);

  /// The staleness of `x`: how many versions were made since the weights that it was computed from.
  std::uint64_t gap_of(const gradient_header& x) const { return weights_->version() - x.version_read; }

  /// Makes the next update of this gradient alone. Returns the cure's factor on the learning rate.
  double add(const push_gradient& x);
  /// Makes the next update of nothing, in place of a gradient that is lost.
  void add_nothing() { of_batch_ = false; }

  /// Keeps the gradient, which is of so many samples, until its batch is complete.
  void add_to_batch(const push_gradient& x, std::uint64_t samples = 1);
  /// Keeps the gradient in the queue until it is among the first.
  void add_to_queue(const push_gradient& x, std::uint64_t samples = 1);
  /// Keeps an empty place in the queue for a gradient that is lost.
  void add_lost_to_queue() { queue_.add_lost(); }
  /// Adds the gradient to the sums of the present round, or of the next one.
  void add_to_round(const push_gradient& x) { table_.add(x, summand(x)); }
  void add_to_next_round(const push_gradient& x) { table_.defer(x, summand(x)); }
  /// The same of a gradient that is lost.
  void add_lost_to_round() { table_.add_lost(); }
  void add_lost_to_next_round() { table_.defer_lost(); }
  /// The batch gets no more gradients of ranks below `next`, for whom it waits.
  void give_places(rank next);
  void release_credit() { batch_.release_credit(); }
  bool nothing_waits() const noexcept { return batch_.empty() && queue_.empty() && table_.nothing_waits(); }
  /// Whether all that waits, if anything, are places of lost gradients.
  bool no_gradient_waits() const { return batch_.empty() && queue_.size() == 0 && !table_.has_waiting(); }
  /// The number of this worker's gradients that wait.
  std::uint64_t waiting(rank worker) const {
    return batch_.of(worker) + queue_.of(worker) + table_.of(worker);
  }
  /// How the gradients of a batch weigh; by default all weigh alike.
  void weigh(weighing by) { weighing_ = by; }
  /// Makes the next update of the mean of the batch, or of its sum if the cure requires that.
  void add_batch();
  /// The same of the first gradients of the queue, whose number is given.
  void add_first(std::size_t places);
  /// The same of all gradients of the present round, as the mean of each worker's mean.
  void add_round();
  /// Takes so many places off the queue, none of which has a gradient, and that of the present round.
  void drop_lost(std::size_t places) {
    queue_.take(places);
    table_.drop_lost();
  }
  /// So many rounds are over: what was deferred is the present round.
  void begin_round(std::uint64_t rounds_over) { table_.begin_round(rounds_over); }
  /// Ends the present round if all that waits is of the next one.
  void skip_to_waiting() { table_.skip_to_waiting(); }
  /// Forgets the rounds of a policy that has ended.
  void clear_rounds() { table_.clear(); }

  /// Notes the times of the gradients whose update has made a version. Returns whether they were a batch.
  bool note_version();

  /// The weights from which `worker` computes its next gradient.
  snapshot weights_for(rank worker) { return cure_.weights_for(worker); }
  /// The weights that `worker` was last sent; empty unless the cure needs them.
  const snapshot& read_by(rank worker) const { return cure_.read_by(worker); }
  /// Notes that `worker` has these weights, as if they had been sent to it just now.
  void has(rank worker, const snapshot& values) { cure_.has(worker, values); }
  /// Writes or reads the state of the cure, and the gradients that wait, which are of `run` when read.
  void keep_cure(archive& a) { cure_.keep(a); }
  void keep_batch(archive& a, run_id run) { batch_.keep(a, run); }
  void keep_queue(archive& a, run_id run) { queue_.keep(a, run, *weights_, workers_.count()); }
  void keep_table(archive& a, run_id run) { table_.keep(a, run); }

  /// Adds the distances of sampled gradients that have been measured by now to the accounts. What lies on a
  /// card is measured a little later than the gradient is taken.
  void note_distances();

  /// No further gradient comes from `worker`.
  void leave(rank worker) { cure_.leave(worker); }

private:
  waiting_gradient received(const push_gradient& x, std::uint64_t samples);
  contribution summand(const push_gradient& x);
  float share_of_all() const;
  gradient_batch::sharing shares() const;
  void add_to_batch(waiting_gradient g);
  void meet(const push_gradient& x);
  /// How far the weights had moved when a sampled gradient came.
  struct sampled_distance {
    gradient_id of;
    std::uint64_t lag;
    std::shared_ptr<const memory> measured;
    mark until; ///< then it has come
  };

  double observe(const push_gradient& x);
  void sample(const push_gradient& x);
  contribution counted(const waiting_gradient& g);

  std::shared_ptr<shard> weights_;
  worker_slots& workers_;
  shard_telemetry& watch_;
  shard_updater& updater_;
  shard_cure cure_;
  gradient_batch batch_;
  gradient_queue queue_;
  gradient_table table_;
  weighing weighing_ = weighing::gradients;
  bool of_batch_ = false;                  ///< the present update is made of a batch
  std::deque<sampled_distance> distances_; ///< that have still to come
};

} // namespace mailgrad

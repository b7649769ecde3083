#pragma once

#include <mailgrad/actors/shard/shard_telemetry.hpp>
#include <mailgrad/actors/shard/shard_updater.hpp>
#include <mailgrad/actors/shard/worker_slots.hpp>
#include <mailgrad/engine/shard/gradient_batch.hpp>
#include <mailgrad/engine/shard/gradient_queue.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/shard/shard_cure.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>

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
  bool nothing_waits() const noexcept { return batch_.empty() && queue_.empty(); }
  /// Whether all that waits, if anything, are places of lost gradients.
  bool no_gradient_waits() const noexcept { return batch_.empty() && queue_.size() == 0; }
  /// The number of this worker's gradients that wait.
  std::uint64_t waiting(rank worker) const { return batch_.of(worker) + queue_.of(worker); }
  /// Whether each gradient of a batch weighs as many samples as it is of; by default all weigh alike.
  void weigh_samples(bool whether) { weighs_samples_ = whether; }
  /// Makes the next update of the mean of the batch, or of its sum if the cure requires that.
  void add_batch();
  /// The same of the first gradients of the queue, whose number is given.
  void add_first(std::size_t places);
  /// Takes so many places off the queue, none of which has a gradient.
  void drop_lost(std::size_t places) { queue_.take(places); }

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

  /// Adds the distances of sampled gradients that have been measured by now to the accounts. What lies on a
  /// card is measured a little later than the gradient is taken.
  void note_distances();

  /// No further gradient comes from `worker`.
  void leave(rank worker) { cure_.leave(worker); }

private:
  waiting_gradient received(const push_gradient& x, std::uint64_t samples);
  float share_of_each() const;
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
  contribution counted(const waiting_gradient& g, float share);

  std::shared_ptr<shard> weights_;
  worker_slots& workers_;
  shard_telemetry& watch_;
  shard_updater& updater_;
  shard_cure cure_;
  gradient_batch batch_;
  gradient_queue queue_;
  bool weighs_samples_ = false;
  bool of_batch_ = false;                  ///< the present update is made of a batch
  std::deque<sampled_distance> distances_; ///< that have still to come
};

} // namespace mailgrad

#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/shard/gradient_batch.hpp>
#include <mailgrad/engine/shard/gradient_queue.hpp>
#include <mailgrad/engine/shard/gradient_table.hpp>
#include <mailgrad/engine/shard/policy_machine.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/shard/shard_cure.hpp>
#include <mailgrad/engine/shard/shard_port.hpp>
#include <mailgrad/engine/shard/shard_timeline.hpp>
#include <mailgrad/engine/shard/worker_slots.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {

/// Makes updates of the gradients that a policy has taken. A gradient makes one by itself, or waits in the
/// batch, the queue or its round, and makes one together with others.
///
///     add() --> counted --make()------> version t+1 --> the ledgers
///     add_waiting() --> waits --update()--> counted --^    and in a round stays for all its updates
///
/// Where helpers are, an update that every worker waits for is divided:
///
///     make() returned false --compute_part()..., all parts are computed--> end() --> version t+1
///
/// A gradient is counted once, just before the version that it helps to make: its gap is noted, and the cure
/// says what is applied in its place and how much of it.
/// Errors  std::runtime_error: which update of which rule failed, and why. The shard cannot go on.
///         out_of_memory: likewise, but the weights are those of before.
/// Threads one caller at a time; helpers touch only the parts they have begun. Workers, port and timeline
///         outlive it.
class update_maker final : public policy_machine::side {
public:
  struct options {
    std::shared_ptr<shard> weights;
    cure_spec cure;
    std::shared_ptr<const time_source> time;
    std::size_t helpers = 0;
  };
  /// Errors  std::runtime_error if memory is lacking for what the cure keeps.
  update_maker(options o, worker_slots& workers, shard_port& port, shard_timeline& timeline);

  version_number version() const override { return weights_->version(); }
  /// The staleness of `x`: how many versions were made since the weights that it was computed from.
  std::uint64_t gap_of(const gradient_header& x) const { return version() - x.version_read; }
  /// Makes the next update of this gradient alone. Returns the cure's factor on the learning rate.
  double add(const push_gradient& x);
  /// Makes the version, with the learning rate times `rate`. False: it is divided, and end() makes it.
  bool make(double rate);
  void update_of_nothing() override;
  /// Makes an update of the mean of the batch, or of its sum if the cure requires that; or of the first
  /// gradients of the queue; or of the present round, as the mean of each worker's mean.
  bool update(waits_in where, std::size_t first) override;
  /// When that was begun last.
  instant batch_begun() const noexcept { return batch_begun_; }
  /// Whether an update may be divided from now on, if every worker waits for it.
  void may_divide(bool may) noexcept { may_divide_ = may; }
  bool is_updating() const override { return work_ != nullptr; }
  /// The update that is divided; null if there is none.
  const std::shared_ptr<parallel_update>& work() const noexcept { return work_; }
  parallel_update::progress compute_part();
  /// Ends it when all parts are computed. Returns whether it was of gradients that had waited.
  bool end();
  /// Throws what says that the present update cannot be computed.
  [[noreturn]] void fail(const std::string& why) const;
  /// Keeps a gradient, which is of so many samples, until the updates that it is part of.
  void add_waiting(const push_gradient& x, waits_in where, std::uint64_t samples = 1);
  void add_lost(waits_in where) override;
  /// The batch gets no more gradients of ranks below `next`, for whom it waits.
  void give_places(rank next);
  void release_credit() { batch_.release_credit(); }
  bool nothing_waits() const override { return batch_.empty() && queue_.empty() && table_.nothing_waits(); }
  /// Whether all that waits, if anything, are places of lost gradients.
  bool no_gradient_waits() const { return batch_.empty() && queue_.size() == 0 && !table_.has_waiting(); }
  /// The number of this worker's gradients that wait.
  std::uint64_t waiting(rank worker) const {
    return batch_.of(worker) + queue_.of(worker) + table_.of(worker);
  }
  /// How the gradients of a batch weigh; by default all weigh alike.
  void weigh(weighing by) { weighing_ = by; }
  /// Takes so many places off the queue, none of which has a gradient, and that of the present round.
  void drop_lost(std::size_t places) {
    queue_.take(places);
    table_.drop_lost();
  }
  void begin_round(std::uint64_t rounds_over) override { table_.begin_round(rounds_over); }
  void skip_to_waiting() override { table_.skip_to_waiting(); }
  void clear_rounds() override { table_.clear(); }
  /// The weights from which `worker` computes its next gradient.
  snapshot weights_for(rank worker) { return cure_.weights_for(worker); }
  /// The weights that `worker` was last sent; empty unless the cure needs them.
  const snapshot& read_by(rank worker) const { return cure_.read_by(worker); }
  /// Notes that `worker` has these weights, as if they had been sent to it just now.
  void has(rank worker, const snapshot& values) { cure_.has(worker, values); }
  /// No further gradient comes from `worker`.
  void leave(rank worker) { cure_.leave(worker); }
  /// Writes or reads the state of the cure, and the gradients that wait, which are of `run` when read.
  void keep_cure(archive& a) { cure_.keep(a); }
  void keep_waiting(archive& a, const policy& rule, run_id run);
  /// Adds the distances of sampled gradients that have been measured by now to the accounts. What lies on a
  /// GPU is measured a little later than the gradient is taken.
  void note_distances();

private:
  /// How far the weights had moved when a sampled gradient came.
  struct sampled_distance {
    gradient_id of;
    std::uint64_t lag;
    std::shared_ptr<const memory> measured;
    device_event until; ///< then it has come
  };

  waiting_gradient received(const push_gradient& x, std::uint64_t samples);
  float share_of_all() const;
  gradient_batch::sharing shares() const;
  void add_to_batch(waiting_gradient g);
  void add_batch();
  void add_round();
  void add_to_update(const gradient_header& x, const contribution* what);
  double observe(const push_gradient& x);
  void sample(const push_gradient& x);
  void meet(const push_gradient& x);
  contribution counted(const waiting_gradient& g);
  /// Not if a worker may be computing on another thread, which would get its answer late.
  bool divides() const { return may_divide_ && helpers_ > 0 && weights_->divides() && workers_.all_wait(); }
  void update_alone(double rate);
  void note_version();
  std::string in_words() const;

  std::shared_ptr<shard> weights_;
  std::shared_ptr<const time_source> time_;
  std::size_t helpers_;
  worker_slots& workers_;
  shard_port& port_;
  shard_timeline& timeline_;
  shard_cure cure_;
  gradient_batch batch_;
  gradient_queue queue_;
  gradient_table table_;
  weighing weighing_ = weighing::gradients;
  instant batch_begun_{0};
  // The present update:
  std::vector<gradient_header> gradients_; ///< that are new in it
  std::vector<contribution> contributions_;
  float share_ = 1;       ///< what their sum is multiplied by
  bool of_batch_ = false; ///< it is made of gradients that have waited
  instant begun_{0};
  bool may_divide_ = false;
  object_pool<parallel_update> works_;
  std::shared_ptr<parallel_update> work_;  ///< if it is divided
  std::deque<sampled_distance> distances_; ///< that have still to come
};

} // namespace mailgrad

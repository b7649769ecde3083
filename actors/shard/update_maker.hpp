#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/shard_messages.hpp>
#include <mailgrad/actors/shard/shard_telemetry.hpp>
#include <mailgrad/actors/shard/worker_slots.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/shard/gradient_batch.hpp>
#include <mailgrad/engine/shard/gradient_queue.hpp>
#include <mailgrad/engine/shard/gradient_table.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/shard/shard_cure.hpp>
#include <mailgrad/engine/shard/turn_machine.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/policy.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// Makes the next version of a shard from the gradients that count, on the thread of its parameter actor or
/// with helpers that compute parts.
///
///     add()... --update_alone()--> updated --clear()--> next
///     add()... --ask_for_help()--> under way --compute_part()..., the last part is computed, end()--> updated
///
/// If the last part is computed here, compute_part() returns true; if a helper computes it, the helper sends
/// `update_helped`.
///
/// Errors  std::runtime_error: which update of which rule failed, and why. The shard cannot go on.
///         out_of_memory: likewise, but the weights are those of before.
/// Threads one caller at a time; helpers touch only the parts they have begun.
class shard_updater {
public:
  /// `helpers` may be empty.
  shard_updater(caf::event_based_actor* self, std::shared_ptr<shard> weights, std::vector<caf::actor> helpers,
                std::shared_ptr<const time_source> time);

  /// Adds `x`, which counts as `what`, to the present update; null: it is part of a sum added before.
  void add(const gradient_header& x, const contribution* what);
  /// Adds what counts in the present update beside the gradients that are new in it.
  void add(const contribution& what) { contributions_.push_back(what); }
  /// What the sum of the present update is multiplied by; 1 unless said.
  void multiply(float share) { share_ = share; }
  /// Forgets the gradients of the last update.
  void clear();

  /// Applies the added gradients, with the learning rate times `rate`.
  void update_alone(double rate);

  /// Whether the update has parts for helpers.
  bool divides() const { return !helpers_.empty() && weights_->divides(); }
  /// Begins what update_alone() does, with helpers.
  void ask_for_help(double rate);
  bool under_way() const noexcept { return work_ != nullptr; }
  /// True if this was the last part of all. If it was another, the actor has sent itself `go_on`.
  bool compute_part();
  /// Ends the update when all parts are computed.
  void end();
  /// "update 4 by rule 'adam'"
  std::string in_words() const;
  /// Throws what says that the present update cannot be computed.
  [[noreturn]] void fail(const std::string& why) const;

  /// The gradients added since clear(), in that order.
  std::span<const gradient_header> gradients() const noexcept { return gradients_; }
  instant begun() const noexcept { return begun_; }
  /// The time since begun(), divided by the number of gradients.
  instant share_of_each() const;

private:
  caf::event_based_actor* self_;
  std::shared_ptr<shard> weights_;
  std::vector<caf::actor> helpers_;
  std::shared_ptr<const time_source> time_;
  std::vector<gradient_header> gradients_;
  std::vector<contribution> contributions_;
  float share_ = 1;
  instant begun_{0};
  object_pool<parallel_update> works_;
  std::shared_ptr<parallel_update> work_; ///< the update with helpers that is under way; else null
};

/// Makes updates of the gradients that a policy has taken. A gradient makes one by itself, or waits in the
/// batch and makes one together with others.
///
///     add() --> counted -----------------------------------> shard_updater --note_version()--> the ledgers
///     add_waiting() --> waits --add_all()--> counted ------>--^    and in a round stays for all its updates
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

  /// Keeps a gradient, which is of so many samples, until the updates that it is part of.
  void add_waiting(const push_gradient& x, waits_in where, std::uint64_t samples = 1);
  /// Keeps an empty place for a gradient that is lost; in a batch it has none.
  void add_lost(waits_in where);
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
  /// Makes the next update of the mean of the batch, or of its sum if the cure requires that; or of the first
  /// gradients of the queue; or of the present round, as the mean of each worker's mean.
  void add_all(waits_in where, std::size_t first = 0);
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
  float share_of_all() const;
  gradient_batch::sharing shares() const;
  void add_to_batch(waiting_gradient g);
  void add_batch();
  void add_round();
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

/// Computes parts of an update for a shard that asks for help. A run has one for each of its threads but the
/// first, for all shards.
///
/// Guarantees  the helper that computes the last part tells the shard. A helper that comes late finds no part
///             left, and one that dies between two parts leaves none unfinished.
/// Never       waits; begins a part of an update that has ended.
class update_helper {
public:
  static constexpr const char* name = "mailgrad.update-helper";

  explicit update_helper(caf::event_based_actor* self) : self_(self) {}
  caf::behavior make_behavior();

private:
  void help(const help_update& x);

  caf::event_based_actor* self_;
};

} // namespace mailgrad

#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/run_meter.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/trace_track.hpp>
#include <mailgrad/engine/shard/gradient_order.hpp>
#include <mailgrad/engine/shard/hogwild_handover.hpp>
#include <mailgrad/engine/shard/policy_machine.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/shard/shard_cut.hpp>
#include <mailgrad/engine/shard/shard_port.hpp>
#include <mailgrad/engine/shard/shard_timeline.hpp>
#include <mailgrad/engine/shard/switch_policy.hpp>
#include <mailgrad/engine/shard/update_maker.hpp>
#include <mailgrad/engine/shard/worker_slots.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

/// What the core of a shard begins with.
struct shard_core_options {
  std::shared_ptr<shard> weights; ///< owned by the core while it lives
  policy_spec policy{"async", 1};
  /// Ranks 0 to workers - 1 take part; a barrier waits for all of them from the start.
  std::uint32_t workers = 1;
  std::shared_ptr<const time_source> time;
  cure_spec cure{"none", 1};
  run_id run{}; ///< gradients of another run are not taken
  /// Ranks from `workers` to slots - 1 may join while the run goes on; 0: none may.
  std::uint32_t slots = 0;
  std::shared_ptr<trace_track> trace{};    ///< the timeline; owned by the core while it lives
  std::shared_ptr<hogwild_store> store{};  ///< of all shards, if hogwild is among the policies of the run
  std::shared_ptr<gpu_block> on_gpu{};     ///< if that block is on the GPU of the shards
  std::shared_ptr<saved_fields> resumed{}; ///< the shard's part of a checkpoint to go on from; or null
  bool same_workers = true;                ///< as when that was taken
  std::vector<bool> counted{}; ///< by rank: that has all that the worker did; if not, it begins anew
  /// By rank: the last step that the worker itself has in the checkpoint; empty if there is none.
  std::vector<step_number> steps{};
  /// Whether checkpoints keep the last answer to each worker, because it cannot begin from newer weights.
  bool keep_answers = false;

  std::uint32_t ranks() const { return std::max(workers, slots); }
};

/// One shard of a run, without actors and messages: it takes what happens as calls, judges gradients in their
/// order, updates, and lets workers go on.
///
///     push() --> in order --judge--> apply -----------> version t+1 --> port.answer(), for all that may start
///                                \-> merge, defer --batch complete--^
///                                \-> discard
///
/// After each call that may take entries its owner looks what is to be done: work(), closes_at(),
/// finished_cut(), first_awaited(), take_switched(). What must be told at its very moment goes by the port.
/// Guarantees  each gradient of a worker is taken at most once, in the order of its steps. A worker that
///             leaves is waited for no longer. Every push is answered: at once, or when a barrier opens, a
///             bound is kept again, its turn comes, or a switch lets all workers start anew.
/// Never       reads a clock or a random source of its own, or writes to weights that a snapshot holds.
///
/// Under a policy that requires shards to agree, the first shard judges in its own order and tells the
/// others, which judge in the same order. In a replay all judge in the order of the recording. A switch of
/// policy waits until all gradients computed under the old policy are taken, applies what waits, and lets
/// every worker start anew.
///
/// An update with helpers stops the turns: no event may be told but compute_part() and end_update() until it
/// has ended. Under hogwild there is nothing to judge.
/// Errors  std::runtime_error: those of update_maker; a first shard that is too far ahead. out_of_memory: the
///         weights are whole, and fail() is to be called.
/// Threads one caller at a time. The port must outlive it.
class shard_core {
public:
  /// `helpers`: threads that may help with an update. `replayed`: of the run to repeat.
  shard_core(shard_core_options options, shard_port& port, std::size_t helpers = 0,
             const std::optional<recorded_order>& replayed = {});
  /// A GPU may still read and write what the members below have: gradients, sums, the state of a cure.
  ~shard_core() { weights_->finish(); }
  shard_core(const shard_core&) = delete;
  shard_core& operator=(const shard_core&) = delete;

  // -- what happens ----------------------------------------------------------------------------------------
  /// Takes what a checkpoint had beside the state, before any worker returns.
  void begin();
  /// The incarnation that must leave before this one joins, as its end is not known yet; none: nobody must.
  std::optional<incarnation_number> replaced_by(rank worker, incarnation_number incarnation) const;
  /// Notes that a worker is here. False: no such rank, this incarnation has left, or a later one is here.
  bool give_slot(rank worker, incarnation_number incarnation);
  /// The worker that has its slot takes part, when its turn comes.
  void join(rank worker);
  /// Returns whether the gradient counts: false if nobody judges it.
  bool push(const push_gradient& from);
  /// False: nothing has changed.
  bool leave(rank worker, incarnation_number incarnation);
  /// The first shard has taken this entry.
  void expect(const order_entry& entry);
  /// The moment of closes_at() has come.
  void close(std::int64_t moment);
  /// Begins that policy when all gradients of the present one are taken. False: it has too few ranks.
  bool switch_to(const switch_policy& next);
  /// Workers may stand still, so nobody waits for an entry until the next policy begins.
  void free_credit() { credit_is_free_ = true; }
  /// A checkpoint is taken; shard_cut says what is returned.
  bool begin_cut(std::uint64_t number) { return cut_.begin(number); }
  bool mark_cut(std::uint64_t number, rank worker, step_number step) {
    return cut_.mark(number, worker, step);
  }
  /// Memory of a GPU is lacking: no further gradient is taken. Returns the checkpoint that gets no part.
  std::optional<std::uint64_t> fail();

  // -- what is to be done ----------------------------------------------------------------------------------
  /// An update that helpers may share; null if there is none.
  const std::shared_ptr<parallel_update>& work() const noexcept { return updates_.work(); }
  parallel_update::progress compute_part() { return updates_.compute_part(); }
  [[noreturn]] void fail_update(const std::string& why) const { updates_.fail(why); }
  /// All its parts are computed.
  void end_update();
  /// When the pending batch closes; nothing if no moment decides, or another shard or a recording. The first
  /// shard says for all that follow it when a batch is closed, and a recording for those of a replay.
  std::optional<std::int64_t> closes_at() const {
    return order_.is_followed() ? std::nullopt : machine_.rule().closes_at();
  }
  std::optional<kept_shard> finished_cut() { return cut_.finished(); }
  const std::string& cut_failure() const noexcept { return cut_.failure(); }
  /// Whom the batch awaits first; nothing while gradients have no turns.
  std::optional<rank> first_awaited() const;
  /// Lets go of the credit of gradients that are of no more use here, when that has been told.
  void release_credit() { updates_.release_credit(); }
  /// The epoch that has begun since the last call.
  std::optional<policy_epoch> take_switched() { return std::exchange(switched_, std::nullopt); }

  // -- what is known ---------------------------------------------------------------------------------------

  shard_index index() const noexcept { return weights_->index(); }
  version_number version() const noexcept { return weights_->version(); }
  std::span<const worker_slot> workers() const noexcept { return workers_.all(); } ///< by rank
  const gradient_order& order() const noexcept { return order_; }
  std::string_view policy_name() const noexcept { return machine_.rule().name(); }
  /// The policy that waits for gradients of the present one, and since when; null: none does.
  const switch_policy* next_policy() const noexcept { return next_policy_ ? &*next_policy_ : nullptr; }
  instant switch_asked() const noexcept { return switch_asked_; }
  hogwild_handover& lease() noexcept { return lease_; }
  shard_counts counts() const { return workers_.counts(index(), version()); }
  /// Whether a gradient that was computed from this version will be discarded, whenever it comes.
  bool will_discard(version_number read, policy_epoch epoch) const;
  /// The accounts of the workers so far, without weights.
  shard_report books() const;
  /// The same at the end, with these weights and the timeline.
  shard_report report(const snapshot& values);

private:
  void resume(const shard_core_options& from);
  void count_in(rank worker);
  shard_state state() { return {run_, *weights_, machine_, workers_, updates_, order_, lease_}; }

  void take_what_is_ready();
  void take(const gradient_order::ready& ready);
  void greet(rank worker, incarnation_number incarnation);
  void take_gradient(const push_gradient& x, std::int64_t arrived);
  void keep_waiting(const push_gradient& x, std::uint64_t samples, verdict what);
  void take_lost(const order_entry& entry);
  void drop_batch();
  void take_missed(const order_entry& entry, const std::optional<push_gradient>& late);
  void take_closed(const order_entry& entry);
  void let_go(rank worker, incarnation_number incarnation, bool unjudged = false);
  decision judge(const order_entry& entry) { return machine_.judge(entry, {version().value - entry.gap}); }
  void give_places();
  void refuse(const gradient_header& x);
  void drop_stray(const gradient_header& x);
  void bring(push_gradient& x);

  bool all_taken(const switch_policy& x) const {
    return order_.is_followed() ? order_.switch_is_next() : awaited_before(x, workers()).empty();
  }
  void switch_if_all_taken();
  void begin_policy(const switch_policy& x);

  bool keeps_answers() const { return keep_answers_ || machine_.rule().has_rounds(); }
  void release(std::optional<rank> just_taken = {});
  void start_if_due(rank waiting, std::optional<rank> just_taken);
  void answer(rank worker, const std::optional<stay_at_shard>& stay);
  void send_home(rank worker);
  void note_what_is_lost(worker_account& account) const;

  shard_port& port_;
  std::shared_ptr<shard> weights_;
  std::shared_ptr<const time_source> time_;
  run_id run_;
  std::uint32_t first_workers_; ///< with which the run begins
  bool keep_answers_;
  worker_slots workers_;
  shard_timeline timeline_;
  update_maker updates_;
  policy_machine machine_;
  gradient_order order_;
  hogwild_handover lease_; ///< of the weights, under hogwild
  shard_cut cut_;
  std::optional<rank> taking_; ///< whose gradient is being judged, unless the order is followed
  policy_epoch epoch_;
  std::optional<policy_epoch> switched_;
  std::optional<switch_policy> next_policy_; ///< begins when all gradients of the old one are taken
  instant switch_asked_{0};
  bool credit_is_free_ = false;
  bool has_begun_ = false;
  bool failed_ = false;
};

} // namespace mailgrad

#pragma once

#include <mailgrad/engine/shard/gradient_order.hpp>
#include <mailgrad/engine/shard/update_maker.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

namespace mailgrad {

/// Hands the weights of a shard to the block of hogwild and takes them back, while no worker computes.
class hogwild_handover {
public:
  /// `on_gpu`: the block is there, and the store only counts; null: the store is the block.
  hogwild_handover(std::shared_ptr<shard> weights, std::shared_ptr<hogwild_store> store,
                   std::shared_ptr<gpu_block> on_gpu = nullptr)
      : weights_(std::move(weights)), store_(std::move(store)), on_gpu_(std::move(on_gpu)) {}
  void begin() {
    if (on_gpu_)
      weights_->save(*on_gpu_);
    else
      weights_->save(*store_);
    store_->count_elsewhere(weights_->updates());
    version_ = store_->version();
    active_ = true;
  }

  /// Copies the block's weights to the shard. Its version grows by the updates that the workers made there.
  void fetch() {
    if (!active_) return;
    const std::uint64_t now = store_->version(); // once, since workers may count on
    const std::uint64_t updates = now - version_;
    if (updates == 0) return;
    if (on_gpu_)
      weights_->load(*on_gpu_, updates);
    else
      weights_->load(*store_, updates);
    version_ = now; // not before: memory for it may be lacking
  }

  bool active() const noexcept { return active_; } ///< whether the weights are in the block
  /// What readers on the host copy, while workers write; empty if that is the store.
  snapshot racing_values() const {
    if (!on_gpu_) return {};
    const gpu_block::piece mine = on_gpu_->of(weights_->index().value);
    return snapshot(mine.values, mine.ready);
  }

  /// As fetch(), into memory of the host alone, since that of the GPU is lacking: at the end, as it waits.
  snapshot values_at_end() {
    const std::uint64_t now = active_ && on_gpu_ ? store_->version() : version_;
    const std::uint64_t updates = now - std::exchange(version_, now);
    return updates == 0 ? weights_->host_snapshot_at_end()
                        : weights_->host_snapshot_at_end(*on_gpu_, updates);
  }

  void end() {
    fetch();
    active_ = false;
  }

private:
  std::shared_ptr<shard> weights_;
  std::shared_ptr<hogwild_store> store_; ///< null where no policy is hogwild
  std::shared_ptr<gpu_block> on_gpu_;
  std::uint64_t version_ = 0; ///< of the block, when it last equalled the shard
  bool active_ = false;
};

/// What a checkpoint keeps of a shard, by reference. Its core owns it all.
struct shard_state {
  run_id run;
  shard& weights;
  policy_machine& machine;
  worker_slots& workers;
  update_maker& updates;
  gradient_order& order;
  hogwild_handover& lease; ///< under hogwild the weights are in a block, and the shard fetches them
};

/// A shard's part of a checkpoint, without fields if memory was lacking to keep them.
struct kept_shard {
  std::uint64_t number = 0;
  std::shared_ptr<const saved_fields> fields;
};

/// A shard's part in a checkpoint. Each worker sends a marker: the gradients that it pushed before belong to
/// the checkpoint, later ones do not. The state is kept once, before a gradient is taken that does not
/// belong. Gradients that belong and arrive afterwards are kept beside it.
///
///     idle --first marker--> marking --all markers-----------------------------------------> finished = idle
///                               \--a gradient that does not belong--> kept --all markers--/
///
/// A shard that follows the first one keeps its state at the entry at which that one did. Under hogwild no
/// gradient comes, and workers that have sent theirs stand still, so the state is kept at the last marker.
class shard_cut {
public:
  explicit shard_cut(const shard_state& of) : of_(of), markers_(of.workers.count()) {}
  /// The number of the last checkpoint for which the state was kept; 0: none.
  std::uint64_t last() const noexcept { return last_; }
  /// A checkpoint of this number is taken. False: its part was given before.
  bool begin(std::uint64_t number) {
    if (number < last_ || (number == last_ && !kept_)) return false; // finished before
    number_ = number;
    return true;
  }
  /// What this worker pushed up to `step` belongs to it. False: likewise, or the run has no such rank.
  bool mark(std::uint64_t number, rank worker, step_number step);
  /// This gradient is about to be admitted: the state is kept first if it does not belong.
  void before(const gradient_id& id) {
    if (number_ == 0 || kept_ || id.worker.value >= markers_.size() || belongs(id)) return;
    if (!of_.order.is_led()) keep_now();
  }
  /// This worker leaves: the state is kept first if its marker has come.
  void before_leaving(rank worker) {
    if (number_ == 0 || kept_ || worker.value >= markers_.size() || !markers_[worker.value]) return;
    if (!of_.order.is_led()) keep_now();
  }
  /// This gradient has been admitted: it is kept beside the state if it belongs.
  void add(const push_gradient& x) {
    if (!kept_ || !belongs(x.header.id)) return;
    beside_.push_back({x, of_.updates.cure().read_by(x.header.id.worker)});
    beside_.back().what.payload.credit.reset();
  }
  /// The first shard has kept its state at this entry.
  void follow(std::uint64_t number) {
    begin(number);
    if (number == number_ && !kept_) keep_now();
  }
  /// The part, once all markers of workers still here have come; without fields if failure() says why.
  std::optional<kept_shard> finished();
  const std::string& failure() const noexcept { return failure_; }
  /// Ends the checkpoint under way, to which no part will come. Returns its number, if there was one.
  std::optional<std::uint64_t> give_up();

private:
  bool belongs(const gradient_id& id) const {
    const std::optional<step_number>& marker = markers_[id.worker.value];
    return !marker || id.step <= *marker;
  }
  bool all_marked() const;
  void keep_now();
  template <class Work>
  void or_note(const Work& work);

  shard_state of_;
  std::uint64_t last_ = 0;
  std::uint64_t number_ = 0;                        ///< of the checkpoint under way; 0: none is
  std::vector<std::optional<step_number>> markers_; ///< by rank
  std::shared_ptr<saved_fields> kept_;              ///< null: not yet
  std::vector<waiting_gradient> beside_;
  std::string failure_; ///< why there will be no part; empty: there will be one
};

/// Reads what a checkpoint kept of a shard. Returns the gradients kept beside its state, which are to be
/// taken first. `same_workers`: if not, only the weights and the states of optimiser and cure are read.
/// Errors  archive_error.
std::vector<push_gradient> restore_shard(archive& a, const shard_state& to, bool same_workers);

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

/// One shard of a run, without actors: it judges gradients in their order, updates, and lets workers go on.
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
/// Under a policy that requires shards to agree, the first shard tells the others its order, in which they
/// judge. In a replay all judge in the order of the recording. A switch of policy waits until all gradients
/// of the old policy are taken, applies what waits, and lets every worker start anew.
///
/// An update with helpers stops the turns: nothing but compute_part() may be called until end_update().
/// Errors  std::runtime_error: those of update_maker; a first shard that is too far ahead. The shard cannot
///         go on. out_of_memory: likewise, but the weights are whole, and fail() is to be called.
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
  void join(rank worker); ///< the worker that has its slot takes part, when its turn comes
  /// Returns whether the gradient counts: false if nobody judges it.
  bool push(const push_gradient& from);
  bool leave(rank worker, incarnation_number incarnation); ///< false: nothing has changed
  void expect(const order_entry& entry);                   ///< the first shard has taken this entry
  void close(std::int64_t moment);                         ///< the moment of closes_at() has come
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
  void end_update(); ///< all its parts are computed
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
  shard_report books() const; ///< the accounts of the workers so far, without weights
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

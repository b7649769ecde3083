#pragma once

#include <mailgrad/actors/protocol/order_log.hpp>
#include <mailgrad/engine/record/recorded_lives.hpp>
#include <mailgrad/engine/shard/ordered_gradients.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad {

/// The order in which a shard takes gradients, joins and leaves. There are three:
///
///     own        the order of its mailbox
///     led        the order of its mailbox, which the first shard tells all others, under a policy that
///                requires all shards to judge alike
///     followed   a given order: that of the first shard under such a policy, or that of a recording
///
/// join(), arrive() and leave() put in; next() gives what may be taken. Each turn taken is announced to the
/// shards that follow, and to the recorder.
/// Threads  those of the parameter actor that owns it.
class gradient_order {
public:
  struct options {
    caf::event_based_actor* self;
    shard_index shard;
    std::uint32_t workers = 1;
    std::vector<caf::actor> others{}; ///< for the first shard: all other shards
    caf::actor recorder{};
    std::shared_ptr<const recording> replayed{}; ///< gives the order of the whole run
  };

  explicit gradient_order(options o);

  /// A policy begins. `shards_agree`: it requires all shards to judge alike.
  void begin_policy(bool shards_agree) { shards_agree_ = shards_agree; }
  /// Whether the first shard gives the order at present.
  bool is_led() const { return !replays_ && shards_agree_ && shard_.value != 0; }
  bool is_followed() const { return replays_ || (shards_agree_ && shard_.value != 0); }

  // What arrives.
  void join(rank worker, incarnation life = {});
  void arrive(const push_gradient& x, std::int64_t at);
  void leave(rank worker, incarnation life = {});
  /// The policy closes the pending batch at this moment. A shard that follows is told so.
  void close(std::int64_t moment);
  /// How many turns of the followed order are to be taken.
  std::size_t ahead() const noexcept { return given_.ahead(); }
  /// Appends a turn to the followed order.
  void expect(const order_entry& turn) { given_.expect(turn); }

  /// What is to be taken next; nothing if it has not arrived, or if a switch of policy comes first.
  std::optional<ordered_gradients::ready> next();

  /// Whether the recording has no turn for this gradient, which would then wait for ever.
  bool never_takes(const gradient_id& x) const {
    return replays_ && x.step > given_.turns_of(x.worker).last_step(x.life);
  }
  /// Whether it has none for the joining of this incarnation.
  bool never_greets(rank worker, incarnation life) const {
    return replays_ && !given_.turns_of(worker).joins(life);
  }
  /// Whether this incarnation has joined here in the recorded order, so far as that has been taken.
  bool has_greeted(rank worker, incarnation life) const { return given_.has_joined(worker, life); }
  /// Whether this incarnation was lost or left early in the recorded run. Then nobody may wait for what the
  /// recording lacks of it.
  bool was_cut(rank worker, incarnation life) const {
    const recorded_life* one = lives_ ? lives_->find(worker, life) : nullptr;
    return one != nullptr && one->cut;
  }
  /// The number of a worker's gradients that have arrived and wait for their turn.
  std::uint64_t waiting(rank worker) const { return given_.waiting(worker); }

  /// Calls `take` with each gradient that has arrived and waits for its turn.
  template <class F>
  void for_each_waiting(F&& take) const {
    given_.for_each_waiting(take);
    for (const ordered_gradients::ready& r : own_)
      if (r.gradient) take(*r.gradient);
  }
  /// The shard's state is kept now for this checkpoint, and the shards that follow keep theirs at this turn.
  /// The recorder hears that what was noted so far lies before it.
  void announce_kept(std::uint64_t checkpoint);
  /// Writes or reads how far a recording has been taken. Other orders are given while a run goes on.
  void keep(archive& a) {
    if (replays_) a.field("recorded", given_);
  }
  /// The worker goes on that took part when the state was kept; no turn is needed for that.
  void come_back(rank worker, incarnation life) { given_.join(worker, life); }
  bool replays() const noexcept { return replays_; }

  /// The next turn of the followed order, which waits for what has not come; null if it is not told yet.
  const order_entry* next_turn() const { return given_.next_turn(); }
  /// Whether a switch of policy comes next in the followed order.
  bool switch_is_next() const { return given_.switch_is_next(); }
  /// The switch is taken. `recorded`: workers remain, so it is noted for the recorder.
  void take_switch(bool recorded);

  /// Tells the other shards and the recorder that `turn` is taken now.
  void announce(const order_entry& turn);
  /// Sends the recorder the turns noted so far.
  void flush() { log_.flush(); }

private:
  void tell_others(const order_entry& turn);

  caf::event_based_actor* self_;
  shard_index shard_;
  std::vector<caf::actor> others_;
  bool replays_;
  bool shards_agree_ = false;
  ordered_gradients given_;
  std::optional<recorded_lives> lives_;       ///< of a replay
  std::vector<ordered_gradients::ready> own_; ///< has arrived, in the shard's own order; mostly one
  order_log log_;
};

} // namespace mailgrad

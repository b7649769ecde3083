#pragma once

#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard_port.hpp>

#include <deque>

namespace mailgrad {

struct recorded_order {
  std::span<const order_entry> entries;
  std::vector<std::vector<incarnation_number>> cut; ///< by rank: that were lost or left early
};

/// The order in which a shard takes gradients, joins and leaves. There are three:
///
///     own        the order of its mailbox
///     led        the order of its mailbox, which the first shard tells all others, under a policy that
///                requires all shards to judge alike
///     followed   a given order: that of the first shard under such a policy, or that of a recording
///
/// join(), arrive() and leave() put in; next() gives what may be taken, which is then to be announced.
///
/// In a followed order a gradient that comes early waits for its turn. An entry whose gradient has not
/// arrived holds up all later ones. A worker has at most one gradient under way. A rank that has left may
/// join again, as a later incarnation: each entry of a gradient is of the incarnation whose joining the order
/// told last. An entry of one that has left here is not waited for.
class gradient_order {
public:
  /// `replayed`: what the shard repeats of a recorded run; null: no run is repeated.
  gradient_order(shard_index shard, std::uint32_t workers, shard_port& port,
                 const recorded_order* replayed = nullptr);
  /// A policy begins. `shards_agree`: it requires all shards to judge alike.
  void begin_policy(bool shards_agree) { shards_agree_ = shards_agree; }
  bool is_led() const { return !replays_ && shards_agree_ && shard_.value != 0; }
  bool is_followed() const { return replays_ || (shards_agree_ && shard_.value != 0); }
  bool replays() const noexcept { return replays_; }

  // What arrives.
  void join(rank worker, incarnation_number incarnation = {});
  /// The worker goes on that took part when the state was kept; no entry is needed for that.
  void come_back(rank worker, incarnation_number incarnation) {
    std::optional<incarnation_number>& joined = workers_[worker.value].joined;
    if (!joined || *joined < incarnation) joined = incarnation;
  }
  void arrive(push_gradient x, std::int64_t at);
  /// This incarnation sends nothing more, so its entries without a gradient hold up no others.
  void leave(rank worker, incarnation_number incarnation = {});
  /// The policy closes the pending batch at this moment. A shard that follows is told so.
  void close(std::int64_t moment) {
    if (!is_followed()) own_.push_back({{order_entry::kind::closed, {}, {}, {}, moment}, {}});
  }
  void expect(const order_entry& entry) {
    entries_.push_back(entry);
    if (entry.what != order_entry::kind::switched) workers_[entry.worker.value].known.add(entry);
  }
  std::size_t ahead() const noexcept { return entries_.size(); } ///< how many of these are to be taken

  /// An entry, with its gradient if that was not lost. Where a worker leaves, the one without an entry.
  struct ready {
    order_entry entry;
    std::optional<push_gradient> gradient;
  };
  /// What is to be taken next; nothing if it has not arrived, or if a switch of policy comes first. In a
  /// replay the entry of a gradient that this shard missed has the one that comes now.
  std::optional<ready> next();
  /// The next entry of the followed order, which waits for what has not come; null if it is not told yet.
  const order_entry* next_entry() const { return entries_.empty() ? nullptr : &entries_.front(); }
  bool switch_is_next() const {
    return !entries_.empty() && entries_.front().what == order_entry::kind::switched;
  }
  /// The switch is taken. `recorded`: workers remain, so it is noted for the recorder.
  void take_switch(bool recorded);
  /// Tells the other shards and the recorder that `entry` is taken now.
  void announce(const order_entry& entry) {
    port_.note(entry);
    tell_others(entry);
  }
  /// The shard's state is kept now for this checkpoint. The shards that follow and the recorder are told so.
  void announce_kept(std::uint64_t checkpoint) {
    port_.note_kept(checkpoint);
    tell_others({order_entry::kind::kept, {}, {checkpoint}});
  }
  /// Whether the recording has no entry for this gradient, which would then wait for ever.
  bool never_takes(const gradient_id& x) const {
    return replays_ && x.step > workers_[x.worker.value].known.last_step(x.incarnation);
  }
  /// Whether it has none for the joining of this incarnation.
  bool never_greets(rank worker, incarnation_number incarnation) const {
    return replays_ && !workers_[worker.value].known.joins(incarnation);
  }
  /// Whether this incarnation has joined here in the recorded order, so far as that has been taken.
  bool has_greeted(rank worker, incarnation_number incarnation) const {
    return workers_[worker.value].greeted == incarnation;
  }
  /// Whether it was lost or left early in the recorded run, so that nobody waits for what lacks of it there.
  bool was_cut(rank worker, incarnation_number incarnation) const {
    return worker.value < cut_.size() && std::ranges::count(cut_[worker.value], incarnation) > 0;
  }

  /// The number of a worker's gradients that have arrived and wait for their turn: 0 or 1.
  std::uint64_t waiting(rank worker) const { return workers_[worker.value].arrived ? 1 : 0; }
  template <class F>
  void for_each_waiting(F&& take) const {
    for (const of_worker& w : workers_)
      if (w.arrived) take(*w.arrived);
    for (const ready& r : own_)
      if (r.gradient) take(*r.gradient);
  }

  /// Writes or reads how far a recording has been taken. The gradients that wait are not kept.
  /// Errors  archive_error: the recording is shorter, or of other workers.
  void keep(archive& a);

private:
  struct of_worker {
    std::optional<incarnation_number> joined{}; ///< the last that has; not reset when it leaves
    std::optional<incarnation_number> left{};   ///< the last that has; all before it have, too
    incarnation_number of_entries{};            ///< whose entries come next
    std::optional<push_gradient> arrived{};
    entries_of_worker known{};                   ///< of the order known so far, taken or not
    std::optional<incarnation_number> greeted{}; ///< whose joining was taken last

    bool has_left(incarnation_number incarnation) const { return left && incarnation <= *left; }
    void keep(archive& a) { a.fields({"joined", "left", "turns"}, joined, left, of_entries); }
  };

  bool is_ready(const order_entry& entry) const;
  std::optional<ready> next_followed();
  void note_left(rank worker, incarnation_number incarnation) {
    std::optional<incarnation_number>& left = workers_[worker.value].left;
    if (!left || *left < incarnation) left = incarnation;
  }
  void tell_others(const order_entry& entry) {
    if (shards_agree_ && !is_followed()) port_.tell_followers(entry);
  }

  shard_index shard_;
  shard_port& port_;
  bool replays_;
  bool shards_agree_ = false;
  std::deque<order_entry> entries_;                  ///< of the followed order, not taken yet
  std::uint64_t taken_ = 0;                          ///< of these
  std::vector<of_worker> workers_;                   ///< by rank
  std::vector<std::vector<incarnation_number>> cut_; ///< of a recorded run, by rank
  std::vector<ready> own_;                           ///< has arrived, in the shard's own order; mostly one
};

} // namespace mailgrad

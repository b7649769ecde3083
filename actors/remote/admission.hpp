#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/net/network.hpp>
#include <mailgrad/optim/identity.hpp>

#include <set>

// Which gradients a process with shards lets workers of other processes send: by the memory for what is on
// its way, and by turns where shards add gradients up in the order of ranks.

namespace mailgrad::remote {

/// How much memory a process with shards has for what is in transit: gradients that arrive, and weights that
/// leave. The bound does not grow with the workers. A gradient begins to arrive only where there is room for
/// it and for the weights that will answer it; until then it stays with its worker.
///
/// With shards of W bytes in all, gradients have W + 16 MiB, and both kinds together 2 W + 24 MiB. So one
/// gradient can always arrive while the weights of one version leave.
///
/// A worker whose weights are overtaken by many others reads slowly, and so does one to which none has left
/// yet. What leaves to slow readers alone has half of the room for both kinds: while more would leave, their
/// further gradients wait for each other. Readers that become slow meanwhile may fill the room of the others,
/// who then have half as much again. The weights with which workers join wait for nothing and count beside.
/// Guarantees  has_room() comes true again as soon as shards have read what came and workers have taken what
///             left. It waits for no gradient that a policy keeps, such as those of a barrier.
/// Units       bytes.
/// Threads     any.
class transit final : public net::admission {
public:
  /// `weights` is W, and `largest` the size of a gradient of the largest of `shards` shards.
  transit(std::uint64_t weights, std::uint64_t largest, std::size_t shards = 1) noexcept;

  /// Whether another gradient of this worker may begin to arrive.
  bool has_room(rank worker) {
    const std::lock_guard lock(mutex_);
    return admits(is_slow(worker) ? fits() && fits_slow() : fits() || fits_fast());
  }
  /// Whether has_room() may hold of anybody.
  bool has_any_room() {
    const std::lock_guard lock(mutex_);
    return admits(fits() || fits_fast());
  }
  /// Is called when there is room again after one of these has said no; empty: nothing is. It must not block.
  void when_room(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    call_ = std::move(call);
  }

  /// A gradient begins to arrive. It has its room as long as the units are held.
  units arriving(rank from, std::uint64_t bytes);
  /// These values are about to leave to a worker. The units hold them, and their room with them. Values that
  /// leave to several workers count once.
  units leaving(rank to, std::shared_ptr<const void> values, std::uint64_t bytes);

  std::uint64_t arriving_bytes() const {
    const std::lock_guard lock(mutex_);
    return arriving_;
  }
  std::uint64_t leaving_bytes() const {
    const std::lock_guard lock(mutex_);
    return leaving_;
  }
  /// Whom a worker waits for that finds no room: "the shards to read gradients of workers 0, 3, and for
  /// worker 1 to take weights". Empty if there is room.
  std::string who_fills_it(rank worker) const;

private:
  /// Values that leave.
  struct version {
    std::uint64_t bytes = 0;
    bool joins = true;                ///< they go to workers that have just joined, and to no other
    std::map<rank, std::size_t> to{}; ///< how often each worker has them under way
  };
  /// A worker to which weights leave.
  struct reader {
    std::size_t under_way = 0; ///< answers that leave to it
    std::uint64_t since = 0;   ///< how many had left to all when the oldest of these began
    bool is_slow = true;
  };

  bool fits() const noexcept {
    return arriving_ + largest_ <= most_arriving_ && arriving_ + leaving_ + largest_ <= most_together_;
  }
  /// There is always room for one of them.
  bool fits_slow() const {
    const std::uint64_t theirs = bytes_of(speed::slow);
    return theirs == 0 || theirs + weights_ <= most_together_ / 2;
  }
  /// Weights that a worker gets when it joins leave without a gradient that could wait, so they may fill all
  /// room, and so may those of readers that have become slow. What leaves to fast readers has half of it
  /// nevertheless, until all but joins takes half as much again.
  bool fits_fast() const {
    std::uint64_t but_joins = arriving_;
    for (const auto& [values, v] : leaves_) but_joins += v.joins ? 0 : v.bytes;
    return but_joins + largest_ <= most_together_ + most_together_ / 2 &&
           arriving_ + largest_ <= most_arriving_ && bytes_of(speed::fast) + largest_ <= most_together_ / 2;
  }
  /// Answers to all workers by turns overtake one another once in a turn.
  bool is_slow(rank worker) const {
    const auto found = readers_.find(worker);
    if (found == readers_.end()) return false;
    const reader& r = found->second;
    return r.is_slow || (r.under_way > 0 && departed_ - r.since > most_overtaking());
  }
  bool goes_to_slow_alone(const version& v) const {
    return std::ranges::all_of(v.to, [this](const auto& reads) { return is_slow(reads.first); });
  }
  enum class speed { slow, fast };
  std::uint64_t bytes_of(speed readers) const;
  std::uint64_t most_overtaking() const noexcept { return 2 * shards_ * readers_.size(); }
  bool admits(bool has_room) {
    refused_ = refused_ || !has_room;
    return has_room;
  }
  void note_left(rank to, const void* values);
  /// It calls with the lock held, so that nothing is called any more when when_room() has taken the call
  /// back.
  void settle(calls&) override {
    if (!refused_ || !(fits() || fits_fast())) return;
    refused_ = false;
    if (call_) call_();
  }

  const std::uint64_t weights_, most_arriving_, most_together_, largest_;
  const std::size_t shards_;
  std::uint64_t arriving_ = 0, leaving_ = 0;
  bool refused_ = false; ///< somebody was told that there is none since it last called
  std::function<void()> call_;
  std::map<rank, std::uint64_t> arrives_; ///< bytes
  std::map<const void*, version> leaves_; ///< by the values
  std::map<rank, reader> readers_;        ///< all to whom weights have left
  std::uint64_t departed_ = 0;            ///< answers that have left
};

/// For a process that holds these shards and listens there. Null for an address by which processes share
/// memory: they lend each other what is in transit, and the heap bounds that.
std::shared_ptr<transit> transit_by(const std::string& address, const parameter_layout& layout,
                                    const std::vector<std::uint32_t>& shards);

/// Who may send gradients to a process whose shards add them up in the order of ranks. What comes before its
/// turn in the sum waits in memory. So a worker is given credit when its turn is near, and then for one
/// gradient of each shard. It has no more before these are added up.
///
///     no credit --its turn is near--> has credit --sends--> kept --added up--> no credit
///
/// The order is that of ranks, from the one that a shard awaits first on: of the shard that is behind the
/// others. Behind the highest rank the order goes on with the lowest, for the next sum. While a shard awaits
/// nobody first, as under `async`, every worker has credit for one gradient of each shard, and gets it back
/// when the gradient has come.
///
/// Guarantees  nobody waits for ever: whom the shard that is behind awaits first has credit in any case. So
///             gradients of at most `most` workers are under way or kept, and beside them those of who comes
///             late with a low rank, of the first of a sum, and of all for the first sum after a time without
///             turns.
/// Threads     any. Credit is given without a lock. A shard says whom it awaits now before it lets go of what
///             it has added up.
class gradient_credit final : public net::admission {
public:
  /// Gives a worker credit for so many bodies more. It must not block.
  using giving = std::function<void(std::uint32_t bodies)>;

  gradient_credit(std::vector<std::uint32_t> shards, std::size_t most)
      : shards_(std::move(shards)), most_(std::max<std::size_t>(most, 1)), awaits_(shards_.size()) {}

  /// A session of a worker, which has no credit yet.
  void add(std::uint64_t session, rank worker, giving give);
  void remove(std::uint64_t session);

  /// It has begun to send a gradient to a shard, which counts as kept as long as the units are held.
  units arriving(std::uint64_t session, std::uint32_t shard);
  /// That gradient is handed on. True: its credit is given back at once.
  bool gives_back(std::uint64_t session);

  /// Whom a shard awaits first, and its version; nothing: gradients have no turns there.
  void await(std::uint32_t shard, std::optional<rank> first, version_number version) {
    const std::size_t place = place_of(shard);
    if (place == shards_.size()) return;
    change([&] { awaits_[place] = {true, first, version}; });
  }

  /// Whose gradient is to be added up before that of this session, if it has no credit for that reason.
  std::optional<rank> waits_behind(std::uint64_t session) const;

private:
  /// A session.
  struct member {
    rank worker;
    giving give;
    std::size_t granted = 0;       ///< gradients that it may send
    std::size_t arriving = 0;      ///< that it sends
    std::vector<std::size_t> kept; ///< of these and those behind them, by place of the shard
    std::size_t of_all_kept = 0;
  };
  struct awaited {
    bool told = false;
    std::optional<rank> first{};
    version_number version{};
  };

  /// Shards switch their policy one after the other. While some have no turns, nobody waits for those of the
  /// others.
  bool has_turns() const {
    return std::ranges::all_of(awaits_, [](const awaited& a) { return !a.told || a.first; });
  }
  bool knows_turns() const { return has_turns() && std::ranges::all_of(awaits_, &awaited::told); }
  /// The place of the shard whose sum is behind those of the others.
  std::size_t behind() const {
    const auto found = std::ranges::min_element(awaits_, {}, [](const awaited& a) {
      return std::pair(a.version.value, a.first.value_or(rank{}).value);
    });
    return static_cast<std::size_t>(found - awaits_.begin());
  }
  std::size_t place_of(std::uint32_t shard) const {
    return static_cast<std::size_t>(std::ranges::find(shards_, shard) - shards_.begin());
  }
  /// Null if the session has ended.
  member* find(std::uint64_t session) {
    const auto found = members_.find(session);
    return found == members_.end() ? nullptr : &found->second;
  }
  void grant(member& m, std::size_t count, calls& after) {
    if (count == 0) return;
    m.granted += count;
    granted_ += count;
    after.emplace_back([give = m.give, count] { give(static_cast<std::uint32_t>(count)); });
  }
  bool serve_first(std::size_t place, calls& after);
  /// A worker sends to all shards what it sends to one. So if the first that is awaited has begun, the others
  /// are behind it. If not, it may wait itself for what another shard answers, as one does that was lost
  /// between two of them and has come again.
  void serve_firsts(std::size_t behind, calls& after) {
    if (serve_first(behind, after)) return;
    for (std::size_t place = 0; place < awaits_.size(); ++place)
      if (awaits_[place].first != awaits_[behind].first) serve_first(place, after);
  }
  void give_all(calls& after) {
    if (std::exchange(all_have_it_, true)) return;
    const std::size_t each = shards_.size();
    for (auto& [session, m] : members_) grant(m, each - std::min(each, m.granted + m.arriving), after);
  }
  void settle(calls& after) override;

  const std::vector<std::uint32_t> shards_;
  const std::size_t most_;      ///< workers
  std::vector<awaited> awaits_; ///< by place of the shard
  std::map<std::uint64_t, member> members_;
  std::set<std::pair<std::uint32_t, std::uint64_t>> by_rank_; ///< these, as rank and session
  std::size_t granted_ = 0;                                   ///< to all of them
  std::size_t kept_ = 0;     ///< gradients, those of sessions that have ended too
  bool all_have_it_ = false; ///< each has credit for a gradient of each shard, or gets it back
};

/// For a process that holds these shards, listens there and has slots for so many workers of so many devices.
/// There is room for two gradients, or for as many as go into W + 16 MiB. Null where one of each worker finds
/// room beside the sum; for models with tables and workers of several devices, whose gradients are added up
/// when all have come; and where processes share memory, since gradients wait in that of their workers.
std::shared_ptr<gradient_credit> credit_by(const std::string& address, const parameter_layout& layout,
                                           const std::vector<std::uint32_t>& shards, std::uint32_t slots,
                                           std::uint32_t devices);

/// Buffers for the gradients that arrive at shards of this process. All workers share them, so that they grow
/// with the gradients that are there at once. A gradient has room for all weights, but only the part of one
/// shard arrives in it; nothing sets the rest to zero, so it is not taken from the machine.
/// Threads that of the network. Who holds a gradient may let it go on any.
class gradient_buffers {
public:
  explicit gradient_buffers(std::shared_ptr<const parameter_layout> layout) {
    for (std::size_t s = 0; s < layout->shard_count(); ++s)
      by_shard_.emplace_back([layout] { return make_gradient(*layout, block::for_overwrite); });
  }

  std::size_t shards() const noexcept { return by_shard_.size(); }
  std::shared_ptr<gradient> take(std::size_t shard) { return by_shard_[shard].take(); }
  /// How many gradients there is room for.
  std::size_t count() const noexcept {
    return std::accumulate(by_shard_.begin(), by_shard_.end(), std::size_t{0},
                           [](std::size_t sum, const auto& pool) { return sum + pool.size(); });
  }

private:
  std::vector<object_pool<gradient>> by_shard_;
};

/// What bounds the gradients that workers bring to a process with shards; null: nothing does.
struct admission_bounds {
  std::shared_ptr<transit> on_way{};           ///< those that arrive, and the weights that leave
  std::shared_ptr<gradient_credit> credit{};   ///< those that wait for their turn in a sum
  std::shared_ptr<gradient_buffers> buffers{}; ///< where they arrive; null: each channel has its own

  /// Lets workers begin bodies by these bounds.
  void apply(net::server_options& terms) const;
  /// Has the network look again when there is room, until close().
  void open(const std::shared_ptr<net::network>& network, net::server_end& end) const {
    if (on_way) on_way->when_room([network, to = &end] { network->post(*to, [](net::instant) {}); });
  }
  void close() const {
    if (on_way) on_way->when_room({});
  }
  /// That session has ended.
  void end(std::uint64_t session) const {
    if (credit) credit->remove(session);
  }
};

} // namespace mailgrad::remote

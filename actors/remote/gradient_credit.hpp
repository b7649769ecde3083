#pragma once

#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::remote {

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
///             late with a low rank, and of the first of a sum. For the first sum after a time without turns
///             everybody has credit already. Where a worker was lost between two shards and has come again,
///             one shard may have to keep what another adds up.
/// Threads     any. Credit is given without a lock. A shard says whom it awaits now before it lets go of what
///             it has added up.
class gradient_credit : public std::enable_shared_from_this<gradient_credit> {
public:
  /// Gives a worker credit for so many bodies more. It must not block.
  using giving = std::function<void(std::uint32_t bodies)>;

  gradient_credit(std::vector<std::uint32_t> shards, std::size_t most);

  /// A session of a worker, which has no credit yet.
  void add(std::uint64_t session, rank worker, giving give);
  /// It has ended.
  void remove(std::uint64_t session);

  /// The session has begun to send a gradient to a shard. It counts as kept as long as what this returns is
  /// held.
  std::shared_ptr<const void> arriving(std::uint64_t session, std::uint32_t shard);
  /// That gradient is handed on. True: its credit is given back at once.
  bool gives_back(std::uint64_t session);

  /// Whom a shard awaits first, and its version; nothing: gradients have no turns there.
  void await(std::uint32_t shard, std::optional<rank> first, version_number version);

  /// Whose gradient is to be added up before that of this session, if it has no credit for that reason.
  std::optional<rank> waits_behind(std::uint64_t session) const;

private:
  struct kept_gradient;
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
  /// Credit to be given when the lock is released.
  using gifts = std::vector<std::pair<giving, std::uint32_t>>;

  bool has_turns() const;
  std::size_t behind() const;
  std::size_t place_of(std::uint32_t shard) const;
  void grant(member& m, std::size_t count, gifts& all);
  bool serve_first(std::size_t place, gifts& all);
  void serve_firsts(std::size_t behind, gifts& all);
  void settle(gifts& all);
  void give_all(gifts& all);
  void let_go(std::uint64_t session, std::size_t place);
  template <class Change>
  void change(const Change& what);

  const std::vector<std::uint32_t> shards_;
  const std::size_t most_;      ///< workers
  mutable std::mutex mutex_;    ///< guards the members below
  std::vector<awaited> awaits_; ///< by place of the shard
  std::map<std::uint64_t, member> members_;
  std::set<std::pair<std::uint32_t, std::uint64_t>> by_rank_; ///< these, as rank and session
  std::size_t granted_ = 0;                                   ///< to all of them
  std::size_t kept_ = 0;     ///< gradients, those of sessions that have ended too
  bool all_have_it_ = false; ///< each has credit for a gradient of each shard, or gets it back
};

/// For a process that holds these shards, listens there and seats so many workers of so many devices. There
/// is room for two gradients, or for as many as go into W + 16 MiB. Null where one of each worker finds room
/// beside the sum, so that nobody need wait; for models with tables and for workers of several devices, whose
/// gradients are added up when all have come; and for an address by which processes share memory: gradients
/// wait in that of their workers.
std::shared_ptr<gradient_credit> credit_by(const std::string& address, const parameter_layout& layout,
                                           const std::vector<std::uint32_t>& shards, std::uint32_t seats,
                                           std::uint32_t devices);

} // namespace mailgrad::remote

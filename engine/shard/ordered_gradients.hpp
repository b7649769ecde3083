#pragma once

#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/files/archive.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace mailgrad {

/// Puts the events at a shard into an order that the first shard or a recording gives. A gradient that comes
/// early waits for its turn. A turn whose gradient has not arrived holds up all later ones.
///
/// A worker has at most one gradient under way. A rank that has left may join again, as a later incarnation:
/// each turn of a gradient is of the incarnation whose joining the order told last. A turn of one that has
/// left here is not waited for.
/// Threads  one caller at a time.
class ordered_gradients {
public:
  explicit ordered_gradients(std::uint32_t workers) : workers_(workers) {}

  /// Appends a turn to the order.
  void expect(const order_entry& turn);
  /// How many turns are known and not taken.
  std::size_t ahead() const noexcept { return turns_.size(); }
  /// The turns of a worker in the order known so far, taken or not.
  const turns_of_worker& turns_of(rank worker) const { return workers_[worker.value].known; }
  /// Whether the joining of this incarnation has been taken, and no later one.
  bool has_joined(rank worker, incarnation life) const { return workers_[worker.value].greeted == life; }
  void join(rank worker, incarnation life = {});
  /// Notes that this joining was taken in another order than this.
  void pass_joining(rank worker, incarnation life);
  void arrive(const push_gradient& x) { workers_[x.header.id.worker.value].arrived = x; }
  /// Notes that this incarnation sends nothing more, so that its turns without a gradient hold up no others.
  void forget(rank worker, incarnation life = {});

  /// A turn, with its gradient if it is the turn of one that was not lost. The turn of a worker that leaves
  /// has the gradient that arrived and had no turn, if there is one.
  struct ready {
    order_entry turn;
    std::optional<push_gradient> gradient;
  };
  /// Takes the next turn from the queue if it is ready. A turn that ends a policy is left to take_switch().
  /// In a replay the turn of a gradient that this shard missed has the one that comes now.
  std::optional<ready> next();

  /// The number of the worker's gradients whose turn has not come: 0 or 1.
  std::uint64_t waiting(rank worker) const { return workers_[worker.value].arrived ? 1 : 0; }

  /// Calls `take` with each gradient whose turn has not come.
  template <class F>
  void for_each_waiting(F&& take) const {
    for (const of_worker& w : workers_)
      if (w.arrived) take(*w.arrived);
  }
  /// Writes or reads how far a given order has been taken. The gradients that wait are not kept. Reading
  /// takes off as many turns, which must have been expected before.
  ///
  /// Errors  archive_error: the order is shorter.
  void keep(archive& a);

  /// The next turn, which waits for what has not come; null if the order tells none.
  const order_entry* next_turn() const { return turns_.empty() ? nullptr : &turns_.front(); }
  bool switch_is_next() const {
    return !turns_.empty() && turns_.front().what == order_entry::kind::switched;
  }
  void take_switch() {
    turns_.pop_front();
    ++taken_;
  }

private:
  struct of_worker {
    std::optional<incarnation> joined{}; ///< the last that has; not reset when it leaves
    std::optional<incarnation> left{};   ///< the last that has; all before it have, too
    incarnation turns{};                 ///< whose turns come next
    std::optional<push_gradient> arrived{};
    turns_of_worker known{};
    std::optional<incarnation> greeted{}; ///< whose joining was taken last

    bool has_left(incarnation life) const { return left && life <= *left; }
    void keep(archive& a) {
      a.field("joined", joined);
      a.field("left", left);
      a.field("turns", turns);
    }
  };

  bool is_ready(const order_entry& turn) const;

  std::deque<order_entry> turns_;
  std::uint64_t taken_ = 0;        ///< turns
  std::vector<of_worker> workers_; ///< by rank
};

} // namespace mailgrad

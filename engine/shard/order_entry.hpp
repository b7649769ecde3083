#pragma once

#include <mailgrad/optim/identity.hpp>

#include <vector>

namespace mailgrad {

/// One event at a shard: a gradient that it judged, a batch that it closed, or a change of workers or policy.
///
/// Where all shards must judge alike, the first one tells the others. Each sends its entries to the recorder.
/// In a replay the recording tells all.
struct order_entry {
  enum class kind : std::uint8_t {
    joined,   ///< the worker got its first weights
    gradient, ///< the gradient of the worker's step `step` was judged
    left,     ///< the policy no longer waits for the worker
    switched, ///< the next policy begins
    kept,     ///< the shard's state is kept for the checkpoint of number `step`; no recording has it
    missed,   ///< the gradient of `step` was judged where it had arrived, and was lost on its way to here
    closed,   ///< the policy waits for no more gradients of the pending batch; `arrived` is the moment
  };
  kind what = kind::gradient;
  rank worker;
  step_number step{}; ///< of a gradient; of a worker that joins or leaves the number of its incarnation
  /// Of a gradient: how many versions its shard had made since the weights that it was computed from. Shards
  /// may count their versions from different numbers, and this is the same at each. A recording has none.
  std::uint64_t gap = 0;
  std::int64_t arrived = 0; ///< ns, by the time source of the shard that made the entry

  static order_entry of(kind what, rank worker, incarnation_number incarnation) {
    return {what, worker, {incarnation.value}};
  }
  /// Of an entry that tells of a worker that joined or left.
  incarnation_number incarnation() const { return {static_cast<std::uint32_t>(step.value)}; }

  friend bool operator==(const order_entry&, const order_entry&) = default;
};

struct recorded_deal {
  enum class kind : std::uint8_t {
    dealt,    ///< it dealt the batch `number`
    begun,    ///< the worker asked for the first time as its incarnation `number`
    returned, ///< it took the batch `number` back, since nobody had trained it
  };
  rank worker;
  std::uint64_t number = 0; ///< of a batch as dealt, from 0, counted over all epochs
  kind what = kind::dealt;

  friend bool operator==(const recorded_deal&, const recorded_deal&) = default;
};

/// What an order has for one worker: which incarnations join, and up to which step it has their gradients.
/// Threads  a value like any other.
class entries_of_worker {
public:
  void add(const order_entry& entry) {
    if (entry.what == order_entry::kind::joined) incarnations_.push_back({entry.incarnation()});
    if (entry.what != order_entry::kind::gradient && entry.what != order_entry::kind::missed) return;
    if (incarnations_.empty()) incarnations_.push_back({});
    incarnations_.back().last = entry.step;
  }

  bool joins(incarnation_number incarnation) const { return find(incarnation) != nullptr; }
  /// 0 if it has none.
  step_number last_step(incarnation_number incarnation) const {
    const of_incarnation* one = find(incarnation);
    return one == nullptr ? step_number{} : one->last;
  }

private:
  struct of_incarnation {
    incarnation_number incarnation{};
    step_number last{};
  };
  const of_incarnation* find(incarnation_number incarnation) const {
    for (const of_incarnation& one : incarnations_)
      if (one.incarnation == incarnation) return &one;
    return nullptr;
  }

  std::vector<of_incarnation> incarnations_;
};

} // namespace mailgrad

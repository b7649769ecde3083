#include <mailgrad/actors/recording.hpp>

#include <mailgrad/optim/policies/policy.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

[[noreturn]] void refuse(const recording& r, const std::string& why) {
  throw recording_error("recording '" + r.name + "' " + why);
}

std::string worker_on_shard(std::size_t worker, std::size_t shard) {
  return "worker " + std::to_string(worker) + " on shard " + std::to_string(shard);
}

/// Follows the turns of one shard, as the shard will.
class shard_check {
public:
  shard_check(const recording& r, std::size_t shard) : r_(r), shard_(shard), workers_(r.header.workers) {}

  /// By rank, the last step taken.
  std::vector<std::uint64_t> last_steps() {
    for (const shard_turn& t : r_.turns[shard_]) check(t);
    if (switches_ != r_.end.switches.size())
      refuse(r_, "has " + std::to_string(r_.end.switches.size()) + " switches; shard " +
                     std::to_string(shard_) + " made " + std::to_string(switches_));
    std::vector<std::uint64_t> steps;
    for (const worker& w : workers_) steps.push_back(w.step);
    return steps;
  }

private:
  struct worker {
    bool joined = false;
    bool left = false;
    std::uint64_t step = 0;
    std::uint64_t gradients = 0;
  };

  void check(const shard_turn& t) {
    if (t.what == shard_turn::kind::switched) {
      ++switches_;
      return;
    }
    worker& w = workers_[t.worker.value];
    const bool in_order = t.what == shard_turn::kind::joined ? !w.joined && !w.left
                          : t.what == shard_turn::kind::left ? !w.left
                                                             : w.joined && !w.left && t.step > w.step;
    if (!in_order) refuse(r_, "has turns of " + worker_on_shard(t.worker.value, shard_) + " out of order");
    if (t.what == shard_turn::kind::joined) w.joined = true;
    if (t.what == shard_turn::kind::left) w.left = true;
    if (t.what != shard_turn::kind::gradient) return;
    w.step = t.step;
    if (++w.gradients > r_.batches[t.worker.value].size())
      refuse(r_, "has more gradients of " + worker_on_shard(t.worker.value, shard_) + " than the " +
                     std::to_string(r_.batches[t.worker.value].size()) + " batches it was dealt");
  }

  const recording& r_;
  std::size_t shard_;
  std::vector<worker> workers_;
  std::size_t switches_ = 0;
};

void require_nobody_lost(const recording& r) {
  if (!r.end.lost.empty())
    refuse(r, "is of a run that lost worker " + std::to_string(r.end.lost.front()) +
                  ", and when that was its order does not tell: it cannot be repeated");
  if (r.end.ended == "failed")
    refuse(r, "is of a run that failed (" + r.end.why + "): it cannot be repeated");
}

/// Hogwild is one without an order.
void require_policy_of(const recording& r, const recorded_switch& s) {
  try {
    make_policy(s.policy, r.header.workers);
  } catch (const std::invalid_argument& e) {
    refuse(r, "has a switch that cannot be: " + std::string(e.what()));
  }
}

void require_right_switches(const recording& r) {
  std::vector<std::uint64_t> before(r.header.workers);
  for (const recorded_switch& s : r.end.switches) {
    require_policy_of(r, s);
    const bool fits = s.batches.size() == r.header.workers && s.present.size() == r.header.workers;
    if (!fits || std::ranges::count(s.present, 0) == r.header.workers)
      refuse(r, "has a switch to '" + s.policy + "' without its workers");
    for (std::size_t w = 0; w < before.size(); ++w) {
      if (s.present[w] == 0) continue;
      if (s.batches[w] < before[w] || s.batches[w] > r.batches[w].size())
        refuse(r, "switches worker " + std::to_string(w) + " after batch " + std::to_string(s.batches[w]) +
                      "; expected " + std::to_string(before[w]) + " to " +
                      std::to_string(r.batches[w].size()));
      before[w] = s.batches[w];
    }
  }
}

} // namespace

void require_repeatable(const recording& r) {
  require_nobody_lost(r);
  require_right_switches(r);
  const std::vector<std::uint64_t> first = shard_check(r, 0).last_steps();
  for (std::size_t s = 1; s < r.turns.size(); ++s)
    if (shard_check(r, s).last_steps() != first)
      refuse(r, "has other gradients on shard " + std::to_string(s) + " than on shard 0");
}

} // namespace mailgrad

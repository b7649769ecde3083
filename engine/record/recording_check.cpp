#include <mailgrad/engine/record/recording.hpp>

#include <mailgrad/optim/policies/policy.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace mailgrad {

namespace {

[[noreturn]] void refuse(const recording& r, const std::string& why) {
  throw recording_error("recording '" + r.name + "' " + why);
}

std::string number(std::uint64_t n) { return std::to_string(n); }

/// Follows the turns of one shard, as the shard will.
class shard_check {
public:
  shard_check(const recording& r, std::size_t shard) : r_(r), shard_(shard), workers_(r.header.workers) {}

  /// By rank, the last step taken.
  std::vector<std::uint64_t> last_steps() {
    for (const order_entry& t : r_.turns[shard_]) check(t);
    if (r_.killed ? switches_ > r_.end.switches.size() : switches_ != r_.end.switches.size())
      refuse(r_, "has " + number(r_.end.switches.size()) + " switches; shard " + number(shard_) + " made " +
                     number(switches_));
    std::vector<std::uint64_t> steps;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (!r_.killed && (!workers_[w].joined || !workers_[w].left))
        refuse(r_, "lacks a turn: worker " + number(w) + " never " +
                       (workers_[w].joined ? "leaves" : "joins") + " shard " + number(shard_));
      steps.push_back(workers_[w].step);
    }
    return steps;
  }

private:
  struct worker {
    bool joined = false;
    bool left = false;
    std::uint64_t step = 0;
  };

  void check(const order_entry& t) {
    ++turn_;
    if (t.what == order_entry::kind::switched) {
      ++switches_;
      return;
    }
    worker& w = workers_[t.worker.value];
    if (t.what == order_entry::kind::joined) {
      if (w.joined) refuse_turn(t, "joins again");
      w.joined = true;
    } else if (!w.joined || w.left) {
      refuse_turn(t, w.left ? "comes after it has left" : "comes before it joins");
    } else if (t.what == order_entry::kind::left) {
      w.left = true;
    } else if (t.step != w.step + 1) {
      refuse_turn(t, "has step " + number(t.step) + "; expected step " + number(w.step + 1));
    } else {
      w.step = t.step;
    }
  }

  [[noreturn]] void refuse_turn(const order_entry& t, const std::string& why) const {
    refuse(r_, "has turns of worker " + number(t.worker.value) + " out of order: turn " + number(turn_) +
                   " of shard " + number(shard_) + ' ' + why);
  }

  const recording& r_;
  std::size_t shard_;
  std::vector<worker> workers_;
  std::size_t switches_ = 0;
  std::size_t turn_ = 0; ///< counted from 1
};

/// The deals are sorted by number: two equal neighbours are one batch that was dealt twice.
void require_each_batch_once(const recording& r) {
  std::vector<std::pair<std::uint64_t, std::size_t>> deals;
  for (std::size_t w = 0; w < r.batches.size(); ++w)
    for (const std::uint64_t number : r.batches[w]) deals.emplace_back(number, w);
  std::ranges::sort(deals);
  const auto twice = std::ranges::adjacent_find(deals, {}, &std::pair<std::uint64_t, std::size_t>::first);
  if (twice != deals.end())
    refuse(r, "deals batch " + number(twice->first) + " twice: to worker " + number(twice->second) +
                  " and to worker " + number(std::next(twice)->second));
}

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
      const std::uint64_t most =
          r.killed ? std::numeric_limits<std::uint64_t>::max() : r.batches[w].size(); // deals may be missing
      if (s.batches[w] < before[w] || s.batches[w] > most)
        refuse(r, "switches worker " + number(w) + " after batch " + number(s.batches[w]) + "; expected " +
                      number(before[w]) + (r.killed ? " or more" : " to " + number(most)));
      before[w] = s.batches[w];
    }
  }
}

} // namespace

void require_repeatable(const recording& r) {
  require_nobody_lost(r);
  require_right_switches(r);
  require_each_batch_once(r);
  const std::vector<std::uint64_t> first = shard_check(r, 0).last_steps();
  for (std::size_t s = 1; s < r.turns.size(); ++s) {
    const std::vector<std::uint64_t> steps = shard_check(r, s).last_steps();
    const auto [here, there] = std::ranges::mismatch(steps, first);
    if (!r.killed && there != first.end())
      refuse(r, "has other gradients on shard " + number(s) + " than on shard 0: of worker " +
                    number(static_cast<std::size_t>(there - first.begin())) + " up to step " + number(*here) +
                    ", there up to " + number(*there));
  }
}

} // namespace mailgrad

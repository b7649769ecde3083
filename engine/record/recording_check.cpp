#include <mailgrad/engine/record/recorded_lives.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <mailgrad/optim/policies/policy_spec.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

namespace mailgrad {

namespace {

[[noreturn]] void refuse(const recording& r, const std::string& why) {
  throw recording_error(fmt::format("recording '{}' {}", r.name, why));
}

/// Goes through the turns of one shard, as the shard will in a replay.
class shard_check {
public:
  shard_check(const recording& r, const recorded_lives& lives, std::size_t shard)
      : r_(r), lives_(lives), shard_(shard), workers_(lives.ranks()) {}

  /// Checks all turns, and returns the last step that the shard took of each worker, by rank. Those of
  /// workers that were cut short are left out, because shards may differ in them.
  std::vector<std::uint64_t> last_steps() {
    for (const order_entry& t : r_.turns[shard_]) check(t);
    if (r_.killed ? switches_ > r_.end.switches.size() : switches_ != r_.end.switches.size())
      refuse(r_, fmt::format("has {} switches; shard {} made {}", r_.end.switches.size(), shard_, switches_));
    std::vector<std::uint64_t> steps(workers_.size());
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (lives_.of(w).empty() || lives_.of(w).back().cut) continue;
      const bool joined = workers_[w].life == lives_.of(w).back().life;
      if (!r_.killed && (!joined || !workers_[w].left))
        refuse(r_, fmt::format("lacks a turn: worker {} never {} shard {}", w, joined ? "leaves" : "joins",
                               shard_));
      steps[w] = workers_[w].step;
    }
    return steps;
  }

private:
  struct worker {
    std::optional<incarnation> life{}; ///< that joined last
    bool left = false;
    std::uint64_t step = 0;
    std::optional<incarnation> counted{}; ///< as present by the last switch, was lost, and has not left since
  };

  void check(const order_entry& t) {
    ++turn_;
    if (t.what == order_entry::kind::switched) return begin_policy();
    if (t.what == order_entry::kind::closed) return; // of no worker
    worker& w = workers_[t.worker.value];
    if (t.what == order_entry::kind::joined) {
      if (w.life && (!w.left || t.life() <= *w.life)) refuse_turn(t, "joins again");
      w = {t.life()};
    } else if (t.what == order_entry::kind::left && is_expected(w, t)) {
      let_go(w, t.life());
    } else if (!w.life || w.left) {
      refuse_turn(t, w.left ? "comes after it has left" : "comes before it joins");
    } else if (t.what == order_entry::kind::left) {
      w.left = true;
    } else if (t.step.value != w.step + 1) {
      refuse_turn(t, fmt::format("has step {}; expected step {}", t.step.value, w.step + 1));
    } else {
      w.step = t.step.value;
    }
  }

  void begin_policy() {
    for (std::size_t w = 0; w < workers_.size() && switches_ < r_.end.switches.size(); ++w) {
      const bool present = r_.end.switches[switches_].present[w] != 0;
      const recorded_life* there = present ? lives_.before_switch(w, switches_) : nullptr;
      workers_[w].counted = there != nullptr && there->cut ? std::optional(there->life) : std::nullopt;
    }
    ++switches_;
  }

  static void let_go(worker& w, incarnation life) {
    if (!w.life || *w.life < life) w = {life};
    w.left = true;
    w.counted.reset();
  }

  /// A worker that the run began with may leave without having come. So may one that a switch counts as
  /// present although it was lost meanwhile, and it leaves once more if the shard had known that.
  bool is_expected(const worker& w, const order_entry& t) const {
    if (w.counted == t.life()) return true;
    const bool of_the_beginning = t.worker.value < r_.header.workers && t.life() == incarnation{};
    return !w.life && !w.left && of_the_beginning && lives_.of(t.worker.value).front().cut;
  }

  [[noreturn]] void refuse_turn(const order_entry& t, const std::string& why) const {
    refuse(r_, fmt::format("has turns of worker {} out of order: turn {} of shard {} {}", t.worker.value,
                           turn_, shard_, why));
  }

  const recording& r_;
  const recorded_lives& lives_;
  std::size_t shard_;
  std::vector<worker> workers_;
  std::size_t switches_ = 0;
  std::size_t turn_ = 0; ///< counted from 1
};

/// Sorts the deals by number, so that a batch dealt twice makes two equal neighbours. Those that were taken
/// back are not among them.
void require_each_batch_once(const recording& r) {
  std::vector<std::pair<std::uint64_t, std::size_t>> deals;
  for (std::size_t w = 0; w < r.batches.size(); ++w)
    for (const std::uint64_t number : r.batches[w]) deals.emplace_back(number, w);
  std::ranges::sort(deals);
  const auto twice = std::ranges::adjacent_find(deals, {}, &std::pair<std::uint64_t, std::size_t>::first);
  if (twice != deals.end())
    refuse(r, fmt::format("deals batch {} twice: to worker {} and to worker {}", twice->first, twice->second,
                          std::next(twice)->second));
}

void require_whole(const recording& r, const recorded_lives& lives) {
  if (r.end.ended == "failed")
    refuse(r, "is of a run that failed (" + r.end.why + "): it cannot be repeated");
  if (r.killed && lives.any_change())
    refuse(r, "was not completed, and workers had come or gone: it cannot be repeated");
}

/// Refuses an unknown policy, and hogwild, which has no order to repeat.
void require_policy_of(const recording& r, const recorded_switch& s) {
  try {
    make_policy(s.policy, r.header.ranks());
  } catch (const std::invalid_argument& e) {
    refuse(r, "has a switch that cannot be: " + std::string(e.what()));
  }
}

void require_right_switches(const recording& r, const recorded_lives& lives) {
  std::vector<std::uint64_t> before(r.header.ranks());
  for (std::size_t i = 0; i < r.end.switches.size(); ++i) {
    const recorded_switch& s = r.end.switches[i];
    require_policy_of(r, s);
    const bool fits = s.batches.size() == r.header.ranks() && s.present.size() == r.header.ranks();
    if (!fits || std::ranges::count(s.present, 0) == r.header.ranks())
      refuse(r, "has a switch to '" + s.policy + "' without its workers");
    for (std::size_t w = 0; w < before.size(); ++w) {
      if (s.present[w] == 0) continue;
      const std::uint64_t most =
          r.killed ? std::numeric_limits<std::uint64_t>::max() : r.batches[w].size(); // deals may be missing
      const std::uint64_t trained = lives.batches_before(s, i, w);
      if (trained < before[w] || trained > most)
        refuse(r, fmt::format("switches worker {} after batch {}; expected {}{}", w, trained, before[w],
                              r.killed ? " or more" : fmt::format(" to {}", most)));
      before[w] = trained;
    }
  }
}

} // namespace

void require_repeatable(const recording& r) {
  const recorded_lives lives(r);
  require_whole(r, lives);
  require_right_switches(r, lives);
  require_each_batch_once(r);
  const std::vector<std::uint64_t> first = shard_check(r, lives, 0).last_steps();
  for (std::size_t s = 1; s < r.turns.size(); ++s) {
    const std::vector<std::uint64_t> steps = shard_check(r, lives, s).last_steps();
    const auto [here, there] = std::ranges::mismatch(steps, first);
    if (!r.killed && there != first.end())
      refuse(r,
             fmt::format("has other gradients on shard {} than on shard 0: of worker {} up to step {}, there "
                         "up to {}",
                         s, there - first.begin(), *here, *there));
  }
}

} // namespace mailgrad

#include <mailgrad/engine/account/ledger_audit.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad {

namespace {

std::string gradients(std::uint64_t count) {
  return fmt::format("{} {}", count, count == 1 ? "gradient" : "gradients");
}

std::string name_of(const shard_report& s) { return "shard " + std::to_string(s.shard.value); }
std::string name_of(std::size_t worker) { return "worker " + std::to_string(worker); }

/// The shard's account of a worker; an empty one if the shard has none.
const worker_account& account_of(const shard_report& s, std::size_t worker) {
  static const worker_account none;
  return worker < s.workers.size() ? s.workers[worker] : none;
}

/// The counts of both ends of the exchange between one worker and one shard.
struct exchange_ends {
  std::uint64_t sent = 0;    ///< counted by the worker; if it is lost, by the shard that got most of it
  std::uint64_t taken = 0;   ///< counted by the shard
  bool both_known = false;   ///< worker and shard have both reported
  bool may_be_short = false; ///< a lost worker or shard explains why `taken` is less than `sent`
};

class auditor {
public:
  auditor(const run_outcome& outcome, std::optional<std::uint64_t> written)
      : outcome_(outcome), written_(written), running_(outcome.how == run_outcome::ending::running),
        a_shard_is_lost_(std::ranges::any_of(outcome.shards, is_lost)),
        a_worker_is_lost_(std::ranges::find(outcome.lost, true) != outcome.lost.end()) {}

  audited_ledger result() {
    if (outcome_.shards.empty()) {
      result_.ledger = workers_ledger();
    } else {
      std::vector<shard_ledger> all, left;
      for (const shard_report& s : outcome_.shards) {
        all.push_back({s.shard.value, ledger_of(s)});
        if (!is_lost(s)) left.push_back(all.back());
      }
      const shard_ledger& worst = worst_of(all);
      result_.ledger = worst.counts;
      const bool of_lost = is_lost(outcome_.shards[static_cast<std::size_t>(&worst - all.data())]);
      if (!running_ && !left.empty() && of_lost) result_.kept = worst_of(left);
    }
    compare_with_block();
    return std::move(result_);
  }

private:
  /// The one that does not balance, or else the one that lost most.
  static const shard_ledger& worst_of(const std::vector<shard_ledger>& some) {
    return *std::ranges::max_element(
        some, {}, [](const shard_ledger& l) { return std::pair(!l.counts.balances(), l.counts.lost); });
  }

  /// How many gradients a lost worker produced, as far as any shard knows. Steps count anew in each
  /// incarnation.
  std::uint64_t heard_of(std::size_t worker) const {
    std::uint64_t most = 0;
    for (const shard_report& s : outcome_.shards) {
      const worker_account& account = account_of(s, worker);
      const bool keeps_steps = account.last_step.value > 0; // a user's own parameter actor may not
      most = std::max(most, keeps_steps ? account.last_step.value : account.ledger.produced);
    }
    return most;
  }

  std::uint64_t sent_by(std::size_t worker) const {
    const worker_report& w = outcome_.workers[worker];
    const std::uint64_t told = w.produced - w.applied - w.not_finite;
    return outcome_.lost[worker] && told == 0 ? heard_of(worker) : told;
  }

  /// While the run goes on, the copy of a shard may be newer than that of the worker.
  std::uint64_t produced_by(std::size_t worker) const {
    const worker_report& w = outcome_.workers[worker];
    if (running_) return std::max(w.produced, heard_of(worker) + w.applied + w.not_finite);
    return outcome_.lost[worker] && w.produced == 0 ? heard_of(worker) : w.produced;
  }

  /// The part of the ledger that only workers know: the gradients they produced, applied themselves or
  /// dropped.
  gradient_ledger workers_ledger() const {
    gradient_ledger l;
    for (std::size_t r = 0; r < outcome_.workers.size(); ++r) {
      const worker_report& w = outcome_.workers[r];
      l.produced += produced_by(r);
      l.applied += w.applied;
      if (w.not_finite > 0) l.discarded["not finite"] += w.not_finite;
    }
    return l;
  }

  exchange_ends ends_of(const shard_report& s, std::size_t worker) const {
    exchange_ends e;
    e.sent = sent_by(worker);
    e.taken = account_of(s, worker).ledger.produced;
    e.both_known = !is_lost(s) && !outcome_.lost[worker];
    e.may_be_short = a_shard_is_lost_ || outcome_.lost[worker];
    return e;
  }

  gradient_ledger ledger_of(const shard_report& s) {
    gradient_ledger l = workers_ledger();
    for (std::size_t r = 0; r < outcome_.workers.size(); ++r) {
      const exchange_ends e = ends_of(s, r);
      if (!running_ && e.may_be_short && e.sent > e.taken) l.lost += e.sent - e.taken;
      if (is_lost(s)) continue;
      const worker_account& account = account_of(s, r);
      l.applied += account.ledger.applied;
      l.merged += account.ledger.merged;
      for (const auto& [reason, count] : account.ledger.discarded) l.discarded[reason] += count;
      l.lost += account.ledger.lost;
      compare(s, r, e);
    }
    return l;
  }

  void compare(const shard_report& s, std::size_t worker, const exchange_ends& e) {
    if (running_) return; // the copies are of different moments
    const worker_account& account = account_of(s, worker);
    if (e.taken > e.sent || (e.taken < e.sent && !e.may_be_short))
      contradict(fmt::format("{} took {} of {}, which {} {}", name_of(s), gradients(e.taken), name_of(worker),
                             e.both_known ? "sent" : "was heard to send", e.sent));
    if (!account.ledger.balances())
      contradict(fmt::format("{} took {} of {}, and accounts for {}", name_of(s), gradients(e.taken),
                             name_of(worker), account.ledger.accounted_for()));
    if (account.unjudged > 0 && outcome_.how == run_outcome::ending::completed && !a_shard_is_lost_ &&
        !a_worker_is_lost_)
      contradict(
          fmt::format("{} never judged {} of {}", name_of(s), gradients(account.unjudged), name_of(worker)));
  }

  /// The block counts the updates of all workers together.
  void compare_with_block() {
    if (!written_ || running_) return;
    std::uint64_t told = 0;
    for (const worker_report& w : outcome_.workers) told += w.applied;
    gradient_ledger& l = result_.ledger;
    l.applied = l.applied - told + *written_; // the block's own count takes the place of the workers'
    if (*written_ > told && a_worker_is_lost_)
      l.produced += *written_ - told;
    else if (*written_ != told)
      contradict(fmt::format("the shared block counts {} updates, and its workers made {}", *written_, told));
  }

  void contradict(std::string line) { result_.contradictions.push_back(std::move(line)); }

  const run_outcome& outcome_;
  std::optional<std::uint64_t> written_;
  bool running_;
  bool a_shard_is_lost_;
  bool a_worker_is_lost_;
  audited_ledger result_;
};

} // namespace

bool is_lost(const shard_report& s) { return s.workers.empty() && !s.values; }

audited_ledger audit(const run_outcome& outcome, std::optional<std::uint64_t> written) {
  return auditor(outcome, written).result();
}

} // namespace mailgrad

#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>

// What the papers, and queueing theory, say each policy does to staleness and to time, and how it decides.

namespace mailgrad {
namespace {

/// The server loop that policy.hpp shows, on a virtual clock. Workers only take time for their gradients;
/// there are no messages and no weights. The numbers that it counts are known in closed form.
class simulated_workers {
public:
  /// `seconds` are those that each worker takes for a gradient; if it is empty, all take exponential times of
  /// mean 1.
  simulated_workers(const std::string& policy, std::uint32_t workers, std::vector<double> seconds = {},
                    std::uint64_t seed = 1)
      : policy_(make_policy(policy, workers)), seconds_(std::move(seconds)), random_(seed),
        workers_(workers) {
    for (std::uint32_t r = 0; r < workers; ++r) policy_->join({r});
    for (std::uint32_t r = 0; r < workers; ++r) start(r);
  }
  const policy& asked() const { return *policy_; }

  /// Runs until `more` further gradients have come.
  void run(std::uint64_t more) {
    while (more-- > 0) take(next());
  }
  /// Runs until the weights have this version.
  void run_to_version(std::uint64_t version) {
    while (version_ < version) take(next());
  }

  double now = 0; ///< seconds
  std::uint64_t updates = 0, discarded = 0;
  std::uint64_t gaps_applied = 0, gaps_discarded = 0; ///< sums of the gaps at application and at arrival
  std::uint64_t largest_gap = 0;
  std::uint64_t largest_lead = 0; ///< steps that a worker was ahead of the slowest when it began one
  std::vector<std::uint64_t> versions_applied; ///< the versions that the applied gradients were computed from

  /// The sum over all computing workers of the versions made since they read the weights.
  std::uint64_t ages_in_flight() const {
    std::uint64_t sum = 0;
    for (const worker& w : workers_)
      if (!w.waits) sum += version_ - w.version_read;
    return sum;
  }

private:
  struct worker {
    std::uint64_t steps = 0;
    std::uint64_t version_read = 0;
    bool waits = true;
  };
  struct event {
    double at;
    std::uint64_t number; ///< orders events of the same time
    std::uint32_t worker;
    bool operator<(const event& other) const {
      return std::pair(at, number) > std::pair(other.at, other.number);
    }
  };

  void start(std::uint32_t r) {
    worker& w = workers_[r];
    std::uint64_t slowest = w.steps;
    for (const worker& other : workers_) slowest = std::min(slowest, other.steps);
    largest_lead = std::max(largest_lead, w.steps - slowest);
    if (policy_->renews({r})) w.version_read = version_;
    w.waits = false;
    const double takes = seconds_.empty() ? std::exponential_distribution<double>(1)(random_) : seconds_[r];
    events_.push({now + takes, number_++, r});
  }

  event next() {
    const event e = events_.top();
    events_.pop();
    now = e.at;
    return e;
  }

  void take(const event& e) {
    worker& w = workers_[e.worker];
    w.waits = true;
    const decision d = policy_->judge(
        {{e.worker}, ++w.steps, w.version_read, version_, static_cast<std::int64_t>(now * 1e9) + 1});
    if (d.what == verdict::discard) {
      ++discarded;
      gaps_discarded += version_ - w.version_read;
    } else if (d.what == verdict::defer) {
      deferred_.push_back(w.version_read);
    } else {
      batch_.push_back(w.version_read);
      if (d.what == verdict::apply || policy_->batch_complete()) apply(d.what == verdict::merge);
    }
    for (std::uint32_t r = 0; r < workers_.size(); ++r)
      if (workers_[r].waits && policy_->may_start({r})) start(r);
  }

  void apply(bool batch) {
    const std::size_t first = policy_->takes_first();
    const std::size_t taken = first == 0 ? batch_.size() : std::min(first, batch_.size());
    const auto end = batch_.begin() + static_cast<std::ptrdiff_t>(taken);
    for (auto read = batch_.begin(); read != end; ++read) {
      gaps_applied += version_ - *read;
      largest_gap = std::max(largest_gap, version_ - *read);
      versions_applied.push_back(*read);
    }
    batch_.erase(batch_.begin(), end);
    ++version_;
    ++updates;
    if (!batch) return;
    policy_->batch_applied();
    if (policy_->rounds_over() == rounds_) return;
    rounds_ = policy_->rounds_over();
    batch_.swap(deferred_);
  }

  std::unique_ptr<policy> policy_;
  std::vector<double> seconds_;
  std::mt19937_64 random_;
  std::vector<worker> workers_;
  std::priority_queue<event> events_;
  std::uint64_t number_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t rounds_ = 0;
  std::vector<std::uint64_t> batch_;    ///< the versions that its gradients were computed from
  std::vector<std::uint64_t> deferred_; ///< those of the next round
};

simulated_workers run_of(const std::string& policy, std::uint32_t workers, std::uint64_t gradients,
                         std::vector<double> seconds = {}) {
  simulated_workers s(policy, workers, std::move(seconds));
  s.run(gradients);
  return s;
}

simulated_workers run_to_version(std::uint64_t version, const std::string& policy,
                                 const std::vector<double>& seconds) {
  simulated_workers s(policy, static_cast<std::uint32_t>(seconds.size()), seconds);
  s.run_to_version(version);
  return s;
}

// Every version that is made passes each of the others by: whatever the times are, gaps of what was taken, of
// what was dropped and of what is under way sum up to (M - 1) U. A dropped gradient makes no version, but its
// worker has seen all those before it: its age counts as dropped.
TEST(PolicyLaws, ConserveStalenessExactly) {
  for (const char* text : {"async", "ringmaster:1", "ringmaster:3", "ringmaster:1000"})
    for (const std::uint32_t workers : {1U, 2U, 5U, 16U}) {
      const simulated_workers s = run_of(text, workers, 5000);
      EXPECT_EQ(s.gaps_applied + s.gaps_discarded + s.ages_in_flight(), (workers - 1) * s.updates) << text;
    }
}

TEST(PolicyLaws, PoliciesSayWhetherTheyAreAlwaysFresh) {
  for (const char* text : {"async", "sync", "ssp:0", "dssp:0,2", "backup:1", "k-async:3", "k-async:4",
                           "k-batch-async:4", "k-batch-sync:4", "rennala:4", "ringmaster:1", "ringmaster:2",
                           "queue:2,3", "malenia:4", "ringleader"}) {
    const simulated_workers s = run_of(text, 4, 5000);
    EXPECT_EQ(s.asked().always_fresh(), s.gaps_applied == 0) << text;
  }
}

// T(B) of Tyurin & Richtarik for times 1, 2, 3, 4: ten fresh gradients take 6 seconds. For Malenia, the least
// t with n^2 / (sum of 1 / floor(t / T_i)) of S or more.
TEST(PolicyLaws, RennalaAndMaleniaFillTheirBatchesAsFastAsTheFixedModelAllows) {
  const std::pair<const char*, double> all[] = {{"rennala:10", 6}, {"malenia:1", 4}, {"malenia:5", 4},
                                                {"malenia:6", 6},  {"malenia:8", 6}, {"malenia:9", 8}};
  for (const auto& [text, seconds] : all)
    EXPECT_DOUBLE_EQ(run_to_version(1, text, {1, 2, 3, 4}).now, seconds) << text;
}

TEST(PolicyLaws, RingleaderMakesAnUpdateAWorkerInTwiceTheTimeOfTheSlowest) {
  const std::vector<std::vector<double>> speeds{{1, 1, 1}, {1, 2, 4}, {1, 3, 3.5, 10}, {2, 0.1, 0.1, 0.1}};
  for (const std::vector<double>& seconds : speeds) {
    const simulated_workers s = run_to_version(200 * seconds.size(), "ringleader", seconds);
    EXPECT_LE(s.now / 200, 2 * std::ranges::max(seconds) + 1e-9);
    EXPECT_EQ(s.asked().rounds_over(), 200U);
    EXPECT_EQ(s.discarded, 0U);
  }
}

TEST(PolicyLaws, RingleaderTakesNoGradientOfMoreThanTwiceTheOtherWorkers) {
  for (const std::uint32_t workers : {1U, 2U, 3U, 8U}) {
    std::uint64_t largest = 0;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      simulated_workers s("ringleader", workers, {}, seed);
      s.run(4000);
      largest = std::max(largest, s.largest_gap);
    }
    EXPECT_EQ(largest, 2 * workers - 2) << workers;
  }
}

TEST(PolicyLaws, RingmasterWithoutEndIsAsyncAndWithOneTakesOnlyTheFresh) {
  EXPECT_EQ(run_of("async", 6, 5000).versions_applied,
            run_of("ringmaster:18446744073709551615", 6, 5000).versions_applied);
  const simulated_workers strict = run_of("ringmaster:1", 6, 5000);
  EXPECT_EQ(strict.largest_gap, 0U);
  EXPECT_GT(strict.discarded, 0U);
}

TEST(PolicyLaws, NoBackupIsSyncAndAllWorkersOfKAsyncToo) {
  const simulated_workers a = run_of("sync", 4, 4000);
  for (const char* text : {"backup:0", "k-async:4"}) {
    const simulated_workers b = run_of(text, 4, 4000);
    EXPECT_EQ(a.versions_applied, b.versions_applied) << text;
    EXPECT_DOUBLE_EQ(a.now, b.now) << text;
  }
}

TEST(PolicyLaws, DynamicBoundStaysWithinItsRangeAndLetsTheFastWaitLess) {
  const auto throughput = [](const std::string& text, std::uint64_t most) {
    const simulated_workers s = run_of(text, 4, 400, {1, 1, 1, 3.5});
    EXPECT_LE(s.largest_lead, most) << text;
    return 400 / s.now;
  };
  EXPECT_GT(throughput("dssp:1,6", 6), throughput("ssp:1", 1));
  EXPECT_DOUBLE_EQ(throughput("dssp:2,2", 2), throughput("ssp:2", 2));
}

// With memoryless workers staleness is geometric, and the mean factor has a closed form.
TEST(StepScale, HasTheMeanThatMemorylessWorkersGiveIt) {
  for (const std::uint32_t workers : {4U, 8U, 16U}) {
    const simulated_workers s = run_of("async", workers, 200'000);
    const auto mean = [&](const std::string& text) {
      const auto cure = make_cure(text, {workers});
      double sum = 0;
      for (std::size_t i = 0; i < s.versions_applied.size(); ++i)
        sum += cure->factor(i - s.versions_applied[i]);
      return sum / static_cast<double>(s.versions_applied.size());
    };
    const double m = workers;
    EXPECT_NEAR(mean("dynsgd"), std::log(m) / (m - 1), 0.003);
    EXPECT_NEAR(mean("inverse"), (1 + std::log(m)) / m, 0.003);
    if (workers == 8) {
      EXPECT_NEAR(mean("polynomial:0.5"), 0.4882, 0.003);
      EXPECT_NEAR(mean("mishchenko"), 0.8747, 0.003);
    }
  }
}

// Every policy against the loop of its paper, gradient by gradient: what becomes of each, which version it
// meets, and who starts when. Workers are uneven, and two of them leave. The loops call nothing of the code
// under test.

/// A worker as a server sees it.
struct worker_state {
  bool present = true;
  bool computes = true;
  std::uint64_t steps = 0; ///< gradients that it has sent and that were not refused
  std::uint64_t version_read = 0;
};

/// What a server knows, and what all its policies share.
struct server {
  std::uint64_t version = 0;
  std::vector<worker_state> workers;
  std::vector<std::size_t> batch; ///< who sent the gradients in it

  std::size_t present() const {
    return static_cast<std::size_t>(std::ranges::count(workers, true, &worker_state::present));
  }
  bool in_batch(std::size_t w) const { return std::ranges::find(batch, w) != batch.end(); }
  /// Workers of whom a batch has a gradient or may still get one.
  std::size_t possible() const {
    std::size_t n = 0;
    for (std::size_t w = 0; w < workers.size(); ++w) n += workers[w].present || in_batch(w) ? 1 : 0;
    return n;
  }
  std::uint64_t slowest() const {
    std::uint64_t least = ~std::uint64_t{0};
    for (const worker_state& w : workers)
      if (w.present) least = std::min(least, w.steps);
    return least;
  }
};

/// What a paper says: whether a gradient of a delay is taken, after how many an update is made, who may
/// start.
struct rule {
  const char* text;
  std::function<bool(std::uint64_t delay)> takes = [](std::uint64_t) { return true; };
  std::function<bool(const server&)> complete{}; ///< empty: each gradient is an update
  std::function<bool(const server&, std::size_t worker)> starts = [](const server&, std::size_t) {
    return true;
  };
  std::size_t of_batch = 0; ///< how many of the first in the batch an update takes; 0: all
};

bool is_fresh(std::uint64_t delay) { return delay == 0; }

bool has_no_gradient_waiting(const server& s, std::size_t w) { return !s.in_batch(w); }

std::function<bool(const server&)> all_but(std::size_t missing) {
  return [=](const server& s) { return s.batch.size() + missing >= std::max(s.possible(), missing + 1); };
}

std::function<bool(const server&)> distinct(std::size_t k) {
  return [=](const server& s) { return s.batch.size() >= std::min(k, s.possible()); };
}

std::function<bool(const server&)> any(std::size_t k) {
  return [=](const server& s) { return s.batch.size() == k || s.present() == 0; };
}

std::function<bool(const server&)> more_than(std::size_t q) {
  return [=](const server& s) { return s.batch.size() > q || s.present() == 0; };
}

/// Malenia SGD: some gradient of every worker that is there, and a harmonic mean of S / n.
std::function<bool(const server&)> harmonic(double s) {
  return [=](const server& at) {
    double n = 0, sum = 0;
    for (std::size_t w = 0; w < at.workers.size(); ++w) {
      const auto b = static_cast<double>(std::ranges::count(at.batch, w));
      if (b == 0 && at.workers[w].present) return false;
      n += b > 0 ? 1 : 0;
      sum += b > 0 ? 1 / b : 0;
    }
    return at.present() == 0 || n / sum > s / n - 1e-9;
  };
}

std::function<bool(const server&, std::size_t)> at_most_ahead(std::uint64_t bound) {
  return [=](const server& s, std::size_t w) { return s.workers[w].steps - s.slowest() <= bound; };
}

const auto everything = [](std::uint64_t) { return true; };
const auto everybody = [](const server&, std::size_t) { return true; };

std::vector<rule> every_policy_rule() {
  return {
      {"async"},
      {"sync", everything, all_but(0), has_no_gradient_waiting},
      {"backup:1", is_fresh, all_but(1), has_no_gradient_waiting},
      {"backup:2", is_fresh, all_but(2), has_no_gradient_waiting},
      {"k-async:1", everything, distinct(1), has_no_gradient_waiting},
      {"k-async:3", everything, distinct(3), has_no_gradient_waiting},
      {"k-async:5", everything, distinct(5), has_no_gradient_waiting},
      {"k-batch-async:1", everything, any(1), everybody},
      {"k-batch-async:4", everything, any(4), everybody},
      {"quorum:3", everything, distinct(3), has_no_gradient_waiting},
      {"quorum:5", everything, distinct(5), has_no_gradient_waiting},
      {"queue:1,5", everything, more_than(5), everybody, 1},
      {"queue:3,4", everything, more_than(4), everybody, 3},
      {"k-batch-sync:3", is_fresh, any(3), everybody},
      {"rennala:6", is_fresh, any(6), everybody},
      {"malenia:1", is_fresh, harmonic(1), everybody},
      {"malenia:12", is_fresh, harmonic(12), everybody},
      {"ringmaster:1", [](std::uint64_t delay) { return delay < 1; }},
      {"ringmaster:3", [](std::uint64_t delay) { return delay < 3; }},
      {"ssp:0", everything, nullptr, at_most_ahead(0)},
      {"ssp:1", everything, nullptr, at_most_ahead(1)},
      {"ssp:3", everything, nullptr, at_most_ahead(3)},
      // Equal bounds leave nothing to predict.
      {"dssp:2,2", everything, nullptr, at_most_ahead(2)},
  };
}

/// The server by the paper, and the policy beside it that is asked the same.
class both {
public:
  both(const rule& r, std::uint32_t workers) : rule_(r), policy_(make_policy(r.text, workers)) {
    s_.workers.resize(workers);
    for (std::uint32_t w = 0; w < workers; ++w) policy_->join({w});
  }

  bool computes(std::size_t w) const { return s_.workers[w].present && s_.workers[w].computes; }
  bool idle() const {
    return std::ranges::none_of(s_.workers, [](const worker_state& w) { return w.present && w.computes; });
  }

  void gradient_of(std::uint32_t w, std::int64_t now) {
    worker_state& sender = s_.workers[w];
    sender.computes = false;
    const std::uint64_t delay = s_.version - sender.version_read;
    const bool taken = rule_.takes(delay);
    const verdict expected = !taken ? verdict::discard : rule_.complete ? verdict::merge : verdict::apply;
    ASSERT_EQ(policy_->judge({{w}, sender.steps + 1, sender.version_read, s_.version, now}).what, expected)
        << "worker " << w << ", delay " << delay;
    ASSERT_EQ(taken, !policy_->most_stale() || delay <= *policy_->most_stale()) << "as predicted";
    if (taken) ++sender.steps;
    if (taken && rule_.complete) s_.batch.push_back(w);
    if (taken && !rule_.complete) ++s_.version;
    end_of_event();
  }

  void leaves(std::uint32_t w) {
    s_.workers[w].present = false;
    policy_->leave({w});
    end_of_event();
  }

  std::uint64_t version() const { return s_.version; }

private:
  void end_of_event() {
    for (bool complete = true; complete;) {
      complete = rule_.complete && !s_.batch.empty() && rule_.complete(s_);
      ASSERT_EQ(policy_->batch_complete(), complete) << s_.batch.size() << " in the batch";
      if (!complete) break;
      const std::size_t taken = rule_.of_batch == 0 ? s_.batch.size() : rule_.of_batch;
      s_.batch.erase(s_.batch.begin(),
                     s_.batch.begin() + static_cast<std::ptrdiff_t>(std::min(taken, s_.batch.size())));
      ++s_.version;
      policy_->batch_applied();
    }
    for (std::uint32_t w = 0; w < s_.workers.size(); ++w) {
      worker_state& x = s_.workers[w];
      if (!x.present || x.computes) continue;
      const bool starts = rule_.starts(s_, w);
      ASSERT_EQ(policy_->may_start({w}), starts) << "worker " << w;
      if (!starts) continue;
      x.computes = true;
      x.version_read = s_.version;
    }
  }

  const rule& rule_;
  std::unique_ptr<policy> policy_;
  server s_;
};

/// The worker whose turn it is: 0 comes far more often than 4.
std::uint32_t drawn(std::uint64_t& seed) {
  constexpr std::uint32_t often[] = {0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4};
  seed = seed * 6364136223846793005U + 1442695040888963407U;
  return often[(seed >> 33) % std::size(often)];
}

TEST(PolicyOracles, EveryPolicyDecidesAsItsPaperSays) {
  for (const rule& r : every_policy_rule()) {
    SCOPED_TRACE(r.text);
    both server_and_policy(r, 5);
    std::uint64_t seed = 3;
    for (std::int64_t event = 1; event <= 1200; ++event) {
      SCOPED_TRACE("event " + std::to_string(event));
      std::uint32_t w = drawn(seed);
      for (int tries = 0; tries < 100 && !server_and_policy.computes(w); ++tries) w = drawn(seed);
      if (event == 360) server_and_policy.leaves(4);
      if (event == 680) server_and_policy.leaves(0);
      if (server_and_policy.computes(w)) server_and_policy.gradient_of(w, event * 1000);
      if (HasFatalFailure()) return;
      ASSERT_FALSE(server_and_policy.idle()) << "nobody computes, so nothing would ever happen";
    }
    for (const std::uint32_t w : {2U, 1U, 3U}) server_and_policy.leaves(w); // what lies in a batch is applied
    if (HasFatalFailure()) return;
    EXPECT_GT(server_and_policy.version(), 30U);
  }
}

// Shards may judge by themselves if every gradient is applied, or waits for one of each worker.
TEST(PolicyOracles, EveryPolicySaysWhatItsShardsMustKnow) {
  for (const rule& r : every_policy_rule()) {
    const auto p = make_policy(r.text, 5);
    const bool drops = !r.takes(1000);
    const bool waits_for_all = r.text == std::string_view("sync");
    EXPECT_EQ(p->takes_first(), r.of_batch) << r.text;
    EXPECT_EQ(p->makes_batches(), static_cast<bool>(r.complete)) << r.text;
    EXPECT_EQ(p->shards_agree(), drops || (r.complete && !waits_for_all)) << r.text;
    if (drops == static_cast<bool>(r.complete)) {
      EXPECT_EQ(p->always_fresh(), drops) << r.text;
    }
  }
}

} // namespace
} // namespace mailgrad

#include <mailgrad/files/archive.hpp>
#include <mailgrad/optim/policies/attendance.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>
#include <mailgrad/optim/policies/ringleader.hpp>
#include <mailgrad/optim/policies/sync.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>

// What policies do in cases that policy_laws_test.cpp does not come to.

namespace mailgrad {
namespace {

/// The policy of that text, in which workers 0, 1, ... take part.
std::unique_ptr<policy> joined(const std::string& text, std::uint32_t workers) {
  auto p = make_policy(text, workers);
  for (std::uint32_t r = 0; r < workers; ++r) p->join({r});
  return p;
}

/// A gradient of that step of a worker.
gradient_stamp from(std::uint32_t worker, std::uint64_t step = 1) { return {{worker}, step, 0, 0}; }

/// A gradient computed from one version when the shard is at another.
gradient_stamp between(std::uint32_t worker, std::uint64_t read, std::uint64_t now) {
  return {{worker}, now + 1, read, now};
}

/// A gradient that comes so many nanoseconds after the start.
gradient_stamp at_moment(std::uint32_t worker, std::int64_t ns) { return {{worker}, 1, 0, 0, ns}; }

/// What a barrier waits for, found out from all workers anew at each step.
struct roll {
  std::vector<bool> present, arrived;
  std::size_t expected() const {
    std::size_t all = 0;
    for (std::size_t r = 0; r < present.size(); ++r) all += present[r] || arrived[r] ? 1 : 0;
    return all;
  }
};

TEST(Attendance, CountsAsALookAtAllWorkersWould) {
  constexpr std::uint32_t workers = 5;
  attendance a;
  roll all{std::vector<bool>(workers), std::vector<bool>(workers)};
  std::vector<bool> joins(workers);
  std::mt19937_64 random(2);
  for (int i = 0; i < 5'000; ++i) {
    const auto r = static_cast<std::uint32_t>(random() % workers);
    const auto what = random() % 6;
    if (what == 0) {
      a.leave({r});
      all.present[r] = joins[r] = false;
    } else if (what == 1) {
      a.join({r});
      all.present[r] = true;
    } else if (what == 2) {
      (a.arrived() > 0 ? joins : all.present)[r] = true;
      a.join_next_batch({r});
    } else if (what == 3) {
      a.batch_applied();
      for (std::uint32_t w = 0; w < workers; ++w) {
        all.present[w] = all.present[w] || joins[w];
        all.arrived[w] = joins[w] = false;
      }
    } else if (a.awaited({r})) {
      a.arrive({r});
      all.arrived[r] = true;
    }
    for (std::uint32_t w = 0; w < workers; ++w)
      ASSERT_EQ(a.awaited({w}), all.present[w] && !all.arrived[w]) << "worker " << w << " at " << i;
    ASSERT_EQ(a.expected(), all.expected()) << i;
    ASSERT_EQ(a.arrived(), static_cast<std::size_t>(std::ranges::count(all.arrived, true))) << i;
  }
}

TEST(SyncPolicy, SaysWhomItAwaitsFirst) {
  const auto p = joined("sync", 3);
  EXPECT_EQ(p->first_awaited(), rank{0});
  p->judge(from(1));
  EXPECT_EQ(p->first_awaited(), rank{0});
  p->judge(from(0));
  EXPECT_EQ(p->first_awaited(), rank{2});
  p->join({4});
  p->leave({2});
  EXPECT_EQ(p->first_awaited(), rank{4});
  p->judge(from(4));
  EXPECT_EQ(p->first_awaited(), std::nullopt);
  p->batch_applied();
  EXPECT_EQ(p->first_awaited(), rank{0});
  EXPECT_EQ(joined("backup:1", 3)->first_awaited(), std::nullopt) << "any of them may be too late";
}

TEST(SyncPolicy, DropsASecondGradientOfAWorkerInOneRound) {
  const auto p = joined("sync", 2);
  p->judge(from(0, 1));
  const decision d = p->judge(from(0, 2));
  EXPECT_EQ(d.what, verdict::discard);
  EXPECT_FALSE(d.reason.empty());
  EXPECT_FALSE(p->batch_complete());
}

TEST(SyncPolicy, DoesNotWaitForAWorkerThatLeft) {
  const auto p = joined("sync", 2);
  p->judge(from(0));
  p->leave({1});
  EXPECT_TRUE(p->batch_complete());
  p->batch_applied();
  EXPECT_TRUE(p->may_start({0}));
  EXPECT_FALSE(p->may_start({1}));
  EXPECT_EQ(p->judge(from(1)).what, verdict::discard);
  EXPECT_FALSE(p->batch_complete());
  p->judge(from(0, 2));
  EXPECT_TRUE(p->batch_complete());
}

TEST(Policies, SayHowStaleAGradientMayBe) {
  const auto most = [](const char* text) { return make_policy(text, 4)->most_stale(); };
  for (const char* text : {"backup:1", "k-batch-sync:3", "rennala:3", "malenia:3", "ringmaster:1"})
    EXPECT_EQ(most(text), 0U);
  EXPECT_EQ(most("ringmaster:4"), 3U);
  EXPECT_TRUE(policy_spec("ringmaster:4", 4).traits().has_most_stale);
  for (const char* text : {"async", "sync", "ssp:2", "dssp:1,3", "k-async:2", "k-batch-async:2", "quorum:2",
                           "queue:1,2", "ringleader"}) {
    EXPECT_FALSE(most(text)) << text;
    EXPECT_FALSE(policy_spec(text, 4).traits().has_most_stale) << text;
  }
}

TEST(Policies, SayWhyTheyDropAGradient) {
  for (const char* text : {"backup:1", "malenia:1"})
    EXPECT_EQ(joined(text, 3)->judge(between(1, 0, 1)).reason, "late") << text;
  for (const char* text : {"malenia:1", "ringleader"}) {
    const auto p = joined(text, 3);
    p->leave({2});
    EXPECT_EQ(p->judge(from(2)).reason, "not awaited") << text;
  }
}

TEST(KAsyncPolicy, TakesStaleGradientsOfKWorkersAndHoldsThem) {
  const auto p = joined("k-async:2", 3);
  EXPECT_EQ(p->judge(between(0, 0, 5)).what, verdict::merge);
  EXPECT_FALSE(p->may_start({0}));
  EXPECT_EQ(p->judge(between(0, 0, 5)).what, verdict::discard) << "K different workers";
  EXPECT_FALSE(p->batch_complete());
  EXPECT_EQ(p->judge(between(1, 3, 5)).what, verdict::merge);
  EXPECT_TRUE(p->batch_complete());
}

// 9 / (1/3 + 1/3 + 1/3) is 9, whatever rounding makes of it.
TEST(MaleniaPolicy, AwaitsAtOnceWhoJoinsAmidABatch) {
  const auto p = joined("malenia:1", 3);
  for (std::uint32_t i = 0; i < 9; ++i) p->judge(between(i % 2, 0, 0));
  p->join({3});
  p->leave({2});
  EXPECT_FALSE(p->batch_complete());
  p->leave({3});
  EXPECT_TRUE(p->batch_complete());
}

TEST(MaleniaPolicy, IsCompleteWhenTheMeanIsMetExactly) {
  for (const std::uint32_t each : {3U, 7U, 49U, 1000U}) {
    const auto p = joined("malenia:" + std::to_string(3 * each), 3);
    for (std::uint32_t i = 1; i < 3 * each; ++i) p->judge(between(i % 3, 0, 0));
    EXPECT_FALSE(p->batch_complete()) << each;
    p->judge(between(0, 0, 0));
    EXPECT_TRUE(p->batch_complete()) << each;
  }
}

TEST(QuorumPolicy, WaitsForAsLongAsItsGraceWhenTheQuorumIsThere) {
  const auto p = joined("quorum:2,grace=0.5", 4);
  p->judge(at_moment(3, 100));
  EXPECT_EQ(p->closes_at(), std::nullopt);
  EXPECT_FALSE(p->may_start({3})) << "it waits for the update";
  p->judge(at_moment(1, 200));
  EXPECT_EQ(p->closes_at(), 500'000'200);
  p->judge(at_moment(0, 300));
  EXPECT_EQ(p->closes_at(), 500'000'200) << "who comes meanwhile makes it no longer";
  EXPECT_FALSE(p->batch_complete());
  p->close();
  EXPECT_TRUE(p->batch_complete());
  EXPECT_EQ(p->closes_at(), std::nullopt);
  p->batch_applied();
  EXPECT_FALSE(p->batch_complete());
  for (std::uint32_t r = 0; r < 4; ++r) EXPECT_TRUE(p->may_start({r}));
  p->close();
  p->judge(at_moment(2, 600'000'000));
  EXPECT_FALSE(p->batch_complete()) << "a window that is not open cannot be closed";
}

TEST(QuorumPolicy, WaitsNoLongerWhenEverybodyIsThereOrWithoutGrace) {
  for (const auto& [text, workers] :
       {std::pair{"quorum:1,grace=9", 2U}, {"quorum:2", 3U}, {"quorum:2,grace=0", 3U}}) {
    const auto p = joined(text, workers);
    p->judge(at_moment(0, 1));
    EXPECT_FALSE(p->batch_complete()) << text;
    p->judge(at_moment(1, 2));
    EXPECT_TRUE(p->batch_complete()) << text;
    EXPECT_TRUE(workers == 2 || !p->closes_at()) << text;
  }
}

TEST(QuorumPolicy, MakesDoWithThoseWhoAreLeft) {
  const auto p = joined("quorum:3,grace=1", 4);
  p->judge(at_moment(0, 10));
  p->judge(at_moment(1, 20));
  p->leave({2});
  EXPECT_EQ(p->closes_at(), std::nullopt) << "three are left, and one of them may still come";
  p->leave({3});
  EXPECT_TRUE(p->batch_complete()) << "nobody is left to wait for";
}

TEST(QuorumPolicy, OpensItsWindowWhenWhoIsLeftIsEnough) {
  const auto p = joined("quorum:3,grace=1", 5);
  p->judge(at_moment(0, 10));
  p->judge(at_moment(1, 20));
  for (const std::uint32_t gone : {2U, 3U, 0U}) p->leave({gone});
  EXPECT_EQ(p->closes_at(), std::nullopt) << "one is left, and the two gradients stay";
  p->judge(at_moment(4, 30));
  EXPECT_TRUE(p->batch_complete());
}

TEST(QuorumPolicy, EndsAWindowThatACheckpointKept) {
  const auto p = joined("quorum:1,grace=5", 3);
  p->judge(at_moment(2, 100));
  saved_fields written;
  written.field("policy", *p);
  saved_fields read(written.text(), written.arrays());
  const auto other = joined("quorum:1,grace=5", 3);
  read.field("policy", *other);
  EXPECT_EQ(other->closes_at(), 0) << "its moment was of another clock";
  EXPECT_FALSE(other->may_start({2}));
  other->close();
  EXPECT_TRUE(other->batch_complete());
}

/// The server of Algorithm 1 as a plain loop over workers: clocks, times of the last two gradients, steps
/// still granted.
class dssp_server {
public:
  dssp_server(std::uint32_t workers, std::uint64_t lo, std::uint64_t hi)
      : lo_(lo), hi_(hi), workers_(workers) {}

  void push(std::uint32_t p, std::int64_t now) {
    worker& w = workers_[p];
    ++w.clock;
    w.before = w.last;
    w.last = now;
    if (w.granted > 0) {
      w.runs = --w.granted > 0;
      return;
    }
    w.runs = false;
    if (w.clock <= slowest().clock + lo_) return; // it is within the lower bound
    for (const worker& other : workers_)
      if (other.clock > w.clock) return; // only the fastest is granted more
    w.granted = extra(w);
    w.runs = w.granted > 0;
  }

  bool may_start(std::uint32_t p) const {
    return workers_[p].runs || workers_[p].clock <= slowest().clock + lo_;
  }

private:
  struct worker {
    std::uint64_t clock = 0;
    std::int64_t before = 0, last = 0; ///< when its last two gradients came; 0: not yet
    std::uint64_t granted = 0;
    bool runs = false; ///< it has begun, or may begin, a step that was granted
  };

  const worker& slowest() const { return *std::ranges::min_element(workers_, {}, &worker::clock); }

  /// Algorithm 2: of all coming gradients of both, the pair that is nearest in time.
  std::uint64_t extra(const worker& fast) const {
    const worker& slow = slowest();
    if (fast.before == 0 || slow.before == 0) return 0;
    std::uint64_t best = 0;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::uint64_t r = 0; r <= hi_ - lo_; ++r)
      for (std::int64_t k = 1; k <= 1000; ++k) {
        const std::int64_t of_fast = fast.last + static_cast<std::int64_t>(r) * (fast.last - fast.before);
        const std::int64_t of_slow = slow.last + k * (slow.last - slow.before);
        if (std::abs(of_slow - of_fast) >= least) continue;
        least = std::abs(of_slow - of_fast);
        best = r;
      }
    return best;
  }

  std::uint64_t lo_, hi_;
  std::vector<worker> workers_;
};

TEST(DsspPolicy, GrantsWhatTheServerLoopOfItsPaperGrants) {
  std::uint64_t granted = 0, waits = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    constexpr std::uint32_t workers = 4;
    constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
    const auto p = joined("dssp:1,5", workers);
    dssp_server paper(workers, 1, 5);
    std::mt19937_64 random(seed);
    std::array<std::int64_t, workers> due{11, 12, 13, 14};
    for (int event = 0; event < 300; ++event) {
      const auto next = static_cast<std::uint32_t>(std::ranges::min_element(due) - due.begin());
      const std::int64_t now = due[next];
      p->judge({{next}, 1, 0, 0, now});
      paper.push(next, now);
      for (std::uint32_t r = 0; r < workers; ++r) {
        ASSERT_EQ(p->may_start({r}), paper.may_start(r))
            << "seed " << seed << ", gradient " << event << ", worker " << r;
        const bool idle = r == next || due[r] == never;
        if (!idle) continue;
        const std::int64_t takes = 10 * (r + 1) + static_cast<std::int64_t>(random() % 7);
        due[r] = paper.may_start(r) ? now + takes : never;
        ++(paper.may_start(r) ? granted : waits);
      }
    }
  }
  EXPECT_GT(granted, 1000U);
  EXPECT_GT(waits, 1000U);
}

// Worker 2 comes every 3.5 s. Worker 1 would meet one of its gradients after four steps more, but worker 0 is
// ahead.
TEST(DsspPolicy, GrantsNothingToAWorkerThatIsNotTheFastest) {
  const auto p = joined("dssp:0,4", 3);
  const std::pair<std::uint32_t, std::int64_t> come[] = {{2, 35}, {0, 40}, {1, 45}, {0, 50}, {1, 55}, {0, 60},
                                                         {1, 65}, {2, 70}, {0, 72}, {0, 80}, {1, 81}};
  for (const auto& [worker, tenths] : come) p->judge(at_moment(worker, tenths * 100'000'000));
  EXPECT_TRUE(p->may_start({0})) << "the fastest has steps left";
  EXPECT_FALSE(p->may_start({1}));
}

TEST(DsspPolicy, GrantsNothingWhileItKnowsNoRhythm) {
  const auto p = joined("dssp:0,1000000000000", 2);
  p->judge(at_moment(0, 1'000'000'000));
  EXPECT_FALSE(p->may_start({0}));
  p->judge(at_moment(1, 2'000'000'000));
  EXPECT_TRUE(p->may_start({0}));
}

class Ringleader : public ::testing::Test {
protected:
  explicit Ringleader(std::uint32_t workers = 3) {
    for (std::uint32_t r = 0; r < workers; ++r) policy_.join({r});
  }
  verdict push(std::uint32_t worker) { return policy_.judge({{worker}, 1, 0, 0}).what; }
  /// What an update does to the policy, if one is due.
  bool updates() {
    if (!policy_.batch_complete()) return false;
    policy_.batch_applied();
    return true;
  }
  /// Brings the round to the point at which worker 2 alone is served.
  void collect() {
    for (const std::uint32_t worker : {0U, 1U, 2U}) push(worker);
    EXPECT_TRUE(updates());
  }

  ringleader_policy policy_;
};

TEST_F(Ringleader, AwaitsNobodyWhoHasLeft) {
  push(0);
  push(1);
  policy_.leave({2});
  EXPECT_FALSE(updates()) << "no worker is there to be served with it";
  EXPECT_EQ(push(0), verdict::merge);
  EXPECT_TRUE(updates());
  policy_.leave({1});
  EXPECT_FALSE(updates());
  EXPECT_EQ(policy_.rounds_over(), 1U) << "it was the last to be served";
}

TEST_F(Ringleader, CountsANewcomerAtOnceOrFromTheNextRoundOn) {
  push(0);
  push(1);
  policy_.join({3});
  EXPECT_TRUE(policy_.renews({3}));
  push(2);
  EXPECT_FALSE(updates()) << "the table has nothing of worker 3 yet";
  push(3);
  EXPECT_TRUE(updates());
  policy_.join({4});
  EXPECT_EQ(push(4), verdict::defer);
  for (const std::uint32_t worker : {0U, 1U, 2U}) {
    EXPECT_EQ(push(worker), verdict::merge);
    EXPECT_TRUE(updates());
  }
  EXPECT_EQ(policy_.rounds_over(), 1U);
}

TEST_F(Ringleader, AppliesWhatIsInNoUpdateWhenNobodyIsLeft) {
  collect();
  EXPECT_EQ(push(2), verdict::defer);
  for (const std::uint32_t worker : {0U, 1U}) policy_.leave({worker});
  EXPECT_EQ(policy_.rounds_over(), 1U);
  push(2);
  EXPECT_TRUE(updates());
  push(2);
  push(2);
  policy_.leave({2});
  while (updates()) continue;
  policy_.join({0});
  EXPECT_EQ(push(0), verdict::merge);
  EXPECT_TRUE(updates()) << "a worker that comes then begins a round";
}

TEST_F(Ringleader, AppliesTwoRoundsThatAreLeftBehind) {
  for (const std::uint32_t worker : {0U, 1U}) push(worker);
  policy_.join({3});
  for (const std::uint32_t worker : {2U, 3U}) push(worker);
  EXPECT_TRUE(updates());
  push(3);
  for (const std::uint32_t worker : {0U, 1U, 2U}) policy_.leave({worker});
  EXPECT_EQ(policy_.rounds_over(), 1U);
  policy_.leave({3});
  EXPECT_TRUE(updates());
  EXPECT_FALSE(updates());
}

TEST_F(Ringleader, GoesOnFromACheckpoint) {
  collect();
  for (const std::uint32_t worker : {0U, 1U}) push(worker), updates();
  ASSERT_EQ(policy_.rounds_over(), 1U);
  collect();
  push(2);
  push(0);
  updates();
  saved_fields written;
  written.field("policy", policy_);
  saved_fields read(written.text(), written.arrays());
  ringleader_policy other;
  for (std::uint32_t r = 0; r < 3; ++r) other.join({r});
  read.field("policy", other);
  for (ringleader_policy* p : {&policy_, &other}) {
    EXPECT_EQ(p->judge({{0}, 3, 0, 0}).what, verdict::defer);
    EXPECT_EQ(p->judge({{1}, 2, 0, 0}).what, verdict::merge);
    EXPECT_TRUE(p->batch_complete());
    p->batch_applied();
    EXPECT_EQ(p->rounds_over(), 2U);
    EXPECT_EQ(p->judge({{1}, 3, 0, 0}).what, verdict::merge);
    EXPECT_TRUE(p->batch_complete()) << "0 and 2 have sent theirs before";
  }
}

/// The paper's loop for a server that nobody joins or leaves: which table takes a gradient, whether it makes
/// an update, and whether its worker gets new weights.
class papers_loop {
public:
  explicit papers_loop(std::size_t n) : b_(n), b_plus_(n), is_in_s_(n, true) {}

  struct outcome {
    bool next_table = false, update = false;
  };
  outcome receive(std::size_t j) {
    if (collecting_) {
      ++b_[j];
      if (std::ranges::count(b_, 0) > 0) return {};
      collecting_ = false;
    } else if (is_in_s_[j]) {
      ++b_[j];
    } else {
      ++b_plus_[j];
      return {true, false};
    }
    is_in_s_[j] = false;
    if (std::ranges::count(is_in_s_, true) == 0) {
      b_ = b_plus_;
      std::ranges::fill(b_plus_, 0);
      is_in_s_.assign(b_.size(), true);
      collecting_ = true;
    }
    return {false, true};
  }

private:
  std::vector<int> b_, b_plus_;
  std::vector<bool> is_in_s_; ///< not served yet
  bool collecting_ = true;
};

TEST(RingleaderLoop, IsThatOfThePaperWhateverTheOrder) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto n = static_cast<std::uint32_t>(1 + seed % 6);
    papers_loop paper(n);
    ringleader_policy policy;
    for (std::uint32_t r = 0; r < n; ++r) policy.join({r});
    std::mt19937_64 random(seed);
    for (int event = 0; event < 300; ++event) {
      const auto j = static_cast<std::uint32_t>(random() % n * (random() % 3 > 0 ? 1 : 0));
      const papers_loop::outcome expected = paper.receive(j);
      ASSERT_EQ(policy.judge({{j}, 1, 0, 0}).what, expected.next_table ? verdict::defer : verdict::merge);
      ASSERT_EQ(policy.batch_complete(), expected.update);
      ASSERT_EQ(policy.renews({j}), expected.update);
      if (expected.update) policy.batch_applied();
      ASSERT_FALSE(policy.batch_complete());
    }
  }
}

// Policies under which a worker that waits goes on waiting until an update is made.

class HeldPolicy : public ::testing::TestWithParam<const char*> {};

/// A shard asks such a policy for no other worker before an update is made, so nothing else may let one
/// start.
TEST_P(HeldPolicy, LetsNobodyElseStartBeforeAnUpdate) {
  constexpr std::uint32_t workers = 6;
  const auto p = joined(GetParam(), workers);
  ASSERT_TRUE(p->holds_until_update());
  std::mt19937_64 random(1);
  std::uint64_t version = 0;
  int updates = 0;
  for (std::uint64_t i = 0; i < 4'000; ++i) {
    const auto worker = static_cast<std::uint32_t>(random() % workers);
    if (random() % 8 == 0) p->leave({worker});
    if (random() % 8 == 0) p->join({worker});
    std::vector<bool> may;
    for (std::uint32_t r = 0; r < workers; ++r) may.push_back(p->may_start({r}));
    const std::uint64_t read = version - std::min<std::uint64_t>(version, random() % 2);
    p->judge({{worker}, i, {read}, {version}, static_cast<std::int64_t>(i)});
    if (p->batch_complete()) {
      p->batch_applied();
      ++version, ++updates;
      continue;
    }
    for (std::uint32_t r = 0; r < workers; ++r)
      ASSERT_TRUE(r == worker || p->may_start({r}) == may[r]) << "worker " << r << " at gradient " << i;
  }
  EXPECT_GT(updates, 100);
}

/// Whatever is under way: a worker that joins with the next batch does so in the run that goes on, too.
TEST_P(HeldPolicy, GoesOnFromACheckpointAsItWas) {
  constexpr std::uint32_t workers = 6;
  auto p = joined(GetParam(), workers), q = joined(GetParam(), workers);
  std::mt19937_64 random(2);
  std::uint64_t version = 0;
  for (std::uint64_t i = 0; i < 4'000; ++i) {
    const rank worker{static_cast<std::uint32_t>(random() % workers)};
    const bool leaves = random() % 8 == 0, joins = random() % 8 == 0, closes = random() % 20 == 0;
    const gradient_stamp g{worker, i, {version}, {version}, static_cast<std::int64_t>(i)};
    for (policy* each : {p.get(), q.get()}) {
      if (leaves) each->leave(worker);
      if (joins) each->join(worker);
      if (closes && each->closes_at()) each->close();
    }
    ASSERT_EQ(p->judge(g).what, q->judge(g).what) << i;
    ASSERT_EQ(p->batch_complete(), q->batch_complete()) << i;
    if (p->batch_complete()) {
      for (policy* each : {p.get(), q.get()}) each->batch_applied();
      ++version;
    }
    for (std::uint32_t r = 0; r < workers; ++r) ASSERT_EQ(p->may_start({r}), q->may_start({r})) << i;
    if (random() % 5 != 0) continue;
    saved_fields written;
    p->keep(written);
    saved_fields read(written.text(), written.arrays());
    q = joined(GetParam(), workers);
    q->keep(read);
  }
  EXPECT_GT(version, 100U);
}

INSTANTIATE_TEST_SUITE_P(All, HeldPolicy,
                         ::testing::Values("sync", "backup:2", "k-async:3", "quorum:3,grace=0.001"));

// What a policy does with workers that join a run in progress, leave it and come back.

constexpr std::uint32_t first_workers = 3;
constexpr std::uint32_t slots = 5;

/// A shard and its workers in a few lines: a worker computes, pushes, and waits until the policy lets it
/// start.
class served {
public:
  explicit served(const std::string& text) : policy_(make_policy(text, slots)), workers_(slots) {
    for (std::uint32_t r = 0; r < first_workers; ++r) joins(r);
  }

  void joins(std::uint32_t r) {
    workers_[r] = {true, true, 0, 0};
    policy_->join({r});
    release();
  }
  void leaves(std::uint32_t r) {
    workers_[r].here = false;
    policy_->leave({r});
    if (policy_->batch_complete()) apply(verdict::merge);
    release();
  }
  bool computes(std::uint32_t r) const { return workers_[r].here && !workers_[r].waits; }
  bool is_here(std::uint32_t r) const { return workers_[r].here; }
  std::uint64_t steps(std::uint32_t r) const { return workers_[r].steps; }
  std::uint64_t version() const { return version_; }

  void pushes(std::uint32_t r) {
    worker& w = workers_[r];
    w.waits = true;
    const decision d = policy_->judge(
        {{r}, {++w.steps}, {w.version_read}, {version_}, static_cast<std::int64_t>(++events_ * 1000)});
    if (d.what == verdict::apply || (d.what == verdict::merge && policy_->batch_complete())) apply(d.what);
    release();
  }

private:
  struct worker {
    bool here = false;
    bool waits = false;
    std::uint64_t steps = 0;
    std::uint64_t version_read = 0;
  };

  void apply(verdict what) {
    ++version_;
    if (what == verdict::merge) policy_->batch_applied();
  }
  void release() {
    for (std::uint32_t r = 0; r < slots; ++r)
      if (workers_[r].here && workers_[r].waits && policy_->may_start({r})) {
        workers_[r].waits = false;
        workers_[r].version_read = version_;
      }
  }

  std::unique_ptr<policy> policy_;
  std::vector<worker> workers_;
  std::uint64_t version_ = 0;
  std::uint64_t events_ = 0;
};

class LateWorkers : public ::testing::TestWithParam<const char*> {};

/// Whoever is present goes on for ever, in whatever order workers come and go.
TEST_P(LateWorkers, NeitherWaitForEverNorHoldTheOthersForEver) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    served run(GetParam());
    std::mt19937_64 random{seed};
    for (int event = 0; event < 60; ++event) {
      const auto r = static_cast<std::uint32_t>(random() % slots);
      if (random() % 6 == 0)
        run.is_here(r) ? run.leaves(r) : run.joins(r);
      else if (run.computes(r))
        run.pushes(r);
    }
    std::vector<std::uint64_t> before;
    bool anybody = false;
    for (std::uint32_t r = 0; r < slots; ++r) anybody = anybody || run.is_here(r);
    if (!anybody) run.joins(4);
    for (std::uint32_t r = 0; r < slots; ++r) before.push_back(run.steps(r));
    const std::uint64_t version = run.version();
    for (int turns = 0; turns < 400; ++turns)
      for (std::uint32_t r = 0; r < slots; ++r)
        if (run.computes(r)) run.pushes(r);
    EXPECT_GT(run.version(), version + 50);
    for (std::uint32_t r = 0; r < slots; ++r) {
      if (!run.is_here(r)) continue;
      EXPECT_GT(run.steps(r), before[r] + 50) << "worker " << r << ", seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, LateWorkers,
                         ::testing::Values("async", "sync", "ssp:0", "ssp:2", "dssp:0,2", "backup:1",
                                           "backup:4", "k-async:2", "k-async:5", "k-batch-async:4",
                                           "k-batch-sync:4", "rennala:2", "ringmaster:2", "malenia:3",
                                           "ringleader"));

TEST(LateWithBackups, IsCountedFromTheNextBatchOnIfOneHasBegun) {
  const auto p = joined("backup:0", 2);
  p->judge(from(0));
  p->join({2});
  EXPECT_FALSE(p->may_start({2}));
  p->judge(from(1));
  EXPECT_TRUE(p->batch_complete()) << "it waits for nobody who came later";
  p->batch_applied();
  EXPECT_TRUE(p->may_start({2}));
  p->judge(from(0, 2));
  p->judge(from(1, 2));
  EXPECT_FALSE(p->batch_complete());
  p->judge(from(2));
  EXPECT_TRUE(p->batch_complete());
}

/// The clock of a newcomer is that of the slowest, so both may be as far ahead of each other as the bound
/// lets.
TEST(LateWorker, BeginsBesideTheSlowestUnderABound) {
  const auto p = joined("ssp:1", 2);
  for (std::uint64_t step = 1; step <= 7; ++step) p->judge(from(1, step));
  for (std::uint64_t step = 1; step <= 6; ++step) p->judge(from(0, step));
  p->join({2});
  EXPECT_TRUE(p->may_start({2}));
  EXPECT_TRUE(p->may_start({1}));
  p->judge(from(2, 1));
  p->judge(from(2, 2));
  EXPECT_FALSE(p->may_start({2})) << "two steps ahead of worker 0";
}

} // namespace
} // namespace mailgrad

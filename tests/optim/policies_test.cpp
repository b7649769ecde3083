#include <mailgrad/tests/optim/joined_policy.hpp>

#include <mailgrad/files/archive.hpp>
#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>
#include <mailgrad/optim/policies/sync.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::joined;

gradient_stamp from(std::uint32_t worker, std::uint64_t step = 1) { return {{worker}, step, 0, 0}; }

sync_policy sync_of(std::uint32_t workers) {
  sync_policy p;
  for (std::uint32_t r = 0; r < workers; ++r) p.join({r});
  return p;
}

TEST(AsyncPolicy, AppliesEveryGradientAndLetsEveryWorkerStart) {
  async_policy p;
  p.join({0});
  p.join({1});
  for (std::uint64_t step = 1; step < 5; ++step) {
    EXPECT_EQ(p.judge({{0}, step, 0, 100}).what, verdict::apply);
    EXPECT_TRUE(p.may_start({0}));
    EXPECT_TRUE(p.may_start({1}));
    EXPECT_FALSE(p.batch_complete());
  }
}

TEST(AsyncPolicy, GoesOnWhenAWorkerLeaves) {
  async_policy p;
  p.join({0});
  p.join({1});
  p.leave({1});
  EXPECT_FALSE(p.batch_complete());
  EXPECT_EQ(p.judge(from(0)).what, verdict::apply);
}

TEST(SyncPolicy, HoldsEveryWorkerUntilTheLastGradientIsThere) {
  sync_policy p = sync_of(3);
  EXPECT_FALSE(p.batch_complete());
  for (const std::uint32_t r : {2U, 0U}) {
    EXPECT_EQ(p.judge(from(r)).what, verdict::merge);
    EXPECT_FALSE(p.batch_complete());
    EXPECT_FALSE(p.may_start({r}));
  }
  EXPECT_TRUE(p.may_start({1}));
  EXPECT_EQ(p.judge(from(1)).what, verdict::merge);
  EXPECT_TRUE(p.batch_complete());
  p.batch_applied();
  EXPECT_FALSE(p.batch_complete());
  for (std::uint32_t r = 0; r < 3; ++r) EXPECT_TRUE(p.may_start({r}));
}

TEST(SyncPolicy, SaysWhomItAwaitsFirst) {
  sync_policy p = sync_of(3);
  EXPECT_EQ(p.first_awaited(), rank{0});
  p.judge(from(1));
  EXPECT_EQ(p.first_awaited(), rank{0});
  p.judge(from(0));
  EXPECT_EQ(p.first_awaited(), rank{2});
  p.join({4});
  p.leave({2});
  EXPECT_EQ(p.first_awaited(), rank{4});
  p.judge(from(4));
  EXPECT_EQ(p.first_awaited(), std::nullopt);
  p.batch_applied();
  EXPECT_EQ(p.first_awaited(), rank{0});
  EXPECT_EQ(policy_spec("backup:1", 3).make()->first_awaited(), std::nullopt)
      << "any of them may be too late";
}

TEST(SyncPolicy, NeedsEveryWorkerAgainInTheNextRound) {
  sync_policy p = sync_of(2);
  for (std::uint64_t step = 1; step < 4; ++step) {
    p.judge(from(step % 2, step));
    EXPECT_FALSE(p.batch_complete());
    p.judge(from((step + 1) % 2, step));
    EXPECT_TRUE(p.batch_complete());
    p.batch_applied();
  }
}

TEST(SyncPolicy, DropsASecondGradientOfAWorkerInOneRound) {
  sync_policy p = sync_of(2);
  p.judge(from(0, 1));
  const decision d = p.judge(from(0, 2));
  EXPECT_EQ(d.what, verdict::discard);
  EXPECT_FALSE(d.reason.empty());
  EXPECT_FALSE(p.batch_complete());
}

TEST(SyncPolicy, DoesNotWaitForAWorkerThatLeft) {
  sync_policy p = sync_of(2);
  p.judge(from(0));
  p.leave({1});
  EXPECT_TRUE(p.batch_complete());
  p.batch_applied();
  EXPECT_TRUE(p.may_start({0}));
  EXPECT_FALSE(p.may_start({1}));
  p.judge(from(0, 2));
  EXPECT_TRUE(p.batch_complete());
}

TEST(SyncPolicy, KeepsTheGradientOfAWorkerThatLeavesAfterSendingIt) {
  sync_policy p = sync_of(2);
  p.judge(from(1));
  p.leave({1});
  EXPECT_FALSE(p.batch_complete()) << "worker 0 still computes";
  p.judge(from(0));
  EXPECT_TRUE(p.batch_complete());
}

TEST(SyncPolicy, DoesNotWaitInTheNextRoundForAWorkerThatLeftWhileItsGradientLay) {
  sync_policy p = sync_of(2);
  p.judge(from(1));
  p.leave({1});
  p.judge(from(0));
  p.batch_applied();
  EXPECT_FALSE(p.may_start({1}));
  p.judge(from(0, 2));
  EXPECT_TRUE(p.batch_complete());
}

TEST(SyncPolicy, IsNeverCompleteWithoutAGradient) {
  sync_policy p = sync_of(2);
  p.leave({0});
  EXPECT_FALSE(p.batch_complete());
  p.leave({1});
  EXPECT_FALSE(p.batch_complete());
}

TEST(SyncPolicy, DropsTheGradientOfAWorkerThatLeft) {
  sync_policy p = sync_of(2);
  p.leave({1});
  EXPECT_EQ(p.judge(from(1)).what, verdict::discard);
  EXPECT_FALSE(p.batch_complete());
}

TEST(SyncPolicy, TakesWorkersInAnyOrderOfJoining) {
  sync_policy p;
  p.join({2});
  p.join({0});
  p.judge(from(2));
  EXPECT_FALSE(p.batch_complete());
  p.join({1});
  p.judge(from(0));
  EXPECT_FALSE(p.batch_complete()) << "worker 1 came in mid-round and is waited for";
  p.judge(from(1));
  EXPECT_TRUE(p.batch_complete());
}

TEST(SyncPolicy, TakesAWorkerBackThatJoinsAgain) {
  sync_policy p = sync_of(2);
  p.leave({1});
  p.join({1});
  p.judge(from(0));
  EXPECT_FALSE(p.batch_complete());
  EXPECT_TRUE(p.may_start({1}));
}

/// A gradient computed from one version when the shard is at another.
gradient_stamp between(std::uint32_t worker, std::uint64_t read, std::uint64_t now) {
  return {{worker}, now + 1, read, now};
}

TEST(BackupPolicy, DropsWhoComesAfterTheUpdateAndLetsHimStart) {
  const auto p = joined("backup:1", 3);
  EXPECT_EQ(p->judge(between(2, 0, 0)).what, verdict::merge);
  EXPECT_FALSE(p->may_start({2}));
  EXPECT_FALSE(p->batch_complete());
  EXPECT_EQ(p->judge(between(0, 0, 0)).what, verdict::merge);
  EXPECT_TRUE(p->batch_complete());
  p->batch_applied();
  EXPECT_TRUE(p->may_start({0}));
  EXPECT_TRUE(p->may_start({2}));
  const decision late = p->judge(between(1, 0, 1));
  EXPECT_EQ(late.what, verdict::discard);
  EXPECT_EQ(late.reason, "late");
  EXPECT_TRUE(p->may_start({1}));
}

TEST(BackupPolicy, DoesNotSpendABackupOnTheDead) {
  const auto p = joined("backup:1", 3);
  p->leave({1});
  p->judge(between(0, 0, 0));
  EXPECT_TRUE(p->batch_complete()) << "two are left, one of them may be late";
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

TEST(KAsyncPolicy, MakesDoWithThoseWhoAreLeft) {
  const auto p = joined("k-async:3", 3);
  p->judge(between(0, 0, 0));
  p->leave({1});
  EXPECT_FALSE(p->batch_complete());
  p->leave({2});
  EXPECT_TRUE(p->batch_complete());
}

TEST(CountedBatch, IsFilledByWhoeverComesAndHoldsNobody) {
  for (const char* text : {"k-batch-async:3", "k-batch-sync:3", "rennala:3"}) {
    const auto p = joined(text, 2);
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(p->batch_complete()) << text;
      EXPECT_EQ(p->judge(between(0, 7, 7)).what, verdict::merge);
      EXPECT_TRUE(p->may_start({0}));
    }
    EXPECT_TRUE(p->batch_complete()) << text;
    p->batch_applied();
    EXPECT_FALSE(p->batch_complete());
  }
}

TEST(CountedBatch, OfFreshGradientsDropsTheStale) {
  for (const char* text : {"k-batch-sync:3", "rennala:3"})
    EXPECT_EQ(joined(text, 2)->judge(between(0, 6, 7)).what, verdict::discard) << text;
  EXPECT_EQ(joined("k-batch-async:3", 2)->judge(between(0, 6, 7)).what, verdict::merge);
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

TEST(CountedBatch, IsAppliedAsItIsWhenNobodyIsLeft) {
  const auto p = joined("rennala:3", 2);
  p->judge(between(0, 0, 0));
  p->leave({0});
  EXPECT_FALSE(p->batch_complete());
  p->leave({1});
  EXPECT_TRUE(p->batch_complete());
}

// 9 / (1 + 1 + 1/2) is 3.6, and 9 / (1 + 1/2 + 1/2) is 4.5.
TEST(MaleniaPolicy, IsCompleteWhenTheHarmonicMeanOfTheCountsIsHighEnough) {
  const auto p = joined("malenia:4", 3);
  for (const std::uint32_t sender : {0U, 0U, 1U, 2U}) {
    EXPECT_FALSE(p->batch_complete());
    EXPECT_EQ(p->judge(between(sender, 7, 7)).what, verdict::merge);
    EXPECT_TRUE(p->may_start({sender})) << "nobody waits";
  }
  EXPECT_FALSE(p->batch_complete());
  p->judge(between(2, 7, 7));
  EXPECT_TRUE(p->batch_complete());
  p->batch_applied();
  EXPECT_EQ(p->judge(between(0, 7, 8)).reason, "late");
  EXPECT_FALSE(p->batch_complete());
}

// 9 / (1/3 + 1/3 + 1/3) is 9, whatever rounding makes of it.
TEST(MaleniaPolicy, IsCompleteWhenTheMeanIsMetExactly) {
  for (const std::uint32_t each : {3U, 7U, 49U, 1000U}) {
    const auto p = joined("malenia:" + std::to_string(3 * each), 3);
    for (std::uint32_t i = 1; i < 3 * each; ++i) p->judge(between(i % 3, 0, 0));
    EXPECT_FALSE(p->batch_complete()) << each;
    p->judge(between(0, 0, 0));
    EXPECT_TRUE(p->batch_complete()) << each;
  }
}

TEST(MaleniaPolicy, WaitsForEveryWorkerThatIsPresent) {
  const auto p = joined("malenia:1", 3);
  for (int i = 0; i < 9; ++i) p->judge(between(i % 2, 0, 0));
  EXPECT_FALSE(p->batch_complete());
  p->join({3});
  p->leave({2});
  EXPECT_FALSE(p->batch_complete()) << "one has joined meanwhile";
  p->leave({3});
  EXPECT_TRUE(p->batch_complete());
  EXPECT_EQ(p->judge(between(2, 0, 0)).reason, "not awaited");
}

TEST(MaleniaPolicy, IsAppliedAsItIsWhenNobodyIsLeft) {
  const auto p = joined("malenia:90", 2);
  p->judge(between(0, 0, 0));
  p->leave({0});
  p->leave({1});
  EXPECT_TRUE(p->batch_complete());
  p->batch_applied();
  EXPECT_FALSE(p->batch_complete());
}

gradient_stamp at_moment(std::uint32_t worker, std::int64_t ns) { return {{worker}, 1, 0, 0, ns}; }

std::unique_ptr<policy> quorum_of(const std::string& text, std::uint32_t workers) {
  auto p = make_policy(text, workers);
  for (std::uint32_t r = 0; r < workers; ++r) p->join({r});
  return p;
}

TEST(QuorumPolicy, WaitsForAsLongAsItsGraceWhenTheQuorumIsThere) {
  const auto p = quorum_of("quorum:2,grace=0.5", 4);
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

TEST(QuorumPolicy, WaitsNoLongerWhenEverybodyIsThere) {
  const auto p = quorum_of("quorum:1,grace=9", 2);
  p->judge(at_moment(0, 1));
  EXPECT_FALSE(p->batch_complete());
  p->judge(at_moment(1, 2));
  EXPECT_TRUE(p->batch_complete());
}

TEST(QuorumPolicy, HasNoWindowWithoutGrace) {
  for (const char* text : {"quorum:2", "quorum:2,grace=0"}) {
    const auto p = quorum_of(text, 3);
    p->judge(at_moment(0, 1));
    EXPECT_FALSE(p->batch_complete());
    p->judge(at_moment(1, 2));
    EXPECT_TRUE(p->batch_complete());
    EXPECT_EQ(p->closes_at(), std::nullopt);
  }
}

TEST(QuorumPolicy, MakesDoWithThoseWhoAreLeft) {
  const auto p = quorum_of("quorum:3,grace=1", 4);
  p->judge(at_moment(0, 10));
  p->judge(at_moment(1, 20));
  p->leave({2});
  EXPECT_EQ(p->closes_at(), std::nullopt) << "three are left, and one of them may still come";
  p->leave({3});
  EXPECT_TRUE(p->batch_complete()) << "nobody is left to wait for";
}

TEST(QuorumPolicy, OpensItsWindowWhenWhoIsLeftIsEnough) {
  const auto p = quorum_of("quorum:3,grace=1", 5);
  p->judge(at_moment(0, 10));
  p->judge(at_moment(1, 20));
  for (const std::uint32_t gone : {2U, 3U}) p->leave({gone});
  p->leave({0});
  EXPECT_EQ(p->closes_at(), std::nullopt) << "one is left, and the two gradients stay";
  p->judge(at_moment(4, 30));
  EXPECT_TRUE(p->batch_complete());
}

TEST(QuorumPolicy, CountsWhoJoins) {
  const auto p = quorum_of("quorum:2,grace=1", 2);
  p->join({2});
  p->judge(at_moment(0, 1));
  p->judge(at_moment(1, 2));
  EXPECT_FALSE(p->batch_complete()) << "the third may still come";
  EXPECT_EQ(p->closes_at(), 1'000'000'002);
  p->judge(at_moment(2, 3));
  EXPECT_TRUE(p->batch_complete());
}

TEST(QuorumPolicy, EndsAWindowThatACheckpointKept) {
  const auto p = quorum_of("quorum:1,grace=5", 3);
  p->judge(at_moment(2, 100));
  saved_fields written;
  written.field("policy", *p);
  saved_fields read(written.text(), written.arrays());
  const auto other = quorum_of("quorum:1,grace=5", 3);
  read.field("policy", *other);
  EXPECT_EQ(other->closes_at(), 0) << "its moment was of another clock";
  EXPECT_FALSE(other->may_start({2}));
  other->close();
  EXPECT_TRUE(other->batch_complete());
}

TEST(QueuePolicy, TakesTheFirstWhenMoreWaitThanItHolds) {
  const auto p = make_policy("queue:2,3", 2);
  p->join({0});
  p->join({1});
  for (std::uint64_t step = 1; step <= 3; ++step) {
    EXPECT_EQ(p->judge(from(0, step)).what, verdict::merge);
    EXPECT_FALSE(p->batch_complete());
    EXPECT_TRUE(p->may_start({0})) << "nobody waits";
  }
  EXPECT_EQ(p->judge(from(1)).what, verdict::merge);
  EXPECT_TRUE(p->batch_complete());
  EXPECT_EQ(p->takes_first(), 2U);
  p->batch_applied();
  EXPECT_FALSE(p->batch_complete()) << "two are left";
}

TEST(QueuePolicy, AppliesTheRestWhenNobodyIsLeft) {
  const auto p = make_policy("queue:2,3", 2);
  p->join({0});
  for (std::uint64_t step = 1; step <= 3; ++step) p->judge(from(0, step));
  p->leave({0});
  EXPECT_TRUE(p->batch_complete());
  p->batch_applied();
  EXPECT_TRUE(p->batch_complete()) << "one is left";
  p->batch_applied();
  EXPECT_FALSE(p->batch_complete());
}

TEST(RingmasterPolicy, DropsGradientsOfDelayROrMore) {
  const auto p = joined("ringmaster:3", 2);
  EXPECT_EQ(p->judge(between(0, 5, 7)).what, verdict::apply);
  EXPECT_EQ(p->judge(between(0, 4, 7)).what, verdict::discard);
}

TEST(SspPolicy, HoldsWhoIsMoreThanTheBoundAhead) {
  const auto p = joined("ssp:1", 2);
  EXPECT_EQ(p->judge(from(0)).what, verdict::apply);
  EXPECT_TRUE(p->may_start({0}));
  p->judge(from(0, 2));
  EXPECT_FALSE(p->may_start({0}));
  p->judge(from(1));
  EXPECT_TRUE(p->may_start({0}));
}

TEST(SspPolicy, ForgetsTheClockOfWhoLeft) {
  const auto p = joined("ssp:0", 2);
  p->judge(from(0));
  EXPECT_FALSE(p->may_start({0}));
  p->leave({1});
  EXPECT_TRUE(p->may_start({0}));
}

TEST(SspPolicy, LetsWhoJoinsLateBeginBesideTheSlowest) {
  const auto p = joined("ssp:1", 2);
  for (std::uint64_t step = 1; step < 5; ++step) {
    p->judge(from(0, step));
    p->judge(from(1, step));
  }
  p->join({2});
  EXPECT_TRUE(p->may_start({0})) << "nobody waits for the steps it missed";
}

/// A gradient that comes `tenths` of a second after the start.
gradient_stamp at_time(std::uint32_t worker, std::int64_t tenths) {
  return {{worker}, 1, 0, 0, tenths * 100'000'000};
}

// The slow worker comes every 3.5 s, at 7 last, the fast one every second, at 8 last, one step ahead. Its
// second gradient from now, at 10, and its third, at 11, are nearest to 10.5, when the slow one catches up.
TEST(DsspPolicy, GrantsTheStepsAfterWhichTheSlowestCatchesUp) {
  const auto p = joined("dssp:0,4", 2);
  for (const auto& [worker, tenths] : {std::pair{1U, 35}, {0U, 60}, {1U, 70}, {0U, 70}})
    p->judge(at_time(worker, tenths));
  EXPECT_TRUE(p->may_start({0})) << "beside the slowest";
  p->judge(at_time(0, 80));
  EXPECT_TRUE(p->may_start({0})) << "a first step beyond the bound";
  p->judge(at_time(0, 90));
  EXPECT_TRUE(p->may_start({0})) << "and a second";
  p->judge(at_time(0, 100));
  EXPECT_FALSE(p->may_start({0})) << "now it waits, half a second";
  for (const std::int64_t tenths : {105, 140, 175}) p->judge(at_time(1, tenths));
  EXPECT_TRUE(p->may_start({0}));
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
  for (const auto& [worker, tenths] : {std::pair{2U, 35},
                                       {0U, 40},
                                       {1U, 45},
                                       {0U, 50},
                                       {1U, 55},
                                       {0U, 60},
                                       {1U, 65},
                                       {2U, 70},
                                       {0U, 72},
                                       {0U, 80},
                                       {1U, 81}})
    p->judge(at_time(worker, tenths));
  EXPECT_TRUE(p->may_start({0})) << "the fastest has steps left";
  EXPECT_FALSE(p->may_start({1}));
}

TEST(DsspPolicy, GrantsNothingWhileItKnowsNoRhythm) {
  const auto p = joined("dssp:0,1000000000000", 2);
  p->judge(at_time(0, 10));
  EXPECT_FALSE(p->may_start({0}));
  p->judge(at_time(1, 20));
  EXPECT_TRUE(p->may_start({0}));
}

} // namespace
} // namespace mailgrad

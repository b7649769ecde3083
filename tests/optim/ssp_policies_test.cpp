#include <mailgrad/tests/optim/joined_policy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <utility>
#include <vector>

// Policies that hold who is too far ahead of the slowest.

namespace mailgrad {
namespace {

using testing::from;
using testing::joined;

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

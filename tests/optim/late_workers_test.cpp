#include <mailgrad/optim/policies/policy_spec.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

// What a policy does with workers that join a run in progress, leave it and come back.

namespace mailgrad {
namespace {

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
    if (std::ranges::none_of(std::vector{0U, 1U, 2U, 3U, 4U}, [&](auto r) { return run.is_here(r); }))
      run.joins(4);
    std::vector<std::uint64_t> before;
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

gradient_stamp of(std::uint32_t worker, std::uint64_t step = 1) { return {{worker}, {step}, {0}, {0}}; }

class LateWithBackups : public ::testing::Test {
protected:
  LateWithBackups() {
    for (std::uint32_t r = 0; r < 2; ++r) policy_->join({r});
  }
  std::unique_ptr<policy> policy_ = make_policy("backup:0", 3);
};

TEST_F(LateWithBackups, TakesPartAtOnceInABatchThatHasNotBegun) {
  policy_->join({2});
  EXPECT_TRUE(policy_->may_start({2}));
  policy_->judge(of(0));
  policy_->judge(of(1));
  EXPECT_FALSE(policy_->batch_complete());
  policy_->judge(of(2));
  EXPECT_TRUE(policy_->batch_complete());
}

TEST_F(LateWithBackups, IsCountedFromTheNextBatchOnIfOneHasBegun) {
  policy_->judge(of(0));
  policy_->join({2});
  EXPECT_FALSE(policy_->may_start({2}));
  policy_->judge(of(1));
  EXPECT_TRUE(policy_->batch_complete()) << "it waits for nobody who came later";
  policy_->batch_applied();
  EXPECT_TRUE(policy_->may_start({2}));
  policy_->judge(of(0, 2));
  policy_->judge(of(1, 2));
  EXPECT_FALSE(policy_->batch_complete());
  policy_->judge(of(2));
  EXPECT_TRUE(policy_->batch_complete());
}

TEST_F(LateWithBackups, MayLeaveBeforeItsFirstBatch) {
  policy_->judge(of(0));
  policy_->join({2});
  policy_->leave({2});
  policy_->judge(of(1));
  EXPECT_TRUE(policy_->batch_complete());
  policy_->batch_applied();
  EXPECT_FALSE(policy_->may_start({2}));
}

TEST_F(LateWithBackups, StartsWhenTheBatchEndsBecauseTheOthersLeft) {
  policy_->judge(of(0));
  policy_->join({2});
  policy_->leave({1});
  EXPECT_TRUE(policy_->batch_complete());
  policy_->batch_applied();
  EXPECT_TRUE(policy_->may_start({2}));
}

/// The clock of a newcomer is that of the slowest, so both may be as far ahead of each other as the bound
/// lets.
TEST(LateWorker, BeginsBesideTheSlowestUnderABound) {
  const auto p = make_policy("ssp:1", 3);
  p->join({0});
  p->join({1});
  for (std::uint64_t step = 1; step <= 7; ++step) p->judge(of(1, step));
  for (std::uint64_t step = 1; step <= 6; ++step) p->judge(of(0, step));
  p->join({2});
  EXPECT_TRUE(p->may_start({2}));
  EXPECT_TRUE(p->may_start({1}));
  p->judge(of(2, 1));
  p->judge(of(2, 2));
  EXPECT_FALSE(p->may_start({2})) << "two steps ahead of worker 0";
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/actors/runs/assembled_run.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/engine/ticking_time.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

TEST(DurationStat, CountsAddsAndRemembersTheLongest) {
  duration_stat t;
  EXPECT_TRUE(t.empty());
  t.add(2ms);
  t.add(6ms);
  duration_stat more;
  more.add(1ms);
  t.merge(more);
  EXPECT_EQ(t.count(), 3U);
  EXPECT_EQ(t.total(), 9ms);
  EXPECT_EQ(t.longest(), 6ms);
  EXPECT_DOUBLE_EQ(t.mean_seconds(), 0.003);
}

/// One shard whose clock the test holds.
class TimeSplitOfAShard : public testing::DeterministicTest {
protected:
  void serve(const std::string& policy, std::uint32_t workers,
             const std::shared_ptr<const time_source>& time) {
    shard_ = start<parameter_actor>(parameter_actor_options{
        {std::make_shared<shard>(layout_, 0, 1, testing::sgd(1)), {policy, workers}, workers, time},
        tracker_.actor()});
    for (std::uint32_t r = 0; r < workers; ++r) {
      devices_.push_back(listen<shard_weights>());
      tell(shard_, join_shard{{r}, {}, devices_[r].actor()});
    }
  }
  void push(std::uint32_t worker, std::uint64_t step, const gradient_times& times,
            std::optional<instant> sent = {}) {
    push_gradient x = testing::push_of(worker, step, 0, testing::constant_gradient(layout_, 1));
    x.header.times = times;
    x.payload.sent = sent;
    tell(shard_, std::move(x));
  }
  time_split times_of(std::uint32_t worker) {
    return ask<shard_report>(shard_, report_shard{}).heard<shard_report>().at(0).workers[worker].times;
  }

  const parameter_layout layout_ = testing::layout_of({{"w", {16}}}, 1);
  testing::listener<staleness_observed> tracker_ = listen<staleness_observed>();
  std::vector<testing::listener<shard_weights>> devices_;
  caf::actor shard_;
};

TEST_F(TimeSplitOfAShard, MeasuresHowLongAGradientLayInTheMailbox) {
  serve("async", 1, time_);
  push(0, 1, {2ms, 30ms}, time_->now() - 3ms);
  push(0, 2, {4ms, 50ms}, time_->now() - 1ms);
  const time_split t = times_of(0);
  EXPECT_EQ(t.read.total(), 6ms);
  EXPECT_EQ(t.compute.total(), 80ms);
  EXPECT_EQ(t.compute.longest(), 50ms);
  EXPECT_EQ(t.mailbox.total(), 4ms);
  EXPECT_EQ(t.mailbox.longest(), 3ms);
  EXPECT_EQ(t.apply.count(), 2U);
}

TEST_F(TimeSplitOfAShard, LeavesEmptyWhatNobodyMeasured) {
  serve("async", 1, time_);
  push(0, 1, {});
  const time_split t = times_of(0);
  EXPECT_TRUE(t.read.empty());
  EXPECT_TRUE(t.compute.empty());
  EXPECT_TRUE(t.mailbox.empty());
  EXPECT_TRUE(t.wire.empty());
  EXPECT_EQ(t.apply.count(), 1U);
}

TEST_F(TimeSplitOfAShard, GivesEachGradientOfABatchAnEqualShareOfItsUpdate) {
  serve("sync", 2, std::make_shared<testing::ticking_time>());
  push(0, 1, {});
  EXPECT_TRUE(times_of(0).apply.empty()) << "it lies in a batch";
  push(1, 1, {});
  EXPECT_EQ(times_of(0).apply.total(), 500ns);
  EXPECT_EQ(times_of(1).apply.total(), 500ns);
}

class TimeSplitOfARun : public ::testing::TestWithParam<const char*> {};

TEST_P(TimeSplitOfARun, HasEachPartOfEachGradientOnce) {
  testing::assembly a;
  a.policy = GetParam();
  testing::deterministic_system system;
  const testing::assembled_run run(system.actors(), a, testing::small_data(),
                                   std::make_shared<testing::ticking_time>());
  system.run();
  const training_report r = report_of(run.outcome());
  ASSERT_EQ(r.exchanges.size(), a.workers * a.shards);
  for (const exchange_figures& x : r.exchanges) {
    const gradient_ledger& taken = run.outcome().shards[x.shard.value()].workers[x.worker].ledger;
    EXPECT_EQ(x.times.read.count(), taken.produced);
    EXPECT_EQ(x.times.compute.count(), taken.produced);
    EXPECT_EQ(x.times.mailbox.count(), taken.produced);
    EXPECT_EQ(x.times.apply.count(), taken.applied + taken.merged);
    EXPECT_EQ(x.times.apply.count(), x.gaps.total());
    EXPECT_TRUE(x.times.wire.empty());
    EXPECT_GE(x.times.mailbox.longest(), 1us);
  }
  EXPECT_EQ(r.times.compute.count(), r.steps) << "once, though two shards heard of it";
  EXPECT_EQ(r.times.mailbox.count(), a.shards * r.steps);
}

INSTANTIATE_TEST_SUITE_P(SeveralPolicies, TimeSplitOfARun, ::testing::Values("async", "sync", "backup:1"),
                         [](const auto& policy) { return testing::test_name(policy.param); });

} // namespace
} // namespace mailgrad

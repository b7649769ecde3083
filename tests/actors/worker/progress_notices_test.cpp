#include <mailgrad/tests/actors/worker/played_worker.hpp>

#include <mailgrad/actors/protocol/notices.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ProgressNotices : public testing::PlayedWorker {
protected:
  /// What the tracker was told behind the first step, which it is told at once.
  std::vector<worker_progress> told() {
    const std::vector<worker_progress>& all = tracker_.heard<worker_progress>();
    return {all.begin() + std::min<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(all.size())), all.end()};
  }
  void tell_first_step(progress_notices& notices, instant now) {
    notices.begin(now);
    notices.count(8, 7.0F);
    act([&] { notices.notify_if_due(now, {}); });
  }

  testing::listener<worker_progress> tracker_ = listen<worker_progress>();
  testing::listener<worker_progress> coordinator_ = listen<worker_progress>();
  progress_notices notices_{self_, tracker_.actor(), coordinator_.actor(), {1}};
};

TEST_F(ProgressNotices, TellTheFirstLossAtOnce) {
  notices_.begin(5s);
  notices_.count(8, std::nullopt); // of a gradient that is discarded in any case
  act([&] { notices_.notify_if_due(5s, {}); });
  EXPECT_THAT(tracker_.heard<worker_progress>(), IsEmpty());
  notices_.count(4, 2.5F);
  act([&] { notices_.notify_if_due(5s, {}); });
  notices_.count(4, 3.5F);
  act([&] { notices_.notify_if_due(5s, {}); });
  ASSERT_THAT(tracker_.heard<worker_progress>(), SizeIs(1));
  ASSERT_THAT(coordinator_.heard<worker_progress>(), SizeIs(1)) << "it measures others by it";
  EXPECT_EQ(std::bit_cast<double>(coordinator_.heard<worker_progress>()[0].loss_sum_bits), 10);
}

TEST_F(ProgressNotices, ComeATenthOfASecondApart) {
  tell_first_step(notices_, 5s);
  notices_.count(8, 1.5F);
  act([&] { notices_.notify_if_due(5s + 99ms, {}); });
  EXPECT_THAT(told(), IsEmpty());
  notices_.count(4, 2.5F);
  act([&] { notices_.notify_if_due(5s + 100ms, {30, 3, 7}); });
  ASSERT_THAT(told(), SizeIs(1));
  const worker_progress x = told()[0];
  EXPECT_EQ(x.worker, rank{1});
  EXPECT_EQ(x.steps, 2U);
  EXPECT_EQ(x.samples, 12U);
  EXPECT_EQ(std::bit_cast<double>(x.loss_sum_bits), 22) << "each sample counts";
  EXPECT_EQ(instant{x.span}, 100ms);
  EXPECT_EQ(x.sums.barrier_wait, 30);
  EXPECT_EQ(x.sums.feeder_wait, 7);
}

TEST_F(ProgressNotices, ComeAfterAsManyStepsAsThePaceSays) {
  progress_notices often{self_, tracker_.actor(), coordinator_.actor(), {1}, {.steps = 2}};
  tell_first_step(often, 5s);
  often.count(8, 1);
  act([&] { often.notify_if_due(5s + 3ms, {}); });
  EXPECT_THAT(told(), IsEmpty());
  often.count(8, 1);
  act([&] { often.notify_if_due(5s + 4ms, {}); });
  ASSERT_THAT(told(), SizeIs(1));
  EXPECT_EQ(told()[0].steps, 2U);
}

TEST_F(ProgressNotices, TellOnlyWhatIsNew) {
  notices_.begin(0s);
  notices_.count(8, 1);
  act([&] { notices_.notify_if_due(1s, {30, 3, 7}); });
  notices_.count(3, 5);
  act([&] { notices_.notify_if_due(1s + 250ms, {100, 3, 17}); });
  ASSERT_THAT(told(), SizeIs(1));
  const worker_progress x = told()[0];
  EXPECT_EQ(x.worker, rank{1});
  EXPECT_EQ(x.steps, 1U);
  EXPECT_EQ(x.samples, 3U);
  EXPECT_EQ(std::bit_cast<double>(x.loss_sum_bits), 15);
  EXPECT_EQ(instant{x.span}, 250ms);
  EXPECT_EQ(x.sums.barrier_wait, 70);
  EXPECT_EQ(x.sums.feeder_wait, 10);
}

TEST_F(ProgressNotices, TellTheCoordinatorWhatNoReportMayTell) {
  notices_.begin(0s);
  notices_.count(8, 1);
  act([&] { notices_.notify_if_due(1s, {30, 3, 7}); });
  notices_.count(3, 5);
  act([&] { notices_.notify(1s, {30, 3, 7}); });
  EXPECT_THAT(told(), SizeIs(1));
  ASSERT_THAT(coordinator_.heard<worker_progress>(), SizeIs(1)) << "the report comes at once";
  EXPECT_EQ(coordinator_.heard<worker_progress>()[0].samples, 8U);
}

TEST_F(ProgressNotices, TellTheRestAtTheEnd) {
  notices_.begin(0s);
  notices_.count(8, 1);
  act([&] { notices_.notify(10ms, {}); });
  ASSERT_THAT(tracker_.heard<worker_progress>(), SizeIs(1));
  EXPECT_EQ(tracker_.heard<worker_progress>()[0].steps, 1U);
  act([&] { notices_.notify(1s, {}); });
  EXPECT_THAT(tracker_.heard<worker_progress>(), SizeIs(1)) << "there is nothing new";
}

/// A run that is resumed has waited before, and a tracker that begins anew must not hear it as one long wait.
TEST_F(ProgressNotices, TellNoWaitOfAnEarlierProcess) {
  notices_.begin(0s, {500, 3, 90});
  notices_.count(8, 1);
  act([&] { notices_.notify_if_due(1s, {530, 3, 97}); });
  ASSERT_THAT(tracker_.heard<worker_progress>(), SizeIs(1));
  EXPECT_EQ(tracker_.heard<worker_progress>()[0].sums.barrier_wait, 30);
  EXPECT_EQ(tracker_.heard<worker_progress>()[0].sums.feeder_wait, 7);
}

} // namespace
} // namespace mailgrad

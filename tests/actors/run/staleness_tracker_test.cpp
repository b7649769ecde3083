#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/staleness_tracker.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

worker_progress progress(std::uint32_t worker, std::uint64_t steps, std::uint64_t samples, double loss_sum) {
  return {{worker}, steps, samples, std::bit_cast<std::uint64_t>(loss_sum)};
}

class StalenessTracker : public testing::DeterministicTest {
protected:
  std::vector<training_progress> shown_;
  caf::actor tracker_ = start<staleness_tracker>(
      staleness_tracker_options{time_, [this](const training_progress& p) { shown_.push_back(p); }});
};

TEST_F(StalenessTracker, SumsWhatWorkersDid) {
  time_->advance(3s);
  tell(tracker_, progress(0, 10, 640, 5.0));
  tell(tracker_, progress(1, 4, 256, 1.0));
  ASSERT_THAT(shown_, SizeIs(2));
  EXPECT_EQ(shown_[1].steps, 14U);
  EXPECT_EQ(shown_[1].samples, 896U);
  EXPECT_DOUBLE_EQ(shown_[0].loss, 0.5);
  EXPECT_DOUBLE_EQ(shown_[1].loss, 0.25) << "the mean over the latest steps";
}

TEST_F(StalenessTracker, CountsTimeFromItsStart) {
  run();
  time_->advance(3s);
  tell(tracker_, progress(0, 1, 1, 1.0));
  EXPECT_EQ(shown_.back().elapsed, 3s);
}

TEST_F(StalenessTracker, AveragesTheGapsOfAllShards) {
  staleness_histogram gaps;
  gaps.count(0, 3);
  gaps.count(4);
  tell(tracker_, staleness_observed{gaps});
  tell(tracker_, staleness_observed{gaps});
  EXPECT_THAT(shown_, IsEmpty());
  tell(tracker_, progress(0, 1, 1, 1.0));
  EXPECT_DOUBLE_EQ(shown_.back().staleness_mean, 1);
}

TEST_F(StalenessTracker, ShowsNothingWithoutSteps) {
  tell(tracker_, progress(0, 0, 0, 0));
  EXPECT_THAT(shown_, IsEmpty());
}

TEST_F(StalenessTracker, NeedsNobodyToWatchIt) {
  const caf::actor unseen = start<staleness_tracker>(staleness_tracker_options{time_, {}});
  tell(unseen, progress(0, 1, 1, 1.0));
}

} // namespace
} // namespace mailgrad

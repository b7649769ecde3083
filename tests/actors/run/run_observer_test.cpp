#include <mailgrad/actors/run/run_watch.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gmock/gmock.h>

#include <variant>

namespace mailgrad {
namespace {

using ::testing::SizeIs;

class RunObserver : public testing::DeterministicTest {
protected:
  std::vector<run_event> seen_;
  int ends_ = 0;
  testing::listener<close_metrics> tracker_ = listen<close_metrics>();
  caf::actor observer_ = start<run_observer>(
      run_observer_options{[this](const run_event& x) { seen_.push_back(x); }, [this] { ++ends_; }});
};

TEST_F(RunObserver, HandsOnWhatItIsTold) {
  tell(observer_, event_noted{metrics_line{}});
  tell(observer_, event_noted{wait_reason{"worker 0 waits", 1}});
  ASSERT_THAT(seen_, SizeIs(2));
  EXPECT_TRUE(std::holds_alternative<metrics_line>(seen_[0]));
  EXPECT_EQ(std::get<wait_reason>(seen_[1]).what, "worker 0 waits");
}

TEST_F(RunObserver, EndsWhenTheTrackerHasMadeTheLastLine) {
  tell(observer_, close_metrics{{}, tracker_.actor()});
  EXPECT_THAT(tracker_.heard<close_metrics>(), SizeIs(1));
  EXPECT_EQ(ends_, 0);
  tell(observer_, event_noted{metrics_line{}});
  tell(observer_, end_events{});
  EXPECT_THAT(seen_, SizeIs(1));
  EXPECT_EQ(ends_, 1);
}

TEST_F(RunObserver, WaitsForNoTrackerThatIsDead) {
  tell(observer_, close_metrics{{}, tracker_.actor()});
  messaging::kill(tracker_.actor());
  run();
  EXPECT_EQ(ends_, 1);
}

TEST_F(RunObserver, WaitsForNoTrackerThatDiedBefore) {
  messaging::kill(tracker_.actor());
  run();
  tell(observer_, close_metrics{{}, tracker_.actor()});
  run();
  EXPECT_EQ(ends_, 1);
}

} // namespace
} // namespace mailgrad

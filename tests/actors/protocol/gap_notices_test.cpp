#include <mailgrad/tests/support/played_actor.hpp>

#include <mailgrad/actors/protocol/notices.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class GapNotices : public testing::PlayedActorTest {
protected:
  testing::listener<staleness_observed> tracker_ = listen<staleness_observed>();
  gap_notices gaps_{self_, tracker_.actor(), *time_};
};

TEST_F(GapNotices, TellsTheTrackerOfManyGradientsAtOnce) {
  act([&] {
    for (std::uint64_t i = 1; i < gap_notices::per_notice; ++i) gaps_.count(2, time_->now());
  });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), IsEmpty());
  act([&] { gaps_.count(5, time_->now()); });
  ASSERT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
  EXPECT_THAT(tracker_.heard<staleness_observed>()[0].gaps.buckets(),
              ElementsAre(Pair(2, gap_notices::per_notice - 1), Pair(5, 1)));
  act([&] { gaps_.flush(); });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1)) << "there is nothing new";
}

TEST_F(GapNotices, TellsTheTrackerAsOftenAsThePaceSays) {
  gap_notices often(self_, tracker_.actor(), *time_, {.steps = 2});
  time_->advance(1ms);
  act([&] { often.count(2, time_->now()); });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), IsEmpty());
  act([&] { often.count(2, time_->now()); });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
}

TEST_F(GapNotices, TellsTheTrackerAtOnceWhenAPolicyEnds) {
  act([&] {
    gaps_.count(1, time_->now());
    gaps_.flush();
  });
  ASSERT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
}

} // namespace
} // namespace mailgrad

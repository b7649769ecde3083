#include <mailgrad/tests/support/played_actor.hpp>

#include <mailgrad/actors/shard/shard_telemetry.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class ShardTelemetry : public testing::PlayedActorTest {
protected:
  const std::shared_ptr<trace_track> track_ = std::make_shared<trace_track>("shard 0", 9, time_->now());
  testing::listener<staleness_observed> tracker_ = listen<staleness_observed>();
  shard_telemetry watch_{self_, tracker_.actor(), time_, track_};
  const gradient_header header_{{{}, {3}, {}, {8}}, {40}};
};

TEST_F(ShardTelemetry, TellsTheTrackerOfManyGradientsAtOnce) {
  act([&] {
    for (std::uint64_t i = 1; i < gap_notices::per_notice; ++i) watch_.gap(2, time_->now());
  });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), IsEmpty());
  act([&] { watch_.gap(5, time_->now()); });
  ASSERT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
  EXPECT_THAT(tracker_.heard<staleness_observed>()[0].gaps.buckets(),
              ElementsAre(Pair(2, gap_notices::per_notice - 1), Pair(5, 1)));
  act([&] { watch_.flush_gaps(); });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1)) << "there is nothing new";
}

TEST_F(ShardTelemetry, TellsTheTrackerAsOftenAsThePaceSays) {
  shard_telemetry often(self_, tracker_.actor(), time_, nullptr, {.steps = 2});
  time_->advance(1ms);
  act([&] { often.gap(2, time_->now()); });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), IsEmpty());
  act([&] { often.gap(2, time_->now()); });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
}

TEST_F(ShardTelemetry, TellsTheTrackerAtOnceWhenAPolicyEnds) {
  act([&] {
    watch_.gap(1, time_->now());
    watch_.flush_gaps();
  });
  ASSERT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
}

TEST_F(ShardTelemetry, DrawsWorkWaitsAndMoments) {
  const instant begin = time_->now();
  watch_.idle(true, begin + 2s, false);
  watch_.applied(header_, {43}, begin + 3s, 1s);
  watch_.moment(trace_kind::discard, header_, "late");
  const auto& events = track_->events();
  ASSERT_GE(events.size(), 3U);
  EXPECT_EQ(events.front().what, trace_kind::rest_of_batch);
  const auto applied = std::ranges::find(events, trace_kind::apply, &trace_event::what);
  ASSERT_NE(applied, events.end());
  EXPECT_EQ(applied->begin, begin + 3s);
  EXPECT_EQ(applied->end, begin + 4s);
  EXPECT_EQ(applied->peer, 3U);
  EXPECT_EQ(applied->step, 8U);
  EXPECT_EQ(applied->version_read, 40U);
  EXPECT_EQ(applied->version, 43U);
  EXPECT_EQ(events.back().what, trace_kind::discard);
  EXPECT_EQ(events.back().word, "late");
}

TEST_F(ShardTelemetry, DrawsNothingWithoutATimeline) {
  shard_telemetry silent(self_, tracker_.actor(), time_, nullptr);
  silent.idle(false, time_->now(), false);
  silent.applied(header_, {1}, time_->now(), 1s);
  silent.moment(trace_kind::discard, header_, "late");
  EXPECT_EQ(silent.take_trace(), nullptr);
  EXPECT_EQ(watch_.take_trace(), track_);
}

} // namespace
} // namespace mailgrad

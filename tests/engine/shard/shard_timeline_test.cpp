#include <mailgrad/engine/shard/update_maker.hpp>

#include <mailgrad/tests/support/manual_time.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

class ShardTimeline : public ::testing::Test {
protected:
  const std::shared_ptr<testing::manual_time> time_ = std::make_shared<testing::manual_time>();
  const std::shared_ptr<trace_track> track_ = std::make_shared<trace_track>("shard 0", 9, time_->now());
  shard_timeline timeline_{time_, track_};
  const gradient_header header_{{{}, {3}, {}, {8}}, {40}};
};

TEST_F(ShardTimeline, DrawsWorkWaitsAndMoments) {
  const instant begin = time_->now();
  timeline_.idle(true, begin + 2s, false);
  timeline_.applied(header_, {43}, begin + 3s, 1s);
  timeline_.moment(trace_kind::discard, header_, "late");
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

TEST_F(ShardTimeline, DrawsNothingWithoutATimeline) {
  shard_timeline silent(time_, nullptr);
  silent.idle(false, time_->now(), false);
  silent.applied(header_, {1}, time_->now(), 1s);
  silent.moment(trace_kind::discard, header_, "late");
  EXPECT_EQ(silent.take(), nullptr);
  EXPECT_EQ(timeline_.take(), track_);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/engine/account/trace_track.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

TEST(TraceTrack, FillsTheTimeUpToSomethingWithAWait) {
  trace_track t("a", 10, 5ns);
  t.wait(trace_kind::batch, 8ns);
  t.work({trace_kind::compute, 9ns, 12ns, 0, 1});
  t.wait(trace_kind::barrier, 12ns);
  t.wait(trace_kind::barrier, 3ns);
  t.wait(trace_kind::own_mailbox, 20ns);
  ASSERT_EQ(t.events().size(), 3U) << "nothing is recorded of a wait that was none";
  EXPECT_EQ(t.events()[0].begin, 5ns);
  EXPECT_EQ(t.events()[0].end, 8ns);
  EXPECT_EQ(t.events()[2].what, trace_kind::own_mailbox);
  EXPECT_EQ(t.events()[2].begin, 12ns);
}

TEST(TraceTrack, NeverLetsOneEventBeginBeforeTheLastHasEnded) {
  trace_track t("a", 10, 0ns);
  t.work({trace_kind::apply, 2ns, 9ns});
  t.work({trace_kind::apply, 7ns, 12ns});
  t.work({trace_kind::apply, 1ns, 4ns});
  EXPECT_EQ(t.events()[1].begin, 9ns);
  EXPECT_EQ(t.events()[2].begin, 12ns);
  EXPECT_EQ(t.events()[2].end, 12ns);
}

TEST(TraceTrack, CountsWhatItHasNoRoomFor) {
  trace_track t("worker 0", 2, 0ns);
  for (int i = 0; i < 5; ++i) t.work({trace_kind::apply, 0ns, 1ns * i});
  EXPECT_EQ(t.events().size(), 2U);
  EXPECT_EQ(t.left_out(), 3U);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/engine/account/run_trace.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <sstream>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using json = nlohmann::ordered_json;

json written(const run_trace& trace) {
  std::ostringstream out;
  write_trace(out, trace);
  return json::parse(out.str());
}

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

TEST(RunTrace, SaysWhatItDoesNotShow) {
  auto full = std::make_shared<trace_track>("worker 0", 1, 0ns);
  full->work({trace_kind::compute, 0ns, 1ns});
  full->work({trace_kind::compute, 1ns, 2ns});
  const run_trace trace{0ns, 9ns, "failed", {full}, {"worker 1"}, {}};
  EXPECT_EQ(written(trace)["otherData"]["missing"],
            json({"worker 0: the last 1 events were left out", "worker 1: lost, with all its events"}));
  EXPECT_THAT(missing_in(trace), ::testing::SizeIs(2));
}

TEST(RunTrace, WritesMicrosecondsToTheNanosecondSinceTheBeginning) {
  auto t = std::make_shared<trace_track>("shard 0", 4, 1ms);
  t->work({trace_kind::apply, 1ms + 2005ns, 1ms + 3014ns, 3, 17, 40, 43});
  const json events = written({1ms, 2ms, "completed", {t}, {}, {}})["traceEvents"];
  const json& apply = events.back();
  EXPECT_EQ(apply["ph"], "X");
  EXPECT_EQ(apply["name"], "apply");
  EXPECT_EQ(apply["ts"], 2.005);
  EXPECT_EQ(apply["dur"], 1.009);
  EXPECT_EQ(apply["args"], json::parse(R"({"worker":3,"step":17,"version_read":40,"version":43,"gap":2})"));
}

TEST(RunTrace, ShowsSwitchesAndTheEndOnTheTrackOfTheCoordinator) {
  const run_trace trace{0ns, 9us, "completed",
                        {},  {},  {{50, "sync", "async", "a \"slow\" \xff one", 2us, 5us}}};
  const json events = written(trace)["traceEvents"];
  const json& change = events[events.size() - 2];
  EXPECT_EQ(change["name"], "switch from sync to async");
  EXPECT_EQ(change["dur"], 3.0);
  EXPECT_EQ(change["args"]["step"], 50);
  EXPECT_EQ(events.back()["ph"], "i");
  EXPECT_EQ(events.back()["name"], "completed");
  EXPECT_EQ(events.back()["ts"], 9.0);
}

} // namespace
} // namespace mailgrad

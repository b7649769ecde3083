#include <mailgrad/engine/account/run_trace.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <sstream>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

using json = nlohmann::ordered_json;

json written(const run_trace& trace) {
  std::ostringstream out;
  write_trace(out, trace);
  return json::parse(out.str());
}

/// All events of a trace without tracks of actors, but for the names of tracks.
json written_events(const run_trace& trace) {
  const json all = written(trace);
  json events = json::array();
  for (const json& e : all["traceEvents"])
    if (e["ph"] != "M") events.push_back(e);
  return events;
}

TEST(RunTrace, SaysWhatItDoesNotShow) {
  auto full = std::make_shared<trace_track>("worker 0", 1, 0ns);
  full->work({trace_kind::compute, 0ns, 1ns});
  full->work({trace_kind::compute, 1ns, 2ns});
  const run_trace trace{0ns, 9ns, "failed", {full}, {"worker 1"}, {}};
  EXPECT_EQ(written(trace)["otherData"]["missing"],
            json({"worker 0: the last 1 events were left out", "worker 1: lost, with all its events"}));
  EXPECT_THAT(missing_in(trace), SizeIs(2));
}

TEST(RunTrace, SaysHowItPlacedWhatOtherProcessesTold) {
  auto far = std::make_shared<trace_track>("worker 1 on cpu:0", 1, 0ns);
  run_trace trace{1s, 9s, "completed", {far}, {}, {}};
  trace.clocks = {{"worker 0 on cpu:0", {-1500ns, 2us}, {}}, {"worker 1 on cpu:0", {1h, {}}, 3s + 250ms}};
  trace.silent = {"shard 0"};
  const json other = written(trace)["otherData"];
  EXPECT_EQ(other["clocks"], json::parse(R"([
    {"track":"worker 0 on cpu:0","offset_us":-1.5,"uncertainty_us":2.0},
    {"track":"worker 1 on cpu:0","offset_us":3600000000.0,"uncertainty_us":null}])"));
  EXPECT_EQ(other["missing"],
            json({"worker 1 on cpu:0: lost, with what it did after 2.250 s", "shard 0: tells no timeline"}));
}

TEST(RunTrace, WritesMicrosecondsToTheNanosecondSinceTheBeginning) {
  auto t = std::make_shared<trace_track>("shard 0", 4, 1ms);
  t->work({trace_kind::apply, 1ms + 2005ns, 1ms + 3014ns, 3, 17, 40, 43});
  const json apply = written({1ms, 2ms, "completed", {t}, {}, {}})["traceEvents"].back();
  EXPECT_EQ(apply["ts"], 2.005);
  EXPECT_EQ(apply["dur"], 1.009);
}

TEST(RunTrace, ShowsSwitchesAndTheEndOnTheTrackOfTheCoordinator) {
  const json events = written({2us,
                               9us,
                               "completed",
                               {},
                               {},
                               {{50, "sync", "async", "a \"slow\" \xff one", 4us, 7us}}})["traceEvents"];
  EXPECT_EQ(events[events.size() - 2],
            json::parse(R"({"ph":"X","name":"switch from sync to async","cat":"work","ts":2.0,"dur":3.0,
      "args":{"step":50,"why":"a \"slow\" \ufffd one"},"pid":1,"tid":2})"));
  EXPECT_EQ(events.back()["ph"], "i");
  EXPECT_EQ(events.back()["name"], "completed");
  EXPECT_EQ(events.back()["ts"], 7.0);
}

/// A track whose actor was lost has no number, and those that follow it are not renumbered.
TEST(RunTrace, GivesEachActorATrackOfItsOwn) {
  auto worker = std::make_shared<trace_track>("worker 0", 4, 0ns);
  worker->wait(trace_kind::barrier, 4ns, 1);
  auto shard = std::make_shared<trace_track>("shard 0", 4, 0ns);
  shard->moment({trace_kind::discard, 3ns, 3ns, 2, 8, 0, 0, "too late"});
  const json events = written({0ns, 9ns, "completed", {worker, shard}, {}, {}})["traceEvents"];
  std::map<std::string, int> track_of;
  for (const json& e : events)
    if (e["name"] == "thread_name") track_of[e["args"]["name"]] = e["tid"];
  EXPECT_THAT(track_of, ElementsAre(Pair("coordinator", 2), Pair("shard 0", 4), Pair("worker 0", 3)));
  const auto is_named = [](const char* name) { return [name](const json& e) { return e["name"] == name; }; };
  const json wait = *std::ranges::find_if(events, is_named("waits for the barrier"));
  EXPECT_EQ(wait["tid"], track_of["worker 0"]);
  EXPECT_EQ(wait["args"], json::parse(R"({"shard":1})"));
  const json discard = *std::ranges::find_if(events, is_named("discarded"));
  EXPECT_EQ(discard["tid"], track_of["shard 0"]);
  EXPECT_EQ(discard["ph"], "i");
  EXPECT_EQ(discard["args"], json::parse(R"({"worker":2,"step":8,"reason":"too late"})"));
}

TEST(RunTrace, WritesAnEventALine) {
  std::ostringstream out;
  write_trace(out, {5us, 8us, "failed", {}, {}, {}});
  EXPECT_EQ(out.str(), R"({"displayTimeUnit":"ms",
"otherData":{"missing":[]},
"traceEvents":[
{"ph":"M","name":"process_name","args":{"name":"mailgrad"},"pid":1,"tid":2},
{"ph":"M","name":"thread_name","args":{"name":"coordinator"},"pid":1,"tid":2},
{"ph":"M","name":"thread_sort_index","args":{"sort_index":2},"pid":1,"tid":2},
{"ph":"i","s":"t","name":"failed","cat":"moment","ts":3.0,"args":{},"pid":1,"tid":2}
]}
)");
}

/// Collecting is a span. The moment that follows says what became of the file, also while a policy switches.
TEST(RunTrace, ShowsCheckpointsAndWhatBecameOfThem) {
  using enum checkpoint_times::fate;
  run_trace trace{2us, 30us, "completed", {}, {}, {{50, "sync", "async", "slow", 6us, 12us}}};
  trace.checkpoints = {{1, 3us, 5us, 9us, written, 40, "kept/checkpoint-40", 1234, {}},
                       {2, 13us, 14us, 15us, failed, 60, "kept/checkpoint-60", 0, "the disk is full"},
                       {3, 16us, 18us, 18us, given_up, 0, {}, 0, {}}};
  const json events = written_events(trace);
  EXPECT_EQ(events, json::parse(R"([
    {"ph":"X","name":"checkpoint","cat":"work","ts":1.0,"dur":2.0,"args":{"number":1},"pid":1,"tid":2},
    {"ph":"X","name":"switch from sync to async","cat":"work","ts":4.0,"dur":6.0,
     "args":{"step":50,"why":"slow"},"pid":1,"tid":2},
    {"ph":"i","s":"t","name":"checkpoint written","cat":"moment","ts":7.0,
     "args":{"number":1,"step":40,"file":"kept/checkpoint-40","bytes":1234},"pid":1,"tid":2},
    {"ph":"X","name":"checkpoint","cat":"work","ts":11.0,"dur":1.0,"args":{"number":2},"pid":1,"tid":2},
    {"ph":"i","s":"t","name":"checkpoint failed","cat":"moment","ts":13.0,
     "args":{"number":2,"step":60,"why":"the disk is full"},"pid":1,"tid":2},
    {"ph":"X","name":"checkpoint","cat":"work","ts":14.0,"dur":2.0,"args":{"number":3},"pid":1,"tid":2},
    {"ph":"i","s":"t","name":"checkpoint given up","cat":"moment","ts":16.0,"args":{"number":3},
     "pid":1,"tid":2},
    {"ph":"i","s":"t","name":"completed","cat":"moment","ts":28.0,"args":{},"pid":1,"tid":2}])"));
}

struct shown_kind {
  trace_kind what;
  const char* name;
  const char* category;
  const char* args;
};

/// Each number of the event differs from the others, so that none can stand for another.
TEST(RunTrace, ShowsOfEachKindWhatItMeans) {
  using enum trace_kind;
  const shown_kind kinds[] = {
      {compute, "compute", "work", R"({"step":17})"},
      {read, "read", "work", R"({"shard":3,"version":43})"},
      {apply, "apply", "work", R"({"worker":3,"step":17,"version_read":40,"version":43,"gap":2})"},
      {compare, "compares with a fresh gradient", "work", "{}"},
      {deal, "makes a batch", "work", R"({"worker":3,"batch":17})"},
      {discard, "discarded", "moment", R"({"worker":3,"step":17,"reason":"why"})"},
      {change_policy, "the next policy begins", "moment", R"({"policy":"why"})"},
      {shard_mailbox, "gradient in the shard's mailbox", "wait", R"({"shard":3})"},
      {shard_at_work, "waits for the shard", "wait", R"({"shard":3})"},
      {own_mailbox, "weights in the worker's mailbox", "wait", R"({"shard":3})"},
      {barrier, "waits for the barrier", "wait", R"({"shard":3})"},
      {bound, "held by the staleness bound", "wait", R"({"shard":3})"},
      {batch, "waits for batch", "wait", "{}"},
      {policy_switch, "waits for the switch of policy", "wait", "{}"},
      {gradient, "waits for a gradient", "wait", "{}"},
      {rest_of_batch, "waits for the rest of the batch", "wait", "{}"},
      {asker, "waits for a worker that asks", "wait", "{}"},
      {hold, "holds for the switch of policy", "wait", "{}"},
      {word_of_first_shard, "waits for its turn", "wait", "{}"},
      {compute_part, "compute", "work", R"({"step":17,"micro_batch":3,"segment":43})"},
      {stage_values, "waits for values of other stages", "wait", "{}"},
      {credit, "waits until others have used its values", "wait", "{}"},
      {next_step, "waits for its worker", "wait", "{}"},
      {wire, "on the wire, there and back", "wait", R"({"shard":3})"},
      {copy, "copies a batch ahead", "work", R"({"step":17})"},
  };
  for (const shown_kind& k : kinds) {
    SCOPED_TRACE(k.name);
    auto t = std::make_shared<trace_track>("an actor", 1, 0ns);
    t->work({k.what, 1us, 3us, 3, 17, 40, 43, "why"});
    const json event = written({0ns, 9us, "completed", {t}, {}, {}})["traceEvents"].back();
    EXPECT_EQ(event["name"], k.name);
    EXPECT_EQ(event["cat"], k.category);
    EXPECT_EQ(event["args"], json::parse(k.args));
    EXPECT_EQ(event["ph"], std::string(k.category) == "moment" ? "i" : "X");
    EXPECT_EQ(event["ts"], 1.0);
    EXPECT_EQ(event.contains("dur"), event["ph"] == "X");
    EXPECT_EQ(event["tid"], 3);
  }
}

} // namespace
} // namespace mailgrad

#include <mailgrad/engine/account/run_trace.hpp>
#include <mailgrad/engine/account/trace_track.hpp>
#include <mailgrad/files/byte_archive.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <sstream>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

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

std::vector<reported_event> told_from(const trace_track& track, std::size_t first, instant sent) {
  trace_piece piece{"cpu:0", sent.count()};
  tell_from(track, first, piece);
  return piece.events;
}

TEST(TracePiece, TellsTheEventsOfATrackInSpans) {
  trace_track track("worker 0", 1000, 1s);
  track.wait(trace_kind::batch, 1s + 5ns);
  track.work({trace_kind::compute, 1s + 5ns, 1s + 25ns, 0, 7, 3, 4});
  EXPECT_THAT(told_from(track, 1, 2s),
              ElementsAre(FieldsAre(trace_kind::compute, instant{1s - 5ns}.count(), 20, 0, 7, 3, 4, 0)))
      << "the first one had been told";
  EXPECT_THAT(told_from(track, 2, 2s), SizeIs(0));
}

TEST(TracePiece, TellsEachWordOnce) {
  trace_track track("shard 0", 1000, 0ns);
  for (const char* word : {"not awaited", "", "other epoch", "not awaited"})
    track.moment({trace_kind::discard, 1ns, 1ns, 0, 1, 0, 0, word});
  trace_piece piece{"", 5};
  tell_from(track, 0, piece);
  EXPECT_THAT(piece.words, ElementsAre("not awaited", "other epoch"));
  std::vector<std::uint32_t> of;
  for (const reported_event& e : piece.events) of.push_back(e.word);
  EXPECT_THAT(of, ElementsAre(1, 0, 2, 1));
  EXPECT_TRUE(piece.makes_sense());
}

TEST(TracePiece, HasRoomForAFewShortWords) {
  trace_track track("shard 0", 1000, 0ns);
  std::vector<std::string> words(trace_piece::most_words + 1, "word");
  for (std::size_t i = 0; i < words.size(); ++i) words[i] += std::to_string(i);
  words.insert(words.begin(), std::string(trace_piece::longest_word + 1, 'w'));
  for (const std::string& word : words) track.moment({trace_kind::discard, 1ns, 1ns, 0, 1, 0, 0, word});
  trace_piece piece{"", 5};
  tell_from(track, 0, piece);
  EXPECT_THAT(piece.words, SizeIs(trace_piece::most_words));
  EXPECT_EQ(piece.events.front().word, 0U);
  EXPECT_EQ(piece.events.back().word, 0U);
  EXPECT_TRUE(piece.makes_sense());
  piece.words.emplace_back();
  EXPECT_FALSE(piece.makes_sense());
  piece.words = {std::string(trace_piece::longest_word + 1, 'w')};
  EXPECT_FALSE(piece.makes_sense());
  piece.words = {"one"};
  EXPECT_FALSE(piece.makes_sense()) << "events have words that the piece lacks";
}

/// The largest numbers there are.
TEST(TracePiece, IsBoundedInEventsAndBytes) {
  trace_track track("worker 0", 1000, 0ns);
  for (int i = 0; i < 600; ++i) track.work({trace_kind::read, 1ns * i, 1ns * i});
  EXPECT_THAT(told_from(track, 0, 1s), SizeIs(trace_piece::most_events));
  EXPECT_THAT(told_from(track, 512, 1s), SizeIs(88));
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  constexpr std::int64_t long_ago = std::int64_t{1} << 61;
  reported_event e{trace_kind::wire, long_ago, long_ago, 0xffffffff, most, most, most, 0xffffffff};
  byte_archive_writer bytes;
  for (std::size_t i = 0; i < trace_piece::most_events; ++i) bytes.field("event", e);
  EXPECT_LT(bytes.bytes().size(), 16U << 10);
}

TEST(TracePiece, ReadsNoKindOfEventThatIsNotThere) {
  reported_event e{static_cast<trace_kind>(200)};
  byte_archive_writer bytes;
  auto number = static_cast<std::uint8_t>(e.what);
  bytes.field("what", number);
  byte_archive_reader reader(bytes.bytes(), "event");
  EXPECT_THROW(reader.field("", e), archive_error);
}

TEST(TracePiece, MakesSenseIfItsEventsHaveEnded) {
  using numbers = std::numeric_limits<std::int64_t>;
  trace_piece x{"cpu:0", 5, 7, 0, {{trace_kind::compute, 4, 4}}};
  EXPECT_TRUE(x.makes_sense());
  for (const auto& [ago, span] : {std::pair{4, 5}, {-1, 0}, {4, -1}}) {
    x.events[0] = {trace_kind::compute, ago, span};
    EXPECT_FALSE(x.makes_sense()) << ago << " ns ago, and ended " << span << " ns later";
  }
  x.events.assign(257, {});
  EXPECT_FALSE(x.makes_sense());
  EXPECT_FALSE((trace_piece{"cpu:0", numbers::min(), 7}.makes_sense()));
  EXPECT_FALSE((trace_piece{"cpu:0", 0, numbers::max()}.makes_sense()));
}

/// The other clock is an hour behind. The message is 2 ms under way, its answer 4 ms.
TEST(ClockBounds, PlaceTheOtherClockWithinHalfARoundTrip) {
  clock_bounds clock;
  EXPECT_TRUE(clock.offsets().empty());
  clock.add(10s, 1h + 10s + 2ms);
  EXPECT_EQ(clock.offsets().at(0).value, 1h + 2ms) << "without an answer: it came when it was sent, or later";
  EXPECT_FALSE(clock.offsets().at(0).uncertainty);
  clock.answer(10s + 6ms);
  EXPECT_EQ(clock.offsets().at(0).value, 1h - 1ms) << "the ways are taken for equally long";
  EXPECT_EQ(clock.offsets().at(0).uncertainty, 3ms) << "but need not be";
}

/// The message before was fast on its way there, the one behind had a fast answer.
TEST(ClockBounds, TakeTheBestOfAllMessages) {
  clock_bounds clock;
  clock.add(10s, 1h + 10s + 100us);
  clock.answer(10s + 80ms);
  clock.add(11s, 1h + 11s + 50ms);
  clock.answer(11s + 200ms);
  clock.add(12s, 1h + 12s + 30ms);
  clock.answer(12s + 30ms + 300us);
  const clock_offset found = clock.offsets().at(1);
  EXPECT_LE(found.value - *found.uncertainty, 1h);
  EXPECT_GE(found.value + *found.uncertainty, 1h);
  const auto about_300_us = AllOf(Ge(300us), Le(302us));
  EXPECT_THAT(*found.uncertainty, about_300_us) << "(100 us + 300 us) / 2, and 100 us of drift from each";
  EXPECT_THAT(*clock.offsets().at(0).uncertainty, about_300_us) << "200 us from the last one";
}

TEST(ClockBounds, TakeTheClockOfTheSameMachineAsItIs) {
  clock_bounds clock;
  clock.add(10s, 10s + 2ms);
  clock.answer(10s + 3ms);
  EXPECT_EQ(clock.offsets().at(0).value, 0ms) << "0 is within the bounds";
  EXPECT_EQ(clock.offsets().at(0).uncertainty, 2ms);
}

/// The other machine slept for an hour between both, while its clock stood still.
TEST(ClockBounds, JudgeEachMessageByItselfIfTheyContradict) {
  clock_bounds clock;
  clock.add(10s, 2h + 10s + 2ms);
  clock.answer(10s + 4ms);
  clock.add(11s, 3h + 11s + 2ms);
  clock.answer(11s + 4ms);
  EXPECT_EQ(clock.offsets().at(0).value, 2h);
  EXPECT_EQ(clock.offsets().at(1).value, 3h);
  EXPECT_EQ(clock.offsets().at(1).uncertainty, 2ms);
}

TEST(ClockBounds, TrustNoAnswerThatWasThereBeforeTheMessage) {
  clock_bounds clock;
  clock.answer(5s);
  clock.add(10s, 1h);
  clock.answer(9s);
  EXPECT_FALSE(clock.offsets().at(0).uncertainty);
  clock.answer(11s);
  clock.answer(13s);
  EXPECT_EQ(clock.offsets().at(0).uncertainty, 500ms) << "an answer to a later one says less";
}

TEST(DeviceClock, TakesTheQuickestNewsForTheDistance) {
  device_clock c;
  c.see(100us, 1130us); // 30 us late
  EXPECT_EQ(c.here(100us), 1130us);
  c.see(200us, 1205us); // 5 us late
  EXPECT_EQ(c.here(200us), 1205us);
  c.see(300us, 1390us);
  EXPECT_NEAR(static_cast<double>(c.here(300us).count()), 1'305'000, 20);
  EXPECT_NEAR(static_cast<double>((c.here(300us) - c.here(250us)).count()), 50'000, 0) << "what it measured";
}

/// The device's clock is slow by 20 us a second, and the news are quick.
TEST(DeviceClock, FollowsADrift) {
  device_clock c;
  for (std::int64_t s = 0; s < 100; ++s) {
    const instant here = std::chrono::seconds{s}, there = here - std::chrono::microseconds{20 * s};
    c.see(there, here + 1us);
    EXPECT_LE(c.here(there), here + 1us);
    EXPECT_GE(c.here(there), here - 1us) << s;
  }
}

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

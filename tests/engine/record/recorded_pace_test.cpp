#include <mailgrad/engine/record/recorded_pace.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <string>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using kind = order_entry::kind;

order_entry judged_at(std::uint32_t worker, std::uint64_t step, std::int64_t at) {
  return {kind::gradient, {worker}, {step}, {}, at};
}

/// Two workers on one shard, whose gradients come in this order.
recording paced_run_of(std::vector<order_entry> gradients, std::uint64_t batches_each = 1) {
  recording r;
  r.name = "x.rec";
  r.header.workers = 2;
  r.batches.resize(2);
  r.turns = {{{kind::joined, {0}}, {kind::joined, {1}}}};
  std::uint64_t batch = 0;
  for (const order_entry& g : gradients) {
    r.turns[0].push_back(g);
    for (std::uint64_t i = 0; i < batches_each; ++i) r.batches[g.worker.value].push_back(batch++);
  }
  r.turns[0].push_back({kind::left, {0}});
  r.turns[0].push_back({kind::left, {1}});
  r.end.ended = "completed";
  return r;
}

recording five_gradients() {
  return paced_run_of({judged_at(0, 1, 1100), judged_at(1, 1, 1130), judged_at(0, 2, 1150),
                       judged_at(0, 3, 1200), judged_at(1, 2, 1230)});
}

TEST(RecordedPace, TakesAStepFromTheAnswerBeforeItToItsGradient) {
  const recorded_pace p = pace_of(five_gradients(), {"async"});
  EXPECT_THAT(p.steps, ElementsAre(ElementsAre(70ns, 50ns, 50ns), ElementsAre(100ns, 100ns)))
      << "all begin at 1030, when the first step of worker 1 can have taken as long as its second";
  EXPECT_EQ(p.lasted, 200ns);
  EXPECT_EQ(p.waited, 0ns);
  EXPECT_EQ(p.updates, 5U);
  EXPECT_EQ(p.discarded, 0U);
  EXPECT_THAT(p.gaps.buckets(), ElementsAre(Pair(0, 2), Pair(1, 2), Pair(2, 1)));
}

TEST(RecordedPace, LeavesOutTheWaitForOthers) {
  const recorded_pace p = pace_of(
      paced_run_of({judged_at(0, 1, 100), judged_at(1, 1, 140), judged_at(1, 2, 200), judged_at(0, 2, 240)}),
      {"sync"});
  EXPECT_THAT(p.steps, ElementsAre(ElementsAre(100ns, 100ns), ElementsAre(140ns, 60ns)));
  EXPECT_EQ(p.waited, 40ns) << "worker 1 waits 40 ns at the end, too, and begins nothing behind it";
  EXPECT_EQ(p.updates, 2U);
  EXPECT_EQ(p.lasted, 240ns);
  EXPECT_THAT(p.gaps.buckets(), ElementsAre(Pair(0, 4)));
}

/// Under ssp:0 worker 0 stands still until worker 1 has made its first step.
TEST(RecordedPace, LeavesOutTheWaitAtABound) {
  const recorded_pace p = pace_of(
      paced_run_of({judged_at(0, 1, 100), judged_at(1, 1, 300), judged_at(0, 2, 390), judged_at(1, 2, 600)}),
      {"ssp:0"});
  EXPECT_THAT(p.steps, ElementsAre(ElementsAre(100ns, 90ns), ElementsAre(300ns, 300ns)));
  EXPECT_EQ(p.waited, 200ns);
}

TEST(RecordedPace, CountsWhatWasDiscardedApart) {
  const recorded_pace p = pace_of(five_gradients(), {"ringmaster:2"});
  EXPECT_EQ(p.discarded, 1U);
  EXPECT_EQ(p.updates, 4U);
  EXPECT_THAT(p.gaps.buckets(), ElementsAre(Pair(0, 2), Pair(1, 2)));
}

TEST(RecordedPace, SharesTheTimeOfAnExchangeAmongItsSteps) {
  const recorded_pace p = pace_of(
      paced_run_of({judged_at(0, 1, 100), judged_at(1, 1, 110), judged_at(0, 2, 201), judged_at(1, 2, 210)},
                   2),
      {"async", 2});
  EXPECT_THAT(p.steps, ElementsAre(ElementsAre(50ns, 50ns, 51ns, 50ns), ElementsAre(55ns, 55ns, 50ns, 50ns)));
}

TEST(RecordedPace, GoesOnFromTheLastGradientBeforeASwitch) {
  recording r =
      paced_run_of({judged_at(0, 1, 100), judged_at(1, 1, 140), judged_at(1, 2, 200), judged_at(0, 2, 240)});
  r.turns[0].insert(r.turns[0].begin() + 4, {kind::switched, {0}});
  r.end.switches = {{"sync", "by hand", {1, 1}, {1, 1}}};
  const recorded_pace p = pace_of(r, {"async"});
  EXPECT_EQ(p.steps[0].back(), 100ns);
  EXPECT_EQ(p.steps[1].back(), 60ns);
  EXPECT_EQ(p.updates, 3U) << "two under async, and one of both under sync";
}

TEST(RecordedPace, RefusesWhatTellsNoTimes) {
  const std::pair<std::function<void(recording&)>, const char*> wrong[] = {
      {[](recording& r) { r.killed = true; }, "it was not completed"},
      {[](recording& r) { r.end.lost = {1}; }, "workers came or went"},
      {[](recording& r) {
         r.header.seats = 3;
         r.batches.resize(3);
       },
       "workers came or went"},
      {[](recording& r) { r.turns[0][6].arrived = 1100; }, "had its weights after its step 2 had come"},
      {[](recording& r) {
         r = paced_run_of({judged_at(0, 1, 1), judged_at(0, 2, 2), judged_at(1, 1, 3)});
       },
       "worker 1 made 1 exchange, and at least 2 are needed"},
      {[](recording& r) {
         r.turns[0][2].arrived = std::numeric_limits<std::int64_t>::min();
         r.turns[0][3].arrived = std::numeric_limits<std::int64_t>::max();
       },
       "moments that lie too far apart"},
      {[](recording& r) { r.turns[0][6].arrived = std::numeric_limits<std::int64_t>::max(); },
       "moments that lie too far apart"},
      {[](recording& r) { r.batches[0].pop_back(); }, "cannot be repeated to its end"},
  };
  for (const auto& [change, why] : wrong) {
    recording r = five_gradients();
    change(r);
    try {
      pace_of(r, {"async"});
      ADD_FAILURE() << why;
    } catch (const recording_error& e) {
      EXPECT_THAT(e.what(), HasSubstr(why));
    }
  }
}

/// A gradient ages in the queue: what counts is how old it is when it leaves.
TEST(RecordedPace, CountsTheGapsOfAQueueBehindIt) {
  const recorded_pace p = pace_of(five_gradients(), {"queue:1,2"});
  EXPECT_THAT(p.steps, ElementsAre(ElementsAre(70ns, 50ns, 50ns), ElementsAre(100ns, 100ns)));
  EXPECT_EQ(p.updates, 5U) << "two of them of what the last worker leaves behind";
  EXPECT_EQ(p.waited, 0ns);
  EXPECT_THAT(p.gaps.buckets(), ElementsAre(Pair(0, 1), Pair(1, 1), Pair(2, 2), Pair(4, 1)));
}

} // namespace
} // namespace mailgrad

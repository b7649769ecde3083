#include <mailgrad/engine/record/recorded_incarnations.hpp>
#include <mailgrad/engine/record/rehearsal.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

using kind = order_entry::kind;

order_entry joins(std::uint32_t worker, std::uint32_t incarnation = 0) {
  return order_entry::of(kind::joined, {worker}, {incarnation});
}
order_entry leaves(std::uint32_t worker, std::uint32_t incarnation = 0) {
  return order_entry::of(kind::left, {worker}, {incarnation});
}
order_entry takes(std::uint32_t worker, std::uint64_t step, std::int64_t at = 0) {
  return {kind::gradient, {worker}, {step}, {}, at};
}
const order_entry switches{kind::switched, {}};

/// Two workers begin. Worker 1 is lost, comes back after a switch, and leaves; worker 2 comes late.
recording eventful() {
  recording r;
  r.header.workers = 2;
  r.header.slots = 4;
  r.batches = {{0, 3}, {1, 4, 5}, {6}, {}};
  r.incarnations = {{}, {{{0}, 0, true}, {{2}, 1, false}}, {{{0}, 0, false}}, {}};
  // At shard 1 worker 2 overtakes the switch.
  r.entries = {{joins(0), joins(1), takes(1, 1), leaves(1), switches, joins(1, 2), joins(2)},
               {joins(0), joins(1), leaves(1), joins(2), switches, joins(1, 2)}};
  return r;
}

TEST(RecordedIncarnations, AreOneEachWhereNobodyComesOrGoes) {
  recording r;
  r.header.workers = 2;
  r.batches = {{0, 2}, {1}};
  r.entries = {{joins(0), joins(1)}};
  const recorded_incarnations incarnations(r);
  EXPECT_FALSE(incarnations.any_change());
  ASSERT_EQ(incarnations.of(0).size(), 1U);
  EXPECT_EQ(incarnations.of(0)[0].end, 2U);
  EXPECT_FALSE(incarnations.of(0)[0].late || incarnations.of(0)[0].cut);
}

TEST(RecordedIncarnations, AreThoseThatTrainedOrJoined) {
  recording r = eventful();
  const recorded_incarnations incarnations(r);
  EXPECT_TRUE(incarnations.any_change());
  ASSERT_EQ(incarnations.ranks(), 4U);
  ASSERT_EQ(incarnations.of(1).size(), 2U);
  const recorded_incarnation &lost = incarnations.of(1)[0], &back = incarnations.of(1)[1];
  EXPECT_TRUE(lost.cut && !lost.late);
  EXPECT_EQ(lost.end, 1U);
  EXPECT_EQ(back.incarnation, incarnation_number{2});
  EXPECT_TRUE(back.late && !back.cut);
  EXPECT_EQ(back.first, 1U);
  EXPECT_EQ(back.end, 3U);
  EXPECT_EQ(back.switches, 1U);
  ASSERT_EQ(incarnations.of(2).size(), 1U);
  EXPECT_TRUE(incarnations.of(2)[0].late);
  EXPECT_EQ(incarnations.of(2)[0].switches, 0U) << "it had its slot before the switch";
  EXPECT_TRUE(incarnations.of(3).empty()) << "that slot stayed empty";
  EXPECT_EQ(incarnations.find({1}, {2}), &back);
  EXPECT_EQ(incarnations.find({1}, {1}), nullptr);
  EXPECT_EQ(incarnations.find({9}, {}), nullptr);
  EXPECT_EQ(incarnations.before_switch(1, 0), &lost);
  EXPECT_EQ(incarnations.before_switch(1, 1), &back);
  EXPECT_EQ(incarnations.before_switch(3, 1), nullptr);
  r.end.lost = {0};
  EXPECT_TRUE(recorded_incarnations(r).of(0)[0].cut) << "it is lost at the end";
  EXPECT_FALSE(recorded_incarnations(r).of(1)[1].cut);
}

TEST(RecordedIncarnations, SayWhichStepCameBeforeASwitch) {
  recording r = eventful();
  r.end.switches.resize(2);
  r.entries[1].insert(r.entries[1].begin() + 2, {takes(1, 1), {kind::missed, {1}, 2}});
  r.entries[1].push_back(takes(1, 1));
  r.entries[0].push_back(takes(0, 1)); // the run was killed, and the second switch is no entry
  const recorded_incarnations incarnations(r);
  EXPECT_EQ(incarnations.step_before(0, 0).value, 0U);
  EXPECT_EQ(incarnations.step_before(0, 1).value, 2U) << "shard 1 had one more";
  EXPECT_EQ(incarnations.step_before(1, 0).value, 1U);
  EXPECT_EQ(incarnations.step_before(1, 1).value, 1U) << "of the incarnation that is there now";
  EXPECT_EQ(incarnations.step_before(1, 3).value, 0U);
}

TEST(RecordedIncarnations, CountBeforeASwitchWhatSomebodyKnewOf) {
  recording r = eventful();
  const recorded_switch both{"sync", "", {2, 2, 0, 0}, {1, 1, 0, 0}};
  EXPECT_EQ(recorded_incarnations(r).batches_before(both, 0, 1), 1U) << "the other one was taken back";
  EXPECT_EQ(recorded_incarnations(r).batches_before(both, 1, 1), 2U);
  r.batches[0] = {0};
  EXPECT_EQ(recorded_incarnations(r).batches_before(both, 0, 0), 2U) << "a killed run may lack deals";
}

/// A worker of the beginning may die before it does anything: no shard knows it, and the run waits for it no
/// longer. One that comes later, and is lost before any shard has heard of it, has changed nothing.
TEST(RecordedIncarnations, HaveWhoeverTheRunBeganWithThoughItNeverJoined) {
  for (const std::uint32_t gone : {0U, 2U}) {
    recording r = eventful();
    if (gone == 0) r.batches[0].clear();
    for (auto& entries : r.entries)
      std::erase_if(entries, [gone](const order_entry& t) { return t.worker == rank{gone}; });
    EXPECT_EQ(recorded_incarnations(r).of(gone).size(), gone == 0 ? 1U : 0U);
  }
}

/// The switch counted worker 3 as present, and it was lost before its joining came to all shards, or to any.
TEST(RecordedIncarnations, HaveWhoASwitchCountedThoughAShardLacksItsJoining) {
  for (const bool joined : {false, true}) {
    recording r = eventful();
    r.entries[0].insert(r.entries[0].begin() + (joined ? 4 : 5), joined ? joins(3) : leaves(3));
    r.entries[1].insert(r.entries[1].begin() + 5, leaves(3));
    const recorded_incarnations incarnations(r);
    ASSERT_EQ(incarnations.of(3).size(), 1U);
    EXPECT_TRUE(incarnations.of(3)[0].cut);
    EXPECT_TRUE(incarnations.of(3)[0].late);
    EXPECT_EQ(incarnations.before_switch(3, 0), &incarnations.of(3)[0]);
  }
}

/// Worker 0 trains two batches before a switch and one after it, worker 1 one and none; worker 2 has ended
/// before it.
std::shared_ptr<const recording> one_switch() {
  recording r;
  r.header.workers = 3;
  r.batches = {{0, 3, 4}, {1}, {2}};
  r.end.switches = {{"sync", "by hand", {2, 1, 0}, {1, 1, 0}}};
  return std::make_shared<recording>(std::move(r));
}

TEST(RecordedBatches, GiveEachWorkerItsOwn) {
  recorded_batches deals(one_switch());
  EXPECT_EQ(deals.next({0}), 0U);
  EXPECT_EQ(deals.next({2}), 2U);
  EXPECT_EQ(deals.next({0}), 3U);
  EXPECT_EQ(deals.next({2}), std::nullopt);
  EXPECT_EQ(deals.next({1}), 1U);
}

TEST(RecordedBatches, HoldWhatComesAfterASwitch) {
  recorded_batches deals(one_switch());
  EXPECT_FALSE(deals.holds({0}));
  deals.next({0});
  deals.next({0});
  deals.next({1});
  EXPECT_TRUE(deals.holds({0}));
  EXPECT_TRUE(deals.holds({1})) << "it must not end before the switch";
  EXPECT_FALSE(deals.holds({2})) << "it takes no part";
  deals.wait({0});
  EXPECT_FALSE(deals.reached_switch()) << "worker 1 has a batch to train";
  deals.wait({1});
  EXPECT_EQ(deals.reached_switch(), 1U);
  EXPECT_FALSE(deals.reached_switch()) << "that was said";
  deals.pass_switch();
  EXPECT_FALSE(deals.holds({0}));
  EXPECT_FALSE(deals.reached_switch());
  EXPECT_EQ(deals.next({0}), 4U);
  EXPECT_EQ(deals.next({1}), std::nullopt);
}

TEST(RecordedBatches, WaitForEverybodyAgainAtTheNextSwitch) {
  recording r = *one_switch();
  r.end.switches.push_back({"async", "by hand", {2, 1, 0}, {1, 1, 0}});
  recorded_batches deals(std::make_shared<recording>(std::move(r)));
  for (const std::uint32_t w : {0U, 1U}) deals.wait({w});
  EXPECT_EQ(deals.reached_switch(), 1U);
  deals.pass_switch();
  deals.wait({0});
  EXPECT_FALSE(deals.reached_switch()) << "worker 1 is not there yet";
  deals.wait({1});
  EXPECT_EQ(deals.reached_switch(), 2U);
  recorded_batches left(one_switch());
  left.wait({0});
  left.leave({1});
  EXPECT_EQ(left.reached_switch(), 1U) << "nobody waits for who is gone";
}

/// Worker 0 was lost after a batch and came back after the first switch, before the second.
std::shared_ptr<const recording> one_return() {
  recording r;
  r.header.workers = 2;
  r.batches = {{0, 4}, {1, 2, 3}};
  r.incarnations = {{{{0}, 0, true}, {{3}, 1, false}}, {}};
  r.entries = {{joins(0), joins(1), leaves(0), switches, joins(0, 3), switches}};
  r.end.switches = {{"sync", "", {0, 2}, {0, 1}}, {"async", "", {2, 3}, {1, 1}}};
  return std::make_shared<recording>(std::move(r));
}

TEST(RecordedBatches, GiveEachIncarnationItsOwn) {
  recorded_batches deals(one_return());
  EXPECT_EQ(deals.next({0}), 0U);
  EXPECT_EQ(deals.next({0}), std::nullopt) << "the rest is of its next incarnation";
  deals.begin({0}, {3});
  EXPECT_EQ(deals.next({0}), 4U);
  EXPECT_EQ(deals.next({0}), std::nullopt);
}

TEST(RecordedBatches, WaitAtASwitchForTheIncarnationThatTookPart) {
  recorded_batches deals(one_return());
  for (int i = 0; i < 2; ++i) deals.next({1});
  deals.wait({1});
  EXPECT_EQ(deals.reached_switch(), 1U) << "worker 0 took no part in the first";
  deals.pass_switch();
  deals.leave({0});
  deals.next({1});
  EXPECT_TRUE(deals.holds({1}));
  deals.wait({1});
  EXPECT_FALSE(deals.reached_switch()) << "its next incarnation takes part in the second";
  deals.begin({0}, {3});
  EXPECT_FALSE(deals.holds({0}));
  deals.next({0});
  EXPECT_TRUE(deals.holds({0}));
  deals.wait({0});
  EXPECT_EQ(deals.reached_switch(), 2U);
}

/// It trained one that nobody knew of, and was lost soon after the switch.
TEST(RecordedBatches, HoldALostWorkerWithItsLastOne) {
  recording r = *one_return();
  r.end.switches = {{"sync", "", {2, 2}, {1, 1}}, {"async", "", {2, 3}, {1, 1}}};
  recorded_batches deals(std::make_shared<const recording>(r));
  deals.next({0});
  EXPECT_TRUE(deals.holds({0}));
}

/// Worker 0 comes back twice, the second time after a switch; worker 1 comes late.
recorded_slots three_comings() {
  recording r;
  r.header.workers = 1;
  r.header.slots = 2;
  r.batches.resize(2);
  r.entries = {{joins(0), leaves(0), joins(0, 1), joins(1), leaves(0, 1), switches, joins(0, 2)}};
  return recorded_slots(recorded_incarnations(r));
}

TEST(RecordedSlots, AreTakenOneAfterTheOtherByWhoWasBrought) {
  recorded_slots slots = three_comings();
  slots.take({0}, {1});
  slots.take({7}, {});
  EXPECT_EQ(recorded_slots().bring({0}, 0), std::nullopt);
  EXPECT_EQ(slots.bring({0}, 0), incarnation_number{1});
  EXPECT_EQ(slots.bring({0}, 0), std::nullopt) << "it is on its way";
  EXPECT_TRUE(slots.was_brought({0}, {1}));
  slots.take({0}, {1});
  EXPECT_FALSE(slots.was_brought({0}, {1}));
  EXPECT_EQ(slots.bring({0}, 0), std::nullopt) << "the next one came after the switch";
  EXPECT_EQ(slots.bring({0}, 1), incarnation_number{2});
}

TEST(RecordedSlots, SayWhoComesBeforeTheNextSwitch) {
  recorded_slots slots = three_comings();
  EXPECT_TRUE(slots.any_due(0));
  slots.bring({0}, 0);
  slots.take({0}, {1});
  EXPECT_TRUE(slots.any_due(0)) << "worker 1 has no slot yet";
  EXPECT_EQ(slots.bring({1}, 0), incarnation_number{});
  EXPECT_TRUE(slots.any_due(0)) << "it has not taken it yet";
  slots.take({1}, {});
  EXPECT_FALSE(slots.any_due(0));
  EXPECT_TRUE(slots.any());
  EXPECT_TRUE(slots.any_due(1));
  slots.clear();
  EXPECT_FALSE(slots.any());
}

/// Two workers make two steps each on two shards, by turns.
recording two_by_two() {
  recording r;
  r.name = "x.rec";
  r.header.workers = 2;
  r.batches = {{0, 2}, {1, 3}};
  r.entries = std::vector(2, std::vector<order_entry>{joins(0), joins(1), takes(0, 1), takes(1, 1),
                                                      takes(0, 2), takes(1, 2), leaves(0), leaves(1)});
  r.end.ended = "completed";
  return r;
}

using change = std::function<void(recording&)>;

/// Changes the entries of each shard.
change in_each_shard(const std::function<void(std::vector<order_entry>&)>& c) {
  return [c](recording& r) { std::ranges::for_each(r.entries, c); };
}

/// Why it is refused under `terms`, after `c`; empty if it is not.
std::string refused_rehearsal(const replay_terms& terms, const change& c = {}) {
  recording r = two_by_two();
  if (c) c(r);
  return testing::words_of_refusal([&] { require_replay_ends(r, terms); });
}

void swap_entries(recording& r, std::size_t shard, std::size_t a, std::size_t b) {
  std::swap(r.entries[shard][a], r.entries[shard][b]);
}

TEST(Rehearsal, ComesToTheEndOfAnOrderThatCanBe) {
  for (const char* policy : {"async", "sync", "ssp:0", "ssp:1", "dssp:0,1", "backup:0", "k-async:2",
                             "k-batch-async:2", "k-batch-sync:2", "rennala:2", "ringmaster:2"})
    EXPECT_EQ(refused_rehearsal({policy}), "") << policy;
  EXPECT_EQ(refused_rehearsal({"async"}, [](recording& r) { swap_entries(r, 1, 2, 3); }), "")
      << "shards need not agree";
  const auto diverged = [](recording& r) {
    r.batches[1].push_back(4);
    r.end.ended = "diverged";
  };
  EXPECT_EQ(refused_rehearsal({"async"}, diverged), "") << "after the last gradient of worker 1";
}

/// Worker 0 makes its second step without the other, which is possible only if its first batch was closed.
TEST(Rehearsal, ClosesTheBatchesThatWereClosed) {
  const auto ahead = [](bool closed) {
    return in_each_shard([closed](auto& entries) {
      std::swap(entries[3], entries[4]);
      if (closed) entries.insert(entries.begin() + 3, {kind::closed, {}, {}, {}, 1000});
    });
  };
  EXPECT_EQ(refused_rehearsal({"quorum:1,grace=1"}, ahead(true)), "");
  EXPECT_THAT(
      refused_rehearsal({"quorum:1,grace=1"}, ahead(false)),
      HasSubstr("waits at its turn 4 of 8 for the gradient of worker 0, step 2: worker 0 waits for the "
                "weights of shard 0"));
}

TEST(Rehearsal, NamesWhatAShardOrAWorkerWaitsFor) {
  struct row {
    change c;
    const char* why;
  };
  const row rows[] = {
      {[](recording& r) { r.batches[1].pop_back(); }, "'x.rec' cannot be repeated to its end: shard 0 waits "
                                                      "at its turn 6 of 8 for the gradient of worker 1, "
                                                      "step 2: worker 1 has ended after its step 1"},
      {in_each_shard([](auto& entries) { std::swap(entries[3], entries[5]); }),
       "shard 0 waits at its turn 4 of 8 for the gradient of worker 1, step 2: worker 1 waits for the "
       "weights "
       "of shard 0 after its step 1"},
      {in_each_shard([](auto& entries) {
         std::erase_if(entries, [](const order_entry& t) { return t.worker == rank{1}; });
       }),
       "worker 1 waits for the weights of shard 0 before its first step, which it has not joined"},
      {[](recording& r) { r.batches[0].push_back(4); },
       "shard 0 waits at its turn 7 of 8 for the end of worker 0: worker 0 waits for the weights of shard 0 "
       "after its step 3"},
      {[](recording& r) {
         for (auto& entries : r.entries) entries.resize(6);
         r.batches[0].push_back(4);
       },
       "which has no turn for it"}};
  for (const row& r : rows) EXPECT_THAT(refused_rehearsal({"async"}, r.c), HasSubstr(r.why));
}

/// Each shard waits for a gradient that the other one holds up.
TEST(Rehearsal, NamesAnOrderInWhichTwoShardsWaitForEachOther) {
  const auto crossed = [](recording& r) {
    swap_entries(r, 0, 3, 4); // worker 0 twice, then worker 1
    swap_entries(r, 1, 2, 3);
    swap_entries(r, 1, 3, 5); // worker 1 twice, then worker 0
  };
  EXPECT_THAT(
      refused_rehearsal({"async"}, crossed),
      HasSubstr("shard 0 waits at its turn 4 of 8 for the gradient of worker 0, step 2: worker 0 waits for "
                "the weights of shard 1 after its step 1"));
}

TEST(Rehearsal, KnowsWhomAPolicyHolds) {
  const change ahead = in_each_shard([](auto& entries) {
    std::swap(entries[3], entries[4]);
  }); // two steps of worker 0 before one of worker 1
  for (const char* policy : {"async", "ssp:1"}) EXPECT_EQ(refused_rehearsal({policy}, ahead), "");
  for (const char* policy : {"ssp:0", "sync", "k-async:2"})
    EXPECT_THAT(refused_rehearsal({policy}, ahead),
                HasSubstr("worker 0 waits for the weights of shard 0 after its step 1"))
        << policy;
}

TEST(Rehearsal, CountsBatchesAndLocalSteps) {
  EXPECT_THAT(refused_rehearsal({"async", 0, false, 3}),
              HasSubstr("deals batch 3 to worker 1; the run has 3"));
  EXPECT_EQ(refused_rehearsal({"async", 0, false, 4}), "");
  const auto of_five = [](recording& r) { r.batches = {{0, 2, 4, 6, 8}, {1, 3, 5, 7, 9}}; };
  EXPECT_EQ(refused_rehearsal({"async", 3}, of_five), "");
  EXPECT_EQ(refused_rehearsal({"async", 4}, of_five), "");
  EXPECT_THAT(
      refused_rehearsal({"async", 2}, of_five),
      HasSubstr("for the end of worker 0: worker 0 waits for the weights of shard 0 after its step 3"));
  EXPECT_THAT(refused_rehearsal({"async", 5}, of_five), HasSubstr("the gradient of worker 0, step 2"));
  EXPECT_EQ(refused_rehearsal({"async", 4, true}, of_five), "");
}

/// The worker of EASGD holds its second step over the exchange that its first push is.
TEST(Rehearsal, TakesAHeldStepBeforeASwitchOnlyIfAShardHadIt) {
  recording r;
  r.batches = {{0, 1}};
  r.end.ended = "completed";
  r.end.switches = {{"sync", "by hand", {2}, {1}}};
  for (const std::ptrdiff_t switched : {2, 3}) {
    r.entries = {{joins(0), takes(0, 1), takes(0, 2), leaves(0)}};
    r.entries[0].insert(r.entries[0].begin() + switched, switches);
    EXPECT_NO_THROW(require_replay_ends(r, {"async", 1, true})) << switched;
  }
}

TEST(Rehearsal, TakesSwitchesWhereTheyWere) {
  const auto refused = [](const std::vector<std::uint64_t>& batches,
                          const std::vector<std::uint8_t>& present) {
    return refused_rehearsal({"async"}, [&](recording& r) {
      r.end.switches = {{"sync", "by hand", batches, present}};
      for (auto& entries : r.entries) entries.insert(entries.begin() + 4, switches);
    });
  };
  EXPECT_EQ(refused({1, 1}, {1, 1}), "");
  EXPECT_THAT(refused({2, 1}, {1, 1}), HasSubstr("shard 0 lets worker 0 go twice, at turn 7"));
  EXPECT_THAT(refused({1, 1}, {0, 1}), HasSubstr("for the switch to sync: worker 0 waits for the weights"));
  EXPECT_THAT(refused({1, 1}, {1, 0}), HasSubstr("for the switch to sync: worker 1 waits for the weights"));
}

recording killed_run() {
  recording r = two_by_two();
  r.killed = true;
  return r;
}

TEST(RepeatablePart, TakesNoGradientWhoseBatchesAreNotAllWrittenDown) {
  recording r = killed_run();
  r.batches[0].pop_back();
  EXPECT_THAT(repeatable_part(r, {"async"}).batches, ElementsAre(SizeIs(1), SizeIs(1)));
  r.batches = {{0, 2, 4, 6}, {1, 3, 5, 7, 9}}; // the second round of either may have had more
  EXPECT_THAT(repeatable_part(r, {"async", 3}).batches, ElementsAre(SizeIs(3), SizeIs(3)));
}

TEST(RepeatablePart, TakesAGradientEverywhereThatAnyShardHasTaken) {
  recording r = killed_run();
  r.entries[0].resize(5); // up to the second step of worker 0
  r.entries[1].resize(3); // up to the first step of worker 0
  const recording cut = repeatable_part(r, {"async"});
  EXPECT_THAT(cut.batches, ElementsAre(SizeIs(2), SizeIs(1)));
  EXPECT_EQ(cut.entries[1][3].worker, rank{1});
  EXPECT_EQ(cut.entries[1][4].worker, rank{0});
  EXPECT_EQ(cut.entries[1][4].step.value, 2U);
  EXPECT_EQ(cut.entries[1][5].what, kind::left);
}

TEST(RepeatablePart, GoesThroughASwitchThatAnyShardHasMadeAndAddsItToTheOthers) {
  recording r = killed_run();
  r.end.switches = {{"sync", "by hand", {1, 1}, {1, 1}}};
  r.entries[1].insert(r.entries[1].begin() + 4, switches);
  r.entries[0].resize(4); // up to the switch
  r.entries[1].resize(5); // and with it
  EXPECT_THAT(repeatable_part(r, {"async"}).end.switches, SizeIs(1));
  std::swap(r.entries[0], r.entries[1]);
  EXPECT_THAT(repeatable_part(r, {"async"}).end.switches, SizeIs(1));
  r.end.switches.push_back({"async", "by hand", {1, 1}, {1, 1}});
  r.entries[1] = r.entries[0];
  r.entries[1].push_back(switches);
  for (const auto& entries : repeatable_part(r, {"async"}).entries)
    EXPECT_EQ(std::ranges::count(entries, kind::switched, &order_entry::what), 2);
}

TEST(RepeatablePart, IsNothingWhereNothingIsWritten) {
  recording r = killed_run();
  r.entries = {{}, {}};
  const recording cut = repeatable_part(r, {"sync"});
  EXPECT_THAT(cut.batches, ElementsAre(SizeIs(0), SizeIs(0)));
  EXPECT_EQ(cut.entries[0].size(), 4U) << "both join and leave";
}

/// Two workers on one shard, whose gradients come in this order.
recording paced_run_of(std::vector<order_entry> gradients, std::uint64_t batches_each = 1) {
  recording r;
  r.name = "x.rec";
  r.header.workers = 2;
  r.batches.resize(2);
  r.entries = {{joins(0), joins(1)}};
  std::uint64_t batch = 0;
  for (const order_entry& g : gradients) {
    r.entries[0].push_back(g);
    for (std::uint64_t i = 0; i < batches_each; ++i) r.batches[g.worker.value].push_back(batch++);
  }
  r.entries[0].insert(r.entries[0].end(), {leaves(0), leaves(1)});
  r.end.ended = "completed";
  return r;
}

recording five_gradients() {
  return paced_run_of(
      {takes(0, 1, 1100), takes(1, 1, 1130), takes(0, 2, 1150), takes(0, 3, 1200), takes(1, 2, 1230)});
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
      paced_run_of({takes(0, 1, 100), takes(1, 1, 140), takes(1, 2, 200), takes(0, 2, 240)}), {"sync"});
  EXPECT_THAT(p.steps, ElementsAre(ElementsAre(100ns, 100ns), ElementsAre(140ns, 60ns)));
  EXPECT_EQ(p.waited, 40ns) << "worker 1 waits 40 ns at the end, too, and begins nothing behind it";
  EXPECT_EQ(p.updates, 2U);
  EXPECT_EQ(p.lasted, 240ns);
  EXPECT_THAT(p.gaps.buckets(), ElementsAre(Pair(0, 4)));
}

/// Under ssp:0 worker 0 stands still until worker 1 has made its first step.
TEST(RecordedPace, LeavesOutTheWaitAtABound) {
  const recorded_pace p = pace_of(
      paced_run_of({takes(0, 1, 100), takes(1, 1, 300), takes(0, 2, 390), takes(1, 2, 600)}), {"ssp:0"});
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
  const recorded_pace p =
      pace_of(paced_run_of({takes(0, 1, 100), takes(1, 1, 110), takes(0, 2, 201), takes(1, 2, 210)}, 2),
              {"async", 2});
  EXPECT_THAT(p.steps, ElementsAre(ElementsAre(50ns, 50ns, 51ns, 50ns), ElementsAre(55ns, 55ns, 50ns, 50ns)));
}

TEST(RecordedPace, GoesOnFromTheLastGradientBeforeASwitch) {
  recording r = paced_run_of({takes(0, 1, 100), takes(1, 1, 140), takes(1, 2, 200), takes(0, 2, 240)});
  r.entries[0].insert(r.entries[0].begin() + 4, {kind::switched, {0}});
  r.end.switches = {{"sync", "by hand", {1, 1}, {1, 1}}};
  const recorded_pace p = pace_of(r, {"async"});
  EXPECT_EQ(p.steps[0].back(), 100ns);
  EXPECT_EQ(p.steps[1].back(), 60ns);
  EXPECT_EQ(p.updates, 3U) << "two under async, and one of both under sync";
}

TEST(RecordedPace, RefusesWhatTellsNoTimes) {
  const std::pair<change, const char*> wrong[] = {
      {[](recording& r) { r.killed = true; }, "it was not completed"},
      {[](recording& r) { r.end.lost = {1}; }, "workers came or went"},
      {[](recording& r) {
         r.header.slots = 3;
         r.batches.resize(3);
       },
       "workers came or went"},
      {[](recording& r) { r.entries[0][6].arrived = 1100; }, "had its weights after its step 2 had come"},
      {[](recording& r) {
         r = paced_run_of({takes(0, 1, 1), takes(0, 2, 2), takes(1, 1, 3)});
       },
       "worker 1 made 1 exchange, and at least 2 are needed"},
      {[](recording& r) {
         r.entries[0][2].arrived = std::numeric_limits<std::int64_t>::min();
         r.entries[0][3].arrived = std::numeric_limits<std::int64_t>::max();
       },
       "moments that lie too far apart"},
      {[](recording& r) { r.entries[0][6].arrived = std::numeric_limits<std::int64_t>::max(); },
       "moments that lie too far apart"},
      {[](recording& r) { r.batches[0].pop_back(); }, "cannot be repeated to its end"},
  };
  for (const auto& [c, why] : wrong) {
    recording r = five_gradients();
    c(r);
    EXPECT_THAT([&] { pace_of(r, {"async"}); }, ThrowsMessage<recording_error>(HasSubstr(why)));
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

/// Two workers on two shards. Worker 1 is lost after its first step, comes back, and makes one more.
recording one_that_returned() {
  recording r;
  r.name = "x.rec";
  r.header.workers = 2;
  r.header.shards = 2;
  r.batches = {{0, 2}, {1, 3}};
  r.incarnations = {{}, {{{0}, 0, true}, {{1}, 1, false}}};
  r.entries = std::vector(2, std::vector<order_entry>{joins(0), joins(1), takes(0, 1), takes(1, 1), leaves(1),
                                                      joins(1, 1), takes(0, 2), takes(1, 1), leaves(0),
                                                      leaves(1, 1)});
  r.end.ended = "completed";
  return r;
}

/// Why it is refused under `policy`, after `c`; empty if it is not.
std::string refused_losses(const std::string& policy, const change& c = {}) {
  recording r = one_that_returned();
  if (c) c(r);
  return testing::words_of_refusal([&] {
    require_repeatable(r);
    require_replay_ends(r, {policy});
  });
}

/// A switch behind so many entries of each shard, with these batches before it and these workers present.
change switched_behind(std::ptrdiff_t entries, const std::vector<std::uint64_t>& batches,
                       const std::vector<std::uint8_t>& present, const std::vector<order_entry>& more = {}) {
  return [=](recording& r) {
    r.end.switches = {{"async", "by hand", batches, present}};
    for (auto& of : r.entries) {
      of.insert(of.begin() + entries, more.begin(), more.end());
      of.insert(of.begin() + entries, switches);
    }
  };
}

/// Worker 2 comes late. It is paused, and lost before its joining has come to so many shards.
change lost_before_it_joined(std::size_t shards) {
  return [shards](recording& r) {
    r.header.slots = 3;
    r.batches.emplace_back();
    r.incarnations.emplace_back();
    r.end.lost = {2};
    switched_behind(5, {1, 1, 0}, {1, 0, 1}, {leaves(2)})(r);
    for (std::size_t s = shards; s < 2; ++s) r.entries[s].insert(r.entries[s].begin() + 5, joins(2));
  };
}

TEST(RehearsedLosses, ComeToTheirEnd) {
  for (const char* policy : {"async", "sync", "ssp:1", "k-async:2"})
    EXPECT_EQ(refused_losses(policy), "") << policy;
  struct row {
    const char* what;
    change c;
    const char* policy = "async";
  };
  const auto without = [](std::initializer_list<std::ptrdiff_t> entries) {
    return [all = std::vector(entries)](recording& r) {
      for (const std::ptrdiff_t i : all) r.entries[1].erase(r.entries[1].begin() + i);
    };
  };
  const row rows[] = {
      {"one shard never had the last gradient", without({3})},
      {"one shard never heard of the worker", without({3, 1})},
      {"a batch that a shard shares with others goes on without the gradient",
       [](recording& r) { r.entries[1][3].what = kind::missed; }, "sync"},
      {"a late worker gets a slot",
       [](recording& r) {
         r.header.slots = 3;
         r.batches.push_back({4});
         r.incarnations.push_back({{{0}, 0, false}});
         for (auto& entries : r.entries) {
           entries.insert(entries.begin() + 6, {joins(2), takes(2, 1)});
           entries.push_back(leaves(2));
         }
       }},
      {"the earlier incarnation trained as much as the switch counts, and must not wait for it",
       switched_behind(7, {2, 1}, {1, 1})},
      {"likewise", switched_behind(7, {2, 1}, {1, 1}), "sync"},
      {"it had trained a batch more before the switch, and was lost with it",
       switched_behind(4, {1, 2}, {1, 1})},
      {"it comes back after a switch", switched_behind(5, {1, 1}, {1, 0})},
      {"it leaves a switch that it never joined; one shard lacks it", lost_before_it_joined(1)},
      {"all shards lack it", lost_before_it_joined(2)},
      {"it leaves once more at a switch that counts it as present",
       switched_behind(5, {1, 1}, {1, 1}, {leaves(1)})}};
  for (const row& r : rows) EXPECT_EQ(refused_losses(r.policy, r.c), "") << r.what;
}

/// Shard 1 takes worker 1 after worker 0's step 3, which shard 0 leads to by way of worker 1's return.
TEST(RehearsedLosses, NameTheIncarnationThatDoesNotCome) {
  const auto crossed = [](recording& r) {
    r.batches[0] = {0, 2, 4};
    r.entries[0].insert(r.entries[0].begin() + 7, takes(0, 3));
    r.entries[1] = {joins(0),  joins(1),    takes(0, 1), takes(0, 2), takes(0, 3), takes(1, 1),
                    leaves(1), joins(1, 1), takes(1, 1), leaves(0),   leaves(1, 1)};
  };
  EXPECT_THAT(refused_losses("async", crossed),
              HasSubstr("shard 0 waits at its turn 6 of 11 for worker 1 as incarnation 1: worker 1 waits for "
                        "the weights of shard 1 after its step 1"));
  EXPECT_THAT(refused_losses("async", switched_behind(5, {1, 1}, {1, 1}, {leaves(1), leaves(1)})),
              HasSubstr("comes after it has left"));
}

} // namespace
} // namespace mailgrad

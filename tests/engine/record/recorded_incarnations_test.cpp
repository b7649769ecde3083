#include <mailgrad/engine/record/recorded_incarnations.hpp>

#include <gtest/gtest.h>

#include <optional>

namespace mailgrad {
namespace {

using kind = order_entry::kind;

order_entry join_of(std::uint32_t worker, std::uint32_t incarnation = 0) {
  return order_entry::of(kind::joined, {worker}, {incarnation});
}
order_entry leave_of(std::uint32_t worker, std::uint32_t incarnation = 0) {
  return order_entry::of(kind::left, {worker}, {incarnation});
}
const order_entry a_switch{kind::switched, {}};

/// Two workers begin. Worker 1 is lost, comes back after a switch, and leaves; worker 2 comes late.
recording eventful() {
  recording r;
  r.header.workers = 2;
  r.header.slots = 4;
  r.batches = {{0, 3}, {1, 4, 5}, {6}, {}};
  r.incarnations = {{}, {{{0}, 0, true}, {{2}, 1, false}}, {{{0}, 0, false}}, {}};
  // At shard 1 worker 2 overtakes the switch.
  r.entries = {
      {join_of(0), join_of(1), {kind::gradient, {1}, 1}, leave_of(1), a_switch, join_of(1, 2), join_of(2)},
      {join_of(0), join_of(1), leave_of(1), join_of(2), a_switch, join_of(1, 2)}};
  return r;
}

TEST(RecordedIncarnations, AreOneEachWhereNobodyComesOrGoes) {
  recording r;
  r.header.workers = 2;
  r.batches = {{0, 2}, {1}};
  r.entries = {{join_of(0), join_of(1)}};
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
  r.entries[1].insert(r.entries[1].begin() + 2, {{kind::gradient, {1}, 1}, {kind::missed, {1}, 2}});
  r.entries[1].push_back({kind::gradient, {1}, 1});
  r.entries[0].push_back({kind::gradient, {0}, 1}); // the run was killed, and the second switch is no entry
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
    r.entries[0].insert(r.entries[0].begin() + (joined ? 4 : 5), joined ? join_of(3) : leave_of(3));
    r.entries[1].insert(r.entries[1].begin() + 5, leave_of(3));
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
  r.entries = {{join_of(0), join_of(1), leave_of(0), a_switch, join_of(0, 3), a_switch}};
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
  r.entries = {{join_of(0), leave_of(0), join_of(0, 1), join_of(1), leave_of(0, 1), a_switch, join_of(0, 2)}};
  return recorded_slots(recorded_incarnations(r));
}

TEST(RecordedSlots, AreTakenOneAfterTheOther) {
  recorded_slots slots = three_comings();
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

TEST(RecordedSlots, AreNotTakenByWhoWasNotBrought) {
  recorded_slots slots = three_comings();
  slots.take({0}, {1});
  slots.take({7}, {});
  EXPECT_EQ(slots.bring({0}, 0), incarnation_number{1});
  EXPECT_EQ(recorded_slots().bring({0}, 0), std::nullopt);
}

} // namespace
} // namespace mailgrad

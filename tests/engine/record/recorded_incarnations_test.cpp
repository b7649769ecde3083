#include <mailgrad/engine/record/recorded_incarnations.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using kind = order_entry::kind;

/// Two workers begin. Worker 1 is lost, comes back after a switch, and leaves; worker 2 comes late.
recording eventful() {
  recording r;
  r.header.workers = 2;
  r.header.slots = 4;
  r.batches = {{0, 3}, {1, 4, 5}, {6}, {}};
  r.incarnations = {{}, {{{0}, 0, true}, {{2}, 1, false}}, {{{0}, 0, false}}, {}};
  r.entries = {{{kind::joined, {0}},
                {kind::joined, {1}},
                {kind::gradient, {1}, 1},
                {kind::left, {1}},
                {kind::switched, {}},
                order_entry::of(kind::joined, {1}, {2}),
                {kind::joined, {2}}},
               {{kind::joined, {0}},
                {kind::joined, {1}},
                {kind::left, {1}},
                {kind::joined, {2}}, // overtakes the switch on its way to this shard
                {kind::switched, {}},
                order_entry::of(kind::joined, {1}, {2})}};
  return r;
}

TEST(RecordedIncarnations, AreOneEachWhereNobodyComesOrGoes) {
  recording r;
  r.header.workers = 2;
  r.batches = {{0, 2}, {1}};
  r.entries = {{{kind::joined, {0}}, {kind::joined, {1}}}};
  const recorded_incarnations incarnations(r);
  EXPECT_FALSE(incarnations.any_change());
  ASSERT_EQ(incarnations.of(0).size(), 1U);
  EXPECT_EQ(incarnations.of(0)[0].end, 2U);
  EXPECT_FALSE(incarnations.of(0)[0].late);
  EXPECT_FALSE(incarnations.of(0)[0].cut);
}

TEST(RecordedIncarnations, AreThoseThatTrainedOrJoined) {
  const recorded_incarnations incarnations(eventful());
  EXPECT_TRUE(incarnations.any_change());
  ASSERT_EQ(incarnations.ranks(), 4U);
  ASSERT_EQ(incarnations.of(1).size(), 2U);
  const recorded_incarnation& lost = incarnations.of(1)[0];
  EXPECT_TRUE(lost.cut);
  EXPECT_FALSE(lost.late);
  EXPECT_EQ(lost.end, 1U);
  const recorded_incarnation& back = incarnations.of(1)[1];
  EXPECT_EQ(back.incarnation, incarnation_number{2});
  EXPECT_TRUE(back.late);
  EXPECT_FALSE(back.cut);
  EXPECT_EQ(back.first, 1U);
  EXPECT_EQ(back.end, 3U);
  EXPECT_EQ(back.switches, 1U);
  ASSERT_EQ(incarnations.of(2).size(), 1U);
  EXPECT_TRUE(incarnations.of(2)[0].late);
  EXPECT_EQ(incarnations.of(2)[0].switches, 0U) << "it had its slot before the switch";
  EXPECT_TRUE(incarnations.of(3).empty()) << "that slot stayed empty";
  EXPECT_EQ(incarnations.find({1}, {2}), &incarnations.of(1)[1]);
  EXPECT_EQ(incarnations.find({1}, {1}), nullptr);
  EXPECT_EQ(incarnations.find({9}, {}), nullptr);
}

TEST(RecordedIncarnations, AreCutIfTheirWorkerIsLostAtTheEnd) {
  recording r = eventful();
  r.end.lost = {0};
  EXPECT_TRUE(recorded_incarnations(r).of(0)[0].cut);
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

TEST(RecordedIncarnations, SayWhoWasThereBeforeASwitch) {
  const recorded_incarnations incarnations(eventful());
  EXPECT_EQ(incarnations.before_switch(1, 0), &incarnations.of(1)[0]);
  EXPECT_EQ(incarnations.before_switch(1, 1), &incarnations.of(1)[1]);
  EXPECT_EQ(incarnations.before_switch(3, 1), nullptr);
}

TEST(RecordedIncarnations, CountBeforeASwitchWhatSomebodyKnewOf) {
  recording r = eventful();
  const recorded_switch both{"sync", "", {2, 2, 0, 0}, {1, 1, 0, 0}};
  EXPECT_EQ(recorded_incarnations(r).batches_before(both, 0, 1), 1U) << "the other one was taken back";
  EXPECT_EQ(recorded_incarnations(r).batches_before(both, 1, 1), 2U);
  r.batches[0] = {0};
  EXPECT_EQ(recorded_incarnations(r).batches_before(both, 0, 0), 2U) << "a killed run may lack deals";
}

/// It died before it did anything: no shard knows it, and the run waited for it no longer.
TEST(RecordedIncarnations, HaveAWorkerOfTheBeginningThatNeverCame) {
  recording r = eventful();
  r.batches[0].clear();
  for (auto& entries : r.entries)
    std::erase_if(entries, [](const order_entry& t) { return t.worker == rank{0}; });
  EXPECT_EQ(recorded_incarnations(r).of(0).size(), 1U);
}

/// The switch counted worker 3 as present, and it was lost before its joining came to any shard.
TEST(RecordedIncarnations, HaveWhoASwitchCountedThoughItNeverJoined) {
  recording r = eventful();
  r.entries[0].insert(r.entries[0].begin() + 5, {kind::left, {3}});
  r.entries[1].insert(r.entries[1].begin() + 5, {kind::left, {3}});
  const recorded_incarnations incarnations(r);
  ASSERT_EQ(incarnations.of(3).size(), 1U);
  EXPECT_EQ(incarnations.before_switch(3, 0), &incarnations.of(3)[0]);
  EXPECT_TRUE(incarnations.of(3)[0].late);
  EXPECT_TRUE(incarnations.of(3)[0].cut);
}

TEST(RecordedIncarnations, AreCutIfAShardLetsThemLeaveThatLacksTheirJoining) {
  recording r = eventful();
  r.entries[0].insert(r.entries[0].begin() + 4, {kind::joined, {3}});
  r.entries[1].insert(r.entries[1].begin() + 5, {kind::left, {3}});
  const recorded_incarnations incarnations(r);
  ASSERT_EQ(incarnations.of(3).size(), 1U);
  EXPECT_TRUE(incarnations.of(3)[0].cut);
}

/// One that was lost before any shard had heard of it has changed nothing.
TEST(RecordedIncarnations, LeaveOutWhoNeverJoined) {
  recording r = eventful();
  for (auto& entries : r.entries)
    std::erase_if(entries, [](const order_entry& t) { return t.worker == rank{2}; });
  EXPECT_TRUE(recorded_incarnations(r).of(2).empty());
}

} // namespace
} // namespace mailgrad

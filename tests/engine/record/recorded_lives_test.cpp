#include <mailgrad/engine/record/recorded_lives.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using kind = order_entry::kind;

/// Two workers begin. Worker 1 is lost, comes back after a switch, and leaves; worker 2 comes late.
recording eventful() {
  recording r;
  r.header.workers = 2;
  r.header.seats = 4;
  r.batches = {{0, 3}, {1, 4, 5}, {6}, {}};
  r.lives = {{}, {{{0}, 0, true}, {{2}, 1, false}}, {{{0}, 0, false}}, {}};
  r.turns = {{{kind::joined, {0}},
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

TEST(RecordedLives, AreOneEachWhereNobodyComesOrGoes) {
  recording r;
  r.header.workers = 2;
  r.batches = {{0, 2}, {1}};
  r.turns = {{{kind::joined, {0}}, {kind::joined, {1}}}};
  const recorded_lives lives(r);
  EXPECT_FALSE(lives.any_change());
  ASSERT_EQ(lives.of(0).size(), 1U);
  EXPECT_EQ(lives.of(0)[0].end, 2U);
  EXPECT_FALSE(lives.of(0)[0].late);
  EXPECT_FALSE(lives.of(0)[0].cut);
}

TEST(RecordedLives, AreThoseThatTrainedOrJoined) {
  const recorded_lives lives(eventful());
  EXPECT_TRUE(lives.any_change());
  ASSERT_EQ(lives.ranks(), 4U);
  ASSERT_EQ(lives.of(1).size(), 2U);
  const recorded_life& lost = lives.of(1)[0];
  EXPECT_TRUE(lost.cut);
  EXPECT_FALSE(lost.late);
  EXPECT_EQ(lost.end, 1U);
  const recorded_life& back = lives.of(1)[1];
  EXPECT_EQ(back.life, incarnation{2});
  EXPECT_TRUE(back.late);
  EXPECT_FALSE(back.cut);
  EXPECT_EQ(back.first, 1U);
  EXPECT_EQ(back.end, 3U);
  EXPECT_EQ(back.switches, 1U);
  ASSERT_EQ(lives.of(2).size(), 1U);
  EXPECT_TRUE(lives.of(2)[0].late);
  EXPECT_EQ(lives.of(2)[0].switches, 0U) << "it had its seat before the switch";
  EXPECT_TRUE(lives.of(3).empty()) << "that seat stayed empty";
  EXPECT_EQ(lives.find({1}, {2}), &lives.of(1)[1]);
  EXPECT_EQ(lives.find({1}, {1}), nullptr);
  EXPECT_EQ(lives.find({9}, {}), nullptr);
}

TEST(RecordedLives, AreCutIfTheirWorkerIsLostAtTheEnd) {
  recording r = eventful();
  r.end.lost = {0};
  EXPECT_TRUE(recorded_lives(r).of(0)[0].cut);
  EXPECT_FALSE(recorded_lives(r).of(1)[1].cut);
}

TEST(RecordedLives, SayWhichStepCameBeforeASwitch) {
  recording r = eventful();
  r.end.switches.resize(2);
  r.turns[1].insert(r.turns[1].begin() + 2, {{kind::gradient, {1}, 1}, {kind::missed, {1}, 2}});
  r.turns[1].push_back({kind::gradient, {1}, 1});
  r.turns[0].push_back({kind::gradient, {0}, 1}); // the run was killed, and the second switch is no turn
  const recorded_lives lives(r);
  EXPECT_EQ(lives.step_before(0, 0).value, 0U);
  EXPECT_EQ(lives.step_before(0, 1).value, 2U) << "shard 1 had one more";
  EXPECT_EQ(lives.step_before(1, 0).value, 1U);
  EXPECT_EQ(lives.step_before(1, 1).value, 1U) << "of the incarnation that is there now";
  EXPECT_EQ(lives.step_before(1, 3).value, 0U);
}

TEST(RecordedLives, SayWhoWasThereBeforeASwitch) {
  const recorded_lives lives(eventful());
  EXPECT_EQ(lives.before_switch(1, 0), &lives.of(1)[0]);
  EXPECT_EQ(lives.before_switch(1, 1), &lives.of(1)[1]);
  EXPECT_EQ(lives.before_switch(3, 1), nullptr);
}

TEST(RecordedLives, CountBeforeASwitchWhatSomebodyKnewOf) {
  recording r = eventful();
  const recorded_switch both{"sync", "", {2, 2, 0, 0}, {1, 1, 0, 0}};
  EXPECT_EQ(recorded_lives(r).batches_before(both, 0, 1), 1U) << "the other one was taken back";
  EXPECT_EQ(recorded_lives(r).batches_before(both, 1, 1), 2U);
  r.batches[0] = {0};
  EXPECT_EQ(recorded_lives(r).batches_before(both, 0, 0), 2U) << "a killed run may lack deals";
}

/// It died before it did anything: no shard knows it, and the run waited for it no longer.
TEST(RecordedLives, HaveAWorkerOfTheBeginningThatNeverCame) {
  recording r = eventful();
  r.batches[0].clear();
  for (auto& turns : r.turns) std::erase_if(turns, [](const order_entry& t) { return t.worker == rank{0}; });
  EXPECT_EQ(recorded_lives(r).of(0).size(), 1U);
}

/// The switch counted worker 3 as present, and it was lost before its joining came to any shard.
TEST(RecordedLives, HaveWhoASwitchCountedThoughItNeverJoined) {
  recording r = eventful();
  r.turns[0].insert(r.turns[0].begin() + 5, {kind::left, {3}});
  r.turns[1].insert(r.turns[1].begin() + 5, {kind::left, {3}});
  const recorded_lives lives(r);
  ASSERT_EQ(lives.of(3).size(), 1U);
  EXPECT_EQ(lives.before_switch(3, 0), &lives.of(3)[0]);
  EXPECT_TRUE(lives.of(3)[0].late);
  EXPECT_TRUE(lives.of(3)[0].cut);
}

TEST(RecordedLives, AreCutIfAShardLetsThemLeaveThatLacksTheirJoining) {
  recording r = eventful();
  r.turns[0].insert(r.turns[0].begin() + 4, {kind::joined, {3}});
  r.turns[1].insert(r.turns[1].begin() + 5, {kind::left, {3}});
  const recorded_lives lives(r);
  ASSERT_EQ(lives.of(3).size(), 1U);
  EXPECT_TRUE(lives.of(3)[0].cut);
}

/// One that was lost before any shard had heard of it has changed nothing.
TEST(RecordedLives, LeaveOutWhoNeverJoined) {
  recording r = eventful();
  for (auto& turns : r.turns) std::erase_if(turns, [](const order_entry& t) { return t.worker == rank{2}; });
  EXPECT_TRUE(recorded_lives(r).of(2).empty());
}

} // namespace
} // namespace mailgrad

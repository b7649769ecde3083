#include <mailgrad/engine/record/rehearsal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using kind = order_entry::kind;

/// Two workers make two steps each on two shards, by turns.
recording two_by_two() {
  recording r;
  r.name = "x.rec";
  r.header.workers = 2;
  r.batches = {{0, 2}, {1, 3}};
  r.turns = std::vector(2, std::vector<order_entry>{{kind::joined, {0}},
                                                    {kind::joined, {1}},
                                                    {kind::gradient, {0}, 1},
                                                    {kind::gradient, {1}, 1},
                                                    {kind::gradient, {0}, 2},
                                                    {kind::gradient, {1}, 2},
                                                    {kind::left, {0}},
                                                    {kind::left, {1}}});
  r.end.ended = "completed";
  return r;
}

/// Why it is refused under `terms`, after `change`; empty if it is not.
std::string refused_rehearsal(const replay_terms& terms, const std::function<void(recording&)>& change = {}) {
  recording r = two_by_two();
  if (change) change(r);
  try {
    require_replay_ends(r, terms);
  } catch (const recording_error& e) {
    return e.what();
  }
  return "";
}

void swap_turns(recording& r, std::size_t shard, std::size_t a, std::size_t b) {
  std::swap(r.turns[shard][a], r.turns[shard][b]);
}

TEST(Rehearsal, ComesToTheEndOfAnOrderThatCanBe) {
  for (const char* policy : {"async", "sync", "ssp:0", "ssp:1", "dssp:0,1", "backup:0", "k-async:2",
                             "k-batch-async:2", "k-batch-sync:2", "rennala:2", "ringmaster:2"})
    EXPECT_EQ(refused_rehearsal({policy}), "") << policy;
  EXPECT_EQ(refused_rehearsal({"async"}, [](recording& r) { swap_turns(r, 1, 2, 3); }), "")
      << "shards need not agree";
}

/// Worker 0 makes its second step without the other, which is possible only if its first batch was closed.
TEST(Rehearsal, ClosesTheBatchesThatWereClosed) {
  const auto ahead = [](bool closed) {
    return [closed](recording& r) {
      for (auto& turns : r.turns) {
        std::swap(turns[3], turns[4]);
        if (closed) turns.insert(turns.begin() + 3, {kind::closed, {}, {}, {}, 1000});
      }
    };
  };
  EXPECT_EQ(refused_rehearsal({"quorum:1,grace=1"}, ahead(true)), "");
  EXPECT_THAT(
      refused_rehearsal({"quorum:1,grace=1"}, ahead(false)),
      HasSubstr("waits at its turn 4 of 8 for the gradient of worker 0, step 2: worker 0 waits for the "
                "weights of shard 0"));
}

TEST(Rehearsal, NamesTheGradientThatAShardWaitsFor) {
  EXPECT_THAT(
      refused_rehearsal({"async"}, [](recording& r) { r.batches[1].pop_back(); }),
      HasSubstr("'x.rec' cannot be repeated to its end: shard 0 waits at its turn 6 of 8 for the gradient "
                "of worker 1, step 2: worker 1 has ended after its step 1"));
  EXPECT_THAT(
      refused_rehearsal({"async"},
                        [](recording& r) {
                          for (auto& turns : r.turns) std::swap(turns[3], turns[5]);
                        }),
      HasSubstr("shard 0 waits at its turn 4 of 8 for the gradient of worker 1, step 2: worker 1 waits for "
                "the weights of shard 0 after its step 1"));
}

/// Each shard waits for a gradient that the other one holds up.
TEST(Rehearsal, NamesAnOrderInWhichTwoShardsWaitForEachOther) {
  const auto crossed = [](recording& r) {
    swap_turns(r, 0, 3, 4); // worker 0 twice, then worker 1
    swap_turns(r, 1, 2, 3);
    swap_turns(r, 1, 3, 5); // worker 1 twice, then worker 0
  };
  EXPECT_THAT(
      refused_rehearsal({"async"}, crossed),
      HasSubstr("shard 0 waits at its turn 4 of 8 for the gradient of worker 0, step 2: worker 0 waits for "
                "the weights of shard 1 after its step 1"));
}

TEST(Rehearsal, KnowsWhomAPolicyHolds) {
  const auto ahead = [](recording& r) {
    for (std::size_t s = 0; s < 2; ++s)
      swap_turns(r, s, 3, 4); // worker 0 makes two steps before worker 1 has one
  };
  EXPECT_EQ(refused_rehearsal({"async"}, ahead), "");
  EXPECT_EQ(refused_rehearsal({"ssp:1"}, ahead), "");
  for (const char* policy : {"ssp:0", "sync", "k-async:2"})
    EXPECT_THAT(refused_rehearsal({policy}, ahead),
                HasSubstr("worker 0 waits for the weights of shard 0 after its step 1"))
        << policy;
}

TEST(Rehearsal, NamesAWorkerThatGetsNoWeights) {
  EXPECT_THAT(
      refused_rehearsal({"async"},
                        [](recording& r) {
                          for (auto& turns : r.turns)
                            std::erase_if(turns, [](const order_entry& t) { return t.worker == rank{1}; });
                        }),
      HasSubstr("worker 1 waits for the weights of shard 0 before its first step, which it has not joined"));
}

TEST(Rehearsal, NamesAGradientWithoutATurn) {
  EXPECT_THAT(
      refused_rehearsal({"async"}, [](recording& r) { r.batches[0].push_back(4); }),
      HasSubstr("shard 0 waits at its turn 7 of 8 for the end of worker 0: worker 0 waits for the weights of "
                "shard 0 after its step 3"));
}

TEST(Rehearsal, TellsAMissingTurnFromOneThatNobodyIsThereToTake) {
  const auto without_ends = [](recording& r) {
    for (auto& turns : r.turns) turns.resize(6);
    r.batches[0].push_back(4);
  };
  EXPECT_THAT(refused_rehearsal({"async"}, without_ends), HasSubstr("which has no turn for it"));
}

TEST(Rehearsal, RefusesABatchThatTheDataDoNotHave) {
  EXPECT_THAT(refused_rehearsal({"async", 0, false, 3}),
              HasSubstr("deals batch 3 to worker 1; the run has 3"));
  EXPECT_EQ(refused_rehearsal({"async", 0, false, 4}), "");
}

TEST(Rehearsal, CountsLocalSteps) {
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
  for (const std::size_t switched : {2U, 3U}) {
    r.turns = {{{kind::joined, {0}}, {kind::gradient, {0}, 1}, {kind::gradient, {0}, 2}, {kind::left, {0}}}};
    r.turns[0].insert(r.turns[0].begin() + static_cast<std::ptrdiff_t>(switched), {kind::switched, {}});
    EXPECT_NO_THROW(require_replay_ends(r, {"async", 1, true})) << switched;
  }
}

TEST(Rehearsal, LetsAWorkerDivergeAfterItsLastGradient) {
  const auto diverged = [](recording& r) {
    r.batches[1].push_back(4);
    r.end.ended = "diverged";
  };
  EXPECT_EQ(refused_rehearsal({"async"}, diverged), "");
}

TEST(Rehearsal, TakesSwitchesWhereTheyWere) {
  const auto switched = [](recording& r) {
    r.end.switches = {{"sync", "by hand", {1, 1}, {1, 1}}};
    for (auto& turns : r.turns) turns.insert(turns.begin() + 4, {kind::switched, {}});
  };
  EXPECT_EQ(refused_rehearsal({"async"}, switched), "");
  EXPECT_THAT(refused_rehearsal({"async"},
                                [&](recording& r) {
                                  switched(r);
                                  r.end.switches[0].batches = {2, 1};
                                }),
              HasSubstr("shard 0 lets worker 0 go twice, at turn 7"));
  EXPECT_THAT(refused_rehearsal({"async"},
                                [&](recording& r) {
                                  switched(r);
                                  r.end.switches[0].present = {0, 1};
                                }),
              HasSubstr("for the switch to sync: worker 0 waits for the weights"));
  EXPECT_THAT(refused_rehearsal({"async"},
                                [&](recording& r) {
                                  switched(r);
                                  r.end.switches[0].present = {1, 0};
                                }),
              HasSubstr("for the switch to sync: worker 1 waits for the weights"));
}

TEST(RepeatablePart, TakesNoGradientWhoseBatchesAreNotAllWrittenDown) {
  recording r = two_by_two();
  r.killed = true;
  r.batches[0].pop_back();
  EXPECT_THAT(repeatable_part(r, {"async"}).batches, ElementsAre(SizeIs(1), SizeIs(1)));
  r.batches = {{0, 2, 4, 6}, {1, 3, 5, 7, 9}}; // the second round of either may have had more
  EXPECT_THAT(repeatable_part(r, {"async", 3}).batches, ElementsAre(SizeIs(3), SizeIs(3)));
}

TEST(RepeatablePart, TakesAGradientEverywhereThatAnyShardHasTaken) {
  recording r = two_by_two();
  r.killed = true;
  r.turns[0].resize(5); // up to the second step of worker 0
  r.turns[1].resize(3); // up to the first step of worker 0
  const recording cut = repeatable_part(r, {"async"});
  EXPECT_THAT(cut.batches, ElementsAre(SizeIs(2), SizeIs(1)));
  EXPECT_EQ(cut.turns[1][3].worker, rank{1});
  EXPECT_EQ(cut.turns[1][4].worker, rank{0});
  EXPECT_EQ(cut.turns[1][4].step.value, 2U);
  EXPECT_EQ(cut.turns[1][5].what, kind::left);
}

TEST(RepeatablePart, GoesThroughASwitchThatAnyShardHasMade) {
  recording r = two_by_two();
  r.killed = true;
  r.end.switches = {{"sync", "by hand", {1, 1}, {1, 1}}};
  r.turns[1].insert(r.turns[1].begin() + 4, {kind::switched, {}});
  r.turns[0].resize(4); // up to the switch
  r.turns[1].resize(5); // and with it
  EXPECT_THAT(repeatable_part(r, {"async"}).end.switches, SizeIs(1));
  std::swap(r.turns[0], r.turns[1]);
  EXPECT_THAT(repeatable_part(r, {"async"}).end.switches, SizeIs(1));
}

TEST(RepeatablePart, AddsTheSwitchesThatAShardLacks) {
  recording r = two_by_two();
  r.killed = true;
  r.end.switches = {{"sync", "by hand", {1, 1}, {1, 1}}, {"async", "by hand", {1, 1}, {1, 1}}};
  r.turns[0].resize(4);
  r.turns[0].push_back({kind::switched, {}});
  r.turns[1] = r.turns[0];
  r.turns[1].push_back({kind::switched, {}});
  for (const auto& turns : repeatable_part(r, {"async"}).turns)
    EXPECT_EQ(std::ranges::count(turns, kind::switched, &order_entry::what), 2);
}

TEST(RepeatablePart, IsNothingWhereNothingIsWritten) {
  recording r = two_by_two();
  r.killed = true;
  r.turns = {{}, {}};
  const recording cut = repeatable_part(r, {"sync"});
  EXPECT_THAT(cut.batches, ElementsAre(SizeIs(0), SizeIs(0)));
  EXPECT_EQ(cut.turns[0].size(), 4U) << "both join and leave";
}

} // namespace
} // namespace mailgrad

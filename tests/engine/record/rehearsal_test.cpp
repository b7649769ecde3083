#include <mailgrad/engine/record/rehearsal.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

// What a rehearsal knows of workers that were lost, came late or came back.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

using kind = order_entry::kind;

/// Two workers make two steps each on two shards, by turns.
recording two_by_two() {
  recording r;
  r.name = "x.rec";
  r.header.workers = 2;
  r.batches = {{0, 2}, {1, 3}};
  r.entries = std::vector(2, std::vector<order_entry>{{kind::joined, {0}},
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

void swap_entries(recording& r, std::size_t shard, std::size_t a, std::size_t b) {
  std::swap(r.entries[shard][a], r.entries[shard][b]);
}

TEST(Rehearsal, ComesToTheEndOfAnOrderThatCanBe) {
  for (const char* policy : {"async", "sync", "ssp:0", "ssp:1", "dssp:0,1", "backup:0", "k-async:2",
                             "k-batch-async:2", "k-batch-sync:2", "rennala:2", "ringmaster:2"})
    EXPECT_EQ(refused_rehearsal({policy}), "") << policy;
  EXPECT_EQ(refused_rehearsal({"async"}, [](recording& r) { swap_entries(r, 1, 2, 3); }), "")
      << "shards need not agree";
}

/// Worker 0 makes its second step without the other, which is possible only if its first batch was closed.
TEST(Rehearsal, ClosesTheBatchesThatWereClosed) {
  const auto ahead = [](bool closed) {
    return [closed](recording& r) {
      for (auto& entries : r.entries) {
        std::swap(entries[3], entries[4]);
        if (closed) entries.insert(entries.begin() + 3, {kind::closed, {}, {}, {}, 1000});
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
                          for (auto& entries : r.entries) std::swap(entries[3], entries[5]);
                        }),
      HasSubstr("shard 0 waits at its turn 4 of 8 for the gradient of worker 1, step 2: worker 1 waits for "
                "the weights of shard 0 after its step 1"));
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
  const auto ahead = [](recording& r) {
    for (std::size_t s = 0; s < 2; ++s)
      swap_entries(r, s, 3, 4); // worker 0 makes two steps before worker 1 has one
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
                          for (auto& entries : r.entries)
                            std::erase_if(entries, [](const order_entry& t) { return t.worker == rank{1}; });
                        }),
      HasSubstr("worker 1 waits for the weights of shard 0 before its first step, which it has not joined"));
}

TEST(Rehearsal, NamesAGradientWithoutAnEntry) {
  EXPECT_THAT(
      refused_rehearsal({"async"}, [](recording& r) { r.batches[0].push_back(4); }),
      HasSubstr("shard 0 waits at its turn 7 of 8 for the end of worker 0: worker 0 waits for the weights of "
                "shard 0 after its step 3"));
}

TEST(Rehearsal, TellsAMissingEntryFromOneThatNobodyIsThereToTake) {
  const auto without_ends = [](recording& r) {
    for (auto& entries : r.entries) entries.resize(6);
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
    r.entries = {
        {{kind::joined, {0}}, {kind::gradient, {0}, 1}, {kind::gradient, {0}, 2}, {kind::left, {0}}}};
    r.entries[0].insert(r.entries[0].begin() + static_cast<std::ptrdiff_t>(switched), {kind::switched, {}});
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
    for (auto& entries : r.entries) entries.insert(entries.begin() + 4, {kind::switched, {}});
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
  r.entries[0].resize(5); // up to the second step of worker 0
  r.entries[1].resize(3); // up to the first step of worker 0
  const recording cut = repeatable_part(r, {"async"});
  EXPECT_THAT(cut.batches, ElementsAre(SizeIs(2), SizeIs(1)));
  EXPECT_EQ(cut.entries[1][3].worker, rank{1});
  EXPECT_EQ(cut.entries[1][4].worker, rank{0});
  EXPECT_EQ(cut.entries[1][4].step.value, 2U);
  EXPECT_EQ(cut.entries[1][5].what, kind::left);
}

TEST(RepeatablePart, GoesThroughASwitchThatAnyShardHasMade) {
  recording r = two_by_two();
  r.killed = true;
  r.end.switches = {{"sync", "by hand", {1, 1}, {1, 1}}};
  r.entries[1].insert(r.entries[1].begin() + 4, {kind::switched, {}});
  r.entries[0].resize(4); // up to the switch
  r.entries[1].resize(5); // and with it
  EXPECT_THAT(repeatable_part(r, {"async"}).end.switches, SizeIs(1));
  std::swap(r.entries[0], r.entries[1]);
  EXPECT_THAT(repeatable_part(r, {"async"}).end.switches, SizeIs(1));
}

TEST(RepeatablePart, AddsTheSwitchesThatAShardLacks) {
  recording r = two_by_two();
  r.killed = true;
  r.end.switches = {{"sync", "by hand", {1, 1}, {1, 1}}, {"async", "by hand", {1, 1}, {1, 1}}};
  r.entries[0].resize(4);
  r.entries[0].push_back({kind::switched, {}});
  r.entries[1] = r.entries[0];
  r.entries[1].push_back({kind::switched, {}});
  for (const auto& entries : repeatable_part(r, {"async"}).entries)
    EXPECT_EQ(std::ranges::count(entries, kind::switched, &order_entry::what), 2);
}

TEST(RepeatablePart, IsNothingWhereNothingIsWritten) {
  recording r = two_by_two();
  r.killed = true;
  r.entries = {{}, {}};
  const recording cut = repeatable_part(r, {"sync"});
  EXPECT_THAT(cut.batches, ElementsAre(SizeIs(0), SizeIs(0)));
  EXPECT_EQ(cut.entries[0].size(), 4U) << "both join and leave";
}

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
  r.entries = {{{kind::joined, {0}}, {kind::joined, {1}}}};
  std::uint64_t batch = 0;
  for (const order_entry& g : gradients) {
    r.entries[0].push_back(g);
    for (std::uint64_t i = 0; i < batches_each; ++i) r.batches[g.worker.value].push_back(batch++);
  }
  r.entries[0].push_back({kind::left, {0}});
  r.entries[0].push_back({kind::left, {1}});
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
  r.entries[0].insert(r.entries[0].begin() + 4, {kind::switched, {0}});
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
         r.header.slots = 3;
         r.batches.resize(3);
       },
       "workers came or went"},
      {[](recording& r) { r.entries[0][6].arrived = 1100; }, "had its weights after its step 2 had come"},
      {[](recording& r) {
         r = paced_run_of({judged_at(0, 1, 1), judged_at(0, 2, 2), judged_at(1, 1, 3)});
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

using kind = order_entry::kind;

order_entry joins(std::uint32_t worker, std::uint32_t incarnation = 0) {
  return order_entry::of(kind::joined, {worker}, {incarnation});
}
order_entry leaves(std::uint32_t worker, std::uint32_t incarnation = 0) {
  return order_entry::of(kind::left, {worker}, {incarnation});
}
order_entry takes(std::uint32_t worker, std::uint64_t step) { return {kind::gradient, {worker}, {step}}; }

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

/// Why it is refused under `policy`, after `change`; empty if it is not.
std::string refused_losses(const std::string& policy, const std::function<void(recording&)>& change = {}) {
  recording r = one_that_returned();
  if (change) change(r);
  try {
    require_repeatable(r);
    require_replay_ends(r, {policy});
  } catch (const recording_error& e) {
    return e.what();
  }
  return "";
}

TEST(RehearsedLosses, ComeToTheirEnd) {
  for (const char* policy : {"async", "sync", "ssp:1", "k-async:2"})
    EXPECT_EQ(refused_losses(policy), "") << policy;
}

TEST(RehearsedLosses, EndAWorkerWhoseLastGradientOneShardNeverHad) {
  EXPECT_EQ(refused_losses("async", [](recording& r) { r.entries[1].erase(r.entries[1].begin() + 3); }), "");
}

TEST(RehearsedLosses, EndAWorkerThatOneShardNeverHeardOf) {
  EXPECT_EQ(refused_losses("async",
                           [](recording& r) {
                             r.entries[1].erase(r.entries[1].begin() + 3);
                             r.entries[1].erase(r.entries[1].begin() + 1);
                           }),
            "");
}

/// A batch that this shard shares with the others goes on without the gradient.
TEST(RehearsedLosses, LeaveAPlaceInTheBatchEmpty) {
  EXPECT_EQ(refused_losses("sync", [](recording& r) { r.entries[1][3].what = kind::missed; }), "");
}

TEST(RehearsedLosses, GiveASlotToALateWorker) {
  const auto late = [](recording& r) {
    r.header.slots = 3;
    r.batches.push_back({4});
    r.incarnations.push_back({{{0}, 0, false}});
    for (auto& entries : r.entries) {
      entries.insert(entries.begin() + 6, {joins(2), takes(2, 1)});
      entries.push_back(leaves(2));
    }
  };
  EXPECT_EQ(refused_losses("async", late), "");
}

/// The earlier incarnation had trained as much as the switch counts, and must not wait for it.
TEST(RehearsedLosses, LetOnlyTheLastIncarnationWaitForASwitch) {
  const auto switched = [](recording& r) {
    for (auto& entries : r.entries) entries.insert(entries.begin() + 7, {kind::switched, {}});
    r.end.switches = {{"async", "by hand", {2, 1}, {1, 1}}};
  };
  EXPECT_EQ(refused_losses("async", switched), "");
  EXPECT_EQ(refused_losses("sync", switched), "");
}

/// Worker 1 had trained a batch more before the switch and was lost with it.
TEST(RehearsedLosses, GoThroughASwitchWithWhatSomebodyKnewOf) {
  EXPECT_EQ(refused_losses("async",
                           [](recording& r) {
                             for (auto& entries : r.entries)
                               entries.insert(entries.begin() + 4, {kind::switched, {}});
                             r.end.switches = {{"async", "by hand", {1, 2}, {1, 1}}};
                           }),
            "");
}

TEST(RehearsedLosses, LetAWorkerComeBackAfterASwitch) {
  EXPECT_EQ(refused_losses("async",
                           [](recording& r) {
                             for (auto& entries : r.entries)
                               entries.insert(entries.begin() + 5, {kind::switched, {}});
                             r.end.switches = {{"async", "by hand", {1, 1}, {1, 0}}};
                           }),
            "");
}

/// Worker 2 comes late. It is paused, and lost before its joining has come to this shard.
TEST(RehearsedLosses, LetAWorkerLeaveASwitchThatNeverJoined) {
  const auto lost = [](std::size_t shards) {
    return [shards](recording& r) {
      r.header.slots = 3;
      r.batches.emplace_back();
      r.incarnations.emplace_back();
      r.end.lost = {2};
      r.end.switches = {{"async", "by hand", {1, 1, 0}, {1, 0, 1}}};
      for (std::size_t s = 0; s < 2; ++s) {
        auto& entries = r.entries[s];
        entries.insert(entries.begin() + 5, {{kind::switched, {}}, leaves(2)});
        if (s >= shards) entries.insert(entries.begin() + 5, joins(2));
      }
    };
  };
  EXPECT_EQ(refused_losses("async", lost(1)), "") << "one shard lacks it";
  EXPECT_EQ(refused_losses("async", lost(2)), "") << "all lack it";
}

/// Its shard had heard of the loss before the switch that counts it as present.
TEST(RehearsedLosses, LetAWorkerLeaveOnceMoreAtASwitch) {
  const auto twice = [](recording& r) {
    for (auto& entries : r.entries) entries.insert(entries.begin() + 5, {{kind::switched, {}}, leaves(1)});
    r.end.switches = {{"sync", "by hand", {1, 1}, {1, 1}}};
  };
  EXPECT_EQ(refused_losses("async", twice), "");
  EXPECT_THAT(refused_losses("async",
                             [&](recording& r) {
                               twice(r);
                               for (auto& entries : r.entries) entries.insert(entries.begin() + 7, leaves(1));
                             }),
              HasSubstr("comes after it has left"));
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
}

} // namespace
} // namespace mailgrad

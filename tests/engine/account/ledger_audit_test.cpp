#include <mailgrad/engine/account/report_of_run.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

worker_report worker(std::uint32_t r, std::uint64_t produced) {
  worker_report w;
  w.worker = {r};
  w.steps = w.produced = produced;
  return w;
}

/// A worker of hogwild, which applies what it produces.
worker_report writer(std::uint32_t r, std::uint64_t produced) {
  worker_report w = worker(r, produced);
  w.applied = produced;
  return w;
}

worker_account account(std::uint64_t applied) {
  worker_account a;
  a.last_step = {applied};
  a.ledger.produced = a.ledger.applied = applied;
  return a;
}

/// Two workers, which sent six and four gradients to each of two shards; nobody died.
run_outcome balanced_run() {
  run_outcome o;
  o.workers = {worker(0, 6), worker(1, 4)};
  o.lost = {false, false};
  for (std::uint32_t s = 0; s < 2; ++s) o.shards.push_back({s, 10, {account(6), account(4)}, {}});
  return o;
}

TEST(LedgerAudit, FindsNothingWhereAllIsAccountedFor) {
  const audited_ledger a = audit(balanced_run(), std::nullopt);
  EXPECT_THAT(a.contradictions, IsEmpty());
  EXPECT_EQ(a.ledger, (gradient_ledger{10, 10, 0, {}, 0}));
}

TEST(LedgerAudit, NamesWorkerAndShardOfAGradientThatWasTakenTwice) {
  run_outcome o = balanced_run();
  o.shards[1].workers[0] = account(7);
  const audited_ledger a = audit(o, std::nullopt);
  EXPECT_THAT(a.contradictions, ElementsAre("shard 1 took 7 gradients of worker 0, which sent 6"));
  EXPECT_FALSE(a.ledger.balances()) << to_string(a.ledger);
  EXPECT_EQ(to_string(a.ledger), "10 produced but 11 applied + 0 merged + 0 discarded + 0 lost");
}

TEST(LedgerAudit, NamesWorkerAndShardOfAGradientThatVanished) {
  run_outcome o = balanced_run();
  o.shards[0].workers[1] = account(3);
  const audited_ledger a = audit(o, std::nullopt);
  EXPECT_THAT(a.contradictions, ElementsAre("shard 0 took 3 gradients of worker 1, which sent 4"));
  EXPECT_FALSE(a.ledger.balances()) << "nobody died, so nothing may be called lost";
  EXPECT_EQ(a.ledger.lost, 0U);
}

/// One of each on the same shard leaves its sums as they were.
TEST(LedgerAudit, IsNotFooledByALossAndADoubleThatCancelOut) {
  run_outcome o = balanced_run();
  for (shard_report& s : o.shards) s.workers = {account(7), account(3)};
  EXPECT_EQ(audit(o, std::nullopt).contradictions.size(), 4U);
}

TEST(LedgerAudit, FindsAGradientThatHasTwoFatesOnOneShard) {
  run_outcome o = balanced_run();
  ++o.shards[0].workers[0].ledger.applied;
  EXPECT_THAT(audit(o, std::nullopt).contradictions,
              ElementsAre("shard 0 took 6 gradients of worker 0, and accounts for 7"));
}

TEST(LedgerAudit, FindsAGradientWithoutAFateOnOneShard) {
  run_outcome o = balanced_run();
  --o.shards[0].workers[1].ledger.applied;
  const audited_ledger a = audit(o, std::nullopt);
  EXPECT_THAT(a.contradictions, ElementsAre("shard 0 took 4 gradients of worker 1, and accounts for 3"));
  EXPECT_FALSE(a.ledger.balances());
}

TEST(LedgerAudit, LetsGradientsBeLostInABatchThatWasNeverComplete) {
  run_outcome o = balanced_run();
  for (shard_report& s : o.shards) {
    s.workers[1].ledger.applied -= 2;
    s.workers[1].ledger.lost += 2;
  }
  const audited_ledger a = audit(o, std::nullopt);
  EXPECT_THAT(a.contradictions, IsEmpty());
  EXPECT_EQ(a.ledger, (gradient_ledger{10, 8, 0, {}, 2}));
}

TEST(LedgerAudit, FindsAGradientThatACompletedRunNeverJudged) {
  run_outcome o = balanced_run();
  worker_account& waiting = o.shards[1].workers[1];
  --waiting.ledger.applied;
  ++waiting.ledger.lost;
  waiting.unjudged = 1;
  EXPECT_THAT(audit(o, std::nullopt).contradictions,
              ElementsAre("shard 1 never judged 1 gradient of worker 1"));
  o.how = run_outcome::ending::stopped;
  EXPECT_THAT(audit(o, std::nullopt).contradictions, IsEmpty()) << "an order that ends early leaves some";
}

TEST(LedgerAudit, LetsALostWorkerTakeAGradientAlong) {
  run_outcome o = balanced_run();
  o.workers[1] = worker_report{};
  o.lost[1] = true;
  o.shards[1].workers[1] = account(3);
  const audited_ledger a = audit(o, std::nullopt);
  EXPECT_THAT(a.contradictions, IsEmpty());
  EXPECT_EQ(a.ledger, (gradient_ledger{10, 9, 0, {}, 1}));
}

/// Worker 1 was lost after three gradients, of which shard 1 got two, and came back and sent two more.
TEST(LedgerAudit, AddsUpTheIncarnationsOfAWorker) {
  run_outcome o = balanced_run();
  o.workers[1] = worker(1, 5);
  o.lost[1] = true;
  o.shards[0].workers[1] = account(5);
  o.shards[1].workers[1] = account(4);
  for (shard_report& s : o.shards) s.workers[1].last_step = {2};
  const audited_ledger a = audit(o, std::nullopt);
  EXPECT_THAT(a.contradictions, IsEmpty());
  EXPECT_EQ(a.ledger, (gradient_ledger{11, 10, 0, {}, 1}));
  o.shards[0].workers[1] = account(6);
  EXPECT_THAT(audit(o, std::nullopt).contradictions,
              ElementsAre("shard 0 took 6 gradients of worker 1, which was heard to send 5"));
}

TEST(LedgerAudit, FindsADoubleOfALostWorker) {
  run_outcome o = balanced_run();
  o.workers[1] = worker_report{};
  o.lost[1] = true;
  ++o.shards[0].workers[1].ledger.produced;
  ++o.shards[0].workers[1].ledger.applied;
  const audited_ledger a = audit(o, std::nullopt);
  EXPECT_THAT(a.contradictions,
              ElementsAre("shard 0 took 5 gradients of worker 1, which was heard to send 4"));
  EXPECT_FALSE(a.ledger.balances());
}

TEST(LedgerAudit, LetsALostShardTakeGradientsAlongButCountsNoneTwice) {
  run_outcome o = balanced_run();
  o.how = run_outcome::ending::failed;
  o.shards[1] = shard_report{};
  EXPECT_THAT(audit(o, std::nullopt).contradictions, IsEmpty());
  EXPECT_EQ(audit(o, std::nullopt).ledger.lost, 10U);
  o.shards[0].workers[0] = account(7);
  EXPECT_THAT(audit(o, std::nullopt).contradictions,
              ElementsAre("shard 0 took 7 gradients of worker 0, which sent 6"));
}

TEST(LedgerAudit, MissesTheAccountsThatABookLeavesOut) {
  run_outcome o = balanced_run();
  o.shards[0].workers.pop_back(); // by a parameter actor that a user wrote
  EXPECT_THAT(audit(o, std::nullopt).contradictions,
              ElementsAre("shard 0 took 0 gradients of worker 1, which sent 4"));
  o.shards[0].workers.clear();
  o.shards[0].values = snapshot(std::make_shared<const memory>());
  EXPECT_THAT(audit(o, std::nullopt).contradictions,
              ElementsAre("shard 0 took 0 gradients of worker 0, which sent 6",
                          "shard 0 took 0 gradients of worker 1, which sent 4"));
}

TEST(LedgerAudit, HoldsTheWritersOfHogwildAgainstTheirBlock) {
  run_outcome o;
  o.workers = {writer(0, 6), writer(1, 4)};
  o.lost = {false, false};
  EXPECT_THAT(audit(o, 10).contradictions, IsEmpty());
  EXPECT_EQ(audit(o, 10).ledger, (gradient_ledger{10, 10, 0, {}, 0}));
  EXPECT_THAT(audit(o, 11).contradictions,
              ElementsAre("the shared block counts 11 updates, and its workers made 10"));
  EXPECT_FALSE(audit(o, 11).ledger.balances());
  EXPECT_THAT(audit(o, 9).contradictions,
              ElementsAre("the shared block counts 9 updates, and its workers made 10"));
  EXPECT_FALSE(audit(o, 9).ledger.balances());
}

TEST(LedgerAudit, TakesTheWordOfTheSharedBlockForALostWorkerOnly) {
  run_outcome o;
  o.workers = {writer(0, 6), worker_report{}};
  o.lost = {false, true};
  EXPECT_THAT(audit(o, 9).contradictions, IsEmpty());
  EXPECT_EQ(audit(o, 9).ledger, (gradient_ledger{9, 9, 0, {}, 0}));
  EXPECT_THAT(audit(o, 5).contradictions,
              ElementsAre("the shared block counts 5 updates, and its workers made 6"));
}

/// The copies of a run in progress are of different moments.
TEST(LedgerAudit, CallsNothingAContradictionWhileTheRunGoesOn) {
  run_outcome o = balanced_run();
  o.how = run_outcome::ending::running;
  o.shards[0].workers[0] = account(3);
  o.shards[1].workers[1] = account(9); // newer than the worker's own copy, which says 4
  const audited_ledger a = audit(o, std::nullopt);
  EXPECT_THAT(a.contradictions, IsEmpty());
  EXPECT_EQ(a.ledger, (gradient_ledger{15, 7, 0, {}, 0})) << "8 are under way to shard 0";
}

TEST(LedgerAudit, CallsNothingLostThatMayBeUnderWay) {
  run_outcome o = balanced_run();
  o.how = run_outcome::ending::running;
  o.lost = {true, false};
  o.shards[1].workers[0] = account(4);
  EXPECT_EQ(audit(o, std::nullopt).ledger.lost, 0U);
}

TEST(LedgerAudit, LetsTheBlockBeAheadOfItsWorkersWhileTheRunGoesOn) {
  run_outcome o;
  o.how = run_outcome::ending::running;
  o.workers = {writer(0, 6)};
  o.lost = {false};
  const audited_ledger a = audit(o, 9);
  EXPECT_THAT(a.contradictions, IsEmpty());
  EXPECT_EQ(a.ledger, (gradient_ledger{6, 6, 0, {}, 0}));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>

#include <gmock/gmock.h>

#include <chrono>

// What a shard does that judges in the order of the first.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using kind = order_entry::kind;
using ::testing::SizeIs;

/// The second of two shards; the test plays the first.
class LedShard : public testing::ParameterActor {
protected:
  LedShard() : ParameterActor(2) {}

  void serve(const std::string& policy, std::uint32_t workers) {
    ParameterActor::serve(policy, workers);
    for (std::uint32_t r = 0; r < workers; ++r) tell(shard_, order_entry{kind::joined, {r}});
  }
  /// The first shard has judged this gradient, which was so many versions late.
  void lead(std::uint32_t worker, std::uint64_t step, std::uint64_t gap) {
    tell(shard_, order_entry{kind::gradient, {worker}, {step}, gap});
  }
};

/// Otherwise the next gradients would be older on the first shard than here, and one discarded there counts
/// here.
TEST_F(LedShard, MakesAVersionAlsoOfAGradientThatItNeverGets) {
  serve("ringmaster:2", 3);
  tell(shard_, worker_left{{0}});
  lead(0, 1, 0);
  EXPECT_EQ(report().version.value, 1U);
  push(2, 1, 0);
  lead(2, 1, 0);
  push(1, 1, 0);
  lead(1, 1, 0);
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 2U);
  EXPECT_EQ(r.workers[1].ledger.discarded_in_all(), 1U);
}

/// A policy without one order let the shards make different numbers of versions before it.
TEST_F(LedShard, JudgesAGradientThatItNeverGetsByItsGapAndNotByItsVersion) {
  serve("ringmaster:2", 3);
  for (const std::uint32_t worker : {0U, 1U}) tell(shard_, worker_left{{worker}});
  for (std::uint64_t step = 1; step <= 3; ++step) lead(0, step, 0);
  EXPECT_EQ(report().version.value, 3U);
  lead(1, 1, 2);
  EXPECT_EQ(report().version.value, 3U) << "the first shard has discarded it";
  lead(1, 2, 1);
  EXPECT_EQ(report().version.value, 4U);
}

/// A worker died between its pushes to the two shards, amid a round. The first shard has its gradient in the
/// table, and this one has an empty place.
TEST_F(LedShard, MakesTheUpdatesOfARoundInWhichAGradientIsMissing) {
  serve("ringleader", 3);
  tell(shard_, worker_left{{2}});
  push(0, 1, 0, 2);
  lead(0, 1, 0);
  lead(2, 1, 0);
  tell(shard_, order_entry{kind::left, {2}});
  EXPECT_EQ(weights_of(0).back().header.version.value, 0U);
  push(1, 1, 0, 4);
  lead(1, 1, 0);
  EXPECT_FLOAT_EQ(moved(weights_of(1).back()), (2 + 4) / 2.0F) << "of those that are here";
  push(0, 2, 0, 6);
  lead(0, 2, 0);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 3 + ((2 + 6) / 2.0F + 4) / 2) << "another of the round";
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 2U);
  EXPECT_EQ(r.workers[2].ledger, gradient_ledger{}) << "the worker or the other shard counts it";
  EXPECT_EQ(r.workers[0].ledger, (gradient_ledger{2, 0, 2, {}, 0}));
}

/// The place is that of the one who is served, so the update is made without a gradient of its own.
TEST_F(LedShard, ServesAWorkerOfWhichTheGradientIsMissing) {
  serve("ringleader", 2);
  push(0, 1, 0, 2);
  lead(0, 1, 0);
  tell(shard_, worker_left{{1}});
  lead(1, 1, 0);
  tell(shard_, order_entry{kind::left, {1}});
  push(0, 2, 0, 6);
  lead(0, 2, 0);
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 2U) << "as on the first shard";
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 2 + (2 + 6) / 2.0F);
}

/// The first shard has lost its worker, or is slow: nothing of its order has come for what is here.
TEST_F(LedShard, SaysThatItWaitsForTheOrderOfTheFirst) {
  serve("k-async:2", 3);
  push(0, 1, 0);
  time_->advance(2s);
  const auto waits = ask<wait_reason>(shard_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].what,
            "shard 1 holds worker 0 after step 1, k-async policy, until shard 0 tells its turn");
  EXPECT_EQ(instant{waits[0].span}, 2s);
}

TEST_F(LedShard, NamesTheGradientWhoseTurnIsFirst) {
  serve("k-async:2", 3);
  push(0, 1, 0);
  lead(2, 1, 0);
  lead(0, 1, 0);
  const auto waits = ask<wait_reason>(shard_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].what,
            "shard 1 holds worker 0 after step 1, k-async policy, until it has the gradient of "
            "worker 2's step 1, whose turn is first");
}

/// A gradient that is here and not judged is none that it has to hear of.
TEST_F(LedShard, AwaitsNobodyWhoseGradientIsHere) {
  serve("k-async:3", 3);
  push(0, 1, 0);
  lead(0, 1, 0);
  push(1, 1, 0);
  const auto waits = ask<wait_reason>(shard_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_THAT(waits, SizeIs(2));
  EXPECT_THAT(waits[0].what, HasSubstr("holds worker 0 after step 1, k-async policy, until it hears from "
                                       "worker 2 (heard 0.0 s ago)"));
  EXPECT_THAT(waits[1].what, HasSubstr("holds worker 1 after step 1, k-async policy, until shard 0 tells"));
}

TEST_F(LedShard, TellsTheRecorderWhichShardItIs) {
  auto recorder = listen<order_noted>();
  recorder_ = recorder.actor();
  serve("ringmaster:2", 1);
  report();
  ASSERT_FALSE(recorder.heard<order_noted>().empty());
  EXPECT_EQ(recorder.heard<order_noted>()[0].shard, shard_index{1});
}

} // namespace
} // namespace mailgrad

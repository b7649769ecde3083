#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::ParameterActor;
using ::testing::SizeIs;

TEST_F(ParameterActor, SendsTheFirstWeightsToEachWorkerThatJoins) {
  serve("async", 2);
  for (std::uint32_t r = 0; r < 2; ++r) {
    ASSERT_THAT(weights_of(r), SizeIs(1));
    EXPECT_EQ(weights_of(r)[0].header.version.value, 0U);
    EXPECT_EQ(weights_of(r)[0].header.shard.value, 0U);
    EXPECT_FALSE(weights_of(r)[0].header.stay) << "it answers no gradient";
  }
  EXPECT_EQ(weights_of(0)[0].payload.values, weights_of(1)[0].payload.values)
      << "a snapshot is shared, not copied";
}

TEST_F(ParameterActor, AnswersAPushWithTheNextVersion) {
  serve("async", 2);
  push(0, 1, 0);
  ASSERT_THAT(weights_of(0), SizeIs(2));
  EXPECT_THAT(weights_of(1), SizeIs(1)) << "nobody asked for it";
  EXPECT_EQ(weights_of(0)[1].header.version.value, 1U);
  EXPECT_FLOAT_EQ(moved(weights_of(0)[1]), 1);
}

TEST_F(ParameterActor, CountsAGradientWithItsScale) {
  serve("async", 1);
  push(0, 1, 0, 4, 0.25F);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 1);
}

TEST_F(ParameterActor, StampsTheGapJustBeforeItApplies) {
  serve("async", 3);
  push(1, 1, 0);
  push(1, 2, 1);
  push(0, 1, 0);
  push(2, 1, 0);
  push(0, 2, 3);
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 5U);
  EXPECT_THAT(r.workers[0].gaps.buckets(), ElementsAre(Pair(1, 1), Pair(2, 1)));
  EXPECT_THAT(r.workers[1].gaps.buckets(), ElementsAre(Pair(0, 2)));
  EXPECT_THAT(r.workers[2].gaps.buckets(), ElementsAre(Pair(3, 1)));
}

TEST_F(ParameterActor, TellsAWorkerWhichGradientItHasDiscarded) {
  serve("ringmaster:2", 2);
  push(0, 1, 0);
  push(0, 2, 1);
  EXPECT_EQ(weights_of(0).back().header.discarded, step_number{}) << "none of its own";
  push(1, 1, 0);
  EXPECT_EQ(weights_of(1).back().header.discarded, step_number{1});
  push(1, 2, 2);
  EXPECT_EQ(weights_of(1).back().header.discarded, step_number{1}) << "the second was taken";
}

TEST_F(ParameterActor, PredictsWhichGradientsItWillDiscard) {
  serve("ringmaster:2", 2);
  push(0, 1, 0);
  const auto predicted = [&](std::uint64_t version_read, std::uint64_t epoch = 0) {
    const predict_verdict asked{{1}, {}, {1}, {version_read}, {epoch}};
    return ask<verdict_predicted>(shard_, asked).heard<verdict_predicted>().at(0).discarded;
  };
  EXPECT_FALSE(predicted(0)) << "one version old";
  push(0, 2, 1);
  EXPECT_TRUE(predicted(0));
  EXPECT_FALSE(predicted(1));
  EXPECT_FALSE(predicted(0, 1)) << "another policy will judge it";
  push(1, 1, 0);
  EXPECT_EQ(weights_of(1).back().header.discarded, step_number{1});
}

TEST_F(ParameterActor, TakesAGradientThatWasNotComputedOnlyToDiscardIt) {
  serve("ringmaster:1", 2);
  push(0, 1, 0);
  tell(shard_, testing::push_of(1, 1, 0, nullptr));
  EXPECT_EQ(report().workers[1].ledger.discarded_in_all(), 1U);
  tell(shard_, testing::push_of(1, 2, 1, nullptr));
  EXPECT_THAT(ask<shard_report>(shard_, report_shard{}).heard<shard_report>(), IsEmpty())
      << "it ended, rather than to apply what nobody has computed";
}

TEST_F(ParameterActor, CountsTheGapOfADiscardedGradientApart) {
  serve("ringmaster:2", 2);
  push(0, 1, 0);
  push(0, 2, 1);
  push(1, 1, 0);
  const shard_report r = report();
  EXPECT_EQ(r.workers[1].ledger.discarded_in_all(), 1U);
  EXPECT_THAT(r.workers[1].discarded_gaps.buckets(), ElementsAre(Pair(2, 1)));
  EXPECT_THAT(r.workers[1].gaps.buckets(), IsEmpty());
  EXPECT_THAT(r.workers[0].discarded_gaps.buckets(), IsEmpty());
}

TEST_F(ParameterActor, LetsAStaleGradientCountAsItsCureSays) {
  serve("async", 2, "dynsgd");
  push(0, 1, 0);
  push(1, 1, 0);
  EXPECT_FLOAT_EQ(moved(weights_of(0)[1]), 1);
  EXPECT_FLOAT_EQ(moved(weights_of(1)[1]), 1.5F) << "a gap of 1 counts half";
}

TEST_F(ParameterActor, LetsAStaleGradientOfABatchCountAsItsCureSays) {
  serve("k-batch-async:2", 2, "dynsgd");
  push(0, 1, 0);
  push(0, 2, 0);
  push(0, 3, 1);
  push(1, 1, 0);
  EXPECT_FLOAT_EQ(moved(weights_of(1).back()), 1 + (1 + 0.5F) / 2);
}

TEST_F(ParameterActor, WeighsEachWorkerOfABatchAlike) {
  serve("malenia:3", 2);
  for (std::uint64_t step = 1; step <= 3; ++step) push(0, step, 0, 2);
  push(1, 1, 0, 8);
  EXPECT_FLOAT_EQ(moved(weights_of(1).back()), (2 + 8) / 2.0F);
  push(0, 4, 0, 9);
  EXPECT_THAT(report().workers[0].ledger.discarded, ElementsAre(Pair("late", 1)));
}

TEST_F(ParameterActor, KeepsGradientsForAllUpdatesOfARound) {
  serve("ringleader", 2);
  push(0, 1, 0, 2);
  push(0, 2, 0, 4);
  EXPECT_EQ(weights_of(0).back().header.version.value, 0U);
  push(1, 1, 0, 1);
  EXPECT_FLOAT_EQ(moved(weights_of(1).back()), ((2 + 4) / 2.0F + 1) / 2);
  push(1, 2, 1, 8);
  EXPECT_EQ(weights_of(1).back().header.version.value, 1U) << "deferred";
  push(0, 3, 0, 6);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 2 + ((2 + 4 + 6) / 3.0F + 1) / 2);
  push(0, 4, 2, 2);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 4.5F + (8 + 2) / 2.0F) << "of the next round";
  push(1, 3, 1, 4);
  EXPECT_FLOAT_EQ(moved(weights_of(1).back()), 9.5F + ((8 + 4) / 2.0F + 2) / 2);
  const shard_report r = report();
  EXPECT_EQ(r.workers[0].ledger, (gradient_ledger{4, 0, 4, {}, 0}));
  EXPECT_THAT(r.workers[0].gaps.buckets(), ElementsAre(Pair(0, 3), Pair(1, 1)));
  EXPECT_THAT(r.workers[1].gaps.buckets(), ElementsAre(Pair(0, 1), Pair(1, 1), Pair(2, 1)));
  ASSERT_THAT(tracker_.heard<staleness_observed>(), ::testing::Not(IsEmpty()));
  EXPECT_EQ(tracker_.heard<staleness_observed>().back().counts->merged, 7U) << "4 and 3";
  EXPECT_EQ(tracker_.heard<staleness_observed>().back().counts->applied, 0U);
}

TEST_F(ParameterActor, GivesAWorkerThatIsNotServedTheWeightsThatItHad) {
  serve("ringleader", 3);
  for (const std::uint32_t worker : {0U, 1U, 2U}) push(worker, 1, 0, 1);
  push(0, 2, 0, 1);
  const shard_weights had = weights_of(2).back();
  EXPECT_EQ(had.header.version.value, 1U);
  push(2, 2, 1, 5);
  const shard_weights has = weights_of(2).back();
  EXPECT_EQ(has.header.version.value, 1U);
  EXPECT_EQ(has.payload.values.owner(), had.payload.values.owner());
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 2) << "another has newer ones";
}

TEST_F(ParameterActor, CountsAsLostWhatLiesInABatchThatNeverFilled) {
  serve("rennala:3", 2);
  push(0, 1, 0);
  const gradient_ledger l = report().workers[0].ledger;
  EXPECT_EQ(l, (gradient_ledger{1, 0, 0, {}, 1}));
}

/// Its coordinator is in another process, which would not get the timeline with the report.
TEST_F(ParameterActor, TellsAllOfItsTimelineBeforeItsReport) {
  using coordinator_probe = testing::listener<shard_trace_reported, shard_report, wait_reason>;
  coordinator_probe coordinator = listen<shard_trace_reported, shard_report, wait_reason>();
  const auto say = [&](const caf::message& m) {
    messaging::send_as(coordinator.actor(), shard_, m);
    run();
  };
  tells_trace_to_ = coordinator.actor();
  serve("sync", 2);
  auto& told = coordinator.heard<shard_trace_reported>();
  ASSERT_THAT(told, SizeIs(1)) << "that a worker has joined shows that a coordinator is there";
  EXPECT_THAT(told[0].piece.events, IsEmpty());
  push(0, 1, 0);
  push(1, 1, 0);
  time_->advance(std::chrono::seconds{1});
  push(0, 2, 1);
  EXPECT_THAT(told, SizeIs(1)) << "the first is not answered";
  say(caf::make_message(report_shard{}));
  say(caf::make_message(report_shard{}));
  EXPECT_THAT(coordinator.heard<shard_report>(), IsEmpty());
  say(caf::make_message(list_wait_reasons{}));
  ASSERT_THAT(coordinator.heard<wait_reason>(), ::testing::Not(IsEmpty()));
  EXPECT_EQ(coordinator.heard<wait_reason>()[0].what,
            "shard 0 waits for the coordinator to take its timeline");
  say(caf::make_message(trace_taken{}));
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(std::ranges::count(told[1].piece.events, trace_kind::apply, &reported_event::what), 2);
  ASSERT_THAT(coordinator.heard<shard_report>(), SizeIs(1));
  EXPECT_EQ(coordinator.heard<shard_report>()[0].version.value, 1U);
}

TEST_F(ParameterActor, NeverWritesToWeightsThatADeviceHolds) {
  serve("async", 1);
  const shard_weights first = weights_of(0)[0];
  for (std::uint64_t step = 1; step <= 5; ++step) push(0, step, step - 1);
  EXPECT_FLOAT_EQ(moved(first), 0);
  EXPECT_FLOAT_EQ(moved(weights_of(0)[2]), 2);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 5);
}

TEST_F(ParameterActor, TellsTheTrackerNowAndThenNotForEachGradient) {
  serve("async", 1);
  std::uint64_t pushed = 0;
  while (tracker_.heard<staleness_observed>().empty() && pushed < 10'000) {
    ++pushed;
    push(0, pushed, pushed - 1);
  }
  ASSERT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
  EXPECT_GE(pushed, 100U);
  EXPECT_EQ(tracker_.heard<staleness_observed>()[0].gaps.total(), pushed);
}

TEST_F(ParameterActor, ReportsItsWeightsAsAnotherHolderOfASnapshot) {
  serve("async", 1);
  push(0, 1, 0);
  const shard_report r = report();
  push(0, 2, 1);
  EXPECT_FLOAT_EQ(begin_ - r.values.on_host()[0], 1);
  EXPECT_FLOAT_EQ(begin_ - report().values.on_host()[0], 2);
}

/// What it sent stays in its round, and nobody waits for what it did not send.
TEST_F(ParameterActor, GoesOnWithARoundAmidWhichAWorkerLeaves) {
  serve("ringleader", 3);
  push(0, 1, 0, 2);
  push(2, 1, 0, 8);
  tell(shard_, worker_left{{2}});
  push(1, 1, 0, 5);
  EXPECT_FLOAT_EQ(moved(weights_of(1).back()), (2 + 5 + 8) / 3.0F) << "the table is full";
  push(0, 2, 0, 4);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 5 + (3 + 5 + 8) / 3.0F) << "and all are served";
  push(1, 2, 1, 6);
  push(0, 3, 2, 2);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 5 + 16 / 3.0F + (6 + 2) / 2.0F) << "a round of two";
  const shard_report r = report();
  EXPECT_EQ(r.workers[2].ledger, (gradient_ledger{1, 0, 1, {}, 0}));
  EXPECT_THAT(r.workers[2].gaps.buckets(), ElementsAre(Pair(0, 1)));
  EXPECT_EQ(r.version.value, 3U);
}

TEST_F(ParameterActor, AwaitsNobodyInARoundWhoLeftBeforeItSent) {
  serve("ringleader", 3);
  push(0, 1, 0, 2);
  push(1, 1, 0, 4);
  tell(shard_, worker_left{{2}});
  EXPECT_EQ(weights_of(1).back().header.version.value, 0U) << "who comes next is the first to be served";
  push(0, 2, 0, 6);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), ((2 + 6) / 2.0F + 4) / 2);
}

} // namespace
} // namespace mailgrad

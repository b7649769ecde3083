#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>

#include <gmock/gmock.h>

#include <algorithm>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using mailgrad::testing::only;
using ::testing::ElementsAre, ::testing::IsEmpty, ::testing::Pair, ::testing::SizeIs;
using testing::ParameterActor;

TEST_F(ParameterActor, SendsTheFirstWeightsToEachWorkerThatJoins) {
  serve("async", 2);
  for (std::uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(only(weights_of(r)).header.version.value, 0U);
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
  push(1, 1, 0, 4, 0.25F);
  EXPECT_FLOAT_EQ(moved(weights_of(1)[1]), 2) << "by its scale";
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
  const shard_report r = report();
  EXPECT_EQ(r.workers[1].ledger.discarded_in_all(), 1U);
  EXPECT_THAT(r.workers[1].discarded_gaps.buckets(), ElementsAre(Pair(2, 1)));
  EXPECT_THAT(r.workers[1].gaps.buckets(), IsEmpty());
  EXPECT_THAT(r.workers[0].discarded_gaps.buckets(), IsEmpty());
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
  EXPECT_EQ(only(coordinator.heard<shard_report>()).version.value, 1U);
}

TEST_F(ParameterActor, NeverWritesToWeightsThatADeviceHolds) {
  serve("async", 1);
  const shard_weights first = weights_of(0)[0];
  for (std::uint64_t step = 1; step <= 5; ++step) push(0, step, step - 1);
  EXPECT_FLOAT_EQ(moved(first), 0);
  EXPECT_FLOAT_EQ(moved(weights_of(0)[2]), 2);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 5);
  const shard_report r = report(); // which is another holder
  push(0, 6, 5);
  EXPECT_FLOAT_EQ(begin_ - r.values.on_host()[0], 5);
  EXPECT_FLOAT_EQ(begin_ - report().values.on_host()[0], 6);
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

TEST_F(ParameterActor, TakesNoGradientOfAnotherRun) {
  serve("async", 1);
  push_gradient x = testing::push_of(0, 1, 0, testing::constant_gradient(layout_, 1));
  x.header.id.run = {1};
  tell(shard_, x);
  EXPECT_THAT(weights_of(0), SizeIs(1)) << "it is not answered either";
  EXPECT_EQ(report().workers[0].ledger.produced, 0U);
}

/// A worker that was cut off sends its step 2 when another incarnation has taken its place, and that step
/// once more when it is there again.
TEST_F(ParameterActor, TakesNoGradientOfAnIncarnationThatIsNoMore) {
  serve("async", 1);
  push(0, 1, 0);
  join(0, 1);
  push(0, 2, 1);
  EXPECT_EQ(report().workers[0].ledger.produced, 1U);
  push_as(1, 0, 1, 1);
  EXPECT_EQ(report().workers[0].ledger.applied, 2U) << "it counts its steps from 1 again";
  push_as(1, 0, 1, 1);
  EXPECT_EQ(report().workers[0].ledger.produced, 2U);
}

/// A gradient of memory that this shard cannot read would end it if it were touched.
TEST_F(ParameterActor, LooksAtNothingOfWhoIsFencedOff) {
  serve("async", 1);
  join(0, 1);
  float elsewhere[16] = {};
  auto out_of_reach = std::make_shared<gradient>();
  out_of_reach->dense =
      memory(device_block({device_kind::cuda, 0}, elsewhere, sizeof elsewhere, [](void*) {}));
  tell(shard_, testing::push_of(0, 1, 0, out_of_reach));
  EXPECT_EQ(report().workers[0].ledger.produced, 0U);
  push_as(1, 0, 1, 0);
  EXPECT_EQ(report().workers[0].ledger.produced, 1U);
}

TEST_F(ParameterActor, IsJoinedByNoIncarnationThatIsNoMore) {
  serve("async", 1);
  join(0, 1);
  const std::size_t answers = weights_of(0).size();
  const auto late = listen<shard_weights>();
  tell(shard_, join_shard{{0}, {0}, late.actor()});
  EXPECT_THAT(weights_of(0), SizeIs(answers));
  push_as(1, 0, 1, 0);
  EXPECT_THAT(weights_of(0), SizeIs(answers + 1)) << "the later one is still the worker";
}

/// Under a barrier the others would wait for a rank whose next incarnation is not one of the policy's
/// workers.
TEST_F(ParameterActor, CountsTheNextIncarnationAmongTheWorkersOfItsPolicy) {
  serve("sync", 2);
  tell(shard_, worker_left{{1}});
  push(0, 1, 0);
  ASSERT_EQ(report().version.value, 1U) << "nobody else is there";
  join(1, 1);
  EXPECT_THAT(weights_of(1), SizeIs(2)) << "it starts from the present weights";
  push(0, 2, 1);
  EXPECT_EQ(report().version.value, 1U) << "the barrier waits for it";
  push_as(1, 1, 1, 1);
  EXPECT_EQ(report().version.value, 2U);
}

TEST_F(ParameterActor, LetsNoLateWordOfAnEndEvictTheNextIncarnation) {
  serve("sync", 2);
  join(1, 1);
  tell(shard_, worker_left{{1}, {0}});
  push(0, 1, 0);
  EXPECT_EQ(report().version.value, 0U) << "the barrier waits for the second incarnation";
  tell(shard_, worker_left{{1}, {1}});
  EXPECT_EQ(report().version.value, 1U);
}

TEST_F(ParameterActor, IsNotJoinedByAnIncarnationThatHasLeft) {
  serve("sync", 2);
  tell(shard_, worker_left{{1}, {2}});
  const std::size_t answers = weights_of(1).size();
  join(1, 2);
  EXPECT_THAT(weights_of(1), SizeIs(answers));
  push(0, 1, 0);
  EXPECT_EQ(report().version.value, 1U) << "nobody waits for it";
}

TEST_F(ParameterActor, TakesAGradientThatArrivesTwiceOnce) {
  serve("async", 1);
  push(0, 1, 0);
  push(0, 1, 0);
  push(0, 2, 1);
  push(0, 1, 0);
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 2U);
  EXPECT_EQ(r.workers[0].last_step.value, 2U);
  EXPECT_EQ(r.workers[0].ledger, (gradient_ledger{2, 2, 0, {}, 0}));
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 2);
}

TEST_F(ParameterActor, IgnoresAWorkerThatHasLeftOrNeverWas) {
  serve("async", 2);
  tell(shard_, worker_left{{1}});
  push(1, 1, 0);
  push(7, 1, 0);
  tell(shard_, join_shard{{7}, {}, devices_[0].actor()});
  tell(shard_, worker_left{{7}});
  EXPECT_EQ(report().version.value, 0U);
  EXPECT_EQ(report().workers[1].ledger.produced, 0U);
  EXPECT_THAT(report().workers, SizeIs(2));
  for (const std::uint32_t r : {0U, 1U}) EXPECT_THAT(weights_of(r), SizeIs(1));
}

TEST_F(ParameterActor, IgnoresAWorkerThatHasNotJoined) {
  shard_ = start<parameter_actor>(parameter_actor_options{
      {std::make_shared<shard>(layout_, 0, 1, testing::sgd(1)), {"async", 1}, 1, time_}, tracker_.actor()});
  push(0, 1, 0);
  EXPECT_EQ(report().version.value, 0U);
}

// Each worker sends how far its weights x lie below the shard's w: w + A (x1 - w) + A (x2 - w).
TEST_F(ParameterActor, SumsWhatElasticWorkersDifferAndTellsWhatTheyMet) {
  serve("sync", 2, "easgd:0.25");
  push(0, 1, 0, 4);
  push(1, 1, 0, 8);
  for (std::uint32_t r = 0; r < 2; ++r) {
    ASSERT_THAT(weights_of(r), SizeIs(2));
    EXPECT_FLOAT_EQ(moved(weights_of(r)[1]), 0.25F * 4 + 0.25F * 8);
    ASSERT_TRUE(weights_of(r)[1].payload.met);
    EXPECT_EQ(weights_of(r)[1].payload.met.on_host()[0], begin_) << "not what the barrier made of it";
  }
}

/// A gradient of another process, with what it holds: room on its way, and credit until it is added up.
push_gradient pushed_from_elsewhere(std::uint32_t worker, const parameter_layout& layout,
                                    std::shared_ptr<const int> room, std::shared_ptr<const int> credit) {
  push_gradient x =
      testing::push_of(worker, 1, 0, testing::constant_gradient(layout, static_cast<float>(1 + worker)));
  x.payload.room = std::move(room);
  x.payload.credit = std::move(credit);
  return x;
}

/// Else a barrier of more workers than there is room for would never open.
TEST_F(ParameterActor, KeepsNoRoomForThoseThatArriveWhileItsBarrierIsShut) {
  for (const char* const policy : {"sync", "k-async:2"}) {
    serve(policy, 2);
    const auto room = std::make_shared<int>(), credit = std::make_shared<int>();
    tell(shard_, pushed_from_elsewhere(1, layout_, room, credit));
    EXPECT_THAT(weights_of(1), SizeIs(1)) << "it waits";
    EXPECT_EQ(room.use_count(), 1);
    EXPECT_EQ(credit.use_count(), policy == std::string_view("sync") ? 2 : 1);
  }
}

TEST_F(ParameterActor, KeepsTheCreditOfAGradientUntilItsTurnInTheSumOfABarrier) {
  serve("sync", 4);
  std::vector<std::shared_ptr<const int>> credits;
  for (int r = 0; r < 4; ++r) credits.push_back(std::make_shared<int>(r));
  for (const std::uint32_t r : {2U, 3U, 0U}) {
    tell(shard_, pushed_from_elsewhere(r, layout_, nullptr, credits[r]));
    EXPECT_EQ(credits[r].use_count(), r == 0 ? 1 : 2) << r;
  }
  tell(shard_, worker_left{{1}});
  EXPECT_EQ(credits[2].use_count(), 1);
  ASSERT_THAT(weights_of(0), SizeIs(2));
  EXPECT_FLOAT_EQ(moved(weights_of(0)[1]), (1.0F + 3 + 4) / 3);
  EXPECT_EQ(credits[3].use_count(), 1);
}

TEST_F(ParameterActor, AddsUpWhatItKeepsWhenTheNextOfTheSumLeaves) {
  serve("sync", 4);
  const auto of_1 = std::make_shared<int>(), of_2 = std::make_shared<int>();
  tell(shard_, pushed_from_elsewhere(2, layout_, nullptr, of_2));
  tell(shard_, pushed_from_elsewhere(1, layout_, nullptr, of_1));
  EXPECT_EQ(of_1.use_count(), 2);
  tell(shard_, worker_left{{0}});
  EXPECT_EQ(of_1.use_count(), 1);
  EXPECT_EQ(of_2.use_count(), 1);
  EXPECT_THAT(weights_of(1), SizeIs(1));
}

TEST_F(ParameterActor, TellsWhomItAwaitsFirstWhileGradientsHaveTurns) {
  std::vector<std::pair<int, std::uint64_t>> told;
  awaits_ = [&](std::optional<rank> first, version_number version) {
    told.emplace_back(first ? static_cast<int>(first->value) : -1, version.value);
  };
  serve("sync", 3);
  push(1, 1, 0);
  EXPECT_THAT(told, ElementsAre(Pair(0, 0)));
  push(0, 1, 0);
  EXPECT_THAT(told, ElementsAre(Pair(0, 0), Pair(2, 0)));
  told.clear();
  push(2, 1, 0);
  EXPECT_THAT(told, ElementsAre(Pair(0, 1)));
  tell(shard_, worker_left{{0}});
  EXPECT_THAT(told, ElementsAre(Pair(0, 1), Pair(1, 1)));
  told.clear();
  tell(shard_, free_credit{});
  EXPECT_THAT(told, ElementsAre(Pair(-1, 1)));
  push(1, 2, 1);
  EXPECT_THAT(told, ElementsAre(Pair(-1, 1)));
  tell(shard_, switch_policy{1, "sync", {{1}, {2}, {1}}, {0, 1, 1}, {}});
  EXPECT_THAT(told, ElementsAre(Pair(-1, 1), Pair(1, 2))) << "of the next policy";
  tell(shard_, switch_policy{2, "async", {{1}, {2}, {1}}, {0, 1, 1}, {}});
  EXPECT_EQ(told.back(), std::pair(-1, std::uint64_t{2}));
}

TEST_F(ParameterActor, OpensABarrierWithTheMeanOfOneGradientOfEach) {
  serve("sync", 3);
  push(2, 1, 0, 3);
  time_->advance(2s);
  push(0, 1, 0, 1);
  time_->advance(500ms);
  for (std::uint32_t r = 0; r < 3; ++r) EXPECT_THAT(weights_of(r), SizeIs(1)) << r;
  push(1, 1, 0, 8);
  for (const auto& [r, wait] : {std::pair{2U, 2500ms}, {0U, 500ms}, {1U, 0ms}})
    EXPECT_EQ(instant{weights_of(r).back().header.stay.value().until_barrier}, wait) << r;
  for (std::uint32_t r = 0; r < 3; ++r) {
    ASSERT_THAT(weights_of(r), SizeIs(2)) << r;
    EXPECT_EQ(weights_of(r)[1].header.version.value, 1U);
    EXPECT_FLOAT_EQ(moved(weights_of(r)[1]), 4);
  }
  const shard_report r = report();
  for (const worker_account& account : r.workers) {
    EXPECT_EQ(account.ledger, (gradient_ledger{1, 0, 1, {}, 0}));
    EXPECT_THAT(account.gaps.buckets(), ElementsAre(Pair(0, 1)));
  }
}

TEST_F(ParameterActor, MakesTheSameBitsInWhateverOrderGradientsArrive) {
  std::vector<float> results;
  for (const std::vector<std::uint32_t>& order :
       {std::vector<std::uint32_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    serve("sync", 3);
    for (const std::uint32_t r : order) push(r, 1, 0, r == 0 ? 1e8F : r == 1 ? -1e8F : 0.123456F);
    results.push_back(weights_of(0).back().payload.values.on_host()[0]);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(ParameterActor, OpensTheBarrierWhenTheWorkerItWaitedForLeaves) {
  serve("sync", 2);
  push(0, 1, 0, 6);
  time_->advance(3s);
  tell(shard_, worker_left{{1}});
  ASSERT_THAT(weights_of(0), SizeIs(2));
  EXPECT_FLOAT_EQ(moved(weights_of(0)[1]), 6) << "the mean is over those who sent";
  EXPECT_EQ(instant{weights_of(0)[1].header.stay.value().until_barrier}, 3s);
  EXPECT_THAT(weights_of(1), SizeIs(1));
}

TEST_F(ParameterActor, KeepsTheGradientOfAWorkerThatLeavesAtTheBarrier) {
  serve("sync", 2);
  push(1, 1, 0, 2);
  tell(shard_, worker_left{{1}});
  push(0, 1, 0, 4);
  ASSERT_THAT(weights_of(0), SizeIs(2));
  EXPECT_FLOAT_EQ(moved(weights_of(0)[1]), 3);
  EXPECT_THAT(weights_of(1), SizeIs(1));
  push(0, 2, 1, 5);
  ASSERT_THAT(weights_of(0), SizeIs(3)) << "the barrier does not wait for a worker that left";
  EXPECT_FLOAT_EQ(moved(weights_of(0)[2]), 8);
  EXPECT_EQ(report().workers[1].ledger, (gradient_ledger{1, 0, 1, {}, 0}));
}

TEST_F(ParameterActor, DropsASecondGradientOfAWorkerAtTheSameBarrier) {
  serve("sync", 2);
  push(0, 1, 0, 2);
  push(0, 2, 0, 100);
  push(1, 1, 0, 4);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 3);
  const gradient_ledger l = report().workers[0].ledger;
  EXPECT_EQ(l.produced, 2U);
  EXPECT_EQ(l.merged, 1U);
  EXPECT_EQ(l.discarded_in_all(), 1U);
}

TEST_F(ParameterActor, SwitchesOnceItHasTakenWhatIsUnderWay) {
  serve("async", 2);
  push(0, 1, 0);
  tell(shard_, switch_policy{{1}, "sync", {{1}, {1}}, {1, 1}});
  EXPECT_THAT(weights_of(0), SizeIs(2)) << "a gradient of worker 1 is still under way";
  push(1, 1, 0);
  for (std::uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(weights_of(r).back().header.epoch.value, 1U);
    EXPECT_EQ(weights_of(r).back().header.version.value, 2U) << "all begin with the same version";
  }
  epoch_ = 1;
  push(0, 2, 2);
  EXPECT_EQ(weights_of(0).back().header.version.value, 2U) << "now there is a barrier";
  push(1, 2, 2);
  EXPECT_EQ(weights_of(0).back().header.version.value, 3U);
  EXPECT_EQ(report().workers[0].ledger, (gradient_ledger{2, 1, 1, {}, 0}));
}

TEST_F(ParameterActor, ClosesItsBatchAtASwitch) {
  serve("sync", 2);
  push(0, 1, 0);
  tell(shard_, switch_policy{{1}, "async", {{1}, {0}}, {1, 1}});
  for (const std::uint32_t r : {0U, 1U}) EXPECT_EQ(weights_of(r).back().header.version.value, 1U);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 1) << "the mean of the one gradient there was";
}

TEST_F(ParameterActor, DoesNotWaitAtASwitchForWhoLeft) {
  serve("async", 2);
  tell(shard_, switch_policy{{1}, "sync", {{0}, {5}}, {1, 1}});
  EXPECT_EQ(weights_of(0).back().header.epoch.value, 0U);
  tell(shard_, worker_left{{1}});
  EXPECT_EQ(weights_of(0).back().header.epoch.value, 1U);
  epoch_ = 1;
  push(0, 1, 0);
  EXPECT_EQ(weights_of(0).back().header.version.value, 1U) << "a barrier of one";
}

TEST_F(ParameterActor, BeginsWithoutWhoIsNotPresentThoughItHasNotHeardThatItLeft) {
  for (const char* policy : {"sync", "backup:1", "ssp:1", "dssp:1,2", "k-async:2", "rennala:2"}) {
    epoch_ = 0;
    serve("async", 2);
    push(1, 1, 0);
    tell(shard_, switch_policy{{1}, policy, {{0}, {1}}, {1, 0}});
    EXPECT_EQ(weights_of(0).back().header.epoch.value, 1U);
    EXPECT_EQ(weights_of(1).back().header.epoch.value, 0U) << "it takes no part";
    tell(shard_, worker_left{{1}});
    epoch_ = 1;
    push(0, 1, 1);
    EXPECT_GT(weights_of(0).back().header.version.value + weights_of(0).size(), 3U)
        << policy << ": nobody holds it";
  }
}

TEST_F(ParameterActor, DropsAGradientOfAnotherEpoch) {
  serve("async", 1);
  push(0, 1, 0);
  tell(shard_, switch_policy{{1}, "sync", {{1}}, {1}});
  push(0, 2, 1);
  const shard_report r = report();
  EXPECT_EQ(r.workers[0].ledger.discarded.at("other epoch"), 1U);
  EXPECT_THAT(r.workers[0].discarded_gaps.buckets(), ElementsAre(Pair(0, 1)));
  EXPECT_EQ(weights_of(0).back().header.version.value, 1U);
  const auto is_discard = [](const trace_event& e) { return e.what == trace_kind::discard; };
  const auto told = std::ranges::find_if(r.trace->events(), is_discard);
  ASSERT_NE(told, r.trace->events().end());
  EXPECT_EQ(told->word, "other epoch");
  EXPECT_THAT(weights_of(0), SizeIs(4)) << "it is answered as every push";
}

} // namespace
} // namespace mailgrad

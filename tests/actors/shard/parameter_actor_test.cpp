#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/shard/parameter_actor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

using device_probe = testing::listener<shard_weights>;

/// One shard of 16 weights with plain SGD, learning rate 1, and a probe for each worker's device.
class ParameterActor : public testing::DeterministicTest {
protected:
  void serve(const std::string& policy, std::uint32_t workers, const std::string& cure = "none") {
    auto weights = std::make_shared<shard>(layout_, 0, 1, testing::sgd(1));
    begin_ = weights->snapshot().on_host()[0];
    shard_ = start<parameter_actor>(
        parameter_actor_options{.weights = std::move(weights),
                                .policy = {policy, workers},
                                .workers = workers,
                                .tracker = tracker_.actor(),
                                .time = time_,
                                .cure = {cure, workers},
                                .trace = std::make_shared<trace_track>("shard 0", 100, time_->now())});
    for (std::uint32_t r = 0; r < workers; ++r) {
      devices_.push_back(listen<shard_weights>());
      tell(shard_, join_shard{{r}, {}, devices_[r].actor()});
    }
  }

  void push(std::uint32_t worker, std::uint64_t step, std::uint64_t version_read, float value = 1,
            float scale = 1) {
    tell(shard_, testing::push_of(worker, step, version_read, testing::constant_gradient(layout_, value),
                                  scale, epoch_));
  }

  std::vector<shard_weights>& weights_of(std::uint32_t worker) {
    return devices_[worker].heard<shard_weights>();
  }
  /// How far the first weight is below where it began.
  float moved(const shard_weights& w) const { return begin_ - w.payload.values.on_host()[0]; }

  shard_report report() { return ask<shard_report>(shard_, report_shard{}).heard<shard_report>().at(0); }

  const parameter_layout layout_ = testing::layout_of({{"w", {16}}}, 1);
  testing::listener<staleness_observed> tracker_ = listen<staleness_observed>();
  caf::actor shard_;
  std::vector<device_probe> devices_;
  float begin_ = 0;
  std::uint64_t epoch_ = 0; ///< of what is pushed
};

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
  tell(shard_, join_shard{{0}, {1}, devices_[0].actor()});
  push(0, 2, 1);
  EXPECT_EQ(report().workers[0].ledger.produced, 1U);
  push_gradient first = testing::push_of(0, 1, 1, testing::constant_gradient(layout_, 1));
  first.header.id.life = {1};
  tell(shard_, first);
  EXPECT_EQ(report().workers[0].ledger.applied, 2U) << "it counts its steps from 1 again";
  tell(shard_, first);
  EXPECT_EQ(report().workers[0].ledger.produced, 2U);
}

TEST_F(ParameterActor, IsJoinedByNoIncarnationThatIsNoMore) {
  serve("async", 1);
  tell(shard_, join_shard{{0}, {1}, devices_[0].actor()});
  const std::size_t answers = weights_of(0).size();
  const device_probe late = listen<shard_weights>();
  tell(shard_, join_shard{{0}, {0}, late.actor()});
  EXPECT_THAT(weights_of(0), SizeIs(answers));
  push_gradient x = testing::push_of(0, 1, 0, testing::constant_gradient(layout_, 1));
  x.header.id.life = {1};
  tell(shard_, x);
  EXPECT_THAT(weights_of(0), SizeIs(answers + 1)) << "the later one is still the worker";
}

/// Under a barrier the others would wait for a rank whose next incarnation is not one of the policy's
/// workers.
TEST_F(ParameterActor, CountsTheNextIncarnationAmongTheWorkersOfItsPolicy) {
  serve("sync", 2);
  tell(shard_, worker_left{{1}});
  push(0, 1, 0);
  ASSERT_EQ(report().version.value, 1U) << "nobody else is there";
  tell(shard_, join_shard{{1}, {1}, devices_[1].actor()});
  EXPECT_THAT(weights_of(1), SizeIs(2)) << "it starts from the present weights";
  push(0, 2, 1);
  EXPECT_EQ(report().version.value, 1U) << "the barrier waits for it";
  push_gradient x = testing::push_of(1, 1, 1, testing::constant_gradient(layout_, 1));
  x.header.id.life = {1};
  tell(shard_, x);
  EXPECT_EQ(report().version.value, 2U);
}

TEST_F(ParameterActor, LetsNoLateWordOfAnEndEvictTheNextIncarnation) {
  serve("sync", 2);
  tell(shard_, join_shard{{1}, {1}, devices_[1].actor()});
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
  tell(shard_, join_shard{{1}, {2}, devices_[1].actor()});
  EXPECT_THAT(weights_of(1), SizeIs(answers));
  push(0, 1, 0);
  EXPECT_EQ(report().version.value, 1U) << "nobody waits for it";
}

TEST_F(ParameterActor, SaysHowLongAGradientStayed) {
  serve("ssp:0", 2);
  push_gradient x = testing::push_of(0, 1, 0, testing::constant_gradient(layout_, 1));
  time_->advance(10s);
  x.payload.sent = time_->now() - 4s;
  tell(shard_, x);
  time_->advance(3s);
  push(1, 1, 0);
  ASSERT_THAT(weights_of(0), SizeIs(2));
  const auto stay = weights_of(0)[1].header.stay;
  ASSERT_TRUE(stay);
  EXPECT_EQ(instant{stay->in_mailbox}, 4s);
  EXPECT_EQ(instant{stay->under_bound}, 3s);
  EXPECT_EQ(instant{stay->until_answered}, 3s);
  EXPECT_EQ(stay->until_barrier, 0);
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

TEST_F(ParameterActor, IgnoresAWorkerOfUnknownRank) {
  serve("async", 1);
  push(7, 1, 0);
  tell(shard_, join_shard{{7}, {}, devices_[0].actor()});
  tell(shard_, worker_left{{7}});
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 0U);
  EXPECT_THAT(r.workers, SizeIs(1));
  EXPECT_THAT(weights_of(0), SizeIs(1));
}

TEST_F(ParameterActor, IgnoresAWorkerThatHasNotJoined) {
  auto weights = std::make_shared<shard>(layout_, 0, 1, testing::sgd(1));
  shard_ = start<parameter_actor>(
      parameter_actor_options{std::move(weights), {"async", 1}, 1, tracker_.actor(), time_});
  push(0, 1, 0);
  EXPECT_EQ(report().version.value, 0U);
}

TEST_F(ParameterActor, IgnoresThePushOfAWorkerThatLeft) {
  serve("async", 2);
  tell(shard_, worker_left{{1}});
  push(1, 1, 0);
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 0U);
  EXPECT_EQ(r.workers[1].ledger.produced, 0U);
  EXPECT_THAT(weights_of(1), SizeIs(1));
}

TEST_F(ParameterActor, OpensABarrierWithTheMeanOfOneGradientOfEach) {
  serve("sync", 3);
  push(2, 1, 0, 3);
  push(0, 1, 0, 1);
  for (std::uint32_t r = 0; r < 3; ++r) EXPECT_THAT(weights_of(r), SizeIs(1)) << r;
  push(1, 1, 0, 8);
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
    devices_.clear();
    serve("sync", 3);
    for (const std::uint32_t r : order) push(r, 1, 0, r == 0 ? 1e8F : r == 1 ? -1e8F : 0.123456F);
    results.push_back(weights_of(0).back().payload.values.on_host()[0]);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(ParameterActor, MeasuresTheWaitOfEachWorkerAtABarrier) {
  serve("sync", 3);
  push(1, 1, 0);
  time_->advance(2s);
  push(0, 1, 0);
  time_->advance(500ms);
  push(2, 1, 0);
  EXPECT_EQ(instant{weights_of(1).back().header.stay.value().until_barrier}, 2500ms);
  EXPECT_EQ(instant{weights_of(0).back().header.stay.value().until_barrier}, 500ms);
  EXPECT_EQ(instant{weights_of(2).back().header.stay.value().until_barrier}, 0ms);
}

TEST_F(ParameterActor, NamesNoWaitForAsynchronousWorkers) {
  serve("async", 2);
  push(0, 1, 0);
  time_->advance(3s);
  push(0, 2, 1);
  EXPECT_EQ(weights_of(0).back().header.stay.value().until_barrier, 0);
  EXPECT_THAT(ask<wait_named>(shard_, name_waits{}).heard<wait_named>(), IsEmpty());
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

TEST_F(ParameterActor, SaysInWordsWhomItHoldsAndForWhom) {
  serve("sync", 3);
  push(1, 1, 0);
  time_->advance(2s);
  const auto waits = ask<wait_named>(shard_, name_waits{}).heard<wait_named>();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_THAT(waits[0].what, HasSubstr("shard 0 holds worker 1 after step 1"));
  EXPECT_THAT(waits[0].what, HasSubstr("worker 0 (heard 2.0 s ago), 2 (heard 2.0 s ago)"));
  EXPECT_EQ(instant{waits[0].span}, 2s);
}

TEST_F(ParameterActor, SaysSinceWhenASwitchWaits) {
  serve("async", 2);
  time_->advance(1s);
  tell(shard_, switch_policy{{1}, "sync", {{0}, {1}}, {1, 1}}); // worker 1 has a gradient under way
  time_->advance(2s);
  const auto waits = ask<wait_named>(shard_, name_waits{}).heard<wait_named>();
  ASSERT_FALSE(waits.empty());
  EXPECT_THAT(waits[0].what, HasSubstr("sync"));
  EXPECT_EQ(instant{waits[0].span}, 2s);
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
  EXPECT_EQ(weights_of(0).back().header.version.value, 1U);
  EXPECT_EQ(weights_of(1).back().header.version.value, 1U);
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
    devices_.clear();
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

TEST_F(ParameterActor, CountsAsLostWhatLiesInABatchThatNeverFilled) {
  serve("rennala:3", 2);
  push(0, 1, 0);
  const gradient_ledger l = report().workers[0].ledger;
  EXPECT_EQ(l, (gradient_ledger{1, 0, 0, {}, 1}));
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

} // namespace
} // namespace mailgrad

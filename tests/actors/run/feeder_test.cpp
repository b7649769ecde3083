#include <mailgrad/actors/run/feeder.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace mailgrad {
namespace {

using ::testing::IsEmpty, ::testing::SizeIs;
using testing::only;

/// Samples whose one feature is their number.
std::shared_ptr<const dataset> numbered(std::size_t samples) {
  float_features features{{1}, std::vector<float>(samples)};
  std::iota(features.values.begin(), features.values.end(), 0.0F);
  return std::make_shared<dataset>(std::move(features), std::vector<std::int32_t>(samples), 2);
}

class Feeder : public testing::DeterministicTest {
protected:
  void deal(std::size_t samples, std::size_t batch, std::uint32_t workers, std::uint64_t epochs = 1,
            deal_mode mode = deal_mode::on_demand, std::deque<std::uint64_t> hold_at = {}) {
    feeder_ = start<feeder>(feeder_options{
        numbered(samples), {samples, batch, epochs, 0, 9, mode, workers}, 0, std::move(hold_at)});
  }

  auto ask_for_batch(std::uint32_t worker, std::uint32_t incarnation = 0, bool has_samples = false) {
    return ask<dealt_batch, dealt_samples, data_exhausted, switch_ahead>(
        feeder_, next_batch{{worker}, {incarnation}, has_samples});
  }
  /// What a worker is answered: a batch, or null when there are no more.
  std::shared_ptr<const batch> next(std::uint32_t worker) {
    auto answer = ask_for_batch(worker);
    const auto batches = std::exchange(answer.heard<dealt_batch>(), {}); // the probe holds none of them
    EXPECT_EQ(batches.size() + answer.heard<data_exhausted>().size(), 1U) << "one answer to one question";
    return batches.empty() ? nullptr : batches[0].values;
  }

  void take(std::initializer_list<std::uint32_t> workers) {
    for (const std::uint32_t w : workers) EXPECT_TRUE(next(w)) << w;
  }
  static std::vector<float> samples_of(const batch& b) {
    const std::span<const float> values = b.features.values();
    return {values.begin(), values.end()};
  }

  caf::actor feeder_;
};

TEST_F(Feeder, DealsEverySampleOnceAnEpochOverAllWorkers) {
  deal(23, 4, 3, 2);
  std::uint64_t number = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::multiset<float> seen;
    for (std::uint32_t i = 0; i < 6; ++i) {
      const auto b = next(i % 3);
      ASSERT_TRUE(b);
      EXPECT_EQ(b->epoch, static_cast<std::uint64_t>(epoch));
      EXPECT_EQ(b->number, number++);
      EXPECT_EQ(b->size, i == 5 ? 3U : 4U);
      const auto samples = samples_of(*b);
      seen.insert(samples.begin(), samples.end());
    }
    std::multiset<float> all;
    for (int i = 0; i < 23; ++i) all.insert(static_cast<float>(i));
    EXPECT_EQ(seen, all);
  }
}

TEST_F(Feeder, TellsAWorkerThatHasTheSamplesWhichOnesToTake) {
  deal(12, 4, 2);
  const auto sent = next(0);
  auto answer = ask_for_batch(1, 0, true);
  EXPECT_THAT(answer.heard<dealt_batch>(), IsEmpty());
  const dealt_samples told = only(answer.heard<dealt_samples>());
  EXPECT_EQ(told.number, 1U);
  EXPECT_EQ(told.epoch, 0U);
  const auto last = next(0);
  std::multiset<float> seen(told.samples.begin(), told.samples.end());
  for (const auto& b : {sent, last})
    for (const float x : samples_of(*b)) seen.insert(x);
  EXPECT_THAT(seen, SizeIs(12)) << "a sample has its number for a value here";
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 12U);
}

TEST_F(Feeder, RemembersWhileItHoldsThatAWorkerHasTheSamples) {
  deal(24, 4, 1, 1, deal_mode::on_demand, {1});
  tell(feeder_, watch_holds{});
  take({0});
  auto hungry = ask_for_batch(0, 0, true);
  EXPECT_THAT(hungry.heard<dealt_samples>(), IsEmpty());
  tell(feeder_, go_on_dealing{false, 1});
  EXPECT_THAT(hungry.heard<dealt_samples>(), SizeIs(1));
  EXPECT_THAT(hungry.heard<dealt_batch>(), IsEmpty());
}

TEST_F(Feeder, DealsARecordedRunAgainAndHoldsItsWorkersAtASwitch) {
  recording r;
  r.header.workers = 2;
  r.batches = {{2, 0}, {1}};
  r.entries = {{{order_entry::kind::joined, {0}},
                {order_entry::kind::gradient, {0}, 1},
                {order_entry::kind::switched, {}},
                {order_entry::kind::gradient, {0}, 2}}};
  r.end.switches = {{"sync", "by hand", {1, 1}, {1, 1}}};
  feeder_ = start<feeder>(feeder_options{numbered(12),
                                         {12, 4, 1, 0, 9, deal_mode::on_demand, 2},
                                         0,
                                         {},
                                         {},
                                         std::make_shared<const recording>(r)});
  auto coordinator = ask<step_reached>(feeder_, watch_holds{});
  EXPECT_EQ(next(0)->number, 2U);
  EXPECT_EQ(next(1)->number, 1U);
  auto first = ask_for_batch(0);
  EXPECT_THAT(first.heard<dealt_batch>(), IsEmpty()) << "that one came after the switch";
  EXPECT_EQ(only(first.heard<switch_ahead>()).step.value, 1U) << "the last one before the switch";
  EXPECT_THAT(coordinator.heard<step_reached>(), IsEmpty()) << "worker 1 has a batch to train";
  auto second = ask_for_batch(1);
  EXPECT_THAT(second.heard<data_exhausted>(), IsEmpty()) << "it must not end before the switch";
  EXPECT_THAT(coordinator.heard<step_reached>(), SizeIs(1));
  tell(feeder_, go_on_dealing{true, 1});
  EXPECT_EQ(only(first.heard<dealt_batch>()).values->number, 0U);
  EXPECT_THAT(second.heard<data_exhausted>(), SizeIs(1));
}

TEST_F(Feeder, SaysThatItHasNoMoreAsOftenAsItIsAsked) {
  deal(8, 4, 2);
  take({0, 0});
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_FALSE(next(i % 2));
}

TEST_F(Feeder, DealsNothingMoreOnceItIsTold) {
  deal(100, 4, 2);
  take({0});
  tell(feeder_, stop_dealing{});
  for (const std::uint32_t w : {0U, 1U}) EXPECT_FALSE(next(w));
  tell(feeder_, stop_dealing{});
  tell(feeder_, worker_left{{0}});
  EXPECT_FALSE(next(1));
}

TEST_F(Feeder, NeverReusesTheMemoryOfABatchThatSomebodyHolds) {
  deal(64, 4, 1);
  std::vector<std::shared_ptr<const batch>> held;
  std::vector<std::vector<float>> values;
  for (int i = 0; i < 16; ++i) {
    held.push_back(next(0));
    values.push_back(samples_of(*held.back()));
  }
  for (std::size_t i = 0; i < held.size(); ++i) EXPECT_EQ(samples_of(*held[i]), values[i]) << "batch " << i;
  EXPECT_THAT(std::set(held.begin(), held.end()), SizeIs(16));
}

TEST_F(Feeder, UsesTheMemoryOfABatchAgainThatNobodyHolds) {
  deal(64, 4, 1);
  std::set<const batch*> seen;
  for (int i = 0; i < 16; ++i) seen.insert(next(0).get());
  EXPECT_THAT(seen, SizeIs(1));
}

TEST_F(Feeder, GivesEachRankItsOwnBatchesAndWhatAWorkerLeavesToTheOthers) {
  deal(32, 4, 2, 1, deal_mode::by_rank);
  for (const std::uint64_t number : {1U, 3U}) EXPECT_EQ(next(1)->number, number);
  for (const std::uint64_t number : {0U, 2U}) EXPECT_EQ(next(0)->number, number);
  tell(feeder_, worker_left{{1}});
  EXPECT_FALSE(next(1));
  for (const std::uint64_t number : {4U, 5U, 6U, 7U}) EXPECT_EQ(next(0)->number, number);
  EXPECT_FALSE(next(0));
}

TEST_F(Feeder, HoldsAtItsStepsAndSaysSo) {
  deal(100, 4, 2, 1, deal_mode::on_demand, {2, 3});
  auto coordinator = ask<step_reached>(feeder_, watch_holds{});
  take({0});
  EXPECT_THAT(coordinator.heard<step_reached>(), IsEmpty());
  take({1});
  EXPECT_EQ(only(coordinator.heard<step_reached>()).step, 2U);
  auto hungry = ask_for_batch(0), dead = ask_for_batch(1);
  tell(feeder_, worker_left{{1}});
  EXPECT_THAT(hungry.heard<dealt_batch>(), IsEmpty());
  tell(feeder_, go_on_dealing{false, 0});
  EXPECT_THAT(hungry.heard<dealt_batch>(), IsEmpty()) << "that was for another switch";
  tell(feeder_, go_on_dealing{false, 2});
  EXPECT_EQ(only(hungry.heard<dealt_batch>()).values->number, 2U);
  EXPECT_THAT(dead.heard<dealt_batch>(), IsEmpty()) << "a batch for the dead is lost";
  EXPECT_THAT(coordinator.heard<step_reached>(), SizeIs(2)) << "the next step to hold at";
}

TEST_F(Feeder, SaysThatItHoldsToWhoeverAsksLateAndSendsTheHungryHome) {
  deal(100, 4, 1, 1, deal_mode::on_demand, {1});
  take({0});
  auto coordinator = ask<step_reached>(feeder_, watch_holds{});
  EXPECT_THAT(coordinator.heard<step_reached>(), SizeIs(1));
  auto hungry = ask_for_batch(0);
  EXPECT_THAT(hungry.heard<data_exhausted>(), IsEmpty());
  tell(feeder_, stop_dealing{});
  EXPECT_THAT(hungry.heard<data_exhausted>(), SizeIs(1));
}

TEST_F(Feeder, TellsNobodyTheEndUntilItKnowsWhatALostWorkerHadTrained) {
  for (const deal_mode mode : {deal_mode::on_demand, deal_mode::by_rank}) {
    deal(16, 4, 2, 1, mode);
    EXPECT_TRUE(next(0));
    const auto lost = next(1);
    EXPECT_TRUE(next(0));
    const std::uint64_t number = lost->number;
    EXPECT_TRUE(next(1));
    tell(feeder_, share_lost{{1}});
    auto hungry = ask_for_batch(0);
    EXPECT_THAT(hungry.heard<data_exhausted>(), IsEmpty());
    tell(feeder_, deal_again{{1}, {}, 0});
    EXPECT_EQ(only(hungry.heard<dealt_batch>()).values->number, number);
    hungry.heard<dealt_batch>().clear();
    EXPECT_EQ(next(0)->number, number + 2);
    EXPECT_FALSE(next(0));
  }
}

TEST_F(Feeder, DealsAnIncarnationThatIsNoMoreNothing) {
  deal(40, 4, 1);
  take({0});
  tell(feeder_, share_lost{{0}});
  tell(feeder_, deal_again{{0}, {}, 1});
  auto late = ask_for_batch(0);
  EXPECT_THAT(late.heard<dealt_batch>(), IsEmpty());
  EXPECT_THAT(late.heard<data_exhausted>(), IsEmpty()) << "or it would end its work for good";
  auto returned = ask_for_batch(0, 1);
  EXPECT_THAT(returned.heard<dealt_batch>(), SizeIs(1));
  EXPECT_FALSE(next(0));
}

TEST_F(Feeder, DealsToAWorkerThatJoinsLate) {
  feeder_ = start<feeder>(feeder_options{
      numbered(40), {40, 4, 1, 0, 9, deal_mode::by_rank, 2, 3}, 0, std::deque<std::uint64_t>()});
  EXPECT_EQ(next(0)->number, 0U);
  EXPECT_EQ(next(2)->number, 1U) << "the lowest that is left";
  EXPECT_FALSE(next(3)) << "there is no such slot";
}

TEST_F(Feeder, CountsWhatIsLeftAlsoAfterItsEnd) {
  deal(40, 4, 1);
  take({0});
  EXPECT_EQ(ask<undealt_counted>(feeder_, count_undealt{}).heard<undealt_counted>()[0].batches, 9U);
  tell(feeder_, stop_dealing{});
  tell(feeder_, share_lost{{0}});
  tell(feeder_, deal_again{{0}, {}, 0});
  EXPECT_EQ(ask<undealt_counted>(feeder_, count_undealt{}).heard<undealt_counted>()[0].batches, 10U);
}

/// What is taken back is not trained, so it does not bring the next planned switch nearer.
TEST_F(Feeder, DoesNotCountABatchTwiceOnTheWayToAHold) {
  deal(100, 4, 2, 1, deal_mode::on_demand, {3});
  auto coordinator = ask<step_reached>(feeder_, watch_holds{});
  take({0, 1});
  tell(feeder_, share_lost{{1}});
  tell(feeder_, deal_again{{1}, {}, 0});
  EXPECT_EQ(next(0)->number, 1U);
  EXPECT_THAT(coordinator.heard<step_reached>(), IsEmpty());
  take({0});
  EXPECT_THAT(coordinator.heard<step_reached>(), SizeIs(1));
}

} // namespace
} // namespace mailgrad

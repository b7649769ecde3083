#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

// What a shard does with the gradients of a barrier, and when it opens.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::Pair;
using testing::ParameterActor;
using ::testing::SizeIs;

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
    devices_.clear();
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

} // namespace
} // namespace mailgrad

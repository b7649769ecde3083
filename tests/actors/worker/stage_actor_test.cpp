#include <mailgrad/tests/actors/worker/stage_actor_fixture.hpp>

#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/placement.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <span>
#include <vector>

// What a stage computes, together with another one.

namespace mailgrad {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::small_model;
using testing::StageActor;

TEST_F(StageActor, ComputesWithTheOtherWhatOneReplicaComputes) {
  begin();
  gradient expected;
  const float loss = loss_of_one_replica(6, expected);
  for (const bool second_first : {false, true}) {
    const auto work = work_of(second_first ? 2 : 1, {6});
    EXPECT_EQ(loss_of(work, second_first), loss);
    EXPECT_THAT(work->into->dense.on_host<float>(),
                ::testing::ElementsAreArray(expected.dense.on_host<float>()));
  }
}

/// However few micro-batches a stage may be ahead of the other.
TEST_F(StageActor, AddsItsMicroBatchesInTheirOrderWhateverItsCredit) {
  std::vector<float> first;
  for (const std::size_t credits : {1U, 3U}) {
    stages_.clear();
    begin(credits);
    const auto work = work_of(1, {2, 2, 2});
    loss_of(work);
    const std::span<const float> values = work->into->dense.on_host<float>();
    if (first.empty()) first.assign(values.begin(), values.end());
    EXPECT_THAT(values, ::testing::ElementsAreArray(first));
  }
  gradient expected;
  loss_of_one_replica(6, expected);
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_NEAR(first[i], expected.dense.on_host<float>()[i], 1e-6);
}

TEST_F(StageActor, HoldsNothingOfAStepThatItHasAnswered) {
  begin();
  auto work = work_of(1, {3, 3});
  const std::weak_ptr<step_work> held = work;
  loss_of(work);
  work.reset();
  EXPECT_TRUE(held.expired());
}

/// Each device computes half of the batch.
TEST_F(StageActor, WritesItsAddendApartIfShardsAddUp) {
  const auto compute = [this](const std::shared_ptr<step_work>& work) {
    auto first = ask<step_computed>(stages_[0], compute_step{work, nullptr});
    auto second = ask<step_computed>(stages_[1], compute_step{work, nullptr});
    EXPECT_THAT(first.heard<step_computed>(), SizeIs(1));
    EXPECT_THAT(second.heard<step_computed>(), SizeIs(1));
  };
  begin(2, false, replicated(small_model()));
  const auto whole = work_of(1, {6});
  compute(whole);
  stages_.clear();
  begin(2, true, replicated(small_model()));
  const auto apart = work_of(1, {6});
  apart->into->addends.resize(2);
  compute(apart);
  const std::size_t bytes = apart->into->dense.bytes();
  EXPECT_EQ(apart->into->addends[0].values.bytes(), bytes);
  EXPECT_FALSE(apart->into->addends[0].covered) << "all of it";
  EXPECT_EQ(apart->into->addends[1].values.bytes(), 0U) << "the second stage delivers the first addends";
  ASSERT_TRUE(apart->into->addends[1].covered);
  EXPECT_THAT(*apart->into->addends[1].covered, IsEmpty());
  EXPECT_THAT(whole_dense(*apart->into), ::testing::ElementsAreArray(whole->into->dense.on_host<float>()));
}

/// Each shard's weights lie in a block of their own.
TEST_F(StageActor, TakesTheWeightsOfEveryShard) {
  layout_ = std::make_shared<parameter_layout>(lay_out(pipelined(small_model()), request_, 2));
  weights_ = testing::first_values(*layout_, 5);
  begin();
  std::vector<std::vector<float>> blocks;
  for (std::size_t s = 0; s < 2; ++s) {
    const shard_range r = layout_->shard(s);
    blocks.emplace_back(weights_.begin() + static_cast<std::ptrdiff_t>(r.begin),
                        weights_.begin() + static_cast<std::ptrdiff_t>(r.end));
  }
  const auto work = work_of(1, {6});
  work->weights = {{blocks[0].data(), nullptr}, {blocks[1].data(), nullptr}};
  gradient expected;
  const float loss = loss_of_one_replica(6, expected);
  EXPECT_EQ(loss_of(work), loss);
  EXPECT_THAT(work->into->dense.on_host<float>(),
              ::testing::ElementsAreArray(expected.dense.on_host<float>()));
}

/// The gradient has memory that an earlier step has used.
TEST_F(StageActor, BeginsEachSumAnew) {
  begin();
  const auto clean = work_of(1, {3, 3}), used = work_of(2, {3, 3});
  std::ranges::fill(used->into->dense.on_host<float>(), 100.0F);
  EXPECT_EQ(loss_of(clean), loss_of(used));
  const std::span<const float> was = clean->into->dense.on_host<float>(),
                               is = used->into->dense.on_host<float>();
  for (const placed_variable& v : layout_->variables())
    for (std::size_t i = v.offset; i < v.offset + v.dims.size(); ++i) EXPECT_EQ(is[i], was[i]) << v.name;
}

/// A model with a table takes memory for the rows of each micro-batch.
TEST_F(StageActor, TakesTheMemoryForItsRowsAgainInEachStep) {
  data_ = testing::sparse_data();
  request_.sample_dims = data_->train.sample_dims();
  request_.nonzeros = max_nonzeros(data_->train, 3);
  layout_ = std::make_shared<parameter_layout>(lay_out(pipelined(small_model()), request_, 1));
  weights_ = testing::first_values(*layout_, 5);
  begin();
  for (const std::uint64_t step : {1U, 2U, 3U}) {
    const auto work = work_of(step, {3, 3});
    auto first = ask<step_computed>(stages_[0], compute_step{work, nullptr});
    ask<step_computed>(stages_[1], compute_step{work, nullptr});
    ASSERT_THAT(first.heard<step_computed>(), SizeIs(1));
    const stage_sum& sum = first.heard<step_computed>()[0].sum;
    EXPECT_THAT(sum.rows, SizeIs(2)) << "of each micro-batch";
    EXPECT_THAT(sum.memory->blocks, SizeIs(2));
    EXPECT_EQ(sum.memory->used, 2U);
    first.heard<step_computed>().clear(); // the worker has applied it
  }
}

/// Two parts of the second device read what the first device computes first.
model_outputs read_twice(graph& g, const model_request& r) {
  const device_scope scope(g, r.devices.front());
  const value x =
      dense(g.input("features", {r.batch, testing::small_features}), 4, "first", activation::tanh);
  value y;
  {
    const device_scope other(g, r.devices.back());
    y = dense(x, 4, "second", activation::tanh);
  }
  y = dense(y, 4, "third", activation::tanh);
  const device_scope other(g, r.devices.back());
  y = dense(x + y, r.classes, "last");
  return {y, cross_entropy(y, g.input("labels", {r.batch}, dtype::int32))};
}

TEST_F(StageActor, KeepsValuesUntilTheLastPartHasReadThem) {
  layout_ = std::make_shared<parameter_layout>(lay_out(read_twice, request_, 1));
  weights_ = testing::first_values(*layout_, 5);
  begin(2, false, read_twice);
  gradient expected;
  const float loss = loss_of_one_replica(6, expected, read_twice);
  const auto work = work_of(1, {6});
  EXPECT_EQ(loss_of(work), loss);
  EXPECT_THAT(work->into->dense.on_host<float>(),
              ::testing::ElementsAreArray(expected.dense.on_host<float>()));
}

} // namespace
} // namespace mailgrad

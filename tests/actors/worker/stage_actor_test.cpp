#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/worker/stage_actor.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>

#include <gmock/gmock.h>

#include <numeric>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::small_model;

/// Two stages of the small model, and a worker that the test plays.
class StageActor : public testing::DeterministicTest {
protected:
  using worker = testing::listener<step_computed, stage_failed>;

  StageActor() {
    request_.sample_dims = data_->train.sample_dims();
    request_.classes = data_->train.classes();
    request_.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 1}};
    layout_ = std::make_shared<parameter_layout>(lay_out(pipelined(small_model()), request_, 1));
    weights_ = testing::first_values(*layout_, 5);
  }

  void begin(std::size_t credits = 2, bool sums_apart = false) {
    for (std::size_t p = 0; p < 2; ++p)
      stages_.push_back(start<stage_actor>(stage_actor_options{
          p, request_.devices, pipelined(small_model()), request_, layout_, credits, time_, sums_apart}));
  }

  /// A step over batches of these sizes.
  std::shared_ptr<step_work> work_of(std::uint64_t step, const std::vector<std::size_t>& sizes) {
    auto work = std::make_shared<step_work>();
    work->step = step;
    work->weights = {{weights_.data(), nullptr}};
    work->into = make_gradient(*layout_);
    work->stages = stages_;
    const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    std::size_t first = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      work->micro_batches.push_back({samples(first, sizes[i]),
                                     static_cast<float>(sizes[i]) / static_cast<float>(all),
                                     sizes.size() == 1, i, i});
      first += sizes[i];
    }
    return work;
  }
  std::shared_ptr<batch> samples(std::size_t first, std::size_t count) const {
    auto b = std::make_shared<batch>();
    shape_batch(data_->train, count, 0, *b);
    std::vector<std::uint32_t> which(count);
    std::iota(which.begin(), which.end(), static_cast<std::uint32_t>(first));
    fill_batch(data_->train, which, *b);
    return b;
  }

  /// Tells the stages of the step in the given order, and returns the loss of all.
  float loss_of(const std::shared_ptr<const step_work>& work, bool second_first = false) {
    std::vector<worker> heard;
    for (const std::size_t i : {0U, 1U}) {
      heard.push_back(
          ask<step_computed, stage_failed>(stages_[second_first ? 1 - i : i], compute_step{work, nullptr}));
      if (i > 0) continue;
      EXPECT_THAT(heard[0].heard<step_computed>(), IsEmpty()) << "it needs the values of the other";
    }
    float loss = 0;
    for (worker& w : heard) {
      EXPECT_THAT(w.heard<stage_failed>(), IsEmpty());
      EXPECT_THAT(w.heard<step_computed>(), SizeIs(1));
      for (const step_computed& x : w.heard<step_computed>()) {
        EXPECT_EQ(x.step, work->step);
        loss += x.sum.loss;
      }
    }
    return loss;
  }

  float loss_of_one_replica(std::size_t count, gradient& out) {
    model_request request = request_;
    request.devices = {request_.devices[0]};
    replica whole(small_model(), request, layout_);
    whole.use_weights(0, weights_.data());
    const std::shared_ptr<gradient> g = whole.make_gradient();
    whole.begin_step(samples(0, count), g);
    out.dense = block(g->dense.bytes());
    std::ranges::copy(g->dense.as<float>(), out.dense.as<float>().begin());
    return whole.end_step();
  }

  const std::shared_ptr<const data_split> data_ = testing::small_data();
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<float> weights_;
  std::vector<caf::actor> stages_;
};

TEST_F(StageActor, ComputesWithTheOtherWhatOneReplicaComputes) {
  begin();
  gradient expected;
  const float loss = loss_of_one_replica(6, expected);
  for (const bool second_first : {false, true}) {
    const auto work = work_of(second_first ? 2 : 1, {6});
    EXPECT_EQ(loss_of(work, second_first), loss);
    EXPECT_THAT(work->into->dense.as<float>(), ::testing::ElementsAreArray(expected.dense.as<float>()));
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
    const std::span<const float> values = work->into->dense.as<float>();
    if (first.empty()) first.assign(values.begin(), values.end());
    EXPECT_THAT(values, ::testing::ElementsAreArray(first));
  }
  gradient expected;
  loss_of_one_replica(6, expected);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(first[i], expected.dense.as<float>()[i], 1e-6);
}

TEST_F(StageActor, HoldsNothingOfAStepThatItHasAnswered) {
  begin();
  auto work = work_of(1, {3, 3});
  const std::weak_ptr<step_work> held = work;
  loss_of(work);
  work.reset();
  EXPECT_TRUE(held.expired());
}

TEST_F(StageActor, SaysWhyItCannotCompute) {
  begin();
  const auto work = work_of(1, {6});
  const auto wrong = samples(0, 6);
  std::ranges::fill(wrong->labels.values<std::int32_t>(), 99);
  work->micro_batches[0].samples = wrong;
  ask<step_computed, stage_failed>(stages_[0], compute_step{work, nullptr});
  auto second = ask<step_computed, stage_failed>(stages_[1], compute_step{work, nullptr});
  ASSERT_THAT(second.heard<stage_failed>(), SizeIs(1));
  EXPECT_EQ(second.heard<stage_failed>()[0].stage, 1U);
  EXPECT_THAT(second.heard<stage_failed>()[0].why, HasSubstr("label 99"));
}

} // namespace
} // namespace mailgrad

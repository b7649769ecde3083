#include <mailgrad/tests/engine/layouts.hpp>

#include <mailgrad/engine/worker/local_steps.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace mailgrad {
namespace {

using testing::dense_gradient;
using ::testing::Each;
using ::testing::FloatNear;
using testing::layout_of;

snapshot filled(std::size_t size, float value) {
  auto values = std::make_shared<memory>(block(size * sizeof(float)));
  std::ranges::fill(values->on_host<float>(), value);
  return snapshot(std::move(values));
}

class LocalSteps : public ::testing::Test {
protected:
  /// All weights of all shards.
  void receive(local_steps& l, float value) const {
    for (std::uint32_t s = 0; s < layout_->shard_count(); ++s)
      l.receive(s, filled(layout_->shard(s).size(), value));
  }
  std::vector<float> own(const local_steps& l) const {
    const auto all = l.weights().on_host().first(layout_->dense_size());
    return {all.begin(), all.end()};
  }
  static std::vector<float> of(const gradient& g) {
    return {g.dense.on_host<float>().begin(), g.dense.on_host<float>().end()};
  }
  local_steps_options options(std::uint64_t steps) const {
    local_steps_options o;
    o.steps = steps;
    o.optimizer = parse_optimizer("sgd");
    o.optimizer.learning_rate = 0.5;
    return o;
  }

  const std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<parameter_layout>(layout_of({{"w", {9, 17}}, {"b", {17}}}, 3));
  const std::shared_ptr<gradient> ones_ = dense_gradient(std::vector<float>(layout_->dense_size(), 1.0F));
};

TEST_F(LocalSteps, SendWhatTheyHaveMoved) {
  local_steps l(layout_, options(3));
  receive(l, 10);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(l.exchange_due());
    l.step(ones_, 2);
  }
  EXPECT_TRUE(l.exchange_due());
  EXPECT_THAT(own(l), Each(7.0F));
  EXPECT_THAT(of(*l.difference()), Each(3.0F));
  EXPECT_EQ(l.taken(), 0U);
}

TEST_F(LocalSteps, GoOnFromTheShardsWeights) {
  local_steps l(layout_, options(1));
  receive(l, 10);
  l.step(ones_, 1);
  l.difference();
  receive(l, 4);
  EXPECT_THAT(own(l), Each(4.0F));
}

TEST_F(LocalSteps, KeepTheStateOfTheirOptimiserFromRoundToRound) {
  local_steps_options o = options(1);
  o.optimizer = parse_optimizer("momentum:momentum=0.5");
  o.optimizer.learning_rate = 1;
  local_steps l(layout_, o);
  receive(l, 0);
  l.step(ones_, 1);
  l.difference();
  receive(l, 0);
  l.step(ones_, 1);
  EXPECT_THAT(own(l), Each(-1.5F));
}

// With x the worker's weights, w the shard's: x - eta g(x) - A (x - w), all of x before the step.
TEST_F(LocalSteps, AreDrawnToTheWeightsTheyMetIfTheyAreElastic) {
  local_steps_options o = options(1);
  o.pull = 0.25F;
  local_steps l(layout_, o);
  receive(l, 10);
  EXPECT_FALSE(l.exchanges_first());
  l.step(ones_, 4); // x = 8
  EXPECT_FALSE(l.exchange_due()) << "the shards are met when the next gradient is there";
  ASSERT_TRUE(l.exchanges_first());
  l.hold(ones_, 2);
  EXPECT_THAT(of(*l.difference()), Each(2.0F)) << "of what the gradient was computed from";
  const auto met = filled(layout_->shard(0).size(), 12);
  for (std::uint32_t s = 0; s < layout_->shard_count(); ++s)
    l.receive(s, filled(layout_->shard(s).size(), 7), met);
  EXPECT_THAT(own(l), Each(FloatNear(8 - 0.25F * (8 - 12), 1e-5F)));
  l.go_on();
  EXPECT_THAT(own(l), Each(FloatNear(8 - 0.25F * (8 - 12) - 0.5F * 2, 1e-5F)));
  EXPECT_EQ(l.taken(), 1U);
  l.go_on();
  EXPECT_EQ(l.taken(), 1U) << "a step is taken once";
}

TEST_F(LocalSteps, TakeTheShardsWeightsAfterASwitchEvenIfTheyAreElastic) {
  local_steps_options o = options(1);
  o.pull = 0.25F;
  local_steps l(layout_, o);
  receive(l, 10);
  l.step(ones_, 4);
  l.hold(ones_, 2);
  l.difference();
  l.start_anew();
  const auto met = filled(layout_->shard(0).size(), 12);
  for (std::uint32_t s = 0; s < layout_->shard_count(); ++s)
    l.receive(s, filled(layout_->shard(s).size(), 6), met);
  EXPECT_THAT(own(l), Each(6.0F));
  l.go_on();
  EXPECT_THAT(own(l), Each(5.0F)) << "the gradient under way is not lost";
}

} // namespace
} // namespace mailgrad

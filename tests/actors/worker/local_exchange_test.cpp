#include <mailgrad/tests/actors/worker/played_worker.hpp>

#include <mailgrad/actors/worker/exchange.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A worker with weights of its own, in two shards of four, and plain SGD of learning rate 1.
class LocalExchange : public testing::PlayedWorker {
protected:
  void begin(std::uint64_t steps, std::optional<float> pull = {}) {
    local_ = std::make_shared<local_steps>(layout_, local_steps_options{steps, testing::sgd(1), pull});
    over_.emplace(context(), lines_, local_);
    act([&] { lines_.join(); });
    for (std::uint32_t s = 0; s < 2; ++s) over_->receive(part(s, 0, 10));
    over_->go_on();
  }
  bool flushed() {
    bool any = false;
    act([&] { any = over_->flush(); });
    return any;
  }
  shard_weights part(std::uint32_t shard, std::uint64_t version, float value) {
    shard_weights x = answer(shard, version);
    block values((layout_->shard(shard).end - layout_->shard(shard).begin) * sizeof(float));
    for (float& v : values.as<float>()) v = value;
    x.payload.values = snapshot(std::make_shared<const memory>(std::move(values)));
    return x;
  }
  void step(float value) {
    ++report_.steps;
    report_.samples += 10;
    act([&] { over_->deliver({testing::constant_gradient(*layout_, value), 1, time_->now(), 7ns, 10}); });
  }

  const std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<parameter_layout>(testing::layout_of({{"w", {64}}}, 2));
  shard_lines lines_{context(), shards()};
  std::shared_ptr<local_steps> local_;
  std::optional<local_exchange> over_;
};

TEST_F(LocalExchange, PushesWhatSeveralStepsHaveMoved) {
  begin(3);
  step(1);
  step(2);
  EXPECT_THAT(pushed(0), IsEmpty());
  step(4);
  ASSERT_THAT(pushed(1), SizeIs(1));
  const push_gradient& x = pushed(0)[0];
  EXPECT_THAT(x.payload.values->dense.on_host<float>().first(64), Each(7.0F)) << "from 10 to 3";
  EXPECT_EQ(x.header.scale_bits, std::bit_cast<std::uint32_t>(1.0F));
  EXPECT_EQ(x.header.times.compute, 21ns) << "of all three steps";
  EXPECT_EQ(x.header.batches, 3U);
  EXPECT_EQ(x.header.samples, 30U);
  EXPECT_EQ(x.header.id.step.value, 1U) << "a difference counts as one gradient";
  EXPECT_EQ(report_.produced, 1U);
}

TEST_F(LocalExchange, ComputesAtItsOwnWeights) {
  begin(2);
  over_->bind();
  ASSERT_THAT(runner_.weights, SizeIs(1)) << "they are one block";
  EXPECT_EQ(runner_.weights[0].shard, 0U);
  EXPECT_EQ(runner_.weights[0].values, local_->weights().on_host().data());
  EXPECT_EQ(local_->weights().on_host()[0], 10);
  step(1);
  EXPECT_EQ(local_->weights().on_host()[0], 9);
}

/// At the end of the data fewer steps than usual are pushed, if there were any.
TEST_F(LocalExchange, FlushesTheStepsThatAreKept) {
  begin(5);
  EXPECT_FALSE(flushed());
  step(1);
  EXPECT_TRUE(flushed());
  EXPECT_FALSE(flushed());
  ASSERT_THAT(pushed(0), SizeIs(1));
  EXPECT_THAT(pushed(0)[0].payload.values->dense.on_host<float>().first(64), Each(1.0F));
}

TEST_F(LocalExchange, HoldsTheStepThatFollowsAnElasticExchangeUntilAllShardsHaveAnswered) {
  begin(1, 0.5F);
  step(1);
  EXPECT_THAT(pushed(0), IsEmpty());
  step(2);
  ASSERT_THAT(pushed(0), SizeIs(1)) << "before the second step is taken";
  EXPECT_EQ(pushed(0)[0].header.batches, 1U);
  EXPECT_EQ(pushed(0)[0].header.samples, 10U);
  EXPECT_EQ(local_->weights().on_host()[0], 9);
  for (std::uint32_t s = 0; s < 2; ++s) {
    shard_weights x = part(s, 1, 10);
    x.payload.met = part(s, 1, 5).payload.values;
    over_->receive(x);
  }
  EXPECT_EQ(local_->weights().on_host()[0], 7) << "half of the way from 9 to the 5 that the exchange met";
  over_->go_on();
  EXPECT_EQ(local_->weights().on_host()[0], 5);
}

TEST_F(LocalExchange, StepsByTheScaleOfItsGradient) {
  begin(2);
  act([&] { over_->deliver({testing::constant_gradient(*layout_, 8), 0.25F, time_->now(), 0ns}); });
  EXPECT_EQ(local_->weights().on_host()[0], 8);
}

/// Each push tells what was spent since the one before.
TEST_F(LocalExchange, CountsTheTimeOfAStepOnce) {
  begin(2);
  for (int round = 1; round <= 2; ++round) {
    step(1);
    step(1);
    for (std::uint32_t s = 0; s < 2; ++s) over_->receive(part(s, 1, 10));
  }
  ASSERT_THAT(pushed(0), SizeIs(2));
  EXPECT_EQ(pushed(0)[0].header.times.compute, 14ns);
  EXPECT_EQ(pushed(0)[1].header.times.compute, 14ns);
  EXPECT_EQ(pushed(0)[1].payload.sent, time_->now());
  EXPECT_EQ(pushed(0)[1].header.times.read, 0ns) << "the clock stood still";
}

TEST_F(LocalExchange, TakesTheWeightsThatShardsSendAsItsOwn) {
  begin(1);
  step(1);
  for (std::uint32_t s = 0; s < 2; ++s) over_->receive(part(s, 1, 20));
  EXPECT_TRUE(lines_.all_answered());
  over_->go_on();
  EXPECT_EQ(local_->weights().on_host()[0], 20);
  EXPECT_EQ(local_->weights().on_host()[layout_->size() - 1], 20);
}

TEST_F(LocalExchange, HoldsAStepWithItsScale) {
  begin(1, 0.5F);
  step(1);
  act([&] { over_->deliver({testing::constant_gradient(*layout_, 8), 0.25F, time_->now(), 0ns}); });
  for (std::uint32_t s = 0; s < 2; ++s) {
    shard_weights x = part(s, 1, 10);
    x.payload.met = part(s, 1, 9).payload.values;
    over_->receive(x);
  }
  over_->go_on();
  EXPECT_EQ(local_->weights().on_host()[0], 7) << "9 - 8 / 4";
  over_->go_on();
  EXPECT_EQ(local_->weights().on_host()[0], 7) << "the step is taken once";
}

/// Otherwise the elastic answer would pull the worker's weights only half of the way.
TEST_F(LocalExchange, BeginsAPolicyWithTheWeightsOfTheShards) {
  begin(1, 0.5F);
  step(1);
  step(2);
  over_->pause();
  for (std::uint32_t s = 0; s < 2; ++s) {
    shard_weights x = part(s, 1, 30);
    x.payload.met = part(s, 1, 5).payload.values;
    over_->receive(x);
  }
  EXPECT_EQ(local_->weights().on_host()[0], 30);
}

} // namespace
} // namespace mailgrad

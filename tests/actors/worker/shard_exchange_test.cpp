#include <mailgrad/tests/actors/worker/played_worker.hpp>

#include <mailgrad/actors/worker/shard_exchange.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::SizeIs;

class ShardExchange : public testing::PlayedWorker {
protected:
  /// A gradient of two values, and the batch that it was computed from.
  std::shared_ptr<gradient> computed(float a, float b, std::shared_ptr<const batch> source = {}) {
    const auto g = testing::dense_gradient(std::vector<float>{a, b});
    g->source = std::move(source);
    return g;
  }
  /// The answer to a sampled gradient: the weights that it met.
  shard_weights met(std::uint32_t shard, std::uint64_t step, float value) {
    shard_weights x = answer(shard, step);
    x.header.met = {step};
    x.payload.met = answer(shard, step, value).payload.values;
    return x;
  }

  shard_lines lines_{context(), shards()};
};

TEST_F(ShardExchange, GivesTheRunnerTheWeightsOfEachShard) {
  shard_exchange over(context(), lines_, 0);
  act([&] { lines_.join(); });
  const shard_weights first = answer(0, 3, 1), second = answer(1, 4, 2);
  over.receive(second);
  over.receive(first);
  EXPECT_THAT(runner_.weights, ::testing::ElementsAre(
                                   testing::noting_runner::given{1, second.payload.values.on_host().data()},
                                   testing::noting_runner::given{0, first.payload.values.on_host().data()}));
  EXPECT_TRUE(lines_.all_answered());
}

TEST_F(ShardExchange, PushesEachGradientWithItsScale) {
  shard_exchange over(context(), lines_, 0);
  act([&] { over.deliver({computed(1, 2), 0.25F, time_->now(), 5ns}); });
  ASSERT_THAT(pushed(0), SizeIs(1));
  EXPECT_EQ(pushed(0)[0].header.scale_bits, std::bit_cast<std::uint32_t>(0.25F));
  EXPECT_EQ(pushed(0)[0].header.times.compute, 5ns);
  EXPECT_EQ(over.bind_repeat(), nullptr) << "nothing is sampled";
}

/// With a sample of every second step: step 2 is compared when both shards have said what it met.
TEST_F(ShardExchange, ComparesEachSampledGradientAtTheWeightsThatItMet) {
  shard_exchange over(context(), lines_, 2);
  for (std::uint32_t s = 0; s < 2; ++s) over.receive(answer(s, 0));
  act([&] { over.deliver({computed(1, 0), 1, time_->now(), 0ns}); });
  EXPECT_FALSE(pushed(0)[0].payload.read) << "step 1 is not sampled";
  for (std::uint32_t s = 0; s < 2; ++s) over.receive(answer(s, 1));
  const auto source = std::make_shared<const batch>();
  act([&] { over.deliver({computed(3, 4, source), 1, time_->now(), 0ns}); });
  EXPECT_TRUE(pushed(1)[1].payload.read);
  const shard_weights from_first = met(0, 2, 8), from_second = met(1, 2, 9);
  over.receive(from_first);
  EXPECT_EQ(over.bind_repeat(), nullptr) << "the second shard has not answered";
  over.receive(from_second);
  runner_.weights.clear();
  EXPECT_EQ(over.bind_repeat(), source);
  EXPECT_EQ(runner_.weights[0].values, from_first.payload.met.on_host().data());
  EXPECT_EQ(runner_.weights[1].values, from_second.payload.met.on_host().data());
  over.take_repeat(*computed(4, 3));
  EXPECT_EQ(report_.gradient_cosine.count(), 1U);
  EXPECT_NEAR(report_.gradient_cosine.mean(), 24.0 / 25, 1e-12);
  EXPECT_EQ(runner_.weights[2].values, from_first.payload.values.on_host().data()) << "the next step's again";
  EXPECT_EQ(runner_.weights[3].values, from_second.payload.values.on_host().data());
  EXPECT_EQ(over.bind_repeat(), nullptr) << "it is compared once";
}

TEST_F(ShardExchange, DropsAComparisonWhenThePolicyChanges) {
  shard_exchange over(context(), lines_, 1);
  for (std::uint32_t s = 0; s < 2; ++s) over.receive(answer(s, 0));
  act([&] { over.deliver({computed(1, 0), 1, time_->now(), 0ns}); });
  over.pause();
  for (std::uint32_t s = 0; s < 2; ++s) over.receive(met(s, 1, 0));
  EXPECT_EQ(over.bind_repeat(), nullptr);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/actors/worker/played_worker.hpp>

#include <mailgrad/actors/worker/exchange.hpp>

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
  report_.gradient_cosine.add(0); // before a checkpoint that the run goes on from
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
  EXPECT_EQ(report_.gradient_cosine.count(), 2U);
  EXPECT_NEAR(report_.gradient_cosine.mean(), 12.0 / 25, 1e-12);
  ASSERT_EQ(report_.cosines.all().size(), 1U);
  EXPECT_EQ(report_.cosines.all()[0].step, step_number{2});
  EXPECT_EQ(report_.cosines.all()[0].incarnation, incarnation_number{2});
  EXPECT_NEAR(report_.cosines.all()[0].cosine, 24.0 / 25, 1e-12);
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

/// A runner that takes 5 ns to get weights into its model.
class slow_runner final : public step_runner {
public:
  explicit slow_runner(std::shared_ptr<testing::manual_time> time) : time_(std::move(time)) {}
  std::shared_ptr<gradient> make_gradient() const override { return nullptr; }
  void use_host_weights(std::uint32_t, const float*, std::shared_ptr<const void>) override {
    time_->advance(5ns);
  }
  step_state begin_step(std::shared_ptr<const batch>, std::shared_ptr<gradient>) override {
    return step_state::finished;
  }
  float end_step() override { return 0; }

private:
  std::shared_ptr<testing::manual_time> time_;
};

TEST_F(ShardExchange, TellsHowLongTheWeightsTookIntoTheModel) {
  slow_runner runner(time_);
  trace_track track("worker 1", 10, time_->now());
  const worker_context of{self_, run_id{7}, rank{1}, incarnation_number{2}, runner, report_, *time_, &track};
  shard_lines lines(of, shards());
  shard_exchange over(of, lines, 0);
  const instant taken = time_->now();
  for (std::uint32_t s = 0; s < 2; ++s) over.receive(answer(s, 0));
  act([&] { over.deliver({computed(1, 0), 1, time_->now(), 0ns}); });
  EXPECT_EQ(pushed(0)[0].header.times.read, 5ns);
  EXPECT_EQ(pushed(1)[0].header.times.read, 5ns);
  EXPECT_EQ(track.events().front().begin, taken);
  EXPECT_EQ(track.events().front().end, taken + 5ns);
}

/// The second shard met another gradient than the one that is compared.
TEST_F(ShardExchange, ComparesNothingWithTheWeightsThatAnotherStepMet) {
  shard_exchange over(context(), lines_, 1);
  for (std::uint32_t s = 0; s < 2; ++s) over.receive(answer(s, 0));
  act([&] { over.deliver({computed(1, 0), 1, time_->now(), 0ns}); });
  over.receive(met(0, 1, 8));
  over.receive(met(1, 2, 8));
  EXPECT_EQ(over.bind_repeat(), nullptr);
}

TEST_F(ShardExchange, SamplesEveryStepOfAGapOfOneAndNoneOfAGapOfZero) {
  for (const std::uint64_t gap : {0U, 1U, 3U}) {
    shard_lines lines(context(), shards());
    shard_exchange over(context(), lines, gap);
    pushed(0).clear();
    for (int i = 0; i < 6; ++i) {
      for (std::uint32_t s = 0; s < 2; ++s) over.receive(answer(s, 0));
      act([&] { over.deliver({computed(1, 0), 1, time_->now(), 0ns}); });
    }
    std::vector<std::uint64_t> sampled;
    for (const push_gradient& x : pushed(0))
      if (x.payload.read) sampled.push_back(x.header.id.step.value);
    const std::vector<std::uint64_t> expected[] = {{}, {1, 2, 3, 4, 5, 6}, {}, {3, 6}};
    EXPECT_EQ(sampled, expected[gap]) << gap;
  }
}

} // namespace
} // namespace mailgrad

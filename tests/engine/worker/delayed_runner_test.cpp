#include <mailgrad/engine/worker/delayed_runner.hpp>
#include <mailgrad/tests/engine/worker/late_runner.hpp>
#include <mailgrad/tests/engine/worker/played_timer.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <stdexcept>

namespace mailgrad {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::late_runner;
using testing::late_steps;
using testing::listed_delays;
using testing::manual_time;
using testing::played_timer;
using namespace ::testing;

/// A runner whose loss is the sum of its weights, and that takes as long to compute as the test says.
class summing_runner : public step_runner {
public:
  explicit summing_runner(std::shared_ptr<manual_time> time) : time_(std::move(time)) {}

  std::shared_ptr<gradient> make_gradient() const override { return std::make_shared<gradient>(); }
  void use_host_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void>) override {
    weights_[shard] = values;
  }
  bool computes_at_once() const noexcept override { return true; }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override {
    require_step(inputs.get(), out.get());
    time_->advance(takes);
    loss_ = *weights_[0] + *weights_[1];
    ++computed;
    raced = racing();
    return step_state::finished;
  }
  float end_step() override { return loss_; }

  instant takes{0};
  int computed = 0;
  bool raced = false;

private:
  std::shared_ptr<manual_time> time_;
  const float* weights_[2] = {};
  float loss_ = 0;
};

/// Runners of two weights.
class DelayedSteps : public ::testing::Test {
protected:
  DelayedSteps() { inputs_->size = 1; }

  /// A runner whose steps take so long, with both weights. What it tells is noted.
  template <class Runner>
  std::unique_ptr<Runner> make(std::vector<double> steps, std::shared_ptr<step_runner> own = nullptr) {
    auto law = std::make_unique<listed_delays>(std::move(steps));
    law_ = law.get();
    auto made =
        std::make_unique<Runner>(own ? own : own_, step_delays{std::move(law), time_, timer_, begun_});
    made->on_end([this] { ended_.push_back(time_->now() - begun_); });
    bind(*made, &first_);
    return made;
  }
  void bind(step_runner& runner, const float* first) {
    runner.use_host_weights(0, first, {});
    runner.use_host_weights(1, &second_, {});
  }
  step_state begin(step_runner& runner) { return runner.begin_step(inputs_, runner.make_gradient()); }

  const std::shared_ptr<manual_time> time_ = std::make_shared<manual_time>();
  const std::shared_ptr<played_timer> timer_ = std::make_shared<played_timer>(time_);
  const std::shared_ptr<summing_runner> own_ = std::make_shared<summing_runner>(time_);
  const instant begun_ = time_->now();
  const std::shared_ptr<batch> inputs_ = std::make_shared<batch>();
  listed_delays* law_ = nullptr;
  std::vector<instant> ended_;
  float first_ = 1;
  float second_ = 2;
};

class DelayedRunner : public DelayedSteps {};

TEST_F(DelayedRunner, EndsAStepWhenItsTimeIsOver) {
  const auto runner = make<delayed_runner>({2, 0.5});
  EXPECT_TRUE(runner->computes_at_once());
  EXPECT_EQ(begin(*runner), step_state::under_way);
  EXPECT_THAT(ended_, IsEmpty());
  timer_->next();
  EXPECT_EQ(runner->end_step(), 3);
  EXPECT_EQ(begin(*runner), step_state::under_way);
  timer_->next();
  EXPECT_THAT(ended_, ElementsAre(seconds{2}, milliseconds{2500}));
  EXPECT_THAT(law_->begun, ElementsAre(0, 2));
}

TEST_F(DelayedRunner, ComputesAtTheBeginOfAStep) {
  const auto runner = make<delayed_runner>({2});
  begin(*runner);
  EXPECT_FALSE(own_->raced);
  first_ = 100;
  timer_->next();
  EXPECT_EQ(runner->end_step(), 3);
  runner->use_racing_weights(true);
  begin(*runner);
  EXPECT_TRUE(own_->raced) << "it hands on that the weights race";
}

TEST_F(DelayedRunner, IdlesOnlyForWhatIsLeft) {
  const auto runner = make<delayed_runner>({2});
  own_->takes = milliseconds{1500};
  begin(*runner);
  timer_->next();
  EXPECT_EQ(time_->now() - begun_, seconds{2});
  own_->takes = seconds{3};
  EXPECT_EQ(begin(*runner), step_state::finished) << "it took longer to compute";
  EXPECT_EQ(runner->end_step(), 3);
  EXPECT_EQ(timer_->waiting(), 0U);
}

TEST_F(DelayedRunner, WaitsForAStepThatIsComputedElsewhereFirst) {
  late_steps steps(1);
  const auto runner = make<delayed_runner>({2, 1}, std::make_shared<late_runner>(own_, steps));
  EXPECT_EQ(begin(*runner), step_state::under_way);
  EXPECT_EQ(timer_->waiting(), 0U);
  steps.end_one();
  EXPECT_THAT(ended_, IsEmpty());
  timer_->next();
  EXPECT_THAT(ended_, SizeIs(1));
  EXPECT_EQ(runner->end_step(), 3);
  begin(*runner);
  time_->advance(seconds{2});
  steps.end_one();
  EXPECT_THAT(ended_, SizeIs(2)) << "its time was over before";
}

TEST_F(DelayedRunner, KeepsNobodyWaitingWhenItGivesUp) {
  late_steps steps(1);
  const auto runner = make<delayed_runner>({2}, std::make_shared<late_runner>(own_, steps));
  begin(*runner);
  EXPECT_EQ(runner->give_up(), step_state::under_way) << "it is being computed";
  steps.end_one();
  EXPECT_THAT(ended_, SizeIs(1));
}

TEST_F(DelayedRunner, IsSilentWhenItIsGone) {
  auto runner = make<delayed_runner>({2});
  begin(*runner);
  EXPECT_EQ(runner->give_up(), step_state::finished) << "only its time is not over";
  runner.reset();
  EXPECT_TRUE(timer_->next());
  EXPECT_THAT(ended_, IsEmpty());
}

class SimulatedRunner : public DelayedSteps {};

TEST_F(SimulatedRunner, ComputesWhenAStepEndsFromTheWeightsOfItsBegin) {
  const auto one = make<simulated_runner>({2}), other = make<simulated_runner>({1});
  const float third = 10;
  bind(*other, &third);
  EXPECT_FALSE(one->computes_at_once());
  EXPECT_EQ(begin(*one), step_state::under_way);
  EXPECT_EQ(begin(*other), step_state::under_way);
  EXPECT_EQ(own_->computed, 0);
  timer_->next();
  EXPECT_EQ(other->end_step(), 12);
  timer_->next();
  EXPECT_EQ(one->end_step(), 3);
  EXPECT_THAT(ended_, ElementsAre(seconds{1}, seconds{2}));
}

TEST_F(SimulatedRunner, ComputesNothingThatNobodyWants) {
  const auto runner = make<simulated_runner>({2});
  begin(*runner);
  EXPECT_EQ(runner->give_up(), step_state::finished);
  timer_->next();
  EXPECT_EQ(own_->computed, 0);
  EXPECT_THROW(runner->begin_step(nullptr, runner->make_gradient()), std::invalid_argument);
}

TEST_F(SimulatedRunner, ReadsWeightsThatOthersWriteToAtTheBegin) {
  const auto runner = make<simulated_runner>({2});
  runner->use_racing_weights(true);
  begin(*runner);
  first_ = 100;
  timer_->next();
  EXPECT_EQ(runner->end_step(), 3);
}

} // namespace
} // namespace mailgrad

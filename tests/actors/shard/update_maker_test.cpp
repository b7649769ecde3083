#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/support/played_actor.hpp>

#include <mailgrad/actors/shard/update_maker.hpp>

#include <gmock/gmock.h>

#include <optional>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::Pair;

/// A shard of 16 weights, all of which plain SGD of learning rate 1 moves alike.
class UpdateMaker : public testing::PlayedActorTest {
protected:
  void make(const std::string& cure) {
    updates_.emplace(weights_, cure_spec(cure, 2), workers_, watch_, updater_);
  }
  push_gradient gradient_of(std::uint32_t worker, std::uint64_t step, std::uint64_t version_read, float value,
                            float scale = 1) const {
    return testing::push_of(worker, step, version_read, testing::constant_gradient(layout_, value), scale);
  }
  void apply(const push_gradient& x) {
    updater_.update_alone(updates_->add(x));
    updates_->note_version();
  }
  float moved() const { return begin_ - weights_->snapshot().on_host()[0]; }

  const parameter_layout layout_ = testing::layout_of({{"w", {16}}}, 1);
  const std::shared_ptr<shard> weights_ = std::make_shared<shard>(layout_, 0, 1, testing::sgd(1));
  const float begin_ = weights_->snapshot().on_host()[0];
  worker_slots workers_{2, 2, {}};
  const std::shared_ptr<trace_track> track_ = std::make_shared<trace_track>("shard 0", 9, time_->now());
  testing::listener<staleness_observed> tracker_ = listen<staleness_observed>();
  shard_telemetry watch_{self_, tracker_.actor(), time_, track_};
  shard_updater updater_{self_, weights_, {}, time_};
  std::optional<update_maker> updates_;
};

TEST_F(UpdateMaker, CountsTheGapOfAGradientThatIsAppliedAlone) {
  make("none");
  apply(gradient_of(0, 1, 0, 1));
  apply(gradient_of(1, 1, 0, 2, 0.5F));
  EXPECT_FLOAT_EQ(moved(), 2);
  EXPECT_THAT(workers_[{0}].account.gaps.buckets(), ElementsAre(Pair(0, 1)));
  EXPECT_THAT(workers_[{1}].account.gaps.buckets(), ElementsAre(Pair(1, 1)));
  EXPECT_EQ(workers_[{1}].account.ledger.applied, 1U);
  EXPECT_EQ(workers_[{1}].account.ledger.merged, 0U);
  ASSERT_EQ(track_->events().size(), 2U);
  EXPECT_EQ(track_->events()[1].version, 2U);
}

TEST_F(UpdateMaker, MakesOneUpdateOfTheMeanOfABatch) {
  make("none");
  updates_->add_waiting(gradient_of(1, 1, 0, 1), waits_in::batch);
  updates_->add_waiting(gradient_of(0, 1, 0, 5), waits_in::batch);
  EXPECT_FALSE(updates_->nothing_waits());
  EXPECT_EQ(updates_->waiting({1}), 1U);
  EXPECT_TRUE(workers_[{1}].merged);
  EXPECT_TRUE(workers_[{1}].account.gaps.empty()) << "it counts when its version is made";
  updates_->add_all(waits_in::batch);
  updater_.update_alone(1);
  EXPECT_TRUE(updates_->note_version());
  EXPECT_FLOAT_EQ(moved(), 3);
  EXPECT_TRUE(updates_->nothing_waits());
  for (std::uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(workers_[{r}].account.ledger.merged, 1U);
    EXPECT_EQ(workers_[{r}].account.gaps.total(), 1U);
    EXPECT_EQ(workers_[{r}].account.times.apply.count(), 1U);
  }
}

TEST_F(UpdateMaker, WeighsGradientsByTheirSamples) {
  make("none");
  updates_->weigh(weighing::samples);
  updates_->add_waiting(gradient_of(0, 1, 0, 1), waits_in::batch, 6);
  updates_->add_waiting(gradient_of(1, 1, 0, 5), waits_in::batch, 2);
  updates_->add_all(waits_in::batch);
  updater_.update_alone(1);
  updates_->note_version();
  EXPECT_FLOAT_EQ(moved(), (6 * 1.0F + 2 * 5.0F) / 8);
}

TEST_F(UpdateMaker, MakesAnUpdateOfTheFirstInTheQueue) {
  make("inverse");
  for (std::uint64_t step = 1; step <= 3; ++step)
    updates_->add_waiting(gradient_of(step == 2 ? 1 : 0, step, 0, static_cast<float>(step)), waits_in::queue);
  EXPECT_EQ(updates_->waiting({0}), 2U);
  updates_->add_all(waits_in::queue, 2);
  updater_.update_alone(1);
  EXPECT_TRUE(updates_->note_version());
  EXPECT_FLOAT_EQ(moved(), 1.5F);
  EXPECT_EQ(updates_->waiting({0}), 1U);
  EXPECT_FALSE(updates_->nothing_waits());
  updates_->add_waiting(gradient_of(1, 4, 0, 5), waits_in::queue);
  updates_->add_all(waits_in::queue, 2);
  updater_.update_alone(1);
  updates_->note_version();
  EXPECT_FLOAT_EQ(moved(), 1.5F + 4) << "of gaps of 1 in both";
  EXPECT_THAT(workers_[{1}].account.gaps.buckets(), ElementsAre(Pair(0, 1), Pair(1, 1)));
  EXPECT_TRUE(updates_->nothing_waits());
}

TEST_F(UpdateMaker, WeighsEachGradientOfABatchByItsOwnStaleness) {
  make("inverse");
  apply(gradient_of(0, 1, 0, 0));
  apply(gradient_of(0, 2, 1, 0));
  updates_->add_waiting(gradient_of(0, 3, 2, 4), waits_in::batch);
  updates_->add_waiting(gradient_of(1, 1, 0, 4), waits_in::batch);
  updates_->add_all(waits_in::batch);
  updater_.update_alone(1);
  updates_->note_version();
  EXPECT_FLOAT_EQ(moved(), 0.5F * 4 + 0.5F * 4 / 2) << "gaps of 0 and 2";
}

/// The cure's factor on a gradient that is applied alone goes to the learning rate.
TEST_F(UpdateMaker, ReturnsTheFactorOfTheCure) {
  make("inverse");
  EXPECT_EQ(updates_->add(gradient_of(0, 1, 0, 1)), 1);
  updater_.update_alone(1);
  updates_->note_version();
  apply(gradient_of(0, 2, 1, 1));
  EXPECT_EQ(updates_->add(gradient_of(1, 1, 0, 1)), 0.5);
}

TEST_F(UpdateMaker, KeepsTheWeightsThatASampledGradientMet) {
  make("none");
  const snapshot read = weights_->snapshot();
  apply(gradient_of(0, 1, 0, 3));
  const snapshot met = weights_->snapshot();
  push_gradient sampled = gradient_of(1, 1, 0, 1);
  sampled.payload.read = read;
  apply(sampled);
  EXPECT_EQ(workers_[{1}].met.step.value, 1U);
  EXPECT_EQ(workers_[{1}].met.values, met);
  EXPECT_EQ(workers_[{1}].account.weight_gap.count(), 1U);
  EXPECT_NEAR(workers_[{1}].account.weight_gap.mean(), 3, 1e-6);
  ASSERT_EQ(workers_[{1}].account.sampled_gaps.all().size(), 1U);
  EXPECT_EQ(workers_[{1}].account.sampled_gaps.all()[0].step, step_number{1});
  EXPECT_EQ(workers_[{1}].account.sampled_gaps.all()[0].lag, 1U);
  EXPECT_NEAR(workers_[{1}].account.sampled_gaps.all()[0].gap, 3, 1e-6);
  EXPECT_FALSE(workers_[{0}].met.values) << "it was not sampled";
}

TEST_F(UpdateMaker, TellsNoIncarnationOfTheWeightsThatAnEarlierOneMet) {
  make("none");
  for (push_gradient x : {gradient_of(0, 1, 0, 1), gradient_of(1, 5, 0, 1)}) {
    x.payload.read = weights_->snapshot();
    updates_->add_waiting(x, waits_in::batch);
  }
  workers_.join({{1}, {1}, tracker_.actor()});
  workers_[{1}].merged = false;
  updates_->add_all(waits_in::batch);
  EXPECT_EQ(workers_[{0}].met.step.value, 1U);
  EXPECT_TRUE(workers_[{0}].met.values);
  EXPECT_EQ(workers_[{1}].met.step.value, 0U) << "the present one has taken no step";
  EXPECT_FALSE(workers_[{1}].met.values);
  EXPECT_EQ(workers_[{1}].account.ledger.merged, 1U) << "the rank has";
}

} // namespace
} // namespace mailgrad

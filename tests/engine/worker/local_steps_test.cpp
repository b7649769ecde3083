#include <mailgrad/engine/shard/shard_cure.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <tuple>

namespace mailgrad {
namespace {

using testing::dense_gradient;
using testing::layout_of;
using namespace ::testing;

snapshot filled(std::size_t size, float value) {
  auto values = std::make_shared<memory>(block(size * sizeof(float)));
  std::ranges::fill(values->on_host<float>(), value);
  return snapshot(std::move(values));
}

class LocalSteps : public ::testing::Test {
protected:
  local_steps steps_of(std::uint64_t steps, std::optional<float> pull = {}) const {
    return {layout_, {steps, testing::sgd(0.5), pull}};
  }
  /// All weights of all shards, and those that they had at an elastic exchange.
  void receive(local_steps& l, float value, std::optional<float> met = {}) const {
    for (std::uint32_t s = 0; s < layout_->shard_count(); ++s) {
      const std::size_t size = layout_->shard(s).size();
      l.receive(s, filled(size, value), met ? filled(size, *met) : snapshot());
    }
  }
  std::span<const float> own(const local_steps& l) const {
    return l.weights().on_host().first(layout_->dense_size());
  }
  static std::vector<float> of(const gradient& g) {
    return {g.dense.on_host<float>().begin(), g.dense.on_host<float>().end()};
  }

  const std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<parameter_layout>(layout_of({{"w", {9, 17}}, {"b", {17}}}, 3));
  const std::shared_ptr<gradient> ones_ = dense_gradient(std::vector<float>(layout_->dense_size(), 1.0F));
};

TEST_F(LocalSteps, SendWhatTheyHaveMovedAndGoOnFromTheShardsWeights) {
  local_steps l = steps_of(3);
  receive(l, 10);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(l.exchange_due());
    l.step(ones_, 2);
  }
  EXPECT_TRUE(l.exchange_due());
  EXPECT_THAT(own(l), Each(7.0F));
  EXPECT_THAT(of(*l.difference()), Each(3.0F));
  EXPECT_EQ(l.taken(), 0U);
  receive(l, 4);
  EXPECT_THAT(own(l), Each(4.0F));
}

TEST_F(LocalSteps, KeepTheStateOfTheirOptimiserFromRoundToRound) {
  optimizer_options o = parse_optimizer("momentum:momentum=0.5");
  o.learning_rate = 1;
  local_steps l(layout_, {1, o});
  receive(l, 0);
  l.step(ones_, 1);
  l.difference();
  receive(l, 0);
  l.step(ones_, 1);
  EXPECT_THAT(own(l), Each(-1.5F));
}

// With x the worker's weights, w the shard's: x - eta g(x) - A (x - w), all of x before the step.
TEST_F(LocalSteps, AreDrawnToTheWeightsTheyMetIfTheyAreElastic) {
  local_steps l = steps_of(1, 0.25F);
  receive(l, 10);
  EXPECT_FALSE(l.exchanges_first());
  l.step(ones_, 4); // x = 8
  EXPECT_FALSE(l.exchange_due()) << "the shards are met when the next gradient is there";
  ASSERT_TRUE(l.exchanges_first());
  l.hold(ones_, 2);
  EXPECT_THAT(of(*l.difference()), Each(2.0F)) << "of what the gradient was computed from";
  receive(l, 7, 12);
  EXPECT_THAT(own(l), Each(FloatNear(8 - 0.25F * (8 - 12), 1e-5F)));
  l.go_on();
  EXPECT_THAT(own(l), Each(FloatNear(8 - 0.25F * (8 - 12) - 0.5F * 2, 1e-5F)));
  EXPECT_EQ(l.taken(), 1U);
  l.go_on();
  EXPECT_EQ(l.taken(), 1U) << "a step is taken once";
}

TEST_F(LocalSteps, TakeTheShardsWeightsAfterASwitchEvenIfTheyAreElastic) {
  local_steps l = steps_of(1, 0.25F);
  receive(l, 10);
  l.step(ones_, 4);
  l.hold(ones_, 2);
  l.difference();
  l.start_anew();
  receive(l, 6, 12);
  EXPECT_THAT(own(l), Each(6.0F));
  l.go_on();
  EXPECT_THAT(own(l), Each(5.0F)) << "the gradient under way is not lost";
}

/// Workers that meet the shard at every step.
class elastic_workers {
public:
  elastic_workers(double rate, double pull, std::uint32_t workers)
      : shard_(std::make_shared<shard>(*layout_, 0, 1, testing::sgd(1))),
        cure_(make_cure("easgd:" + std::to_string(pull), {workers, shard_->dense_size()}), shard_, workers) {
    const local_steps_options options{1, testing::sgd(rate), static_cast<float>(pull)};
    for (std::uint32_t r = 0; r < workers; ++r) {
      workers_.emplace_back(layout_, options);
      workers_[r].receive(0, cure_.weights_for({r}));
    }
  }

  void one_after_the_other() {
    for (std::uint32_t r = 0; r < workers_.size(); ++r) meet({{r}});
  }
  void all_at_a_barrier() {
    std::vector<rank> all;
    for (std::uint32_t r = 0; r < workers_.size(); ++r) all.push_back({r});
    meet(all);
  }

  float shards() const { return shard_->snapshot().on_host()[0]; }
  float of_worker(std::size_t r) const { return workers_[r].weights().on_host()[0]; }
  float largest() const {
    float most = 0;
    for (const float w : shard_->snapshot().on_host()) most = std::max(most, std::abs(w));
    return most;
  }

private:
  /// A step of each; those who do not meet the shard yet take it by themselves.
  void meet(const std::vector<rank>& who) {
    std::vector<contribution> parts;
    for (const rank r : who) {
      local_steps& l = workers_[r.value];
      const auto gradient = testing::dense_gradient(l.weights().on_host().first(layout_->dense_size()));
      if (!l.exchanges_first()) {
        l.step(gradient, 1);
        continue;
      }
      l.hold(gradient, 1);
      push_gradient x;
      x.header.id.worker = r;
      x.header.scale_bits = std::bit_cast<std::uint32_t>(1.0F);
      x.payload.values = l.difference();
      parts.push_back(cure_.applied(x, cure_.read_by(r)));
    }
    if (parts.empty()) return;
    const snapshot met = shard_->snapshot();
    shard_->update(parts);
    for (const rank r : who) {
      workers_[r.value].receive(0, cure_.weights_for(r), met);
      workers_[r.value].go_on();
    }
  }

  std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<parameter_layout>(testing::layout_of({{"w", {8, 4}}}, 1));
  std::shared_ptr<shard> shard_;
  shard_cure cure_;
  std::vector<local_steps> workers_;
};

float after_many_rounds(double rate, double pull, std::uint32_t workers) {
  elastic_workers w(rate, pull, workers);
  for (int round = 0; round < 4000 && w.largest() < 1e6F; ++round) w.one_after_the_other();
  return w.largest();
}

// X17. The paper's bound (4 - 2 eta) / (4 - eta) is tight for odd numbers of workers; the others are from the
// roots of the round, computed elsewhere.
TEST(ElasticAveraging, IsStableOneAfterTheOtherJustBelowTheKnownLimits) {
  const std::vector<std::tuple<double, std::uint32_t, double>> all{
      {0.5, 1, 0.8571}, {1.0, 1, 0.6667}, {1.5, 1, 0.4000}, {0.5, 3, 0.8571},
      {1.0, 3, 0.6667}, {1.5, 3, 0.4000}, {0.5, 2, 0.8911}, {1.0, 2, 0.7071},
      {1.5, 2, 0.4142}, {0.5, 8, 0.8595}, {1.0, 8, 0.6687}, {1.5, 8, 0.4006}};
  for (const std::uint64_t i : testing::slice_of(all.size(), 3)) {
    const auto& [rate, workers, limit] = all[i];
    EXPECT_LT(after_many_rounds(rate, 0.995 * limit, workers), 1e-3F) << rate << ", " << workers;
    EXPECT_GT(after_many_rounds(rate, 1.005 * limit, workers), 1e3F) << rate << ", " << workers;
  }
  for (const std::uint32_t workers : {1U, 3U})
    EXPECT_GT(after_many_rounds(2.1, 0.01, workers), 1e3F) << "an eta above 2 is stable with no pull";
}

// With B = M A: x' = (1 - eta - A) x + A w, w' = B x + (1 - B) w.
TEST(ElasticAveraging, FollowsTheMatrixOfItsSynchronousForm) {
  constexpr double rate = 0.4, pull = 0.2;
  constexpr std::uint32_t workers = 3;
  elastic_workers all(rate, pull, workers);
  double w = static_cast<double>(all.shards());
  all.all_at_a_barrier(); // the first step, from the same weights as the shard's, meets nobody
  double x = (1 - rate) * w;
  for (int round = 0; round < 20; ++round) {
    all.all_at_a_barrier();
    const double next = (1 - rate - pull) * x + pull * w;
    w = workers * pull * x + (1 - workers * pull) * w;
    x = next;
    ASSERT_NEAR(static_cast<double>(all.shards()), w, 1e-5) << round;
    for (std::size_t r = 0; r < workers; ++r)
      ASSERT_NEAR(static_cast<double>(all.of_worker(r)), x, 1e-5) << round;
  }
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/optim/virtual_trainer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>

namespace mailgrad {
namespace {

using testing::virtual_trainer;
using testing::virtual_training;

// That each cure helps where its paper says so: the same workers, learning rate, seeds and number of
// gradients, with it and without it. Everything here is determined by its seeds.

using float_vec = std::vector<float>;

constexpr std::size_t size_of_bowl = 30;

/// From 1 down to 0.02.
float curvature(std::size_t k, std::size_t n) {
  return std::pow(0.02F, static_cast<float>(k) / static_cast<float>(n - 1));
}

/// Of the sum of h_k x_k^2 / 2, with noise.
void bowl(std::span<const float> x, std::mt19937_64& random, std::span<float> g) {
  std::normal_distribution<float> noise(0, 0.05F);
  for (std::size_t k = 0; k < x.size(); ++k) g[k] = curvature(k, x.size()) * x[k] + noise(random);
}

double bowl_loss(std::span<const float> x) {
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k)
    sum += static_cast<double>(curvature(k, x.size()) * x[k] * x[k]) / 2;
  return std::isfinite(sum) ? std::min(sum, 1e30) : 1e30;
}

template <class Loss>
double median_over_seeds(Loss loss_of) {
  std::vector<double> losses;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) losses.push_back(loss_of(seed));
  std::ranges::nth_element(losses, losses.begin() + 2);
  return losses[2];
}

double final_loss(virtual_training t, std::uint64_t gradients,
                  const testing::gradient_function& gradient = bowl,
                  double (*loss)(std::span<const float>) = bowl_loss, std::size_t size = size_of_bowl) {
  return median_over_seeds([&](std::uint64_t seed) {
    t.seed = seed;
    virtual_trainer trainer(t, float_vec(size, 1.0F), gradient);
    trainer.run(gradients);
    return loss(trainer.weights());
  });
}

// Zhang et al., Jiang et al., Xie et al., Mishchenko et al.: a learning rate that asynchrony makes diverge.
TEST(CureConvergence, ScalingTheStepSavesALearningRateThatDiverges) {
  virtual_training t{.rate = 0.8, .workers = 16};
  EXPECT_GT(final_loss(t, 600), 1e3);
  for (const char* cure : {"inverse", "dynsgd", "polynomial:1", "hinge:1,0", "fedbuff"}) {
    t.cure = cure;
    EXPECT_LT(final_loss(t, 600), 0.1) << cure;
  }
}

// Koloskova et al., Mishchenko et al.: the same, where it is the rare old gradients that make it diverge.
TEST(CureConvergence, ShortStepsForGapsBeyondTheWorkersSaveALearningRate) {
  virtual_training t{.rate = 0.8, .workers = 8};
  EXPECT_GT(final_loss(t, 600), 1e3);
  for (const char* cure : {"mishchenko", "koloskova"}) {
    t.cure = cure;
    EXPECT_LT(final_loss(t, 600), 0.2) << cure;
  }
}

// Barkai et al.: momentum makes the gap large. Mitliagkas et al.: asynchrony brings momentum of its own, so
// less is to be asked for.
TEST(CureConvergence, GapAwareAndLessMomentumSaveManyWorkers) {
  virtual_training t{.optimizer = "momentum", .rate = 0.05, .workers = 16};
  const double uncured = final_loss(t, 1000);
  for (const char* cure : {"gap-aware", "momentum-compensation"}) {
    t.cure = cure;
    EXPECT_LT(final_loss(t, 1000), 0.1 * uncured) << cure;
  }
}

// Hakimi et al.: one momentum for all workers overshoots; one each, and a look ahead, does not.
TEST(CureConvergence, DanaKeepsMomentumWithManyWorkers) {
  const virtual_training shared{.optimizer = "momentum", .rate = 0.05, .workers = 16};
  const double uncured = final_loss(shared, 1000);
  for (const char* cure : {"dana-zero", "dana-slim", "dana-dc:0.9,0.1"})
    EXPECT_LT(final_loss({.cure = cure, .rate = 0.05, .workers = 16}, 1000), 0.1 * uncured) << cure;
}

/// Samples of a logistic regression: x of unit length with label y = +-1 by the sign of x_0 + x_1 + noise.
struct sample {
  float_vec x;
  float y;
};

sample draw(std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  sample s{float_vec(size_of_bowl), 0};
  for (float& value : s.x) value = normal(random) / 2;
  s.y = s.x[0] + s.x[1] + normal(random) / 2 > 0 ? 1.0F : -1.0F;
  return s;
}

double margin(const sample& s, std::span<const float> w) {
  double sum = 0;
  for (std::size_t k = 0; k < w.size(); ++k) sum += static_cast<double>(s.x[k] * w[k]);
  return static_cast<double>(s.y) * sum;
}

void logistic(std::span<const float> w, std::mt19937_64& random, std::span<float> g) {
  constexpr int batch = 8;
  std::ranges::fill(g, 0.0F);
  for (int i = 0; i < batch; ++i) {
    const sample s = draw(random);
    const auto pull = static_cast<float>(1 / (1 + std::exp(margin(s, w)))) / batch;
    for (std::size_t k = 0; k < g.size(); ++k) g[k] -= pull * s.y * s.x[k];
  }
}

double logistic_loss(std::span<const float> w) {
  std::mt19937_64 random(99);
  double sum = 0;
  for (int i = 0; i < 500; ++i) sum += std::log1p(std::exp(-margin(draw(random), w)));
  return sum / 500;
}

// Zheng et al.: g^2 stands for the curvature where the loss is a likelihood.
TEST(CureConvergence, DelayCompensationHelpsOnALikelihood) {
  virtual_training t{.rate = 2, .workers = 32};
  const double uncured = final_loss(t, 400, logistic, logistic_loss);
  for (const char* cure : {"dc-asgd:2", "dc-asgd-a:0.5"}) {
    t.cure = cure;
    EXPECT_LT(final_loss(t, 400, logistic, logistic_loss), 0.9 * uncured) << cure;
  }
}

// Workers that take steps of their own and send what they have moved: that what tames their sum helps where
// its paper says so. The same seeds, learning rates and numbers of exchanges with it and without it.

/// Steps of SGD on the bowl, which give what they have moved.
testing::gradient_function local_steps(std::uint64_t steps) {
  return [steps](std::span<const float> start, std::mt19937_64& random, std::span<float> moved) {
    float_vec x(start.begin(), start.end());
    std::normal_distribution<float> noise(0, 0.2F);
    for (std::uint64_t i = 0; i < steps; ++i)
      for (std::size_t k = 0; k < x.size(); ++k)
        x[k] -= 0.2F * (curvature(k, x.size()) * x[k] + noise(random));
    for (std::size_t k = 0; k < x.size(); ++k) moved[k] = start[k] - x[k];
  };
}

/// After 400 exchanges. A rate is that of the outer optimiser.
double median_loss(const virtual_training& t, std::uint64_t steps = 8) {
  return final_loss(t, 400, local_steps(steps), bowl_loss, 20);
}

// Zhang, Choromanska & LeCun: with many steps between exchanges the sum of all differences goes too far, and
// workers drawn to a centre do not.
TEST(LocalConvergence, ElasticAveragingBearsManyStepsBetweenExchanges) {
  const double summed = median_loss({.rate = 1}, 16);
  EXPECT_LT(median_loss({.cure = "easgd", .rate = 1}, 16), 0.5 * summed);
}

// Liu et al.: Nesterov's momentum of each difference is too much where they come one by one; moved once a
// round it is not.
TEST(LocalConvergence, DelayedNesterovKeepsMomentumAsynchronously) {
  const double eager = median_loss({.optimizer = "nesterov:momentum=0.9", .rate = 0.3});
  EXPECT_LT(median_loss({.optimizer = "delayed-nesterov:momentum=0.9,period=8", .rate = 0.3}), 0.5 * eager);
}

// Nguyen et al.: a buffer and a weight for staleness against each difference as it comes.
TEST(LocalConvergence, ABufferOfWeightedDifferencesIsCalmer) {
  EXPECT_LT(median_loss({.cure = "fedbuff", .rate = 1, .buffer = 4}), 0.5 * median_loss({.rate = 1}));
}

// Ajanthan et al.: an outer momentum carries the weights on while differences are computed from where they
// were. Workers that begin where it leads bear a rate at which it diverges.
TEST(LocalConvergence, MomentumLookAheadKeepsAnOuterMomentum) {
  virtual_training t{.optimizer = "nesterov:momentum=0.9", .rate = 0.1};
  EXPECT_GT(median_loss(t), 1e3);
  t.cure = "mla";
  EXPECT_LT(median_loss(t), 0.2);
}

// Shah & Sun: old differences count less among the others in the moments of an outer Adam.
TEST(LocalConvergence, TheCosineGateCalmsAnOuterAdam) {
  virtual_training t{.optimizer = "adam", .rate = 0.1};
  const double plain = median_loss(t);
  t.cure = "cgad";
  EXPECT_LT(median_loss(t), 0.5 * plain);
}

} // namespace
} // namespace mailgrad

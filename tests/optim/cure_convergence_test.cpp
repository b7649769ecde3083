#include <mailgrad/tests/optim/virtual_trainer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

// That each cure helps where its paper says so: the same workers, learning rate, seeds and number of
// gradients, with it and without it. Everything here is determined by its seeds.

namespace mailgrad {
namespace {

using testing::virtual_trainer;
using testing::virtual_training;
using float_vec = std::vector<float>;

constexpr std::size_t size_of_bowl = 30;

float curvature_of_bowl(std::size_t k) { return std::pow(0.02F, static_cast<float>(k) / (size_of_bowl - 1)); }

/// Of the sum of h_k x_k^2 / 2, with curvatures from 1 down to 0.02, and noise.
void bowl(std::span<const float> x, std::mt19937_64& random, std::span<float> g) {
  std::normal_distribution<float> noise(0, 0.05F);
  for (std::size_t k = 0; k < x.size(); ++k) g[k] = curvature_of_bowl(k) * x[k] + noise(random);
}

double bowl_loss(std::span<const float> x) {
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k)
    sum += static_cast<double>(curvature_of_bowl(k) * x[k] * x[k]) / 2;
  return std::isfinite(sum) ? sum : 1e30;
}

/// The median over seeds, at the end.
double final_loss(virtual_training t, std::uint64_t updates,
                  const testing::gradient_function& gradient = bowl,
                  double (*loss)(std::span<const float>) = bowl_loss) {
  std::vector<double> losses;
  for (t.seed = 1; t.seed <= 5; ++t.seed) {
    virtual_trainer trainer(t, float_vec(size_of_bowl, 1.0F), gradient);
    trainer.run(updates);
    losses.push_back(loss(trainer.weights()));
  }
  std::ranges::nth_element(losses, losses.begin() + 2);
  return losses[2];
}

// Zhang et al., Jiang et al., Xie et al., Mishchenko et al.: a learning rate that asynchrony makes diverge.
TEST(CureConvergence, ScalingTheStepSavesALearningRateThatDiverges) {
  const virtual_training t{.rate = 0.8, .workers = 16};
  EXPECT_GT(final_loss(t, 600), 1e3);
  for (const char* cure : {"inverse", "dynsgd", "polynomial:1", "hinge:1,0", "fedbuff"}) {
    virtual_training cured = t;
    cured.cure = cure;
    EXPECT_LT(final_loss(cured, 600), 0.1) << cure;
  }
}

// Koloskova et al., Mishchenko et al.: the same, where it is the rare old gradients that make it diverge.
TEST(CureConvergence, ShortStepsForGapsBeyondTheWorkersSaveALearningRate) {
  const virtual_training t{.rate = 0.8, .workers = 8};
  EXPECT_GT(final_loss(t, 600), 1e3);
  for (const char* cure : {"mishchenko", "koloskova"}) {
    virtual_training cured = t;
    cured.cure = cure;
    EXPECT_LT(final_loss(cured, 600), 0.2) << cure;
  }
}

// Barkai et al.: momentum makes the gap large.
TEST(CureConvergence, GapAwareSavesMomentumWithManyWorkers) {
  virtual_training t{.optimizer = "momentum", .rate = 0.05, .workers = 16};
  const double uncured = final_loss(t, 1000);
  t.cure = "gap-aware";
  EXPECT_LT(final_loss(t, 1000), 0.1 * uncured);
}

// Hakimi et al.: one momentum for all workers overshoots; one each, and a look ahead, does not.
TEST(CureConvergence, DanaKeepsMomentumWithManyWorkers) {
  const virtual_training shared{.optimizer = "momentum", .rate = 0.05, .workers = 16};
  const double uncured = final_loss(shared, 1000);
  for (const char* cure : {"dana-zero", "dana-slim", "dana-dc:0.9,0.1"})
    EXPECT_LT(final_loss({.cure = cure, .rate = 0.05, .workers = 16}, 1000), 0.1 * uncured) << cure;
}

// Mitliagkas et al.: asynchrony brings momentum of its own, so less is to be asked for.
TEST(CureConvergence, LessMomentumIsFasterWithManyWorkers) {
  virtual_training t{.optimizer = "momentum", .rate = 0.05, .workers = 16};
  const double uncured = final_loss(t, 1000);
  t.cure = "momentum-compensation";
  EXPECT_LT(final_loss(t, 1000), 0.1 * uncured);
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

} // namespace
} // namespace mailgrad

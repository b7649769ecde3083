#include <mailgrad/tests/optim/virtual_trainer.hpp>

#include <mailgrad/optim/cures/delay_compensation.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace mailgrad {
namespace {

using testing::virtual_trainer;
using testing::virtual_training;
using float_vec = std::vector<float>;

/// Of the sum of h_k x_k^2 / 2, with curvatures from 1 to 0.01, and noise.
void steep_bowl(std::span<const float> x, std::mt19937_64& random, std::span<float> g) {
  std::normal_distribution<float> noise(0, 0.1F);
  for (std::size_t k = 0; k < x.size(); ++k)
    g[k] = x[k] * std::pow(0.01F, static_cast<float>(k) / static_cast<float>(x.size())) + noise(random);
}

float_vec trained(const virtual_training& t, std::uint64_t updates = 300) {
  virtual_trainer trainer(t, float_vec(20, 1.0F), steep_bowl);
  trainer.run(updates);
  return trainer.weights();
}

// X18, X20: without staleness there is nothing to compensate.
TEST(CureIdentities, OneWorkerTrainsAsWithoutACure) {
  for (const char* optimizer : {"sgd", "momentum", "adam"})
    for (const char* cure : {"dc-asgd", "dc-asgd-a", "delay-feedback", "gap-aware", "inverse",
                             "fedbuff"}) // those that leave it as it is
      EXPECT_EQ(trained({.cure = cure, .optimizer = optimizer, .workers = 1}),
                trained({.optimizer = optimizer, .workers = 1}))
          << cure << " with " << optimizer;
}

// X18
TEST(CureIdentities, DelayCompensationOfNothingIsAsynchronousSgd) {
  EXPECT_EQ(trained({.cure = "dc-asgd:0"}), trained({}));
  EXPECT_EQ(trained({.cure = "dc-asgd-a:0"}), trained({}));
  EXPECT_NE(trained({.cure = "dc-asgd:2"}), trained({}));
}

TEST(CureIdentities, DelayFeedbackOfNothingIsAsynchronousSgd) {
  EXPECT_EQ(trained({.cure = "delay-feedback:0"}), trained({}));
  EXPECT_NE(trained({.cure = "delay-feedback"}), trained({}));
}

// X18: where lambda g^2 is the curvature itself, the gradient of a quadratic is carried exactly to where it
// is applied.
TEST(CureIdentities, DelayCompensationWithTheTrueCurvatureIsSequential) {
  constexpr double h = 0.7, rate = 0.3;
  for (const std::size_t delay : {1U, 3U, 7U}) {
    std::vector<double> x(delay + 1, 1.0);
    double sequential = 1;
    for (int t = 0; t < 30; ++t) {
      const double read = x[x.size() - 1 - delay];
      const double g = h * read;
      const auto compensated =
          static_cast<double>(delay_compensated(static_cast<float>(g), static_cast<float>(h / (g * g)),
                                                static_cast<float>(x.back()), static_cast<float>(read)));
      x.push_back(x.back() - rate * compensated);
      sequential -= rate * h * sequential;
      EXPECT_NEAR(x.back(), sequential, 1e-5) << "delay " << delay << ", step " << t;
    }
  }
}

/// The gradient of the bowl, and 0 once `silent` is true.
auto bowl_until(const bool& silent) {
  return [&silent](auto x, auto& random, auto g) {
    if (silent)
      std::ranges::fill(g, 0.0F);
    else
      steep_bowl(x, random, g);
  };
}

// X19: what DANA-Zero sends is where the momenta of all workers alone would take the weights.
TEST(CureIdentities, DanaZeroSendsWhereTheMomentaLead) {
  constexpr std::uint32_t workers = 5;
  bool silent = false;
  virtual_trainer trainer({.cure = "dana-zero", .rate = 0.05, .workers = workers, .round_robin = true},
                          float_vec(20, 1.0F), bowl_until(silent));
  trainer.run(4 * workers);
  const float_vec promised = trainer.sent(workers - 1);
  silent = true;
  trainer.run(workers);
  for (std::size_t k = 0; k < promised.size(); ++k) EXPECT_NEAR(trainer.weights()[k], promised[k], 1e-5);
}

TEST(CureIdentities, DanaForgetsTheMomentumOfAWorkerThatLeft) {
  const auto cure = make_cure("dana-zero:0.5", {2, 1, 1.0});
  const float_vec g{1}, now{0};
  float_vec applied(1), sent(1);
  cure->compensate({{0}, 0, g, 1, now, {}, {}}, applied);
  cure->compensate({{1}, 0, g, 1, now, {}, {}}, applied);
  cure->predict({now, 1, {}}, sent);
  EXPECT_FLOAT_EQ(sent[0], -1);
  cure->leave({0});
  cure->predict({now, 1, {}}, sent);
  EXPECT_FLOAT_EQ(sent[0], -0.5F);
}

// X19: the two take the same steps, Slim in the coordinates of what Zero sends.
TEST(CureIdentities, DanaSlimHoldsWhatDanaZeroSends) {
  constexpr std::uint32_t workers = 4;
  virtual_trainer zero({.cure = "dana-zero:0.8", .workers = workers, .round_robin = true},
                       float_vec(20, 1.0F), steep_bowl);
  virtual_trainer slim({.cure = "dana-slim:0.8", .workers = workers, .round_robin = true},
                       float_vec(20, 1.0F), steep_bowl);
  for (std::uint32_t step = 0; step < 60; ++step) {
    zero.run(1);
    slim.run(1);
    const float_vec& sent = zero.sent(step % workers);
    for (std::size_t k = 0; k < sent.size(); ++k)
      ASSERT_NEAR(slim.weights()[k], sent[k], 1e-4) << "step " << step;
  }
}

TEST(CureIdentities, DanaOfOneWorkerIsNesterovsMomentum) {
  const float_vec slim = trained({.cure = "dana-slim:0.9", .rate = 0.05, .workers = 1});
  const float_vec nesterov = trained({.optimizer = "nesterov", .rate = 0.05, .workers = 1});
  for (std::size_t k = 0; k < slim.size(); ++k) EXPECT_NEAR(slim[k], nesterov[k], 1e-4);
}

// X20: the penalty is 1 where a weight has not moved, 2 where it has moved by one usual step.
TEST(CureIdentities, GapAwareDividesByOnePlusTheGapInUsualSteps) {
  const auto cure = make_cure("gap-aware", {2, 3, 0.1});
  const float_vec g{2, 2, 2}, now{1, 1.2F, 0.6F}, read{1, 1, 1};
  float_vec applied(3);
  cure->compensate({{0}, 1, g, 1, now, read, {}}, applied);
  EXPECT_FLOAT_EQ(applied[0], 2); // the usual step is 0.1 * sqrt(2^2)
  EXPECT_NEAR(applied[1], 1, 1e-5);
  EXPECT_NEAR(applied[2], 2.0 / 3, 1e-5);
}

// What is sent is where the outer momentum alone takes the weights while the other workers are heard.
TEST(CureIdentities, MomentumLookAheadSendsWhereTheMomentumLeads) {
  constexpr std::uint32_t workers = 5;
  for (const char* optimizer : {"momentum:momentum=0.8", "nesterov:momentum=0.8"}) {
    bool silent = false;
    virtual_trainer trainer(
        {.cure = "mla", .optimizer = optimizer, .rate = 0.05, .workers = workers, .round_robin = true},
        float_vec(20, 1.0F), bowl_until(silent));
    trainer.run(4 * workers);
    const float_vec promised = trainer.sent(workers - 1), before = trainer.weights();
    silent = true;
    trainer.run(workers - 1);
    for (std::size_t k = 0; k < promised.size(); ++k)
      EXPECT_NEAR(trainer.weights()[k], promised[k], 1e-5) << optimizer;
    EXPECT_GT(std::abs(promised[0] - before[0]), 1e-3) << optimizer;
  }
}

TEST(CureIdentities, CosineGateWeighsByAge) {
  const auto weight = [](const char* text, std::uint64_t gap) {
    const float_vec g{2}, now{0};
    float_vec applied(1);
    make_cure(text, {3, 1, 1.0})->compensate({{0}, gap, g, 1, now, {}, {}}, applied);
    return applied[0] / 2;
  };
  EXPECT_EQ(weight("cgad:0.1,16", 0), 1);
  EXPECT_FLOAT_EQ(weight("cgad:0,16", 8), 0.5F);
  EXPECT_NEAR(weight("cgad:0.1,16", 8), 0.5 * 0.449329, 1e-6);
  EXPECT_NEAR(weight("cgad:0.1,12", 4), 0.75 * 0.670320, 1e-6);
  EXPECT_EQ(weight("cgad:0.1,16", 16), 0);
  EXPECT_EQ(weight("cgad:0.1,16", 90), 0);
  EXPECT_EQ(weight("cgad:0.1,0", 0), 1);
  EXPECT_EQ(weight("cgad:0.1,0", 1), 0);
}

// Adam divides by the size of what it gets, so a weight that all differences share makes no difference.
TEST(CureIdentities, CosineGateOfOneAgeForAllIsAdam) {
  optimizer_options rule = parse_optimizer("adam:epsilon=0");
  rule.learning_rate = 0.1;
  const auto with = make_optimizer(rule, 1), without = make_optimizer(rule, 1);
  const auto cure = make_cure("cgad:0.2,32", {9, 1, 0.1});
  float_vec x{1}, y{1};
  for (std::uint64_t step = 1; step <= 50; ++step) {
    const float_vec g{std::sin(static_cast<float>(step))};
    float_vec weighed(1);
    cure->compensate({{0}, 8, g, 1, x, {}, {}}, weighed);
    const scaled_gradient cured{weighed.data()}, plain{g.data()};
    with->update(host_stream{}, {x, x, {&cured, 1}, step});
    without->update(host_stream{}, {y, y, {&plain, 1}, step});
    ASSERT_NEAR(x[0], y[0], 1e-5) << step;
  }
}

// |p| = 2 with p = (1 - 0.5) v. The length of a turned difference stays, and each variable is by itself.
TEST(CureIdentities, HeadingCorrectionTreatsEachVariableByItsCosine) {
  cure_site site{2, 10, 1.0, std::make_shared<host_queue>(), parse_optimizer("nesterov:momentum=0.5")};
  for (const char* name : {"along", "across", "against", "still", "first"})
    site.variables.push_back({name, shape{2}, 2 * site.variables.size()});
  const auto cure = make_cure("heloco:0.5", site);
  const float_vec g{3, 4, 0, 2, -2, 0, 0, 0, 5, -5}, now(10), v{4, 0, 4, 0, 4, 0, 4, 0, 0, 0};
  float_vec applied(10);
  cure->compensate({{0}, 3, g, 1, now, {}, v}, applied);
  const float_vec expected{3, 4, std::sqrt(2.0F), std::sqrt(2.0F), -1, 0, 0, 0, 5, -5};
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(applied[k], expected[k], 1e-6) << k;
}

TEST(CureIdentities, TheMomentumOfAsynchronyIsTakenOffTheOneAskedFor) {
  const auto left = [](std::uint32_t workers) {
    const auto o = cure_spec("momentum-compensation", workers).adapted(parse_optimizer("momentum"));
    return std::get<momentum_options>(o.rule).momentum;
  };
  EXPECT_DOUBLE_EQ(left(1), 0.9);
  EXPECT_NEAR(left(4), 0.15, 1e-12);
  EXPECT_NEAR(left(16), -0.0375, 1e-12);
}

// X23: the pushes of a period add up to the mean gradient and one step of the momentum.
TEST(DelayedNesterov, MovesByTheMeanAndOneMomentumInAPeriod) {
  constexpr double rate = 0.5, beta = 0.9;
  for (const std::uint64_t period : {1U, 2U, 5U}) {
    optimizer_options options = parse_optimizer("delayed-nesterov:period=" + std::to_string(period));
    options.learning_rate = rate;
    const auto o = make_optimizer(options, 1);
    float_vec w{0};
    double momentum = 0;
    std::uint64_t step = 0;
    for (int round = 0; round < 4; ++round) {
      const auto before = static_cast<double>(w[0]);
      double mean = 0;
      for (std::uint64_t i = 0; i < period; ++i) {
        const float g = std::sin(static_cast<float>(++step));
        mean += static_cast<double>(g) / static_cast<double>(period);
        const scaled_gradient one{&g};
        o->update(host_stream{}, {w, w, {&one, 1}, step});
      }
      momentum = beta * momentum + mean;
      EXPECT_NEAR(static_cast<double>(w[0]) - before, -rate * (mean + beta * momentum), 1e-5)
          << "period " << period << ", round " << round;
    }
  }
}

} // namespace
} // namespace mailgrad

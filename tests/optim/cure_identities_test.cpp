#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/tests/optim/cure_oracles.hpp>
#include <mailgrad/tests/optim/virtual_trainer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace mailgrad {
namespace {

using testing::virtual_trainer;
using testing::virtual_training;
using testing::oracle::every_cure;
using testing::oracle::late_gradient;
using testing::oracle::vec;

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
  for (const char* nothing : {"dc-asgd:0", "dc-asgd-a:0"}) EXPECT_EQ(trained({.cure = nothing}), trained({}));
  EXPECT_NE(trained({.cure = "dc-asgd:2"}), trained({}));
}

TEST(CureIdentities, DelayFeedbackOfNothingIsAsynchronousSgd) {
  EXPECT_EQ(trained({.cure = "delay-feedback:0"}), trained({}));
  EXPECT_NE(trained({.cure = "delay-feedback"}), trained({}));
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

TEST(CureIdentities, DanaOfOneWorkerIsNesterovsMomentum) {
  const float_vec slim = trained({.cure = "dana-slim:0.9", .rate = 0.05, .workers = 1});
  const float_vec nesterov = trained({.optimizer = "nesterov", .rate = 0.05, .workers = 1});
  for (std::size_t k = 0; k < slim.size(); ++k) EXPECT_NEAR(slim[k], nesterov[k], 1e-4);
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

TEST(CureIdentities, CosineGateWithoutALimitLetsFreshOnesThroughAlone) {
  const float_vec g{2}, now{0};
  float_vec applied(1);
  for (const std::uint64_t gap : {0U, 1U}) {
    make_cure("cgad:0.1,0", {3, 1, 1.0})->compensate({{0}, gap, g, 1, now, {}, {}}, applied);
    EXPECT_EQ(applied[0], gap == 0 ? 2 : 0);
  }
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

// Each cure by itself against its oracle, on numbers that no training would make: large and tiny gradients,
// and weights that have moved far or not at all.

constexpr std::uint32_t oracle_workers = 3;
constexpr std::size_t oracle_size = 6;
constexpr double oracle_rate = 0.07;
constexpr std::uint32_t order[] = {0, 1, 0, 2, 2, 0, 1, 0, 2, 0, 0, 2}; ///< worker 1 leaves after its second
constexpr std::size_t last_of_worker_1 = 6;

/// In (-1, 1), another for each n; exact in float, so both sides see the same.
double some(std::size_t n) {
  return static_cast<double>(static_cast<float>(std::sin(1.7 * static_cast<double>(n) + 0.3)));
}

vec numbers(std::size_t first, const vec& magnitudes) {
  vec out;
  for (std::size_t k = 0; k < oracle_size; ++k)
    out.push_back(static_cast<double>(static_cast<float>(magnitudes[k] * some(oracle_size * first + k))));
  return out;
}

std::vector<float> floats_of(const vec& x) { return {x.begin(), x.end()}; }

late_gradient arriving(std::size_t step, bool has_velocity) {
  const vec steps{1e-9, 3e-8, 4e-4, 0.2, 1, 5}; // epsilons show in small ones
  const vec places{1e-8, 1e-7, 1e-3, 1, 1, 1};
  late_gradient x{
      order[step], numbers(step, steps), numbers(100 + step, places), numbers(200 + step, places), {}};
  x.read[5] = x.now[5]; // has not moved
  if (has_velocity) x.velocity = step == 0 ? vec(oracle_size) : numbers(300 + step, steps);
  return x;
}

/// Up to the rounding of sums of numbers as large as `terms`.
void expect_close(const std::vector<float>& found, const vec& expected, const vec& terms,
                  const std::string& what) {
  for (std::size_t k = 0; k < expected.size(); ++k)
    EXPECT_NEAR(static_cast<double>(found[k]), expected[k],
                2e-6 * std::abs(expected[k]) + 2e-7 * std::abs(terms[k]))
        << what << ", weight " << k;
}

void expect_as_its_paper(const testing::oracle::cure_pair& pair, const char* rule) {
  const bool has_velocity = std::string(rule) != "sgd";
  const auto found = make_cure(pair.text, {oracle_workers, oracle_size, oracle_rate,
                                           std::make_shared<host_queue>(), parse_optimizer(rule)});
  const auto expected = pair.made(oracle_workers, oracle_rate);
  for (std::size_t step = 0; step < std::size(order); ++step) {
    const std::string where = std::string(pair.text) + ", step " + std::to_string(step + 1);
    late_gradient x = arriving(step, has_velocity);
    x.gap = static_cast<double>(step);
    const double scale = step % 3 == 1 ? 0.375 : 1; // clipped
    const std::vector<float> g = floats_of(x.g), now = floats_of(x.now), v = floats_of(x.velocity);
    const std::vector<float> read = found->needs_weights_read() ? floats_of(x.read) : std::vector<float>{};
    for (double& value : x.g) value *= scale;
    std::vector<float> applied(oracle_size);
    if (found->compensates()) {
      found->compensate({{order[step]}, step, g, static_cast<float>(scale), now, read, v}, applied);
      expect_close(applied, expected->applied(x), x.g, where);
    }
    if (step == last_of_worker_1) {
      found->leave({1});
      expected->leave(1);
    }
    if (found->predicts()) {
      const double eta = oracle_rate * (1 + some(step)); // by a schedule
      std::vector<float> sent(oracle_size);
      found->predict({now, eta, v}, sent);
      expect_close(sent, expected->sent(x.now, eta, x.velocity), x.now, where + ", sent");
    }
  }
}

TEST(CureOracles, EveryCureAppliesAndSendsWhatItsPaperSays) {
  for (const auto& pair : every_cure()) expect_as_its_paper(pair, "sgd");
}

TEST(CureOracles, GapAwareMeasuresInStepsOfTheMomentum) {
  for (const auto& pair : every_cure())
    if (std::string(pair.text) == "gap-aware") expect_as_its_paper(pair, "momentum");
}

TEST(CureOracles, OuterCuresLookAtTheOuterMomentum) {
  for (const auto& pair : every_cure())
    if (pair.momentum_rule) expect_as_its_paper(pair, pair.momentum_rule);
}

// A learning rate of 0 moves nothing, so there is no gap to measure and no step to measure it in.
TEST(CureOracles, GapAwareLeavesGradientsAsTheyAreWhereNoStepHasALength) {
  const auto found = make_cure("gap-aware", {oracle_workers, 2, 0});
  const std::vector<float> g{0.5F, -2}, now{1, 1};
  std::vector<float> applied(2);
  for (int step = 0; step < 3; ++step) {
    found->compensate({{0}, 0, g, 1, now, now, {}}, applied);
    EXPECT_EQ(applied, g);
  }
}

TEST(CureOracles, EveryFactorIsThatOfItsPaper) {
  for (const auto& pair : every_cure()) {
    const auto found = make_cure(pair.text, {oracle_workers, oracle_size, oracle_rate});
    const auto expected = pair.made(oracle_workers, oracle_rate);
    for (std::uint64_t gap = 0; gap < 20; ++gap)
      EXPECT_NEAR(found->factor(gap), expected->factor(static_cast<double>(gap)), 1e-12)
          << pair.text << ' ' << gap;
  }
}

TEST(CureOracles, KnowEveryCureThatTreatsGradients) {
  for (const cure_form& form : cure_forms()) {
    const std::string name(form.text.substr(0, form.text.find(':')));
    if (name == "momentum-compensation") continue; // changes the optimiser
    const auto all = every_cure();
    EXPECT_TRUE(std::ranges::any_of(all, [&](const auto& pair) { return pair.text == name; })) << name;
  }
}

// With M workers asynchrony brings a momentum of 1 - 1 / M, and the learning rate is left as it is.
TEST(CureOracles, MomentumCompensationLeavesWhatAsynchronyDoesNotBring) {
  for (const std::uint32_t m : {1U, 2U, 3U, 7U, 40U}) {
    for (const double asked : {0.9, 0.35, 0.0}) {
      optimizer_options o = parse_optimizer("momentum:momentum=" + std::to_string(asked));
      o.learning_rate = oracle_rate;
      const optimizer_options found = cure_spec("momentum-compensation", m).adapted(o);
      EXPECT_NEAR(std::get<momentum_options>(found.rule).momentum, asked - (m - 1.0) / m, 1e-12);
      EXPECT_EQ(base_learning_rate(found), oracle_rate);
    }
  }
}

} // namespace
} // namespace mailgrad

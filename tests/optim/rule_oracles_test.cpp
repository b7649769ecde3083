#include <mailgrad/tests/optim/rule_oracles.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <mailgrad/optim/clip.hpp>
#include <mailgrad/optim/optimizer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace mailgrad {
namespace {

using testing::oracle::every_rule;
using testing::oracle::every_schedule;
using vec = std::vector<double>;

constexpr std::uint64_t steps = 12;
const vec magnitudes{1e-10, 1e-8, 1e-3, 0.3, 1, 4}; ///< of gradients: epsilons show in small ones

/// Exact in float, so both sides see the same.
vec gradient(std::uint64_t step) {
  vec g;
  for (std::size_t k = 0; k < magnitudes.size(); ++k)
    g.push_back(static_cast<double>(
        static_cast<float>(magnitudes[k] * std::sin(static_cast<double>(5 * step + 2 * k) + 0.4))));
  return g;
}

vec first_weights() { return {0, 0, 0.5, -1.25, 0.75, 2}; } // the first two show the smallest steps

struct around {
  double l2 = 0;
  std::optional<double> decay{};
  double clip = 0;
  const char* schedule = "constant";
  std::optional<double> rate{};
};

void expect_as_its_paper(const testing::oracle::rule_pair& pair, const around& a) {
  optimizer_options options = parse_optimizer(pair.text);
  options.learning_rate = a.rate;
  options.l2 = a.l2;
  options.weight_decay = a.decay;
  options.schedule = parse_schedule(a.schedule);
  const auto all = every_schedule();
  const auto shape =
      std::ranges::find_if(all, [&](const auto& s) { return std::string(s.text) == a.schedule; });
  testing::oracle::weights expected(first_weights(), pair.made, a.rate.value_or(pair.default_rate),
                                    shape->made, a.l2, a.decay.value_or(pair.default_decay));
  const auto found = make_optimizer(options, magnitudes.size());
  std::vector<float> w(expected.values.begin(), expected.values.end());
  vec largest(w.size()); // on the way: rounding is as large as the sums that it comes from
  for (std::uint64_t step = 1; step <= steps; ++step) {
    vec g = gradient(step);
    const std::vector<float> values(g.begin(), g.end());
    const double factor = step % 4 == 0 ? 0.25 : 1; // by a cure
    const scaled_gradient one{values.data(),
                              clip_factor(std::sqrt(sum_of_squares(host_stream{}, values)), a.clip)};
    found->update(host_stream{}, {w, w, {&one, 1}, step, 0, factor});
    if (a.clip > 0) {
      const double scale = testing::oracle::clip(g, a.clip);
      for (double& x : g) x *= scale;
    }
    expected.step(g, factor);
    for (std::size_t k = 0; k < w.size(); ++k) {
      largest[k] = std::max(largest[k], std::abs(expected.values[k]));
      EXPECT_NEAR(static_cast<double>(w[k]), expected.values[k], 2e-6 * largest[k])
          << pair.text << " under " << a.schedule << ", step " << step << ", weight " << k;
    }
  }
}

TEST(RuleOracles, EveryRuleMovesAsItsPaperSaysByDefault) {
  for (const auto& pair : every_rule()) expect_as_its_paper(pair, {});
}

TEST(RuleOracles, EveryRuleMovesAsItsPaperSaysWithPenaltiesAndClipping) {
  for (const auto& pair : every_rule())
    for (const auto& s : every_schedule()) expect_as_its_paper(pair, {0.03, 0.2, 1.5, s.text, 0.04});
}

TEST(RuleOracles, KnowEveryRule) {
  const auto all = every_rule();
  for (const std::string_view name : testing::single_weight_rules())
    EXPECT_TRUE(std::ranges::any_of(all, [&](const auto& pair) { return pair.text == name; })) << name;
}

TEST(ScheduleOracles, EveryScheduleFollowsItsFormula) {
  for (const auto& s : every_schedule())
    for (std::uint64_t step = 1; step <= 4100; step += step < 40 ? 1 : 7)
      EXPECT_NEAR(learning_rate(parse_schedule(s.text), 0.3, step), 0.3 * s.made(step), 1e-12)
          << s.text << ", step " << step;
}

} // namespace
} // namespace mailgrad

#include <mailgrad/optim/clip.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/optim/rules/muon.hpp>
#include <mailgrad/optim/rules/shampoo.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/data/allocations.hpp>
#include <mailgrad/tests/optim/rule_oracles.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace mailgrad {
namespace {

using namespace ::testing;
using testing::whole_variable_rules;
using testing::oracle::every_rule;
using testing::oracle::every_schedule;

// Every rule against PyTorch, step by step, on the problem that make_reference.py describes.

constexpr std::array<std::uint64_t, 4> recorded_steps{1, 2, 10, 100};
constexpr std::size_t dense_weights = 17;
constexpr std::int32_t table_rows = 6;
constexpr std::size_t table_width = 3;

struct trajectory {
  const char* name;
  const char* rule;
  double learning_rate;
  double l2;
  double weight_decay; ///< negative: the rule's own
  double clip_norm;
  const char* schedule;
  bool sparse;
  double weights[recorded_steps.size()][18]; ///< a sparse problem has one weight more than a dense one
};

const trajectory trajectories[] = {
#include "trajectories.inc"
};

std::ostream& operator<<(std::ostream& out, const trajectory& t) { return out << t.name; }

optimizer_options options_of(const trajectory& t) {
  optimizer_options options = parse_optimizer(t.rule);
  options.learning_rate = t.learning_rate;
  options.l2 = t.l2;
  if (t.weight_decay >= 0) options.weight_decay = t.weight_decay;
  options.clip_norm = t.clip_norm;
  options.schedule = parse_schedule(t.schedule);
  return options;
}

std::vector<float> first_weights(std::size_t n) {
  std::vector<float> w(n);
  for (std::size_t i = 0; i < n; ++i) w[i] = (static_cast<float>(i) - 8) / 8;
  return w;
}

float gradient_of(std::size_t i, float w, std::uint64_t step) {
  const float slope = 0.5F + static_cast<float>(i % 5) / 4;
  const float centre = (static_cast<float>(i % 3) - 1) / 2;
  const float noise = (static_cast<float>((i * 7 + step * 13) % 11) - 5) / 16;
  return slope * (w - centre) + noise;
}

void dense_step(optimizer& o, std::vector<float>& w, std::uint64_t step, double clip_norm) {
  std::vector<float> g(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) g[i] = gradient_of(i, w[i], step);
  const scaled_gradient one{g.data(), clip_factor(std::sqrt(sum_of_squares(host_stream{}, g)), clip_norm)};
  o.update(host_stream{}, {w, w, {&one, 1}, step});
}

void sparse_step(optimizer& o, std::vector<float>& w, std::uint64_t step) {
  const auto height = static_cast<std::uint64_t>(table_rows);
  const auto a = static_cast<std::int32_t>(step % height);
  const auto b = static_cast<std::int32_t>((2 * step + 1) % height);
  const std::array<std::int32_t, 3> rows{a, b, a};
  std::vector<float> values;
  for (std::size_t j = 0; j < rows.size(); ++j)
    for (std::size_t c = 0; c < table_width; ++c) {
      const std::size_t i = static_cast<std::size_t>(rows[j]) * table_width + c;
      values.push_back(gradient_of(i, w[i], step + j));
    }
  o.update_rows(host_stream{}, {w, table_width, rows, values, 1, step, 0, 0, table_rows});
}

class OptimizerTrajectory : public ::testing::TestWithParam<trajectory> {};

TEST_P(OptimizerTrajectory, IsThatOfPyTorch) {
  const trajectory& t = GetParam();
  const optimizer_options options = options_of(t);
  const std::size_t n = t.sparse ? table_rows * table_width : dense_weights;
  std::vector<float> w = first_weights(n);
  const auto o = make_optimizer(options, n);
  std::size_t next = 0;
  for (std::uint64_t step = 1; step <= recorded_steps.back(); ++step) {
    if (t.sparse)
      sparse_step(*o, w, step);
    else
      dense_step(*o, w, step, options.clip_norm);
    if (step != recorded_steps[next]) continue;
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_NEAR(w[i], t.weights[next][i], 1e-5 * std::abs(t.weights[next][i]) + 1e-6)
          << "step " << step << ", weight " << i;
    ++next;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryRule, OptimizerTrajectory, ValuesIn(trajectories),
                         [](const auto& test) { return std::string(test.param.name); });

// Every rule of whole variables against the formula of its paper, step by step, on the problem that
// make_matrix_reference.py describes.

constexpr std::array<std::uint64_t, 3> matrix_steps{1, 3, 20};
constexpr std::size_t matrix_weights = 34;

struct matrix_trajectory {
  const char* rule;
  double learning_rate;
  double weight_decay;
  double l2;
  const char* schedule;
  double weights[matrix_steps.size()][matrix_weights];
};

const matrix_trajectory matrix_trajectories[] = {
#include "matrix_trajectories.inc"
};

std::ostream& operator<<(std::ostream& out, const matrix_trajectory& t) { return out << t.rule; }

optimizer_options matrix_options_of(const matrix_trajectory& t) {
  optimizer_options o = parse_optimizer(t.rule);
  o.learning_rate = t.learning_rate;
  o.weight_decay = t.weight_decay;
  o.l2 = t.l2;
  o.schedule = parse_schedule(t.schedule);
  return o;
}

/// The variables of the problem, each on a cache line as in a shard.
std::vector<shard_variable> problem_variables() {
  return {{"wide", {2, 3}, 0},
          {"tall", {4, 3}, 16},
          {"filters", {1, 2, 2, 3}, 32},
          {"bias", {3}, 48},
          {"scale", {}, 64}};
}

constexpr std::size_t shard_floats = 80;

std::vector<float> first_matrices() {
  std::vector<float> w(shard_floats);
  const auto all = problem_variables();
  for (std::size_t v = 0; v < all.size(); ++v)
    for (std::size_t i = 0; i < all[v].dims.size(); ++i)
      w[all[v].offset + i] = (static_cast<float>((i * 5 + v * 3) % 17) - 8) / 8;
  return w;
}

std::vector<float> matrix_gradient(const std::vector<float>& w, std::uint64_t step) {
  std::vector<float> g(w.size());
  const auto all = problem_variables();
  for (std::size_t v = 0; v < all.size(); ++v)
    for (std::size_t k = 0; k < all[v].dims.size(); ++k)
      g[all[v].offset + k] = gradient_of(k + 7 * v, w[all[v].offset + k], step);
  return g;
}

std::unique_ptr<optimizer> made(const optimizer_options& o) {
  host_queue here;
  return make_optimizer(o, shard_floats, here, problem_variables());
}

std::vector<float> weights_of_variables(const std::vector<float>& w) {
  std::vector<float> found;
  for (const shard_variable& v : problem_variables())
    for (std::size_t i = 0; i < v.dims.size(); ++i) found.push_back(w[v.offset + i]);
  return found;
}

class MatrixTrajectory : public ::testing::TestWithParam<matrix_trajectory> {};

TEST_P(MatrixTrajectory, IsThatOfThePaper) {
  const auto o = made(matrix_options_of(GetParam()));
  std::vector<float> w = first_matrices();
  std::size_t next = 0;
  for (std::uint64_t step = 1; step <= matrix_steps.back(); ++step) {
    const std::vector<float> g = matrix_gradient(w, step);
    const scaled_gradient halves[] = {{g.data(), 0.25F}, {g.data(), 0.75F}};
    o->update(host_stream{}, {w, w, halves, step});
    if (step != matrix_steps[next]) continue;
    const std::vector<float> found = weights_of_variables(w);
    for (std::size_t i = 0; i < matrix_weights; ++i)
      EXPECT_NEAR(static_cast<double>(found[i]), GetParam().weights[next][i], 2e-4)
          << "step " << step << ", weight " << i;
    ++next;
  }
}

/// Trains in ranges of whole variables, from memory to memory or in place.
std::vector<float> trained_matrices(const optimizer_options& options, bool in_place, std::size_t cut) {
  const auto o = made(options);
  std::vector<float> w = first_matrices();
  std::vector<float> spare(shard_floats, 7);
  for (std::uint64_t step = 1; step <= 9; ++step) {
    const std::vector<float> g = matrix_gradient(w, step);
    std::vector<float>& to = in_place ? w : spare;
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, cut}, {cut, shard_floats}}) {
      const scaled_gradient one{g.data() + begin};
      o->update(host_stream{}, {std::span(w).subspan(begin, end - begin),
                                std::span(to).subspan(begin, end - begin),
                                {&one, 1},
                                step,
                                begin});
    }
    if (!in_place) std::swap(w, spare);
  }
  return weights_of_variables(w);
}

TEST_P(MatrixTrajectory, IsTheSameBitsInPlaceAndApartAndInRanges) {
  const optimizer_options o = matrix_options_of(GetParam());
  const std::vector<float> expected = trained_matrices(o, true, shard_floats);
  EXPECT_EQ(trained_matrices(o, false, shard_floats), expected);
  EXPECT_EQ(trained_matrices(o, true, 32), expected);
}

TEST_P(MatrixTrajectory, TakesNoMemory) {
  const auto o = made(matrix_options_of(GetParam()));
  std::vector<float> w = first_matrices();
  const std::vector<float> g = matrix_gradient(w, 1);
  const scaled_gradient one{g.data(), 0.5F};
  o->update(host_stream{}, {w, w, {&one, 1}, 1});
  const std::size_t before = allocations();
  for (std::uint64_t step = 2; step <= 12; ++step) o->update(host_stream{}, {w, w, {&one, 1}, step});
  EXPECT_EQ(allocations(), before);
}

TEST_P(MatrixTrajectory, ScalesItsStepByTheRateOfACure) {
  const optimizer_options options = matrix_options_of(GetParam());
  const auto move = [&](double rate) {
    const auto o = made(options);
    std::vector<float> w = first_matrices();
    const std::vector<float> g = matrix_gradient(w, 1);
    const scaled_gradient one{g.data()};
    o->update(host_stream{}, {w, w, {&one, 1}, 1, 0, rate});
    const std::vector<float> from = first_matrices();
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= from[i];
    return w;
  };
  const std::vector<float> whole = move(1), half = move(0.5), none = move(0);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(half[i], whole[i] / 2, 1e-5) << i;
    EXPECT_EQ(none[i], 0) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryRule, MatrixTrajectory, ValuesIn(matrix_trajectories), [](const auto& test) {
  std::string name = std::to_string(test.index) + test.param.rule;
  std::erase_if(name, [](char c) { return !std::isalnum(c); });
  return name;
});

// The rules of single weights and the schedules against oracles in doubles.

using vec = std::vector<double>;

/// Gradients of many magnitudes, as epsilons show in small ones; exact in float, so both sides see the same.
vec gradient(std::uint64_t step) {
  vec g;
  for (const double magnitude : {1e-10, 1e-8, 1e-3, 0.3, 1.0, 4.0}) {
    const auto angle = static_cast<double>(5 * step + 2 * g.size()) + 0.4;
    g.push_back(static_cast<double>(static_cast<float>(magnitude * std::sin(angle))));
  }
  return g;
}

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
  testing::oracle::weights expected({0, 0, 0.5, -1.25, 0.75, 2}, // the first two show the smallest steps
                                    pair.made, a.rate.value_or(pair.default_rate), shape->made, a.l2,
                                    a.decay.value_or(pair.default_decay));
  std::vector<float> w(expected.values.begin(), expected.values.end());
  const auto found = make_optimizer(options, w.size());
  vec largest(w.size()); // on the way: rounding is as large as the sums that it comes from
  for (std::uint64_t step = 1; step <= 12; ++step) {
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

// What the rules of whole variables are made of.

std::vector<float> drawn_matrix(std::size_t floats, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> m(floats);
  for (float& x : m) x = normal(random);
  return m;
}

/// a b of matrices of n rows, in doubles.
std::vector<double> product_of(const std::vector<double>& a, const std::vector<double>& b, std::size_t n) {
  std::vector<double> c(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
  return c;
}

/// The polynomial takes all singular values to about 0.7 to 1.2, and 1 itself to 0.696. Their mean square
/// is told by the sum of all squares.
TEST(NewtonSchulz, BringsRowsOrColumnsNearLengthOne) {
  for (const auto& [rows, columns] :
       {std::pair{5UL, 40UL}, {40UL, 5UL}, {1UL, 7UL}, {7UL, 1UL}, {1UL, 1UL}}) {
    newton_schulz n;
    n.expect({rows, columns});
    std::vector<float> x = drawn_matrix(rows * columns, 3);
    n.orthogonalise(x, {rows, columns});
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
    const double singular = std::sqrt(squares / static_cast<double>(std::min(rows, columns)));
    EXPECT_GT(singular, 0.69) << rows << " x " << columns;
    EXPECT_LT(singular, 1.2) << rows << " x " << columns;
  }
}

TEST(InverseRoot, TimesItselfAndTheMatrixIsTheIdentity) {
  for (const unsigned p : {2U, 4U})
    for (const std::size_t n : {1UL, 2UL, 9UL, 30UL}) {
      const std::vector<float> g = drawn_matrix(n * (n + 3), n);
      std::vector<float> a(n * n);
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          for (std::size_t k = 0; k < n + 3; ++k) a[i * n + j] += g[i * (n + 3) + k] * g[j * (n + 3) + k];
      for (std::size_t i = 0; i < n; ++i) a[i * n + i] += 0.5F;
      std::vector<float> root(n * n);
      inverse_root r;
      r.expect(n);
      ASSERT_TRUE(r.compute(n, p, a, root));
      std::vector<double> power(root.begin(), root.end());
      for (unsigned i = 1; i < p; ++i) power = product_of(power, {root.begin(), root.end()}, n);
      const std::vector<double> unit = product_of(power, {a.begin(), a.end()}, n);
      for (std::size_t i = 0; i < n * n; ++i)
        EXPECT_NEAR(unit[i], i % (n + 1) == 0 ? 1 : 0, 5e-3) << "p " << p << ", n " << n;
    }
}

/// After few updates L is of a low rank but for epsilon, which float32 hardly tells from 0.
TEST(InverseRoot, IsFoundForAMatrixOfRankOne) {
  constexpr std::size_t n = 12;
  const std::vector<float> g = drawn_matrix(n, 1);
  std::vector<float> a(n * n), root(n * n);
  double square = 1e-4;
  for (std::size_t i = 0; i < n; ++i) square += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) a[i * n + j] = g[i] * g[j] + (i == j ? 1e-4F : 0);
  inverse_root r;
  r.expect(n);
  ASSERT_TRUE(r.compute(n, 4, a, root));
  double along = 0; // g^T root g / |g|^2, which is the root of the only large eigenvalue
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      along += static_cast<double>(g[i]) * static_cast<double>(root[i * n + j]) * static_cast<double>(g[j]);
  EXPECT_NEAR(along / square, std::pow(square, -0.25), 1e-3);
}

TEST(InverseRoot, OfAMatrixWithANanIsNotFoundAndChangesNothing) {
  std::vector<float> a(4, std::numeric_limits<float>::quiet_NaN()), root(4, 5);
  inverse_root r;
  r.expect(2);
  EXPECT_FALSE(r.compute(2, 4, a, root));
  EXPECT_THAT(root, Each(5.0F));
}

TEST(AsMatrix, HasTheUnitsInItsColumns) {
  const auto dims = [](const shape& s) { return std::pair(as_matrix(s).rows, as_matrix(s).columns); };
  EXPECT_EQ(dims({3, 5}), std::pair(3UL, 5UL));
  EXPECT_EQ(dims({2, 3, 4, 5}), std::pair(24UL, 5UL));
  EXPECT_EQ(dims({7}), std::pair(1UL, 7UL));
  EXPECT_EQ(dims({}), std::pair(1UL, 1UL));
}

TEST(Muon, LeavesVectorsAndWhatTheUserNamesToAdamw) {
  const auto o = std::get<muon_options>(parse_optimizer("muon:adamw=head+embed").rule);
  EXPECT_TRUE(takes_adamw(o, {"bias", {4}, 0}));
  EXPECT_TRUE(takes_adamw(o, {"scale", {}, 0}));
  EXPECT_TRUE(takes_adamw(o, {"head/weights", {4, 4}, 0}));
  EXPECT_TRUE(takes_adamw(o, {"my_embedding", {4, 4}, 0}));
  EXPECT_FALSE(takes_adamw(o, {"hidden/weights", {4, 4}, 0}));
  EXPECT_THAT(words_for_adamw(o), ElementsAre("head", "embed"));
  const auto usual = std::get<muon_options>(parse_optimizer("muon").rule);
  EXPECT_TRUE(takes_adamw(usual, {"tokens/table", {4, 4}, 0}));
  EXPECT_TRUE(takes_adamw(usual, {"logits/weights", {4, 4}, 0}));
  EXPECT_FALSE(
      takes_adamw(std::get<muon_options>(parse_optimizer("muon:adamw=").rule), {"logits", {4, 4}, 0}));
}

TEST(VariableRules, AreKnown) {
  EXPECT_THAT(whole_variable_rules(), ElementsAre("lars", "lamb", "muon", "shampoo"));
}

TEST(VariableRules, AskForVariablesThatLieWholeInTheRange) {
  for (const std::string_view rule : whole_variable_rules()) {
    const optimizer_options options = parse_optimizer(rule);
    EXPECT_THAT([&] { make_optimizer(options, 8); }, ThrowsMessage<std::invalid_argument>(HasSubstr(
                                                         "looks at whole variables, and is told of none")));
    host_queue here;
    const auto o = make_optimizer(options, 32, here, {{"a", {2, 8}, 0}, {"b", {2, 2}, 16}});
    EXPECT_FALSE(o->divides());
    std::vector<float> w(32, 1);
    const std::vector<float> g(32, 1);
    const auto update = [&](std::size_t first, std::size_t count) {
      const scaled_gradient one{g.data()};
      const std::span<float> part = std::span(w).subspan(first, count);
      o->update(host_stream{}, {part, part, {&one, 1}, 1, first});
    };
    EXPECT_THAT([&] { update(0, 15); }, ThrowsMessage<shape_error>(HasSubstr("within variable 'a'")));
    EXPECT_THAT([&] { update(4, 28); }, ThrowsMessage<shape_error>(HasSubstr("within variable 'a'")));
    EXPECT_THROW(update(16, 17), shape_error);
    EXPECT_THAT(w, Each(1.0F));
    EXPECT_THROW(make_optimizer(options, 32, here, {{"a", {2, 8}, 20}}), shape_error);
  }
}

/// Three weights of 0 after an update.
std::vector<float> moved_once(std::string_view rule, const std::vector<float>& g, float scale) {
  std::vector<float> w(3);
  host_queue here;
  optimizer_options options = parse_optimizer(rule);
  options.weight_decay = 0;
  const scaled_gradient one{g.data(), scale};
  make_optimizer(options, w.size(), here, {{"a", {w.size()}, 0}})
      ->update(host_stream{}, {w, w, {&one, 1}, 1});
  return w;
}

TEST(VariableRules, LearnFromTheWeightZero) {
  for (const std::string_view rule : whole_variable_rules())
    EXPECT_THAT(moved_once(rule, {1, 2, 3}, 1), Each(Lt(0.0F))) << rule;
}

TEST(VariableRules, ScaleASingleGradient) {
  for (const std::string_view rule : {"lars", "lamb:epsilon=1", "muon:epsilon=1", "shampoo:epsilon=1"})
    EXPECT_EQ(moved_once(rule, {1, 2, 3}, 0.5F), moved_once(rule, {0.5F, 1, 1.5F}, 1)) << rule;
}

TEST(VariableRules, UpdateRowsByAdamwOrAdagradOrNotAtAll) {
  const std::vector<std::int32_t> rows{1, 1};
  const std::vector<float> values{1, 2, 3, 4};
  const auto updated = [&](const optimizer_options& options, std::vector<shard_variable> variables) {
    host_queue here;
    std::vector<float> w{1, 1, 1, 1};
    make_optimizer(options, 4, here, std::move(variables))
        ->update_rows(host_stream{},
                      {.weights = w, .width = 2, .rows = rows, .values = values, .row_end = 2});
    return w;
  };
  const std::vector<shard_variable> table{{"table", {2, 2}, 0, true}};
  optimizer_options adamw = parse_optimizer("adamw:beta2=0.95,epsilon=1e-10");
  adamw.learning_rate = 0.01;
  adamw.weight_decay = 0;
  EXPECT_EQ(updated(parse_optimizer("muon:adamw_rate=0.01"), table), updated(adamw, {}));
  optimizer_options adagrad = parse_optimizer("adagrad:epsilon=1e-4");
  adagrad.learning_rate = 0.1;
  EXPECT_EQ(updated(parse_optimizer("shampoo"), table), updated(adagrad, {}));
  for (const char* rule : {"lars", "lamb"})
    EXPECT_THROW(updated(parse_optimizer(rule), table), std::invalid_argument) << rule;
}

TEST(VariableRules, AreRefusedWithNumbersOutOfTheirRange) {
  for (const char* text : {"lars:momentum=1", "lamb:beta1=2", "muon:nesterov=perhaps", "muon:momentum=-1",
                           "shampoo:every=0", "shampoo:largest=70000", "lars:beta1=0.5"})
    EXPECT_THROW(parse_optimizer(text), std::invalid_argument) << text;
  EXPECT_THROW(require_valid({.rule = shampoo_options{.epsilon = 0}}), std::invalid_argument);
  EXPECT_THROW(require_valid({.rule = shampoo_options{.every = 0}}), std::invalid_argument);
  EXPECT_THROW(require_valid({.rule = muon_options{.momentum = 1}}), std::invalid_argument);
}

} // namespace
} // namespace mailgrad

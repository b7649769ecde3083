#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/optim/rules/muon.hpp>
#include <mailgrad/optim/rules/shampoo.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing::whole_variable_rules;

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

TEST(NewtonSchulz, IsTheSameForATransposedMatrix) {
  std::vector<float> wide = drawn_matrix(3 * 8, 5), tall(wide.size());
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 8; ++j) tall[j * 3 + i] = wide[i * 8 + j];
  newton_schulz n;
  n.expect({3, 8});
  n.expect({8, 3});
  n.orthogonalise(wide, {3, 8});
  n.orthogonalise(tall, {8, 3});
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 8; ++j) EXPECT_NEAR(tall[j * 3 + i], wide[i * 8 + j], 1e-4);
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
  EXPECT_THAT(words_for_adamw(o), ::testing::ElementsAre("head", "embed"));
  const auto usual = std::get<muon_options>(parse_optimizer("muon").rule);
  EXPECT_TRUE(takes_adamw(usual, {"tokens/table", {4, 4}, 0}));
  EXPECT_TRUE(takes_adamw(usual, {"logits/weights", {4, 4}, 0}));
  EXPECT_FALSE(
      takes_adamw(std::get<muon_options>(parse_optimizer("muon:adamw=").rule), {"logits", {4, 4}, 0}));
}

TEST(VariableRules, AreKnown) {
  EXPECT_THAT(whole_variable_rules(), ::testing::ElementsAre("lars", "lamb", "muon", "shampoo"));
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

std::vector<float> moved_once(std::string_view rule, std::vector<float> w, const std::vector<float>& g,
                              float scale) {
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
    EXPECT_THAT(moved_once(rule, {0, 0, 0}, {1, 2, 3}, 1), Each(::testing::Lt(0.0F))) << rule;
}

TEST(VariableRules, ScaleASingleGradient) {
  for (const std::string_view rule : {"lars", "lamb:epsilon=1", "muon:epsilon=1", "shampoo:epsilon=1"})
    EXPECT_EQ(moved_once(rule, {0, 0, 0}, {1, 2, 3}, 0.5F), moved_once(rule, {0, 0, 0}, {0.5F, 1, 1.5F}, 1))
        << rule;
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

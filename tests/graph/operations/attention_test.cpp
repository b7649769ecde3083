#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

namespace mailgrad {
namespace {

using test::drawn_variable, test::expect_gradients, test::feeds, test::is_refused, test::is_refused_here,
    test::random_tensor, test::run_once;
using testing::FloatNear, testing::Pointwise;

struct sizes {
  std::size_t batch, window, heads, head_width;
  shape qkv() const { return {batch, window, 3 * heads * head_width}; }
};

/// Tiles that fit, that do not, and a window of one.
const std::vector<sizes> all_sizes{{2, 64, 4, 32}, {1, 33, 2, 16}, {2, 7, 3, 5},
                                   {1, 1, 2, 3},   {3, 20, 1, 17}, {1, 50, 1, 8}};

/// The formula, one number at a time.
std::vector<float> by_loops(const sizes& s, std::span<const float> qkv) {
  const std::size_t width = s.heads * s.head_width;
  std::vector<float> y(s.batch * s.window * width, 0.0F);
  const auto at = [&](std::size_t b, std::size_t position, std::size_t part, std::size_t head,
                      std::size_t n) {
    return double{qkv[((b * s.window + position) * 3 + part) * width + head * s.head_width + n]};
  };
  for (std::size_t b = 0; b < s.batch; ++b)
    for (std::size_t h = 0; h < s.heads; ++h)
      for (std::size_t i = 0; i < s.window; ++i) {
        std::vector<double> weights;
        double sum = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t n = 0; n < s.head_width; ++n) score += at(b, i, 0, h, n) * at(b, j, 1, h, n);
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(s.head_width))));
          sum += weights.back();
        }
        for (std::size_t n = 0; n < s.head_width; ++n) {
          double mean = 0;
          for (std::size_t j = 0; j <= i; ++j) mean += weights[j] / sum * at(b, j, 2, h, n);
          y[(b * s.window + i) * width + h * s.head_width + n] = static_cast<float>(mean);
        }
      }
  return y;
}

/// The same from other operations.
value composed(const value& qkv, const sizes& s) {
  std::vector<value> parts;
  for (const value& part : split(qkv, 2, std::vector<std::size_t>(3, s.heads * s.head_width)))
    parts.push_back(transpose(reshape(part, {s.batch, s.window, s.heads, s.head_width}), {0, 2, 1, 3}));
  tensor mask({s.window, s.window});
  for (std::size_t i = 0; i < s.window; ++i)
    for (std::size_t j = i + 1; j < s.window; ++j) mask.values()[i * s.window + j] = -1e9F;
  const value scores = matmul(parts[0], parts[1], {.b = operand_order::transposed}) *
                       (1 / std::sqrt(static_cast<float>(s.head_width)));
  const value y = matmul(softmax(scores + qkv.owner().constant(std::move(mask))), parts[2]);
  return reshape(transpose(y, {0, 2, 1, 3}), {s.batch, s.window, s.heads * s.head_width});
}

using CausalAttention = test::operation_test;

TEST_F(CausalAttention, IsTheFormula) {
  for (const sizes& s : all_sizes) {
    graph fresh;
    const tensor numbers = random_tensor(s.qkv(), 5, -2, 2);
    const value qkv = fresh.input("qkv", s.qkv());
    EXPECT_THAT(run_once(causal_attention(qkv, s.heads), {{qkv, numbers}}),
                Pointwise(FloatNear(2e-6F), by_loops(s, numbers.values())))
        << "window " << s.window;
  }
}

TEST_F(CausalAttention, AgreesWithOtherOperationsInItsGradient) {
  for (const sizes& s : all_sizes) {
    graph fresh;
    const value qkv = fresh.input("qkv", s.qkv());
    const value factors = fresh.constant(random_tensor({s.batch, s.window, s.heads * s.head_width}, 6));
    const auto gradient_of = [&](const value& y) {
      return *gradients(reduce_sum(y * factors), std::vector{qkv})[0].dense;
    };
    const feeds fed{{qkv, random_tensor(s.qkv(), 5, -2, 2)}};
    EXPECT_THAT(run_once(gradient_of(causal_attention(qkv, s.heads)), fed),
                Pointwise(FloatNear(5e-6F), run_once(gradient_of(composed(qkv, s)), fed)))
        << "window " << s.window;
  }
}

TEST_F(CausalAttention, HasAGradient) {
  for (const sizes& s : {sizes{1, 5, 2, 3}, sizes{2, 9, 1, 4}}) {
    graph fresh;
    const value qkv = drawn_variable(fresh, "qkv", s.qkv());
    expect_gradients(causal_attention(qkv, s.heads), {qkv});
  }
}

TEST_F(CausalAttention, DoesNotReadWhatComesLater) {
  const sizes s{1, 20, 2, 8};
  const value qkv = g.input("qkv", s.qkv()), y = causal_attention(qkv, s.heads);
  tensor numbers = random_tensor(s.qkv(), 5);
  const auto before = run_once(y, {{qkv, numbers}});
  const std::size_t later = 13; // positions from here on become others, in the middle of a tile
  for (float& n : numbers.values().subspan(later * 3 * 16)) n = 3 - n;
  const auto after = run_once(y, {{qkv, numbers}});
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + later * 16, after.begin()));
  EXPECT_NE(before[later * 16], after[later * 16]);
}

TEST_F(CausalAttention, NamesTheLineAndTheShape) {
  const value x = g.input("x", {2, 3, 24});
  EXPECT_THAT([&] { causal_attention(x, 5); },
              is_refused_here("causal_attention(float32 2x3x24)", "a last extent of 3 * 5 * n is expected"));
  EXPECT_THAT([&] { causal_attention(x, 0); }, is_refused("there must be a head"));
  const value flat = g.input("flat", {2, 24}), tokens = g.input("tokens", {2, 3, 24}, dtype::int32);
  EXPECT_THAT([&] { causal_attention(flat, 2); }, is_refused("expected batch x window x 3 * width"));
  EXPECT_THAT([&] { causal_attention(tokens, 2); }, is_refused("are float32"));
}

} // namespace
} // namespace mailgrad

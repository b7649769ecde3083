#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/attention.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {
namespace {

using testing::Combine, testing::Values, testing::bfloat16_bits, testing::expect_close, testing::floats_of,
    testing::normal_values, testing::numbers_at, testing::shifted_array;

/// Operands, and what the host makes of them.
struct attended {
  attention_shape a;
  std::size_t numbers = a.batch * a.window * a.width();
  std::vector<float> qkv = normal_values(3 * numbers, 1), dy = normal_values(numbers, 2);
  std::vector<float> y, log_sums, dqkv;

  explicit attended(const attention_shape& of) : a(of) { compute(); }

  /// The same of operands that are numbers of bfloat16.
  static attended of_rounded(const attention_shape& a) {
    attended made(a);
    for (std::vector<float>* x : {&made.qkv, &made.dy}) *x = floats_of(bfloat16_bits(*x));
    made.compute();
    return made;
  }

  void compute() {
    const attention_workspace workspace = attention_workspace_on(device_kind::cpu, a);
    std::vector<float> probabilities(workspace.kept_floats);
    const block scratch(std::max<std::size_t>(workspace.scratch_bytes, workspace.gradient_scratch_bytes));
    auto* const memory = const_cast<std::byte*>(scratch.data());
    y.resize(numbers);
    dqkv.resize(qkv.size());
    causal_attention(host_stream{}, a, qkv.data(), y.data(), probabilities.data(), memory);
    causal_attention_gradient(host_stream{}, a, qkv.data(), y.data(), probabilities.data(), dy.data(),
                              dqkv.data(), memory);
    compute_log_sums();
  }

  /// The number of a query (part 0), a key (1) or a value (2).
  float& number(std::size_t sample, std::size_t position, std::size_t part, std::size_t head, std::size_t i) {
    return qkv[((sample * a.window + position) * 3 + part) * a.width() + head * a.head_width + i];
  }

private:
  double score(std::size_t sample, std::size_t head, std::size_t query, std::size_t key) {
    double sum = 0;
    for (std::size_t i = 0; i < a.head_width; ++i)
      sum += static_cast<double>(number(sample, query, 0, head, i)) *
             static_cast<double>(number(sample, key, 1, head, i));
    return sum / std::sqrt(static_cast<double>(a.head_width));
  }
  void compute_log_sums() {
    log_sums.clear();
    for (std::size_t sample = 0; sample < a.batch; ++sample)
      for (std::size_t head = 0; head < a.heads; ++head)
        for (std::size_t query = 0; query < a.window; ++query) {
          double largest = score(sample, head, query, 0), sum = 0;
          for (std::size_t key = 1; key <= query; ++key)
            largest = std::max(largest, score(sample, head, query, key));
          for (std::size_t key = 0; key <= query; ++key)
            sum += std::exp(score(sample, head, query, key) - largest);
          log_sums.push_back(static_cast<float>(largest + std::log(sum)));
        }
  }
};

class gpu_attention_test : public testing::gpu_test {
protected:
  struct results {
    std::vector<float> y, log_sums, dqkv;
  };
  float* const no_floats = nullptr;
  const bfloat16* const no_bfloat16s = nullptr;

  /// With operands and results that are float32, or bfloat16 as bits.
  template <class Operand = float, class Result = float>
  results on_gpu(const attended& of, std::size_t shift = 0) {
    const attention_workspace workspace = attention_workspace_on(device_kind::cuda, of.a);
    const shifted_array<Operand> qkv(queue(), as<Operand>(of.qkv), shift),
        dy(queue(), as<Operand>(of.dy), shift);
    const shifted_array<Result> y(queue(), of.numbers, shift), dqkv(queue(), of.qkv.size(), shift);
    const auto log_sums = unwritten<float>(workspace.kept_floats),
               scratch = unwritten<float>(workspace.gradient_scratch_bytes / sizeof(float));
    causal_attention(gpu(), of.a, numbers_at(qkv), numbers_at(y), log_sums.data(), nullptr);
    causal_attention_gradient(gpu(), of.a, numbers_at(qkv), numbers_at(y), log_sums.data(), numbers_at(dy),
                              numbers_at(dqkv), scratch.data());
    return {as<float>(y.read()), log_sums.read(), as<float>(dqkv.read())};
  }
  template <class T, class Given>
  static std::vector<T> as(const std::vector<Given>& values) {
    if constexpr (std::is_same_v<T, Given>)
      return values;
    else if constexpr (std::is_same_v<T, float>)
      return floats_of(values);
    else
      return bfloat16_bits(values);
  }

  results in(product_precision p, const attended& of) {
    return p == product_precision::bfloat16 ? on_gpu<std::uint16_t>(of) : on_gpu(of);
  }

  /// A weight is rounded by 2^-8 of itself. Those of a row of results add up to 1; those of the gradient are
  /// differences, each rounded.
  void expect_nearly_as_on_host(const attended& of, std::size_t shift = 0) {
    const results found = on_gpu<std::uint16_t>(of, shift);
    expect_close(found.log_sums, of.log_sums);
    const auto expect_within = [](const std::vector<float>& x, const std::vector<float>& expected,
                                  double share) {
      double largest = 1;
      for (const float v : expected) largest = std::max(largest, std::abs(static_cast<double>(v)));
      ASSERT_EQ(x.size(), expected.size());
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], expected[i], share * largest) << i;
    };
    expect_within(found.y, of.y, 0x1p-9);
    expect_within(found.dqkv, of.dqkv, 0x1p-8);
    const results rounded = on_gpu<std::uint16_t, std::uint16_t>(of, shift);
    EXPECT_EQ(rounded.log_sums, found.log_sums);
    EXPECT_EQ(rounded.y, floats_of(bfloat16_bits(found.y)));
    expect_within(rounded.dqkv, of.dqkv, 0x1p-7); // which also reads a rounded result
  }

  void expect_as_on_host(const attended& of, std::size_t shift = 0, float scale = 1) {
    const results found = on_gpu(of, shift);
    expect_close(found.y, of.y, scale);
    expect_close(found.log_sums, of.log_sums, scale);
    expect_close(found.dqkv, of.dqkv, 2 * scale);
  }
};

/// Batch, window, heads and numbers of a head.
class GpuAttention
    : public gpu_attention_test,
      public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>> {
protected:
  attention_shape shape_of_case() const {
    const auto [batch, window, heads, width] = GetParam();
    return {batch, window, heads, width};
  }
};

TEST_P(GpuAttention, HasTheResultAndTheGradientOfTheHost) { expect_as_on_host(attended(shape_of_case())); }

TEST_P(GpuAttention, InBfloat16HasNearlyTheResultAndTheGradientOfTheHost) {
  expect_nearly_as_on_host(attended::of_rounded(shape_of_case()));
}

// A window of one position, one less than a tile, a tile, one more, and several tiles with a rest.
const auto every_window = Values(1U, 2U, 31U, 32U, 33U, 63U, 64U, 65U, 127U, 128U, 129U, 200U);
const auto every_width = Values(1U, 5U, 16U, 20U, 32U, 33U, 48U, 80U, 96U, 100U, 127U, 128U);
INSTANTIATE_TEST_SUITE_P(Windows, GpuAttention, Combine(Values(1U), every_window, Values(2U), Values(64U)));
INSTANTIATE_TEST_SUITE_P(Heads, GpuAttention, Combine(Values(2U), Values(3U), Values(1U, 3U), every_width));
INSTANTIATE_TEST_SUITE_P(Widths, GpuAttention, Combine(Values(1U), Values(70U), Values(2U), every_width));
INSTANTIATE_TEST_SUITE_P(HeadsOfSeveralTiles, GpuAttention, Values(std::tuple(2U, 70U, 3U, 64U)));
INSTANTIATE_TEST_SUITE_P(ManyTiles, GpuAttention, Values(std::tuple(1U, 401U, 1U, 64U)));

using GpuAttentionEdges = gpu_attention_test;

TEST_F(GpuAttentionEdges, ArraysMayStartAtAnyFloat) {
  for (const std::size_t width : {8U, 64U, 96U, 128U}) expect_as_on_host(attended({1, 70, 2, width}), 1);
}

TEST_F(GpuAttentionEdges, InBfloat16ArraysMayStartAtAnyNumber) {
  for (const std::size_t width : {8U, 64U, 96U, 128U})
    expect_nearly_as_on_host(attended::of_rounded({1, 70, 2, width}), 1);
}

TEST_F(GpuAttentionEdges, GivesTheSameBitsTwice) {
  const attended of({2, 150, 2, 64});
  for (const auto p : {product_precision::float32, product_precision::bfloat16}) {
    const results first = in(p, of), second = in(p, of);
    EXPECT_EQ(first.y, second.y);
    EXPECT_EQ(first.dqkv, second.dqkv);
  }
}

TEST_F(GpuAttentionEdges, AQueryDoesNotSeeWhatIsBehindIt) {
  for (const auto p : {product_precision::float32, product_precision::bfloat16})
    for (const std::size_t width : {32U, 64U, 96U, 128U}) {
      attended of({1, 140, 1, width});
      const results before = in(p, of);
      for (std::size_t part = 1; part < 3; ++part)
        for (std::size_t i = 0; i < width; ++i) of.number(0, 100, part, 0, i) += 3;
      const results after = in(p, of);
      for (std::size_t position = 0; position < of.a.window; ++position) {
        const auto there = before.y.begin() + static_cast<std::ptrdiff_t>(position * width);
        const bool same = std::equal(there, there + static_cast<std::ptrdiff_t>(width),
                                     after.y.begin() + (there - before.y.begin()));
        EXPECT_EQ(same, position < 100) << position;
      }
    }
}

TEST_F(GpuAttentionEdges, ScoresMayBeTooLargeForTheirExponentials) {
  attended of({1, 90, 1, 64});
  for (std::size_t position = 0; position < of.a.window; ++position)
    for (std::size_t i = 0; i < 64; ++i) of.number(0, position, 0, 0, i) *= 40; // scores of several hundreds
  of.compute();
  const results found = on_gpu(of);
  for (const float log_sum : of.log_sums) ASSERT_TRUE(std::isfinite(log_sum));
  // A score of 300 is rounded to 3e-5, and so differs by as much from that of another order of its sum.
  expect_close(found.y, of.y, 20);
  expect_close(found.log_sums, of.log_sums, 20);
  expect_close(found.dqkv, of.dqkv, 500);
}

TEST_F(GpuAttentionEdges, LargeNegativeScoresOfTheFirstTilesAreForgotten) {
  attended of({1, 140, 1, 64});
  for (std::size_t position = 0; position < of.a.window; ++position)
    for (std::size_t i = 0; i < 64; ++i) {
      of.number(0, position, 0, 0, i) = 4;
      of.number(0, position, 1, 0, i) = position < 70 ? -10.F : static_cast<float>(position % 3) / 64;
    }
  of.compute();
  expect_as_on_host(of, 0, 4);
}

TEST_F(GpuAttentionEdges, ANanSpoilsOnlyWhatSeesIt) {
  attended of({1, 80, 1, 64});
  of.number(0, 50, 0, 0, 3) = std::numeric_limits<float>::quiet_NaN();
  for (const auto p : {product_precision::float32, product_precision::bfloat16}) {
    const results found = in(p, of);
    for (std::size_t position = 0; position < of.a.window; ++position)
      EXPECT_EQ(std::isnan(found.y[position * 64]), position == 50) << name(p) << ' ' << position;
  }
}

TEST_F(GpuAttentionEdges, RefusesHeadsThatAreTooWide) {
  EXPECT_THROW(attention_workspace_on(device_kind::cuda, {1, 4, 1, 129}), shape_error);
  EXPECT_NO_THROW(attention_workspace_on(device_kind::cpu, {1, 4, 1, 129}));
  EXPECT_THROW(causal_attention(gpu(), {1, 4, 1, 129}, no_floats, no_floats, nullptr, nullptr), shape_error);
  EXPECT_THROW(causal_attention(gpu(), {1, 4, 1, 129}, no_bfloat16s, no_floats, nullptr, nullptr),
               shape_error);
  EXPECT_THROW(causal_attention(host_stream{}, {1, 4, 1, 8}, no_bfloat16s, no_floats, nullptr, nullptr),
               device_error);
}

TEST_F(GpuAttentionEdges, OfNothingIsNothing) {
  for (const attention_shape& a : {attention_shape{0, 4, 1, 8}, {1, 0, 1, 8}, {1, 4, 0, 8}}) {
    causal_attention(gpu(), a, no_floats, no_floats, nullptr, nullptr);
    causal_attention_gradient(gpu(), a, no_floats, no_floats, nullptr, no_floats, no_floats, nullptr);
    causal_attention(gpu(), a, no_bfloat16s, no_floats, nullptr, nullptr);
    causal_attention_gradient(gpu(), a, no_bfloat16s, no_floats, nullptr, no_bfloat16s, no_floats, nullptr);
  }
}

} // namespace
} // namespace mailgrad

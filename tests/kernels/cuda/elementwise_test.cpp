#include "../../support/generated_kernels.hpp"
#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>

#include <bit>
#include <deque>

namespace mailgrad {
namespace {

using enum elementwise_function;
using testing::expect_close, testing::expect_same, testing::normal_values, testing::one_shifted_of,
    testing::positive_values, testing::twin;

/// Of arrays one behind the other. All numbers that are none are one: their bits depend on the order of
/// operands.
std::vector<std::uint32_t> bits_of(const std::vector<std::vector<float>>& arrays) {
  std::vector<std::uint32_t> bits;
  for (const auto& values : arrays)
    for (const float v : values)
      bits.push_back(std::isnan(v) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(v));
  return bits;
}

class GpuElementwise : public testing::gpu_test {
protected:
  /// The outputs of a chain, of operands that are positive, since a logarithm and a root are among the
  /// functions. Inputs are shifted by the first of `shifts`, outputs by those behind.
  std::deque<twin<float>> computed(const elementwise_chain& chain, std::size_t outputs, std::size_t n,
                                   const std::vector<std::size_t>& shifts) {
    std::deque<twin<float>> inputs, found;
    for (std::size_t i = 0; i < chain.input_count; ++i) {
      const std::size_t size = chain.inputs[i] == elementwise_chain::extent::full ? n : 1;
      inputs.push_back(given(positive_values(size, i), shifts[i]));
    }
    for (std::size_t i = 0; i < outputs; ++i) found.push_back(wanted(n, shifts[chain.input_count + i]));
    block scratch(chain.scratch_bytes());
    on_both([&](const stream& s, auto at) {
      std::vector<const void*> from;
      std::vector<void*> to;
      for (const auto& x : inputs) from.push_back(at(x));
      for (auto& y : found) to.push_back(at(y));
      elementwise(s, chain, from, to, n, std::holds_alternative<host_stream>(s) ? scratch.data() : nullptr);
    });
    queue().finish(); // before the inputs go
    return found;
  }
  std::vector<std::vector<float>> on_the_gpu(const elementwise_chain& chain, std::size_t outputs,
                                             std::size_t n, const std::vector<std::size_t>& shifts) {
    std::vector<std::vector<float>> found;
    for (const auto& y : computed(chain, outputs, n, shifts)) found.push_back(y.there.read());
    return found;
  }
  void expect_as_on_host(const elementwise_chain& chain, std::size_t outputs, std::size_t n,
                         std::size_t shift = 0) {
    expect_as_on_host(chain, outputs, n, std::vector<std::size_t>(chain.input_count + outputs, shift));
  }
  void expect_as_on_host(const elementwise_chain& chain, std::size_t outputs, std::size_t n,
                         const std::vector<std::size_t>& shifts) {
    for (const auto& y : computed(chain, outputs, n, shifts)) expect_close(y);
  }
};

elementwise_chain chain_of(std::initializer_list<elementwise_chain::step> steps, std::size_t inputs) {
  elementwise_chain chain;
  chain.input_count = static_cast<std::uint8_t>(inputs);
  for (const auto& step : steps) chain.steps[chain.step_count++] = step;
  return chain;
}

TEST_F(GpuElementwise, AppliesEachFunctionAsTheHostDoes) {
  for (auto f = copy; f <= testing::last_function;
       f = static_cast<elementwise_function>(static_cast<int>(f) + 1)) {
    SCOPED_TRACE(static_cast<int>(f));
    const std::uint8_t second = is_unary(f) ? 0 : 1;
    elementwise_chain chain = chain_of({{f, 0, second, 0}}, 2);
    expect_as_on_host(chain, 1, 2003);
    expect_as_on_host(chain, 1, 2003, 1);
    chain.inputs[0] = elementwise_chain::extent::one;
    expect_as_on_host(chain, 1, 77);
    chain.inputs = {elementwise_chain::extent::full, elementwise_chain::extent::one};
    expect_as_on_host(chain, 1, 77);
    // The same, in a chain whose second step is the first of it once more.
    expect_as_on_host(chain_of({{f, 0, second, 0}, {copy, 2, 2, 1}}, 2), 2, 77);
  }
}

TEST_F(GpuElementwise, TakesAnyNumberOfElements) {
  for (const std::size_t n : {0U, 1U, 3U, 4U, 5U, 511U, 512U, 2047U, 2049U, 50001U})
    for (const std::size_t shift : {0U, 1U}) {
      SCOPED_TRACE(std::to_string(n) + " from " + std::to_string(shift));
      expect_as_on_host(chain_of({{subtract, 0, 1, 0}}, 2), 1, n, shift);
      expect_as_on_host(chain_of({{subtract, 0, 1, -1}, {square, 2, 2, 0}}, 2), 1, n, shift);
    }
}

TEST_F(GpuElementwise, TakesEachArrayAtAnyFloat) {
  const elementwise_chain step = chain_of({{subtract, 0, 1, 0}}, 2);
  for (const auto& shifts : one_shifted_of(3)) expect_as_on_host(step, 1, 100, shifts);
  const elementwise_chain chain = chain_of({{subtract, 0, 1, 0}, {multiply, 3, 2, 1}}, 3);
  for (const auto& shifts : one_shifted_of(5)) expect_as_on_host(chain, 2, 100, shifts);
}

TEST_F(GpuElementwise, ComputesTheLongestChain) {
  elementwise_chain chain = chain_of({{add, 0, 1, 0},
                                      {multiply, 8, 2, -1},
                                      {subtract, 9, 3, 1},
                                      {divide, 4, 8, -1}, // a result from further back
                                      {add, 11, 9, -1},   // two of them
                                      {multiply, 12, 12, 2},
                                      {subtract, 5, 6, -1}, // no result at all
                                      {add, 14, 7, 3}},
                                     8);
  chain.inputs[3] = chain.inputs[6] = elementwise_chain::extent::one;
  for (const std::size_t n : {1U, 515U, 9001U}) expect_as_on_host(chain, 4, n);
}

TEST_F(GpuElementwise, WritesToTheMemoryOfAnInput) {
  const auto a = array(positive_values(1001, 0)), b = array(positive_values(1001, 1));
  const elementwise_chain chain = chain_of({{add, 0, 1, 0}, {multiply, 2, 2, 1}}, 2);
  const std::array<const void*, 2> inputs{a.data(), b.data()};
  const std::array<void*, 2> outputs{a.data(), b.data()};
  elementwise(gpu(), chain, inputs, outputs, a.size(), nullptr);
  const auto expected = computed(chain, 2, a.size(), {0, 0, 0, 0});
  expect_close(a.read(), expected[0].here);
  expect_close(b.read(), expected[1].here);
}

/// The first call finds no kernel. On the simulated GPU each takes a second to compile, and
/// simulator/chains_test.cpp compiles more of them at once.
TEST_F(GpuElementwise, GivesTheSameBitsWhenTheKernelOfAChainHasCome) {
#ifdef MAILGRAD_SIMULATED_GPU
  constexpr std::uint64_t chains = 2;
#else
  constexpr std::uint64_t chains = 60;
#endif
  const testing::with_generated_kernels generated;
  if (const std::string why = cuda::format_generated_kernels(); why.starts_with("none")) GTEST_SKIP() << why;
  cuda::chain_kernels& kernels = cuda::chain_kernels::of_process();
  for (std::uint64_t seed = 1000; seed < 1000 + chains; ++seed) {
    const elementwise_chain chain = testing::drawn_chain(seed);
    const std::size_t outputs = testing::outputs_of(chain);
    for (const std::size_t shift : {0U, 1U}) {
      const std::vector<std::size_t> shifts(chain.input_count + outputs, shift);
      cuda::compute(cuda::chains::interpreted);
      const auto interpreted = on_the_gpu(chain, outputs, 5003, shifts);
      cuda::compute(cuda::chains::generated);
      on_the_gpu(chain, outputs, 5003, shifts);
      kernels.finish();
      ASSERT_NE(kernels.find(chain, 0), nullptr) << kernels.why_none();
      EXPECT_EQ(bits_of(on_the_gpu(chain, outputs, 5003, shifts)), bits_of(interpreted)) << "chain " << seed;
    }
  }
}

TEST_F(GpuElementwise, RefusesAChainThatRefersToNothing) {
  const auto x = array(positive_values(4, 0));
  const std::array<const void*, 1> inputs{x.data()};
  const std::array<void*, 1> outputs{x.data()};
  EXPECT_THROW(elementwise(gpu(), chain_of({{add, 0, 1, 0}}, 1), inputs, outputs, 4, nullptr), shape_error);
}

/// Shapes of two operands and of their result.
struct broadcast_shapes {
  shape a, b, result;
};

class GpuBroadcast : public testing::gpu_test {
protected:
  void expect_as_on_host(elementwise_function f, const broadcast_shapes& shapes, std::size_t shift) {
    SCOPED_TRACE(to_string(shapes.a) + " and " + to_string(shapes.b) + " from " + std::to_string(shift));
    const broadcast_plan plan = plan_broadcast(shapes.a, shapes.b, shapes.result);
    const auto a = given(positive_values(shapes.a.size(), 0)),
               b = given(positive_values(shapes.b.size(), 1), shift);
    for (const stream& s : {gpu(), gpu_with_few_in_32_bits(0)}) { // in which case they are numbered in 64
      auto y = wanted(shapes.result.size(), shift / 2);
      on_host_and(s, [&](const stream& on, auto at) { broadcast(on, f, plan, at(a), at(b), at(y)); });
      expect_same(y);
    }
  }
};

TEST_F(GpuBroadcast, RepeatsEitherOperandAsTheHostDoes) {
  const broadcast_shapes all[] = {
      {{300, 64}, {64}, {300, 64}},
      {{301, 10}, {10}, {301, 10}},
      {{300, 64}, {300, 1}, {300, 64}},
      {{77, 13}, {77, 1}, {77, 13}},
      {{64}, {300, 1}, {300, 64}},
      {{9, 1}, {7}, {9, 7}},
      {{500}, {1}, {500}},
      {{1}, {499}, {499}},
      {{5, 6, 8}, {5, 6, 8}, {5, 6, 8}},
      {{4, 5, 6}, {4, 1, 6}, {4, 5, 6}},
      {{4, 5, 8}, {4, 1, 8}, {4, 5, 8}},
      {{2, 1, 12}, {1, 7, 1}, {2, 7, 12}},
      {{2, 3, 1, 5}, {3, 4, 1}, {2, 3, 4, 5}},
      {{2, 1, 2, 1, 2, 1, 2, 4}, {1, 3, 1, 2, 1, 3, 1, 4}, {2, 3, 2, 2, 2, 3, 2, 4}},
      {{0, 2}, {2}, {0, 2}},
      {{}, {}, {}}};
  for (const broadcast_shapes& shapes : all)
    for (const std::size_t shift : {0U, 1U, 2U}) {
      expect_as_on_host(subtract, shapes, shift);
      expect_as_on_host(negate, shapes, shift);
    }
}

/// Extents of y = relu(x + b).
struct bias_shape {
  std::size_t rows, columns;
};

class GpuBiasReluGradient : public testing::gpu_test {
protected:
  /// The shifts are those of y, dy, dz and db.
  void expect_as_on_host(const bias_shape& extents, const std::vector<std::size_t>& shifts) {
    SCOPED_TRACE(std::to_string(extents.rows) + " x " + std::to_string(extents.columns) +
                 ", of y, dy, dz, db " + ::testing::PrintToString(shifts));
    const std::size_t n = extents.rows * extents.columns;
    const auto y = given(normal_values(n, 1), shifts[0]), dy = given(normal_values(n, 2), shifts[1]);
    auto dz = wanted(n, shifts[2]), db = wanted(extents.columns, shifts[3]);
    on_both([&](const stream& s, auto at) {
      bias_relu_gradient(s, at(y), at(dy), at(dz), at(db), extents.rows, extents.columns);
    });
    expect_same(dz);
    expect_close(db, std::sqrt(static_cast<float>(extents.rows)));
  }
};

TEST_F(GpuBiasReluGradient, EqualsThatOfTheHost) {
  const bias_shape all[] = {{1, 1},     {1, 4},     {3, 2},    {7, 8},    {0, 5},     {5, 0},   {1000, 10},
                            {1001, 64}, {5000, 12}, {33, 132}, {3, 5000}, {700, 132}, {2, 3000}};
  for (const bias_shape& extents : all)
    for (const std::size_t shift : {0U, 1U}) expect_as_on_host(extents, {shift, 0, 0, 0});
  for (const auto& shifts : one_shifted_of(4))
    for (const bias_shape& extents : {bias_shape{33, 132}, {3, 8}}) // in parts, and at once
      expect_as_on_host(extents, shifts);
  expect_as_on_host({2, 300000}, {0, 0, 0, 0}); // more columns than the queue has room for in sums
}

TEST_F(GpuBiasReluGradient, WritesToTheMemoryOfItsGradient) {
  const std::vector<float> y = normal_values(40 * 8, 1);
  const auto on_y = array(y), dy = array(normal_values(y.size(), 2)), dz = unwritten<float>(y.size()),
             db = unwritten<float>(8);
  bias_relu_gradient(gpu(), on_y.data(), dy.data(), dz.data(), db.data(), 40, 8);
  bias_relu_gradient(gpu(), on_y.data(), dy.data(), dy.data(), db.data(), 40, 8);
  EXPECT_EQ(dy.read(), dz.read());
}

TEST_F(GpuBiasReluGradient, GivesTheSameBitsInEachRun) {
  const auto y = array(normal_values(5000 * 12, 1)), dy = array(normal_values(5000 * 12, 2));
  const auto dz = unwritten<float>(5000 * 12), db = unwritten<float>(12), again = unwritten<float>(12);
  bias_relu_gradient(gpu(), y.data(), dy.data(), dz.data(), db.data(), 5000, 12);
  bias_relu_gradient(gpu(), y.data(), dy.data(), dz.data(), again.data(), 5000, 12);
  EXPECT_EQ(db.read(), again.read());
}

class gpu_bias_gelu_test : public testing::gpu_test {
protected:
  /// The shifts are those of x and the slope, b and dy, y and dz, the slope and db, as each call takes them.
  void expect_as_on_host(const bias_shape& extents, const std::vector<std::size_t>& shifts) {
    const auto [rows, columns] = extents;
    const std::size_t n = rows * columns;
    const auto x = given(normal_values(n, 1), shifts[0]), b = given(normal_values(columns, 2), shifts[1]),
               dy = given(normal_values(n, 3), shifts[1]);
    auto y = wanted(n, shifts[2]), slope = wanted(n, shifts[3]);
    on_both([&, rows = rows, columns = columns](const stream& s, auto at) {
      bias_gelu(s, at(x), at(b), at(y), at(slope), rows, columns);
    });
    expect_close(y);
    expect_close(slope);
    const auto from = given(slope.here, shifts[0]);
    auto dz = wanted(n, shifts[2]), db = wanted(columns, shifts[3]);
    on_both([&, rows = rows, columns = columns](const stream& s, auto at) {
      bias_gelu_gradient(s, at(from), at(dy), at(dz), at(db), rows, columns);
    });
    expect_close(dz);
    expect_close(db, std::sqrt(static_cast<float>(rows)) + 1);
    bias_gelu(gpu(), x.there.data(), b.there.data(), x.there.data(), slope.there.data(), rows, columns);
    bias_gelu_gradient(gpu(), from.there.data(), dy.there.data(), dy.there.data(), db.there.data(), rows,
                       columns);
    expect_close(x.there.read(), y.here); // in place
    expect_close(dy.there.read(), dz.here);
  }
};

/// Rows, columns, and how far the arrays are shifted.
class GpuBiasGelu : public gpu_bias_gelu_test,
                    public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t, std::size_t>> {
protected:
  std::size_t rows = std::get<0>(GetParam()), columns = std::get<1>(GetParam()),
              shift = std::get<2>(GetParam());
};

TEST_P(GpuBiasGelu, EqualsThatOfTheHost) { expect_as_on_host({rows, columns}, {shift, shift, shift, shift}); }

TEST_P(GpuBiasGelu, ComputesRowsThatAreTooManyFor32BitsInParts) {
  const std::size_t n = rows * columns;
  const auto b = array(normal_values(columns, 2));
  const auto x = given(normal_values(n, 1), shift);
  const auto y = wanted(n, shift), slope = wanted(n, shift), whole = wanted(n, shift),
             slope_of_whole = wanted(n, shift);
  const auto run = [&](const stream& s, const twin<float>& to, const twin<float>& slope_to) {
    bias_gelu(s, x.there.data(), b.data(), to.there.data(), slope_to.there.data(), rows, columns);
  };
  run(gpu(), whole, slope_of_whole);
  run(gpu_with_few_in_32_bits(200), y, slope);
  EXPECT_EQ(y.there.read(), whole.there.read());
  EXPECT_EQ(slope.there.read(), slope_of_whole.there.read());
  if (n == 0) return;
  EXPECT_THROW(run(gpu_with_few_in_32_bits(columns - 1), y, slope), shape_error) << "one row has too many";
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuBiasGelu,
                         ::testing::Combine(::testing::Values(0U, 1U, 37U, 600U),
                                            ::testing::Values(1U, 7U, 64U), ::testing::Values(0U, 1U)));

using GpuBiasGeluArrays = gpu_bias_gelu_test;

TEST_F(GpuBiasGeluArrays, MayEachStartAtAnyFloat) {
  for (const auto& shifts : one_shifted_of(4)) {
    SCOPED_TRACE(::testing::PrintToString(shifts));
    expect_as_on_host({5, 8}, shifts);
  }
}

class GpuDropout : public testing::gpu_test {
protected:
  static std::vector<float> on_host(const dropout_draw& draw, std::vector<float> x) {
    dropout(host_stream{}, draw, x.data(), x.data(), x.size());
    return x;
  }
};

TEST_F(GpuDropout, DropsWhatTheHostDrops) {
  for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{11}, std::uint64_t{7} << 40}) {
    cuda::begin_step(on_gpu(), step);
    for (const std::size_t n : {0U, 1U, 31U, 32U, 33U, 100U, 4096U, 70001U})
      for (const std::size_t shift : {0U, 1U}) {
        SCOPED_TRACE(std::to_string(n) + " from " + std::to_string(shift));
        const auto x = given(normal_values(n, 1), shift), y = wanted(n);
        const dropout_draw drawn{0.3F, ~std::uint64_t{5}, 99}; // on a GPU not in this step
        dropout(gpu(), drawn, x.there.data(), y.there.data(), n);
        EXPECT_EQ(y.there.read(), on_host({0.3F, ~std::uint64_t{5}, step}, x.here));
      }
  }
}

TEST_F(GpuDropout, WorksInPlace) {
  cuda::begin_step(on_gpu(), 3);
  const auto x = array(normal_values(1001, 1));
  dropout(gpu(), {0.5F, 7, 0}, x.data(), x.data(), x.size());
  EXPECT_EQ(x.read(), on_host({0.5F, 7, 3}, normal_values(1001, 1)));
}

} // namespace
} // namespace mailgrad

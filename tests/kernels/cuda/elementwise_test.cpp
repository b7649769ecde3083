#include "../../support/drawn_chain.hpp"
#include "../../support/generated_kernels.hpp"
#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>

#include <bit>
#include <deque>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using enum elementwise_function;
using testing::expect_close;
using testing::normal_values;
using testing::one_shifted_of;
using testing::shifted_array;

/// Of arrays one behind the other. All numbers that are none are one: their bits depend on the order of
/// operands.
std::vector<std::uint32_t> bits_of(const std::vector<std::vector<float>>& arrays) {
  std::vector<std::uint32_t> bits;
  for (const auto& values : arrays)
    for (const float v : values)
      bits.push_back(std::isnan(v) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(v));
  return bits;
}

/// Positive, since a logarithm and a root are among the functions.
std::vector<float> operand_values(std::size_t n, std::size_t operand) {
  std::vector<float> values = normal_values(n, operand);
  for (float& v : values) v = std::abs(v) + 0.1F;
  return values;
}

class GpuElementwise : public testing::gpu_test {
protected:
  using results = std::vector<std::vector<float>>;

  static std::size_t size_of(const elementwise_chain& chain, std::size_t input, std::size_t n) {
    return chain.inputs[input] == elementwise_chain::extent::full ? n : 1;
  }
  static results on_host(const elementwise_chain& chain, std::size_t outputs, std::size_t n) {
    results inputs, found(outputs, std::vector<float>(n));
    std::vector<const void*> from;
    std::vector<void*> to;
    for (std::size_t i = 0; i < chain.input_count; ++i)
      inputs.push_back(operand_values(size_of(chain, i, n), i));
    for (const auto& x : inputs) from.push_back(x.data());
    for (auto& y : found) to.push_back(y.data());
    block scratch(chain.scratch_bytes());
    elementwise(host_stream{}, chain, from, to, n, scratch.data());
    return found;
  }
  /// Inputs are shifted by the first of `shifts`, outputs by those behind.
  results on_the_gpu(const elementwise_chain& chain, std::size_t outputs, std::size_t n,
                     const std::vector<std::size_t>& shifts) {
    std::deque<shifted_array<float>> inputs, made;
    std::vector<const void*> from;
    std::vector<void*> to;
    for (std::size_t i = 0; i < chain.input_count; ++i) {
      inputs.emplace_back(queue(), operand_values(size_of(chain, i, n), i), shifts[i]);
      from.push_back(inputs.back().data());
    }
    for (std::size_t i = 0; i < outputs; ++i) {
      made.emplace_back(queue(), n, shifts[chain.input_count + i]);
      to.push_back(made.back().data());
    }
    elementwise(gpu(), chain, from, to, n, nullptr);
    results found;
    for (const auto& y : made) found.push_back(y.read());
    return found;
  }
  void expect_as_on_host(const elementwise_chain& chain, std::size_t outputs, std::size_t n,
                         std::size_t shift = 0) {
    expect_as_on_host(chain, outputs, n, std::vector<std::size_t>(chain.input_count + outputs, shift));
  }
  void expect_as_on_host(const elementwise_chain& chain, std::size_t outputs, std::size_t n,
                         const std::vector<std::size_t>& shifts) {
    const results found = on_the_gpu(chain, outputs, n, shifts), expected = on_host(chain, outputs, n);
    for (std::size_t i = 0; i < outputs; ++i) expect_close(found[i], expected[i]);
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
  const auto a = array(operand_values(1001, 0)), b = array(operand_values(1001, 1));
  const elementwise_chain chain = chain_of({{add, 0, 1, 0}, {multiply, 2, 2, 1}}, 2);
  const std::array<const void*, 2> inputs{a.data(), b.data()};
  const std::array<void*, 2> outputs{a.data(), b.data()};
  elementwise(gpu(), chain, inputs, outputs, a.size(), nullptr);
  const results expected = on_host(chain, 2, a.size());
  expect_close(a.read(), expected[0]);
  expect_close(b.read(), expected[1]);
}

/// The first call finds no kernel. On the simulated GPU each takes a second to compile, and
/// simulator/generated_chains_test.cpp compiles more of them at once.
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
      const results interpreted = on_the_gpu(chain, outputs, 5003, shifts);
      cuda::compute(cuda::chains::generated);
      on_the_gpu(chain, outputs, 5003, shifts);
      kernels.finish();
      ASSERT_NE(kernels.find(chain, 0), nullptr) << kernels.why_none();
      EXPECT_EQ(bits_of(on_the_gpu(chain, outputs, 5003, shifts)), bits_of(interpreted)) << "chain " << seed;
    }
  }
}

TEST_F(GpuElementwise, RefusesAChainThatRefersToNothing) {
  const auto x = array(operand_values(4, 0));
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
    const std::vector<float> a = operand_values(shapes.a.size(), 0), b = operand_values(shapes.b.size(), 1);
    const shifted_array<float> on_a(queue(), a, 0U), on_b(queue(), b, shift);
    const shifted_array<float> on_y(queue(), shapes.result.size(), shift / 2);
    const shifted_array<float> on_z(queue(), shapes.result.size(), shift / 2);
    broadcast(gpu(), f, plan, on_a.data(), on_b.data(), on_y.data());
    broadcast(gpu_with_few_in_32_bits(0), f, plan, on_a.data(), on_b.data(), on_z.data());
    std::vector<float> y(shapes.result.size());
    broadcast(host_stream{}, f, plan, a.data(), b.data(), y.data());
    EXPECT_EQ(on_y.read(), y);
    EXPECT_EQ(on_z.read(), y) << "numbered in 64 bits";
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
    const std::vector<float> y = normal_values(n, 1), dy = normal_values(n, 2);
    std::vector<float> dz(n), db(extents.columns);
    bias_relu_gradient(host_stream{}, y.data(), dy.data(), dz.data(), db.data(), extents.rows,
                       extents.columns);
    const shifted_array<float> on_y(queue(), y, shifts[0]), on_dy(queue(), dy, shifts[1]);
    const shifted_array<float> on_dz(queue(), n, shifts[2]), on_db(queue(), extents.columns, shifts[3]);
    bias_relu_gradient(gpu(), on_y.data(), on_dy.data(), on_dz.data(), on_db.data(), extents.rows,
                       extents.columns);
    EXPECT_EQ(on_dz.read(), dz);
    expect_close(on_db.read(), db, std::sqrt(static_cast<float>(extents.rows)));
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

} // namespace
} // namespace mailgrad

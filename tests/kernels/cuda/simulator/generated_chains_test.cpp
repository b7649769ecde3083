#include "../../../support/drawn_chain.hpp"
#include "../../../support/gpu_values.hpp"
#include "../../../support/slices.hpp"
#include "simulator_test.hpp"

#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/elements.hpp>
#include <mailgrad/kernels/cuda/kernel_compiler.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>

#include <fmt/format.h>

#include <bit>
#include <deque>
#include <limits>

// The text that is generated for chains, compiled once for all of them, beside the kernel that interprets
// them.
namespace mailgrad {
namespace {

using testing::drawn_chain;
using testing::last_function;
using testing::outputs_of;
using testing::shifted_array;

std::vector<elementwise_chain> all_chains() {
  std::vector<elementwise_chain> all;
  for (int f = 0; f <= static_cast<int>(last_function); ++f) {
    const auto function = static_cast<elementwise_function>(f);
    elementwise_chain chain; // twice the function, so that the second may see what it is applied to
    chain.input_count = 2;
    chain.step_count = 2;
    const std::uint8_t second = is_unary(function) ? 0 : 1;
    chain.steps[0] = {function, 0, second, 0};
    chain.steps[1] = {function, 2, is_unary(function) ? std::uint8_t{2} : second, 1};
    all.push_back(chain);
  }
  for (const std::uint64_t seed : testing::slice_of(40)) all.push_back(drawn_chain(seed));
  return all;
}

/// Numbers of all kinds, and what is none.
std::vector<float> values_of(std::size_t n, std::size_t operand) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float special[] = {0.0F, -0.0F, infinity, -infinity, 1e-40F, -3e38F, 100.0F, -90.0F, NAN, 1.0F};
  std::vector<float> values = testing::normal_values(n, operand);
  for (std::size_t i = operand; i < n; i += 7) values[i] = special[i % std::size(special)];
  return values;
}

/// All numbers that are none are one: their bits depend on the order of operands.
std::vector<std::uint32_t> bits_of(std::vector<float> values) {
  std::vector<std::uint32_t> bits;
  for (const float v : values) bits.push_back(std::isnan(v) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(v));
  return bits;
}

class GeneratedChains : public testing::simulator_test {
protected:
  using kernel = cuda::loaded_kernel<cuda::chain_arrays, cuda::element_range>;

  struct extent {
    std::size_t n, shift;
  };

  /// What `run` makes of the chain's operands.
  template <class Run>
  static std::vector<std::vector<std::uint32_t>> results(const elementwise_chain& chain, const extent& e,
                                                         Run run) {
    cuda::gpu_queue queue(0);
    std::deque<shifted_array<float>> inputs, outputs;
    std::vector<const void*> from;
    std::vector<void*> to;
    for (std::size_t i = 0; i < chain.input_count; ++i) {
      const std::size_t size = chain.inputs[i] == elementwise_chain::extent::full ? e.n : 1;
      inputs.emplace_back(queue, values_of(size, i), e.shift);
      from.push_back(inputs.back().data());
    }
    for (std::size_t i = 0; i < outputs_of(chain); ++i) {
      outputs.emplace_back(queue, e.n, e.shift);
      to.push_back(outputs.back().data());
    }
    run(queue, from, to);
    std::vector<std::vector<std::uint32_t>> found;
    for (const auto& y : outputs) found.push_back(bits_of(y.read()));
    return found;
  }
  static auto interpreted(const elementwise_chain& chain, const extent& e) {
    return results(chain, e, [&](const cuda::gpu_queue& queue, const auto& from, const auto& to) {
      elementwise(queue.where(), chain, from, to, e.n, nullptr);
    });
  }
  static auto generated(const elementwise_chain& chain, const kernel& k, const extent& e) {
    return results(chain, e, [&](const cuda::gpu_queue& queue, const auto& from, const auto& to) {
      cuda::chain_arrays arrays{};
      for (std::size_t i = 0; i < from.size(); ++i) arrays.inputs[i] = static_cast<const float*>(from[i]);
      for (std::size_t i = 0; i < to.size(); ++i) arrays.outputs[i] = static_cast<float*>(to[i]);
      cuda::launch_loaded(stream_of(queue), "chain", cuda::blocks_of_packs(e.n, cuda::packs_of(chain)),
                          cuda::threads_per_block, k, arrays, cuda::element_range{e.n, e.shift == 0});
    });
  }
};

TEST_F(GeneratedChains, GiveTheBitsOfTheInterpretedKernel) {
  const std::vector<elementwise_chain> chains = all_chains();
  std::string text(cuda::chain_preamble());
  for (std::size_t i = 0; i < chains.size(); ++i)
    text += cuda::chain_kernel_text(chains[i], fmt::format("chain_{}", i));
  simulated_gpu::set_up({.generates_kernels = true});
  const std::vector<std::byte> code = cuda::open_kernel_compiler()->compile(text, {9, 0});
  for (const auto& order :
       {simulated_gpu::schedule{}, simulated_gpu::schedule{.order = simulated_gpu::thread_order::backward}}) {
    run_in(order);
    for (std::size_t i = 0; i < chains.size(); ++i) {
      const kernel k{cuda::runtime::load_kernel(0, code, fmt::format("chain_{}", i).c_str())};
      std::vector<extent> extents{{1031, 0}, {1031, 1}, {3, 0}, {4, 0}};
      if (order.order == simulated_gpu::thread_order::forward) extents.push_back({8200, 0}); // a large one
      for (const extent& e : extents)
        EXPECT_EQ(generated(chains[i], k, e), interpreted(chains[i], e))
            << "chain " << i << " of " << e.n << " from " << e.shift << ":\n"
            << cuda::chain_kernel_text(chains[i], "chain");
    }
  }
}

TEST_F(GeneratedChains, NameNoOperandThatNobodyReads) {
  elementwise_chain chain;
  chain.input_count = 3;
  chain.inputs[1] = elementwise_chain::extent::one;
  chain.step_count = 2;
  chain.steps[0] = {elementwise_function::multiply, 0, 1, -1};
  chain.steps[1] = {elementwise_function::tanh, 3, 2, 0}; // a function of one number
  const std::string text = cuda::chain_kernel_text(chain, "example");
  EXPECT_EQ(text, R"(
namespace operands_of_example {
struct operands {
  float_pack x0, x1, x2, x3, x4;
};
} // namespace operands_of_example

extern "C" __global__ void example(chain_arrays arrays, element_range range) {
  for_packs<2>(
      range,
      [&](auto elements) {
        operands_of_example::operands o{};
        o.x0 = elements.load(arrays.inputs[0]);
        o.x1 = repeated(arrays.inputs[1]);
        return o;
      },
      [&](auto& loaded) {
#pragma unroll
        for (auto& o : loaded) {
          o.x3 = of_each(mailgrad::functors::multiply{}, o.x0, o.x1);
          o.x4 = of_each(mailgrad::functors::tanh{}, o.x3);
        }
      },
      [&](auto elements, const auto& o) {
        elements.store(arrays.outputs[0], o.x4);
      });
}
)");
}

TEST_F(GeneratedChains, HaveOnePackAThreadIfTheyHaveManyArrays) {
  elementwise_chain chain;
  chain.input_count = 4;
  chain.step_count = 2;
  chain.steps[0] = {elementwise_function::add, 0, 1, -1};
  chain.steps[1] = {elementwise_function::square, 4, 4, 0};
  EXPECT_EQ(cuda::packs_of(chain), 2U) << "nobody reads the other inputs";
  chain.steps[1] = {elementwise_function::add, 4, 2, 0};
  EXPECT_EQ(cuda::packs_of(chain), 1U);
  chain.inputs[2] = elementwise_chain::extent::one;
  EXPECT_EQ(cuda::packs_of(chain), 2U);
  chain.steps[0].output = 1;
  EXPECT_EQ(cuda::packs_of(chain), 1U);
}

TEST_F(GeneratedChains, TellWhatTheCompilerSaysOfABadText) {
  simulated_gpu::set_up({.generates_kernels = true});
  EXPECT_THAT(refusal([] {
                cuda::open_kernel_compiler()->compile("nonsense;", {9, 0});
              }),
              ::testing::HasSubstr("nonsense"));
  EXPECT_THAT(refusal([] { cuda::runtime::load_kernel(0, std::vector<std::byte>(100), "chain"); }),
              ::testing::HasSubstr("device kernel image is invalid"));
}

/// Else code of other headers would be found on the disk.
TEST_F(GeneratedChains, ComeOfACompilerThatTellsAllTheirCodeDependsOn) {
  simulated_gpu::set_up({.generates_kernels = true});
  const std::string identity = cuda::open_kernel_compiler()->identity();
  for (const char* part : {"-ffp-contract=off", "struct gelu_gradient", "multiply_add",
                           "struct element_range", "struct chain_arrays", "float_pack"})
    EXPECT_THAT(identity, ::testing::HasSubstr(part));
  EXPECT_EQ(cuda::open_kernel_compiler()->identity(), identity);
}

TEST_F(GeneratedChains, AreTriedBeforeTheyArePromised) {
  simulated_gpu::set_up({.generates_kernels = true});
  EXPECT_EQ(cuda::format_tried_kernels(0), "compiler of the simulated GPU");
  EXPECT_EQ(cuda::format_tried_kernels(7), "none: compiler of the simulated GPU fails: there is no cuda:7");
  simulated_gpu::set_up({.generates_kernels = true, .on_compile = [] {
                           throw device_error(world_errc::device_failure, "it lacks a part");
                         }});
  EXPECT_EQ(cuda::format_tried_kernels(0), "none: compiler of the simulated GPU fails: it lacks a part");
}

TEST_F(GeneratedChains, AreNoneWithoutACompiler) {
  EXPECT_EQ(cuda::format_tried_kernels(0), "none: the simulated GPU has no compiler");
  EXPECT_EQ(cuda::wait_for_chain_kernels(), "none: the simulated GPU has no compiler");
  EXPECT_FALSE(cuda::generates_kernels());
  EXPECT_THAT(refusal([] { cuda::open_kernel_compiler(); }), ::testing::HasSubstr("has no compiler"));
}

} // namespace
} // namespace mailgrad

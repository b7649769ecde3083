#include "../../../support/generated_kernels.hpp"
#include "../../../support/scratch_files.hpp"
#include "../../../support/slices.hpp"
#include "simulator_test.hpp"

#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/elements.hpp>
#include <mailgrad/kernels/cuda/kept_graphs.hpp>
#include <mailgrad/kernels/cuda/kernel_compiler.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/vectors.hpp>

#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <deque>
#include <fstream>
#include <semaphore>
#include <stdexcept>

// Chains of element-wise functions: the text that is generated for them, and when its kernels come.
namespace mailgrad {
namespace {

using cuda::chain_kernels, cuda::kernel_cache;
using testing::HasSubstr, testing::drawn_chain, testing::last_function, testing::outputs_of,
    testing::shifted_array, testing::stream_of;

elementwise_chain chain_of(std::uint8_t inputs, const std::vector<elementwise_chain::step>& steps) {
  elementwise_chain chain;
  chain.input_count = inputs;
  chain.step_count = static_cast<std::uint8_t>(steps.size());
  std::ranges::copy(steps, chain.steps.begin());
  return chain;
}

std::vector<elementwise_chain> all_chains() {
  std::vector<elementwise_chain> all;
  for (int f = 0; f <= static_cast<int>(last_function); ++f) {
    const auto function = static_cast<elementwise_function>(f);
    const bool unary = is_unary(function);
    const std::uint8_t second = unary ? 0 : 1, last = unary ? 2 : 1;
    // Twice the function, so that the second may see what it is applied to.
    all.push_back(chain_of(2, {{function, 0, second, 0}, {function, 2, last, 1}}));
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

/// The text, compiled once for all chains, beside the kernel that interprets them.
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
  using enum elementwise_function;
  elementwise_chain chain = chain_of(3, {{multiply, 0, 1, -1}, {tanh, 3, 2, 0}}); // the last of one number
  chain.inputs[1] = elementwise_chain::extent::one;
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
  using enum elementwise_function;
  elementwise_chain chain = chain_of(4, {{add, 0, 1, -1}, {square, 4, 4, 0}});
  EXPECT_EQ(cuda::packs_of(chain), 2U) << "nobody reads the other inputs";
  chain.steps[1] = {add, 4, 2, 0};
  EXPECT_EQ(cuda::packs_of(chain), 1U);
  chain.inputs[2] = elementwise_chain::extent::one;
  EXPECT_EQ(cuda::packs_of(chain), 2U);
  chain.steps[0].output = 1;
  EXPECT_EQ(cuda::packs_of(chain), 1U);
}

TEST_F(GeneratedChains, TellWhatTheCompilerSaysOfABadText) {
  simulated_gpu::set_up({.generates_kernels = true});
  const auto compile = [] {
    cuda::open_kernel_compiler()->compile("nonsense;", cuda::gpu_architecture{9, 0});
  };
  EXPECT_THAT(refusal(compile), HasSubstr("nonsense"));
  EXPECT_THAT(refusal([] { cuda::runtime::load_kernel(0, std::vector<std::byte>(100), "chain"); }),
              HasSubstr("device kernel image is invalid"));
}

/// Else code of other headers would be found on the disk.
TEST_F(GeneratedChains, ComeOfACompilerThatTellsAllTheirCodeDependsOn) {
  simulated_gpu::set_up({.generates_kernels = true});
  const std::string identity = cuda::open_kernel_compiler()->identity();
  for (const char* part : {"-ffp-contract=off", "struct gelu_gradient", "multiply_add",
                           "struct element_range", "struct chain_arrays", "float_pack"})
    EXPECT_THAT(identity, HasSubstr(part));
  EXPECT_EQ(cuda::open_kernel_compiler()->identity(), identity);
}

TEST_F(GeneratedChains, AreTriedBeforeTheyArePromised) {
  simulated_gpu::set_up({.generates_kernels = true});
  EXPECT_EQ(cuda::format_tried_kernels(0), "compiler of the simulated GPU");
  EXPECT_EQ(cuda::format_tried_kernels(7), "none: compiler of the simulated GPU fails: there is no cuda:7");
  const auto lacks_a_part = [] { throw device_error(world_errc::device_failure, "it lacks a part"); };
  simulated_gpu::set_up({.generates_kernels = true, .on_compile = lacks_a_part});
  EXPECT_EQ(cuda::format_tried_kernels(0), "none: compiler of the simulated GPU fails: it lacks a part");
}

TEST_F(GeneratedChains, AreNoneWithoutACompiler) {
  EXPECT_EQ(cuda::format_tried_kernels(0), "none: the simulated GPU has no compiler");
  EXPECT_EQ(cuda::wait_for_chain_kernels(), "none: the simulated GPU has no compiler");
  EXPECT_FALSE(cuda::generates_kernels());
  EXPECT_THAT(refusal([] { cuda::open_kernel_compiler(); }), HasSubstr("has no compiler"));
}

std::vector<std::byte> some_code() {
  const testing::with_generated_kernels on;
  const std::string text =
      std::string(cuda::chain_preamble()) + cuda::chain_kernel_text(drawn_chain(0), "chain");
  return cuda::open_kernel_compiler()->compile(text, {9, 0});
}

/// How kernels of chains come beside all that goes on. The compiler is played by one that has one code for
/// all texts.
class ChainKernels : public testing::simulator_test {
protected:
  /// What the compiler does, and how often it was asked.
  struct played {
    std::function<void()> before = [] {};
    std::string version = "1";
    std::atomic<int> opened = 0, compiled = 0;
    std::vector<std::byte> code;
  };

  class played_compiler final : public cuda::kernel_compiler {
  public:
    explicit played_compiler(played& what) : what_(what) {}
    std::string in_words() const override { return "played"; }
    std::string identity() const override { return what_.version; }
    std::vector<std::byte> compile(const std::string&, cuda::gpu_architecture) override {
      ++what_.compiled;
      what_.before();
      return what_.code;
    }

  private:
    played& what_;
  };

  ChainKernels() {
    static const std::vector<std::byte> code = some_code();
    played_.code = code;
  }

  std::unique_ptr<chain_kernels> made(const std::filesystem::path& folder = {}) {
    return std::make_unique<chain_kernels>(
        [this] {
          ++played_.opened;
          return std::make_unique<played_compiler>(played_);
        },
        kernel_cache(folder));
  }

  /// The kernel, when it has come.
  static void* wanted(chain_kernels& kernels, const elementwise_chain& chain) {
    kernels.find(chain, 0);
    kernels.finish();
    return kernels.find(chain, 0);
  }

  played played_;
  scratch_folder folder_;
};

TEST_F(ChainKernels, ComeBesideAndStay) {
  std::binary_semaphore may_go(0);
  played_.before = [&] { may_go.acquire(); };
  const auto kernels = made();
  EXPECT_EQ(played_.opened, 0) << "before the first chain";
  EXPECT_EQ(kernels->find(drawn_chain(1), 0), nullptr);
  EXPECT_EQ(kernels->find(drawn_chain(1), 0), nullptr);
  EXPECT_EQ(kernels->too_early(), 2U);
  EXPECT_EQ(kernels->arrivals(), 0U);
  may_go.release();
  kernels->finish();
  void* const kernel = kernels->find(drawn_chain(1), 0);
  EXPECT_NE(kernel, nullptr);
  EXPECT_EQ(kernels->find(drawn_chain(1), 0), kernel);
  EXPECT_EQ(kernels->too_early(), 2U);
  EXPECT_EQ(kernels->arrivals(), 1U);
  EXPECT_EQ(kernels->why_none(), "");
  EXPECT_EQ(played_.opened, 1);
  EXPECT_EQ(played_.compiled, 1);
}

TEST_F(ChainKernels, ArriveTogether) {
  std::counting_semaphore<> may_go(0);
  played_.before = [&] { may_go.acquire(); };
  const auto kernels = made();
  for (std::uint64_t seed = 0; seed < 3; ++seed) kernels->find(drawn_chain(seed), 0);
  may_go.release(3);
  kernels->finish();
  EXPECT_EQ(played_.compiled, 3);
  EXPECT_EQ(kernels->arrivals(), 1U);
}

TEST_F(ChainKernels, AreOthersForOtherChainsAndGpus) {
  simulated_gpu::set_up({.gpus = 2});
  const auto kernels = made();
  using enum elementwise_function;
  const elementwise_chain chain = chain_of(2, {{add, 0, 1, -1}, {square, 2, 2, 0}});
  const auto changed = [&](auto change) {
    elementwise_chain other = chain;
    change(other);
    return other;
  };
  const elementwise_chain all[] = {
      chain,
      changed([](elementwise_chain& c) { c.inputs[1] = elementwise_chain::extent::one; }),
      changed([](elementwise_chain& c) { c.input_count = 3, c.steps[1].a = c.steps[1].b = 3; }),
      changed([](elementwise_chain& c) { c.step_count = 1; }),
      changed([](elementwise_chain& c) { c.steps[0].function = subtract; }),
      changed([](elementwise_chain& c) { c.steps[0].a = 1; }),
      changed([](elementwise_chain& c) { c.steps[0].b = 0; }),
      changed([](elementwise_chain& c) { c.steps[1].output = 1; }),
      changed([](elementwise_chain& c) { c.steps[0].output = 1; })};
  for (const elementwise_chain& c : all) wanted(*kernels, c);
  EXPECT_EQ(played_.compiled, static_cast<int>(std::size(all)));
  EXPECT_EQ(kernels->find(chain, 1), nullptr) << "of another GPU";
  kernels->finish();
  EXPECT_NE(kernels->find(chain, 1), nullptr);
  elementwise_chain with_rest = chain; // of what it does not use
  with_rest.inputs[7] = elementwise_chain::extent::one;
  with_rest.steps[5].output = 3;
  EXPECT_EQ(kernels->find(with_rest, 0), kernels->find(chain, 0));
}

TEST_F(ChainKernels, AreNoneForGoodIfTheCompilerRefuses) {
  played_.before = [] { throw device_error(world_errc::device_failure, "a word that it does not know"); };
  const auto kernels = made(folder_.path());
  EXPECT_EQ(wanted(*kernels, drawn_chain(1)), nullptr);
  EXPECT_EQ(wanted(*kernels, drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 1);
  EXPECT_EQ(kernels->too_early(), 1U) << "it is too early for none any more";
  EXPECT_EQ(kernels->arrivals(), 0U);
  EXPECT_THAT(kernels->why_none(), HasSubstr("a word that it does not know"));
  played_.before = [] {};
  EXPECT_NE(wanted(*kernels, drawn_chain(2)), nullptr) << "of another chain";
}

TEST_F(ChainKernels, AreNoneWithoutACompiler) {
  chain_kernels kernels(cuda::open_kernel_compiler, kernel_cache(""));
  EXPECT_EQ(wanted(kernels, drawn_chain(1)), nullptr);
  EXPECT_THAT(kernels.why_none(), HasSubstr("has no compiler"));
}

TEST_F(ChainKernels, AreNoneForAGpuThatIsNotThere) {
  const auto kernels = made();
  kernels->find(drawn_chain(1), 7);
  kernels->finish();
  EXPECT_EQ(kernels->find(drawn_chain(1), 7), nullptr);
  EXPECT_THAT(kernels->why_none(), HasSubstr("cuda:7"));
}

TEST_F(ChainKernels, AreCompiledOnceForAllProcesses) {
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 1);
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(2)), nullptr);
  EXPECT_EQ(played_.compiled, 2) << "another chain";
  played_.version = "2";
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 3) << "another compiler";
}

TEST_F(ChainKernels, AreCompiledAgainWhereTheEntryIsOfNoUse) {
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  const auto entry = *std::filesystem::directory_iterator(folder_.path());
  std::filesystem::resize_file(entry, entry.file_size() / 2);
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 2) << "it was cut";
  // The seal is whole, but the GPU's driver does not take what it holds.
  kernel_cache(folder_.path()).keep(entry.path().stem(), std::vector<std::byte>(100));
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 3) << "it could not be loaded";
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 3) << "it was written again";
}

/// While one is compiled two more are asked for, so some are always still to come.
TEST_F(ChainKernels, EndWhileOneIsBeingCompiled) {
  constexpr std::uint64_t enough = 5000; // an end that waits for all of them is to be a failure, and no hang
  std::counting_semaphore<> begun(0);
  auto kernels = made();
  std::uint64_t next = 1;
  played_.before = [&, asked = kernels.get()] {
    begun.release();
    for (int i = 0; i < 2 && next < enough; ++i) asked->find(drawn_chain(next++), 0);
  };
  kernels->find(drawn_chain(0), 0);
  begun.acquire();
  kernels.reset();
  EXPECT_GE(played_.compiled, 1);
  EXPECT_LT(next, enough) << "it waited for those that were still to come";
}

TEST_F(ChainKernels, EndWithoutHavingBegun) {
  made();
  EXPECT_EQ(played_.opened, 0);
}

TEST_F(ChainKernels, EndWithTheLastLaneAndGoOnWithTheNext) {
  std::counting_semaphore<> begun(0), may_go(0);
  std::atomic<int> compiled = 0;
  played_.before = [&] {
    begun.release();
    may_go.acquire();
    ++compiled;
  };
  const auto kernels = made();
  kernels->begin_use();
  kernels->begin_use();
  for (std::uint64_t seed = 0; seed < 2; ++seed) kernels->find(drawn_chain(seed), 0);
  begun.acquire();
  kernels->end_use();
  EXPECT_EQ(compiled, 0) << "it goes on for the other queue";
  {
    const std::jthread lets_go([&] { may_go.release(2); });
    kernels->end_use();
    EXPECT_GE(compiled, 1) << "it was waited for";
  }
  kernels->begin_use();
  kernels->finish();
  for (std::uint64_t seed = 0; seed < 2; ++seed) EXPECT_NE(kernels->find(drawn_chain(seed), 0), nullptr);
  kernels->end_use();
}

/// Work that queues a chain of this process, of which others know nothing. Its kernel comes while kept graphs
/// interpret it.
class ChainsInGraphs : public testing::simulator_test {
protected:
  static void set_up(const std::function<void()>& on_compile) {
    simulated_gpu::set_up({.generates_kernels = true, .on_compile = on_compile});
  }

  ChainsInGraphs() {
    for (std::uint64_t i = 0; i < elementwise_chain::max_inputs; ++i)
      inputs_.emplace_back(queue_, testing::normal_values(n, i));
    for (std::size_t i = 0; i < elementwise_chain::max_steps; ++i) outputs_.emplace_back(queue_, n);
  }
  /// A graph writes where it wrote before, so the arrays stay.
  void forget_results_of(const elementwise_chain& chain) {
    for (std::size_t i = 0; i < testing::outputs_of(chain); ++i) fill(queue_.where(), -1, outputs_[i].span());
  }

  /// Whether the work was queued anew, and not as a kept graph.
  bool queues(
      cuda::kept_graphs& graphs, const elementwise_chain& chain,
      const std::function<void()>& before = [] {}) {
    bool queued = false;
    graphs.run(stream_of(queue_).stream, {&chain, nullptr}, [&] {
      queued = true;
      before();
      std::vector<const void*> from;
      for (std::size_t i = 0; i < chain.input_count; ++i) from.push_back(inputs_[i].data());
      std::vector<void*> to;
      for (std::size_t i = 0; i < testing::outputs_of(chain); ++i) to.push_back(outputs_[i].data());
      elementwise(queue_.where(), chain, from, to, n, nullptr);
    });
    return queued;
  }
  /// As bits, since some are no numbers.
  std::vector<std::uint32_t> results_of(const elementwise_chain& chain) const {
    std::vector<std::uint32_t> all;
    for (std::size_t i = 0; i < testing::outputs_of(chain); ++i)
      for (const float y : outputs_[i].read()) all.push_back(std::bit_cast<std::uint32_t>(y));
    return all;
  }

  static constexpr std::size_t n = 64;
  cuda::gpu_queue queue_{0};
  std::deque<testing::gpu_array<float>> inputs_, outputs_;
};

TEST_F(ChainsInGraphs, AreKeptNowhereByTests) { EXPECT_EQ(cuda::kernel_cache::usual_folder(), ""); }

TEST_F(ChainsInGraphs, AreCapturedAnewWhenTheirKernelsHaveCome) {
  std::binary_semaphore may_go(0);
  set_up([&] { may_go.acquire(); });
  cuda::kept_graphs graphs;
  const elementwise_chain chain = drawn_chain(101);
  EXPECT_TRUE(queues(graphs, chain)) << "by launches";
  EXPECT_TRUE(queues(graphs, chain)) << "it is captured";
  EXPECT_FALSE(queues(graphs, chain));
  may_go.release();
  chain_kernels::of_process().finish();
  EXPECT_TRUE(queues(graphs, chain)) << "it is captured anew";
  EXPECT_FALSE(queues(graphs, chain));
  const elementwise_chain other = drawn_chain(102);
  may_go.release();
  EXPECT_TRUE(queues(graphs, other)) << "by launches";
  chain_kernels::of_process().finish();
  EXPECT_TRUE(queues(graphs, other)) << "it is captured";
  EXPECT_FALSE(queues(graphs, other)) << "no kernel was missing";
  EXPECT_FALSE(queues(graphs, chain)) << "what comes to others changes nothing";
}

TEST_F(ChainsInGraphs, StayAsTheyAreIfTheyCannotBeCapturedAnew) {
  std::binary_semaphore may_go(0);
  set_up([&] { may_go.acquire(); });
  cuda::kept_graphs graphs;
  const elementwise_chain chain = drawn_chain(105);
  queues(graphs, chain);
  EXPECT_TRUE(queues(graphs, chain)) << "it is captured";
  const auto expected = results_of(chain);
  may_go.release();
  chain_kernels::of_process().finish();
  forget_results_of(chain);
  const auto refuse = [] { throw device_error(world_errc::device_failure, "no memory for a graph"); };
  EXPECT_TRUE(queues(graphs, chain, refuse)) << "it is to be captured anew";
  EXPECT_EQ(results_of(chain), expected) << "by the graph of before";
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(queues(graphs, chain, refuse)) << "that graph stays";
}

TEST_F(ChainsInGraphs, StayAsTheyAreIfNoKernelComes) {
  set_up([] { throw device_error(world_errc::device_failure, "it says no"); });
  cuda::kept_graphs graphs;
  const elementwise_chain chain = drawn_chain(103);
  queues(graphs, chain);
  chain_kernels::of_process().finish();
  EXPECT_TRUE(queues(graphs, chain)) << "it is captured";
  EXPECT_FALSE(queues(graphs, chain));
  EXPECT_THAT(chain_kernels::of_process().why_none(), HasSubstr("it says no"));
}

} // namespace
} // namespace mailgrad

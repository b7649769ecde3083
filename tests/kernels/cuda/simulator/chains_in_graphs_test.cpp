#include "../../../support/drawn_chain.hpp"
#include "../../../support/gpu_values.hpp"
#include "simulator_test.hpp"

#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/kept_graphs.hpp>
#include <mailgrad/kernels/vectors.hpp>

#include <gmock/gmock.h>

#include <bit>
#include <deque>
#include <functional>
#include <semaphore>
#include <string>
#include <vector>

// Chains whose kernels come while kept graphs interpret them.
namespace mailgrad {
namespace {

using cuda::chain_kernels;
using testing::drawn_chain;
using ::testing::HasSubstr;

/// Work that queues a chain of this process, of which others know nothing.
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

TEST_F(ChainsInGraphs, GiveTheBitsOfTheInterpretedKernelWhenTheyAreGenerated) {
  set_up({});
  const elementwise_chain chain = drawn_chain(104);
  cuda::kept_graphs none(0);
  queues(none, chain);
  const auto interpreted = results_of(chain);
  chain_kernels::of_process().finish();
  ASSERT_NE(chain_kernels::of_process().find(chain, 0), nullptr) << chain_kernels::of_process().why_none();
  forget_results_of(chain);
  const std::uint64_t too_early = chain_kernels::of_process().too_early();
  queues(none, chain);
  EXPECT_EQ(results_of(chain), interpreted);
  EXPECT_EQ(chain_kernels::of_process().too_early(), too_early);
}

} // namespace
} // namespace mailgrad

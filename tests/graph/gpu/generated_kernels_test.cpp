#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/initialiser.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/kept_graphs.hpp>
#include <mailgrad/tests/support/generated_kernels.hpp>
#include <mailgrad/tests/support/gpu_values.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <gtest/gtest.h>

#include <deque>
#include <vector>

// A program whose chains are interpreted at first, and computed by kernels of their own when these have come.

namespace mailgrad {
namespace {

using cuda::chain_kernels;
using testing::gpu_array;

/// A program with chains forwards and backwards, which counts how often it is queued.
class program_of_chains {
public:
  explicit program_of_chains(cuda::gpu_queue& queue)
      : queue_(queue), u_(model_.variable("u", {n}, initialiser::constant(0))),
        v_(model_.variable("v", {n}, initialiser::constant(0))), fetches_(fetches_of(u_, v_)),
        code_(model_, fetches_, {}, queue) {
    for (const value& source : {u_, v_}) {
      sources_.emplace_back(queue, testing::normal_values(n, sources_.size()));
      code_.bind(source, sources_.back().data());
    }
    for (std::size_t i = 0; i < fetches_.size(); ++i) {
      results_.emplace_back(queue, fetches_[i].dims().size());
      code_.bind_fetch(i, results_.back().data());
    }
  }

  std::vector<std::vector<float>> run() {
    const auto& s = std::get<cuda_stream>(queue_.where());
    graphs_.run(s.stream, {this, nullptr}, [&] {
      ++queued_;
      code_.queue(s);
    });
    std::vector<std::vector<float>> found;
    for (const auto& y : results_) found.push_back(y.read());
    return found;
  }
  int queued() const { return queued_; }

private:
  static constexpr std::size_t n = 403;

  static std::vector<value> fetches_of(const value& u, const value& v) {
    const value y = sigmoid(u * v + u) * tanh(u - v);
    const value loss = reduce_sum(square(y) * 0.5F);
    std::vector<value> made{loss, y};
    for (const adjoint& a : gradients(loss, std::vector{u, v})) made.push_back(a.dense.value());
    return made;
  }

  cuda::gpu_queue& queue_;
  graph model_;
  value u_, v_;
  std::vector<value> fetches_;
  program code_;
  std::deque<gpu_array<float>> sources_, results_;
  cuda::kept_graphs graphs_;
  int queued_ = 0;
};

TEST(GeneratedKernels, GiveAProgramTheBitsOfTheInterpretedOnes) {
  MAILGRAD_NEEDS_GPU();
  const testing::with_generated_kernels generated;
  if (const std::string why = cuda::format_generated_kernels(); why.starts_with("none")) GTEST_SKIP() << why;
  cuda::gpu_queue queue(0);
  program_of_chains p(queue);
  const auto interpreted = p.run();
  chain_kernels& kernels = chain_kernels::of_process();
  ASSERT_GT(kernels.too_early(), 0U) << "the program has no chain";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(p.run(), interpreted) << "as a graph";
  kernels.finish();
  ASSERT_EQ(kernels.why_none(), "");
  const std::uint64_t too_early = kernels.too_early();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(p.run(), interpreted) << "with kernels of their own";
  EXPECT_EQ(kernels.too_early(), too_early);
  EXPECT_LE(p.queued(), 3) << "by launches, as a graph, and as another one";
}

} // namespace
} // namespace mailgrad

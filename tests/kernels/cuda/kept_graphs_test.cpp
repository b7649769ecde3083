#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/cuda/kept_graphs.hpp>
#include <mailgrad/kernels/vectors.hpp>

#include <gmock/gmock.h>

#include <array>
#include <stdexcept>

namespace mailgrad {
namespace {

using cuda::kept_graphs;
using ::testing::Each;
using floats = std::vector<float>;

/// A graph runs without being queued, and writes what was written when it was captured.
class KeptGraphs : public testing::gpu_test {
protected:
  struct seen {
    float value;
    bool queued;
    friend bool operator==(const seen&, const seen&) = default;
  };

  /// Runs work that writes the next number, by launches or as a graph.
  seen run(kept_graphs& graphs, const void* which) {
    const auto values = array(floats(4, -1.0F));
    return run(graphs, which, values);
  }
  seen run(kept_graphs& graphs, const void* which, const testing::gpu_array<float>& values) {
    bool queued = false;
    ++value_;
    graphs.run(on_gpu().stream, {which, nullptr}, [&] {
      queued = true;
      fill(gpu(), value_, values.span());
    });
    const floats found = values.read();
    EXPECT_THAT(found, Each(found.front()));
    return {found.front(), queued};
  }

  float value_ = 0;
};

TEST_F(KeptGraphs, CaptureWhatComesTwice) {
  kept_graphs graphs;
  const auto values = array(floats(4));
  EXPECT_EQ(run(graphs, &graphs, values), (seen{1, true})) << "by launches";
  EXPECT_EQ(run(graphs, &graphs, values), (seen{2, true})) << "it is captured, and runs";
  EXPECT_EQ(run(graphs, &graphs, values), (seen{2, false}));
  EXPECT_EQ(run(graphs, &graphs, values), (seen{2, false}));
}

TEST_F(KeptGraphs, CountWhatCameAsGraphsAndByLaunches) {
  kept_graphs graphs;
  const auto values = array(floats(4));
  const auto before = cuda::count_queued_steps();
  for (int i = 0; i < 5; ++i) run(graphs, &graphs, values);
  const auto after = cuda::count_queued_steps();
  EXPECT_EQ(after.launches - before.launches, 1U);
  EXPECT_EQ(after.graphs - before.graphs, 4U);
}

TEST_F(KeptGraphs, KeepThoseThatCameLast) {
  kept_graphs graphs(2);
  const std::array<char, 3> keys{};
  const auto values = array(floats(4));
  const auto is_kept = [&](std::size_t k) { return !run(graphs, &keys[k], values).queued; };
  for (const std::size_t k : {0, 0, 1, 1}) is_kept(k);
  EXPECT_TRUE(is_kept(0));
  EXPECT_FALSE(is_kept(2)) << "the first time";
  EXPECT_TRUE(is_kept(0));
  EXPECT_FALSE(is_kept(1)) << "it was forgotten";
  EXPECT_FALSE(is_kept(1));
  EXPECT_TRUE(is_kept(1));
}

TEST_F(KeptGraphs, KeepNoneIfNoneIsWanted) {
  kept_graphs graphs(0);
  for (float i = 1; i < 5; ++i) EXPECT_EQ(run(graphs, &graphs), (seen{i, true}));
}

TEST_F(KeptGraphs, QueueByLaunchesWhatCannotBeCaptured) {
  kept_graphs graphs;
  const auto values = array(floats(4));
  std::vector<memory> kept;
  for (float i = 1; i < 5; ++i) {
    graphs.run(on_gpu().stream, {&graphs, nullptr}, [&] {
      kept.push_back(queue().allocate(64)); // which no capture allows
      fill(gpu(), i, values.span());
    });
    EXPECT_THAT(values.read(), Each(i));
  }
}

TEST_F(KeptGraphs, PassOnWhatTheWorkThrows) {
  kept_graphs graphs;
  const auto fails = [] { throw std::runtime_error("not this time"); };
  for (int i = 0; i < 3; ++i)
    EXPECT_THROW(graphs.run(on_gpu().stream, {&graphs, nullptr}, fails), std::runtime_error) << i;
  EXPECT_EQ(run(graphs, &graphs), (seen{1, true})) << "the stream takes work again";
}

} // namespace
} // namespace mailgrad

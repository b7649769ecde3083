#include <mailgrad/tests/actors/runs/gpu_orders.hpp>
#include <mailgrad/tests/net/played_sums.hpp>

#include <gtest/gtest.h>

#include <memory>

// Workers on streams of the simulated GPU that add their gradients up on the host before they push them.

namespace mailgrad {
namespace {

using testing::assembly;

class GpuSums : public testing::GpuRun {};

TEST_F(GpuSums, ComeToTheWeightsOfTheProcessorsInEveryOrder) {
  assembly a;
  a.policy = "sync";
  a.batches = 13; // the last round is of one worker
  const auto expected = finish(a, 1);
  ASSERT_TRUE(expected);
  expect_weights_in_every_order(expected->weights, 8, [&](const auto& watch) {
    assembly summed = testing::on_gpu(a, data_, watch);
    const auto sums = std::make_shared<net::played_sums>(a.workers);
    summed.sums = [sums](rank worker) { return sums->join(worker.value); };
    return summed;
  });
}

} // namespace
} // namespace mailgrad

#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gtest/gtest.h>

#include <optional>

// A shard on a GPU whose driver lacks memory for an event. What only the simulated GPU can be asked for.

namespace mailgrad {
namespace {

using testing::layout_of;

class GpuShardFaults : public ::testing::Test {
protected:
  void SetUp() override { set_up(); }
  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  /// Work runs late, so that each call of record() takes one more event of the driver.
  static void set_up(std::optional<std::uint64_t> driver_out_of_memory_at = {}) {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.when = simulated_gpu::timing::late;
    s.late_queries = 1000;
    s.fail.driver_out_of_memory_at = driver_out_of_memory_at;
    simulated_gpu::set_up(s);
  }

  contribution of_ones() const {
    auto g = std::make_shared<gradient>();
    g->dense = queue_->allocate(layout_.dense_size() * sizeof(float));
    queue_->write(std::vector<float>(layout_.dense_size(), 1), g->dense);
    return {g, 1};
  }
  std::vector<float> values_of(shard& s) const {
    std::vector<float> values(s.snapshot().size());
    queue_->read(*s.snapshot().owner(), std::as_writable_bytes(std::span(values)));
    return values;
  }

  const parameter_layout layout_ = layout_of({{"w", {304}}}, 1);
  const std::shared_ptr<cuda::gpu_queue> queue_ = std::make_shared<cuda::gpu_queue>(0);
};

/// Nobody has a snapshot, so an update writes in place.
TEST_F(GpuShardFaults, LeaveWeightsStateAndVersionOfTheLastUpdate) {
  const optimizer_options rule = parse_optimizer("momentum");
  shard s(layout_, 0, 3, rule, queue_), whole(layout_, 0, 3, rule, queue_);
  const contribution one = of_ones();
  for (std::uint64_t n = 1; n <= 3; ++n) {
    SCOPED_TRACE(n);
    set_up(n);
    EXPECT_THROW(
        {
          for (int i = 0; i < 100; ++i) s.update({&one, 1});
        },
        out_of_memory);
    set_up();
    while (whole.version() < s.version()) whole.update({&one, 1});
    EXPECT_EQ(values_of(s), values_of(whole)) << "of as many updates as the version says";
    s.update({&one, 1});
    whole.update({&one, 1});
    EXPECT_EQ(values_of(s), values_of(whole)) << "its state was not that of the version";
  }
  EXPECT_GT(s.version().value, 3U) << "updates before the one that failed count";
}

} // namespace
} // namespace mailgrad

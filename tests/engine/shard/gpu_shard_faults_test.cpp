#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/gpu_row_log_fixture.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gtest/gtest.h>

#include <optional>

// A shard on a GPU, as only the simulated one can be asked: what lacks memory, and how much is copied.

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

class GpuRowBytes : public testing::gpu_row_log_of_a_shard {
protected:
  /// Bytes that an update copies as a whole within the GPU.
  std::size_t copied_by_update(std::size_t named = 8) {
    const contribution one{drawn(named), 1};
    const std::size_t before = simulated_gpu::count().bytes_on_gpu;
    shard_->update({&one, 1}, 0.1);
    const std::size_t copied = simulated_gpu::count().bytes_on_gpu - before;
    in_place_->update({&one, 1}, 0.1);
    return copied;
  }
};

TEST_F(GpuRowBytes, AreThoseOfTablesOnlyForABlockThatIsTooFarBehind) {
  const std::size_t tables = (layout_->size() - layout_->dense_size()) * sizeof(float);
  for (const std::size_t behind : {1U, 2U, 63U, 64U, 65U, 1U}) {
    begin_with_two_blocks(1);
    snapshot held = shard_->snapshot();
    for (std::size_t i = 0; i < behind; ++i) EXPECT_EQ(copied_by_update(), 0U) << "in place, but the first";
    held = {};
    held = shard_->snapshot();
    EXPECT_EQ(copied_by_update(), behind > gpu_row_log::depth ? tables : 0U) << behind;
    expect_same(std::to_string(behind));
  }
}

/// However many updates there are, and however long their lists.
TEST_F(GpuRowBytes, OfTheLogAreNoMoreThanThoseOfTheTables) {
  update_elsewhere();
  update_elsewhere();
  const std::size_t before = simulated_gpu::count().bytes_now, kept = kept_.size();
  for (std::size_t i = 0; i < 2 * gpu_row_log::depth; ++i) {
    update_elsewhere();
    while (kept_.size() > kept) kept_.pop_back(); // of the gradient, which is gone
    for (const std::size_t named : {40U, 1000U})
      if (i % 16 == 0) update_elsewhere(named);
    while (kept_.size() > kept) kept_.pop_back();
  }
  const std::size_t tables = (layout_->size() - layout_->dense_size()) * sizeof(float);
  EXPECT_LE(simulated_gpu::count().bytes_now - before, tables);
}

/// An update in place that lacks memory has changed neither the dense weights nor a table, nor the rule's
/// state: the same update made again has the bits of one that nothing failed in.
TEST_F(GpuRowBytes, ThatAnUpdateLacksAreLackingBeforeItBegins) {
  std::size_t failed = 0;
  for (std::uint64_t n = 1;; ++n) {
    begin(1);
    const contribution one{drawn(8), 1};
    queue_->finish();
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.fail.out_of_memory_at = n;
    simulated_gpu::set_up(s);
    bool lacked = false;
    try {
      shard_->update({&one, 1}, 0.1);
    } catch (const out_of_memory&) {
      lacked = true;
    }
    simulated_gpu::set_up(simulated_gpu::default_settings());
    if (lacked) shard_->update({&one, 1}, 0.1);
    in_place_->update({&one, 1}, 0.1);
    expect_same(std::to_string(n));
    if (!lacked) break;
    ++failed;
  }
  EXPECT_GT(failed, 0U);
}

TEST_F(GpuRowBytes, AreAllocatedOnceForEachUpdateOfTheLog) {
  for (std::size_t i = 0; i < gpu_row_log::depth + 2; ++i) update_elsewhere();
  for (std::size_t i = 0; i < 2 * gpu_row_log::depth; ++i) {
    const contribution one{drawn(8), 1};
    const snapshot held = shard_->snapshot();
    const std::uint64_t before = simulated_gpu::count().allocations;
    shard_->update({&one, 1}, 0.1);
    EXPECT_EQ(simulated_gpu::count().allocations, before) << i;
  }
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/engine/worker/gpu_rows_fixture.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gtest/gtest.h>

// What only the simulated GPU tells: how much a step copies.

namespace mailgrad {
namespace {

using testing::tall_recommender;
using testing::tall_sparse_data;
using testing::tall_tastes;

class GpuRowCopies : public testing::gpu_rows_test {
protected:
  struct copied {
    std::size_t to_gpu, to_host, on_gpu;
    std::uint64_t launches;
    friend bool operator==(const copied&, const copied&) = default;
  };
  static copied count() {
    const simulated_gpu::counters c = simulated_gpu::count();
    return {c.bytes_to_gpu, c.bytes_to_host, c.bytes_on_gpu, c.launches};
  }
  copied copied_by_step(const std::shared_ptr<const batch>& b) {
    give_next(*b);
    const auto g = on_gpu_->make_gradient();
    gradients_.push_back(g);
    const copied before = count();
    on_gpu_->begin_step(b, g);
    await_end();
    on_gpu_->end_step();
    const copied after = count();
    return {after.to_gpu - before.to_gpu, after.to_host - before.to_host, after.on_gpu - before.on_gpu,
            after.launches - before.launches};
  }
};

TEST_F(GpuRowCopies, DoNotDependOnTheHeightOfTables) {
  for (const auto& [model, data_of] :
       {std::pair{tall_recommender, +[](std::size_t n) { return tall_tastes(n); }},
        {"softmax", +[](std::size_t n) { return tall_sparse_data(n); }}})
    for (const weight_place where : {weight_place::same_gpu, weight_place::host})
      for (const std::size_t shards : {1U, 3U}) {
        std::vector<copied> of_heights;
        for (const std::size_t height : {1000U, 100000U}) {
          build_with(find_model(model), data_of(height), shards, where);
          for (std::uint32_t i = 0; i < 3; ++i) copied_by_step(samples(8 * i, 8, i));
          of_heights.push_back(copied_by_step(samples(24, 8, 3)));
        }
        EXPECT_EQ(of_heights[0].to_gpu, of_heights[1].to_gpu);
        EXPECT_EQ(of_heights[0].to_host, of_heights[1].to_host);
        EXPECT_EQ(of_heights[0].on_gpu, of_heights[1].on_gpu);
        EXPECT_LT(of_heights[1].to_gpu + of_heights[1].on_gpu, 8000U) << "a tall table has more";
      }
}

/// A batch of each size has a program of its own, and all have the same tables.
TEST_F(GpuRowCopies, ReadNothingBeforeItIsThere) {
  for (const weight_place where : {weight_place::same_gpu, weight_place::host}) {
    simulated_gpu::settings late = simulated_gpu::default_settings();
    late.when = simulated_gpu::timing::late;
    simulated_gpu::set_up(late);
    build_with(find_model(tall_recommender), tall_tastes(500), 3, where);
    for (std::uint32_t i = 0; i < 6; ++i) expect_same_step(samples(8 * i, i % 3 == 2 ? 3 : 8, i));
    simulated_gpu::set_up(simulated_gpu::default_settings());
  }
}

} // namespace
} // namespace mailgrad

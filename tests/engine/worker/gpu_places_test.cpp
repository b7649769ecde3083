#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>

#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>

// A worker on a GPU of whose shards one lies on the host and one on the GPU. One source for two GPUs: the
// simulated one, and a real one.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class GpuPlaces : public testing::gpu_replica_test {
protected:
  /// Shard 0 lies on the host.
  void build_shards() {
    build();
    on_gpu_.reset();
    model_request request = request_for(*data_, 8);
    request.devices = {{device_kind::cuda, 0}};
    on_gpu_.emplace(testing::small_model(), request, layout_, watch_,
                    std::vector{weight_place::host, weight_place::same_gpu});
    on_gpu_->on_end([this] { ++ended_; });
    here_.emplace(*layout_, 0, 5, testing::sgd(0.1));
    there_.emplace(*layout_, 1, 5, testing::sgd(0.1), queue_ = std::make_shared<cuda::gpu_queue>(0));
    other_.emplace(*layout_, 1, 5, testing::sgd(0.1));
  }
  void update(shard& s, const std::shared_ptr<gradient>& g) {
    if (&s == &*there_) s.wait_for(*g);
    const contribution one{g, 1};
    s.update({&one, 1});
  }

  std::optional<shard> here_, there_, other_; ///< the last one is as that on the GPU, on the host
  std::shared_ptr<cuda::gpu_queue> queue_;
};

TEST_F(GpuPlaces, GiveEachShardItsPartOfTheGradient) {
  build_shards();
  on_gpu_->use_norms();
  EXPECT_EQ(on_gpu_->most_under_way(), 1U) << "the host reads a part of each gradient";
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto b = samples(8 * i, 8, i);
    on_host_->use_weights(0, here_->snapshot());
    on_host_->use_weights(1, other_->snapshot());
    on_gpu_->use_weights(0, here_->snapshot());
    on_gpu_->use_weights(1, there_->snapshot());
    const auto g = on_gpu_->make_gradient(), expected = on_host_->make_gradient();
    on_host_->begin_step(b, expected);
    on_gpu_->begin_step(b, g);
    await_end();
    EXPECT_NEAR(on_gpu_->end_step(), on_host_->end_step(), 1e-5);
    EXPECT_NEAR(on_gpu_->squared_norm(*g), squared_norm(*expected), 1e-5);
    update(*here_, g);
    update(*there_, g);
    update(*other_, expected);
    const snapshot found = there_->host_snapshot();
    queue_->finish();
    for (std::size_t w = 0; w < found.size(); ++w)
      ASSERT_NEAR(found.on_host()[w], other_->snapshot().on_host()[w], 1e-5) << i << " at " << w;
    for (std::size_t w = 0; w < layout_->shard(0).size(); ++w)
      ASSERT_NEAR(g->dense.on_host<float>()[w], expected->dense.on_host<float>()[w], 1e-6)
          << i << " at " << w;
  }
}

TEST_F(GpuPlaces, RefuseWeightsOfTheOtherPlace) {
  build_shards();
  EXPECT_THAT([&] { on_gpu_->use_weights(0, there_->snapshot()); },
              ThrowsMessage<device_error>(HasSubstr("shards on the host")));
  EXPECT_THAT([&] { on_gpu_->use_weights(1, here_->snapshot()); },
              ThrowsMessage<device_error>(HasSubstr("shards on cuda:0")));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <gmock/gmock.h>

// A shard whose weights lie on a GPU. One source for two GPUs: the simulated one, and a real one.

namespace mailgrad {
namespace {

using testing::layout_of;
using testing::random_values;
using namespace ::testing;

class GpuShard : public ::testing::Test {
protected:
  void SetUp() override {
    MAILGRAD_NEEDS_GPU();
    queue_ = std::make_shared<cuda::gpu_queue>(0);
  }

  std::shared_ptr<gradient> there(const std::vector<float>& values) const {
    auto g = std::make_shared<gradient>();
    g->dense = queue_->allocate(values.size() * sizeof(float));
    queue_->write(values, g->dense);
    return g;
  }
  std::vector<float> read(const snapshot& s) const {
    std::vector<float> values(s.size());
    queue_->read(*s.owner(), std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::vector<float> host_copy(shard& s) const {
    const snapshot copy = s.host_snapshot();
    queue_->finish();
    return {copy.on_host().begin(), copy.on_host().end()};
  }

  std::shared_ptr<cuda::gpu_queue> queue_;
};

TEST_F(GpuShard, UpdatesByEveryRuleAsOnTheHost) {
  const parameter_layout layout = layout_of({{"w", {1013}}, {"b", {7}}}, 2);
  for (const char* rule : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "delayed-nesterov"}) {
    optimizer_options o = parse_optimizer(rule);
    o.weight_decay = 0.01;
    shard on_gpu(layout, 1, 3, o, queue_), on_host(layout, 1, 3, o);
    for (std::uint64_t t = 0; t < 5; ++t) {
      const std::vector<float> a = random_values(layout.dense_size(), 2 * t),
                               b = random_values(layout.dense_size(), 2 * t + 1);
      const contribution of_gpu[]{{there(a), 0.5F}, {there(b), 0.25F}};
      const contribution of_host[]{{testing::dense_gradient(a), 0.5F}, {testing::dense_gradient(b), 0.25F}};
      on_gpu.update(of_gpu, 0.5);
      on_host.update(of_host, 0.5);
    }
    EXPECT_EQ(on_gpu.version(), on_host.version());
    const std::vector<float> found = host_copy(on_gpu);
    const std::span<const float> expected = on_host.snapshot().on_host();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << rule << " at " << i;
  }
}

TEST_F(GpuShard, ChangesOnlyWhatAGradientCovers) {
  const parameter_layout layout = layout_of({{"w", {64}}, {"b", {64}}}, 1);
  shard s(layout, 0, 3, testing::sgd(1), queue_);
  const std::vector<float> before = host_copy(s);
  const auto g = there(std::vector<float>(128, 1));
  g->covered = std::make_shared<const coverage>(coverage{{64, 128}});
  const contribution one{g, 1};
  s.update({&one, 1});
  const std::vector<float> after = host_copy(s);
  for (std::size_t i = 0; i < 128; ++i) EXPECT_FLOAT_EQ(after[i], before[i] - (i < 64 ? 0 : 1)) << i;
}

TEST_F(GpuShard, LeavesASnapshotAsItIs) {
  const parameter_layout layout = layout_of({{"w", {304}}}, 1);
  shard s(layout, 0, 3, testing::sgd(1), queue_);
  std::vector<snapshot> versions{s.snapshot()};
  for (int t = 0; t < 4; ++t) {
    const contribution one{there(std::vector<float>(304, 1)), 1};
    s.update({&one, 1});
    if (t % 2 == 0) versions.push_back(s.snapshot());
  }
  const std::vector<float> first = read(versions[0]);
  EXPECT_FLOAT_EQ(read(versions[1])[303], first[303] - 1);
  EXPECT_FLOAT_EQ(read(versions[2])[303], first[303] - 3);
  EXPECT_FLOAT_EQ(host_copy(s)[303], first[303] - 4);
}

/// As it comes from a worker elsewhere.
TEST_F(GpuShard, ReadsGradientsOfTheHost) {
  const parameter_layout layout = layout_of({{"w", {1013}}, {"b", {7}}}, 2);
  shard on_gpu(layout, 1, 3, testing::sgd(0.1), queue_), on_host(layout, 1, 3, testing::sgd(0.1));
  for (std::uint64_t t = 0; t < 4; ++t) {
    const std::vector<float> values = random_values(layout.dense_size(), t);
    const auto pinned = make_gradient(layout, cuda::pinned_memory);
    std::ranges::copy(values, pinned->dense.on_host<float>().begin());
    const auto brought = on_gpu.reachable(pinned);
    EXPECT_NE(brought, pinned);
    EXPECT_EQ(on_gpu.reachable(brought), brought);
    const contribution of_gpu{brought, 1}, of_host{pinned, 1};
    on_gpu.update({&of_gpu, 1});
    on_host.update({&of_host, 1});
    EXPECT_EQ(on_host.reachable(pinned), pinned);
  }
  const std::vector<float> found = host_copy(on_gpu);
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], on_host.snapshot().on_host()[i], 1e-5) << i;
  const auto added = make_gradient(layout, cuda::pinned_memory);
  added->addends.emplace_back();
  EXPECT_THAT([&] { on_gpu.reachable(added); }, ThrowsMessage<device_error>(HasSubstr("lie on the host")));
}

TEST_F(GpuShard, MeasuresHowFarItsWeightsHaveMoved) {
  const parameter_layout layout = layout_of({{"w", {304}}}, 1);
  shard s(layout, 0, 3, testing::sgd(1), queue_);
  const snapshot first = s.snapshot();
  const contribution one{there(std::vector<float>(304, 2)), 1};
  s.update({&one, 1});
  const snapshot copy = s.on_host(first);
  const auto by_gpu = s.measure_distance(first);
  queue_->finish();
  const auto by_host = s.measure_distance(copy), none = s.measure_distance(s.snapshot());
  queue_->finish();
  EXPECT_NEAR(s.distance_of(*by_gpu), 2, 1e-5);
  EXPECT_EQ(s.distance_of(*by_host), s.distance_of(*by_gpu));
  EXPECT_EQ(s.distance_of(*none), 0.0);
}

TEST_F(GpuShard, CopiesForTheHostAreOfTheirVersion) {
  const parameter_layout layout = layout_of({{"w", {304}}}, 1);
  shard s(layout, 0, 3, testing::sgd(1), queue_);
  const snapshot zero = s.host_snapshot();
  const contribution one{there(std::vector<float>(304, 1)), 1};
  s.update({&one, 1});
  const snapshot first = s.host_snapshot();
  queue_->finish();
  ASSERT_TRUE(zero.ready().passed());
  for (std::size_t i = 0; i < 304; ++i) EXPECT_FLOAT_EQ(first.on_host()[i], zero.on_host()[i] - 1) << i;
}

TEST_F(GpuShard, RefusesWhatLiesOrRunsOnTheHost) {
  const parameter_layout layout = layout_of({{"w", {16}}}, 1);
  shard s(layout, 0, 3, testing::sgd(1), queue_);
  const std::vector<float> before = host_copy(s);
  const auto refused = [&](std::shared_ptr<const gradient> g, const char* why) {
    const contribution one{std::move(g), 1};
    EXPECT_THAT([&] { s.update({&one, 1}); }, ThrowsMessage<device_error>(HasSubstr(why)));
  };
  refused(testing::constant_gradient(layout, 1), "memory of the host cannot be read by a kernel on cuda:0");
  const auto sum = there(std::vector<float>(16, 1));
  sum->addends.emplace_back();
  refused(sum, "sums of several devices lie on the host");
  const auto rows = there(std::vector<float>(16, 1));
  rows->sparse.emplace_back();
  refused(rows, "rows of tables");
  EXPECT_EQ(host_copy(s), before);
  EXPECT_EQ(s.version().value, 0U);
  EXPECT_THAT([&] { make_optimizer(testing::sgd(1), 16, *queue_)->update(host_stream{}, {}); },
              ThrowsMessage<device_error>(HasSubstr("the state lies on cuda:0")));
}

} // namespace
} // namespace mailgrad

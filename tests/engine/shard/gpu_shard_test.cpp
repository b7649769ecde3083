#include <mailgrad/engine/shard/gpu_block.hpp>
#include <mailgrad/engine/shard/gradient_batch.hpp>
#include <mailgrad/engine/shard/gradient_queue.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/hogwild_writer.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <gmock/gmock.h>

#include <cstring>
#include <deque>

// A shard whose weights and tables lie on a GPU. One source for two GPUs: the simulated one, and a real one.

namespace mailgrad {
namespace {

using testing::layout_of;
using testing::random_values;
using testing::update_once;
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
  static void expect_close(const std::vector<float>& found, const shard& on_host, const std::string& what) {
    const std::span<const float> expected = on_host.snapshot().on_host();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << what << " at " << i;
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
    expect_close(host_copy(on_gpu), on_host, rule);
  }
}

TEST_F(GpuShard, ChangesOnlyWhatAGradientCovers) {
  const parameter_layout layout = layout_of({{"w", {64}}, {"b", {64}}}, 1);
  shard s(layout, 0, 3, testing::sgd(1), queue_);
  const std::vector<float> before = host_copy(s);
  const auto g = there(std::vector<float>(128, 1));
  g->covered = std::make_shared<const coverage>(coverage{{64, 128}});
  update_once(s, g);
  const std::vector<float> after = host_copy(s);
  for (std::size_t i = 0; i < 128; ++i) EXPECT_FLOAT_EQ(after[i], before[i] - (i < 64 ? 0 : 1)) << i;
}

TEST_F(GpuShard, LeavesASnapshotAsItIs) {
  const parameter_layout layout = layout_of({{"w", {304}}}, 1);
  shard s(layout, 0, 3, testing::sgd(1), queue_);
  std::vector<snapshot> versions{s.snapshot()};
  const snapshot zero = s.host_snapshot();
  for (int t = 0; t < 4; ++t) {
    update_once(s, there(std::vector<float>(304, 1)));
    if (t % 2 == 0) versions.push_back(s.snapshot());
  }
  const std::vector<float> first = read(versions[0]);
  EXPECT_FLOAT_EQ(read(versions[1])[303], first[303] - 1);
  EXPECT_FLOAT_EQ(read(versions[2])[303], first[303] - 3);
  EXPECT_FLOAT_EQ(host_copy(s)[303], first[303] - 4);
  ASSERT_TRUE(zero.ready().passed()) << "copies for the host are of their version, too";
  EXPECT_THAT(first, ElementsAreArray(zero.on_host()));
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
  expect_close(host_copy(on_gpu), on_host, "gradients of the host");
  const auto added = make_gradient(layout, cuda::pinned_memory);
  added->addends.emplace_back();
  EXPECT_THAT([&] { on_gpu.reachable(added); }, ThrowsMessage<device_error>(HasSubstr("lie on the host")));
}

TEST_F(GpuShard, MeasuresHowFarItsWeightsHaveMoved) {
  const parameter_layout layout = layout_of({{"w", {304}}}, 1);
  shard s(layout, 0, 3, testing::sgd(1), queue_);
  const snapshot first = s.snapshot();
  update_once(s, there(std::vector<float>(304, 2)));
  const snapshot copy = s.on_host(first);
  const auto by_gpu = s.measure_distance(first);
  queue_->finish();
  const auto by_host = s.measure_distance(copy), none = s.measure_distance(s.snapshot());
  queue_->finish();
  EXPECT_NEAR(s.distance_of(*by_gpu), 2, 1e-5);
  EXPECT_EQ(s.distance_of(*by_host), s.distance_of(*by_gpu));
  EXPECT_EQ(s.distance_of(*none), 0.0);
}

TEST_F(GpuShard, RefusesWhatLiesOrRunsOnTheHost) {
  const parameter_layout layout = layout_of({{"w", {16}}}, 1);
  shard s(layout, 0, 3, testing::sgd(1), queue_);
  const std::vector<float> before = host_copy(s);
  const auto refused = [&](const std::shared_ptr<const gradient>& g, const char* why) {
    EXPECT_THAT([&] { update_once(s, g); }, ThrowsMessage<device_error>(HasSubstr(why)));
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

class GpuTableShard : public GpuShard {
protected:
  memory copied(const void* from, std::size_t bytes) const {
    std::vector<float> words(bytes / sizeof(float));
    std::memcpy(words.data(), from, bytes);
    memory m = queue_->allocate(bytes);
    queue_->write(words, m);
    return m;
  }

  /// A gradient with some rows of two tables, one of which it names twice: on the host, and on the GPU.
  std::pair<std::shared_ptr<gradient>, std::shared_ptr<gradient>> drawn(std::uint64_t seed) const {
    const auto host = testing::dense_gradient(random_values(layout_.dense_size(), seed));
    const auto gpu = std::make_shared<gradient>();
    gpu->dense = copied(host->dense.on_host<float>().data(), host->dense.bytes());
    std::mt19937_64 random(seed);
    for (const auto& [name, height, width] : {named{"t", 31, 4}, named{"u", 9, 5}, named{"t", 31, 4}}) {
      std::vector<std::int32_t> rows(20);
      for (std::int32_t& row : rows) row = static_cast<std::int32_t>(random() % height);
      if (seed % 3 == 0) rows[11] = -1;
      const std::vector<float> values = random_values(rows.size() * width, seed + width);
      add(*host, *gpu, name, width, rows, values);
    }
    gpu->ready = queue_->record();
    return {host, gpu};
  }
  struct named {
    const char* name;
    std::size_t height, width;
  };
  std::size_t variable_of(const std::string& name) const {
    const auto of = std::ranges::find(layout_.variables(), name, &placed_variable::name);
    return static_cast<std::size_t>(of - layout_.variables().begin());
  }
  void add(gradient& host, gradient& gpu, const std::string& name, std::size_t width,
           const std::vector<std::int32_t>& rows, const std::vector<float>& values) const {
    const std::size_t variable = variable_of(name);
    testing::add_rows(host, variable, width, rows, values);
    const auto held_rows = std::make_shared<memory>(copied(rows.data(), rows.size() * sizeof(std::int32_t)));
    const auto held_values = std::make_shared<memory>(copied(values.data(), values.size() * sizeof(float)));
    gpu.sparse_on_gpu.push_back({variable, width, std::as_const(*held_rows).on<std::int32_t>(queue_->where()),
                                 std::as_const(*held_values).on<float>(queue_->where())});
    gpu.held.push_back(held_rows);
    gpu.held.push_back(held_values);
  }

  const parameter_layout layout_ =
      layout_of({{"t", {31, 4}, true}, {"w", {64}}, {"u", {9, 5}, true}, {"b", {7}}}, 3);
};

TEST_F(GpuTableShard, UpdatesByEveryRuleAsOnTheHost) {
  for (const char* rule : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam"}) {
    optimizer_options o = parse_optimizer(rule);
    o.learning_rate = 0.05;
    o.weight_decay = 0.01;
    for (std::uint32_t s = 0; s < layout_.shard_count(); ++s) {
      shard on_gpu(layout_, s, 3, o, queue_), on_host(layout_, s, 3, o);
      std::vector<snapshot> read_by_workers;
      for (std::uint64_t t = 0; t < 6; ++t) {
        const auto a = drawn(2 * t), b = drawn(2 * t + 1);
        const contribution of_host[]{{a.first, 0.5F}, {b.first, 0.25F}};
        const contribution of_gpu[]{{a.second, 0.5F}, {b.second, 0.25F}};
        on_host.update(of_host, 0.5);
        on_gpu.update(of_gpu, 0.5);
        if (t % 2 == 0) read_by_workers.push_back(on_gpu.snapshot()); // which it must leave as it is
      }
      expect_close(read(on_gpu.snapshot()), on_host, std::string(rule) + " in shard " + std::to_string(s));
    }
  }
}

TEST_F(GpuTableShard, LeavesASnapshotAsItIs) {
  shard s(layout_, 0, 3, testing::sgd(0.1), queue_);
  const snapshot before = s.snapshot();
  const std::vector<float> values = read(before);
  for (std::uint64_t t = 0; t < 3; ++t) update_once(s, drawn(t).second);
  EXPECT_EQ(read(before), values);
  EXPECT_NE(read(s.snapshot()), values);
}

/// One worker has sent several, which the host would add up.
TEST_F(GpuTableShard, AppliesSeveralGradientsOfAWorkerInOneUpdate) {
  const auto on_gpu = std::make_shared<shard>(layout_, 2, 3, testing::sgd(0.1), queue_);
  const auto on_host = std::make_shared<shard>(layout_, 2, 3, testing::sgd(0.1));
  ASSERT_TRUE(on_gpu->has_tables_there());
  for (const bool gpu : {true, false}) {
    gradient_batch batch(gpu ? on_gpu : on_host, 2);
    const auto count = [](const waiting_gradient& g) { return contribution{g.what.payload.values}; };
    for (std::uint64_t t = 0; t < 5; ++t) {
      waiting_gradient g;
      g.what.header.id = {{}, {static_cast<std::uint32_t>(t % 2)}, {}, {1 + t / 2}};
      g.what.payload.values = gpu ? drawn(t).second : drawn(t).first;
      batch.add(std::move(g), count);
    }
    EXPECT_EQ(batch.of({0}), 3U);
    std::vector<contribution> all;
    batch.hand_over([](rank) { return 1.0F; }, count,
                    [&](const gradient_header&, const contribution* what) {
                      if (what) all.push_back(*what);
                    });
    EXPECT_EQ(all.size(), gpu ? 5U : 2U);
    (gpu ? on_gpu : on_host)->update(all, 1, 0.2F);
  }
  expect_close(read(on_gpu->snapshot()), *on_host, "a batch");
}

/// Alone, so that no update is lost.
TEST_F(GpuTableShard, IsWrittenToUnderHogwildAsAShardIsUpdated) {
  for (const char* rule : {"sgd", "adam"}) {
    const optimizer_options o = parse_optimizer(rule);
    std::deque<shard> there, expected;
    const auto block = std::make_shared<gpu_block>(layout_.shard_count(), 1);
    for (std::uint32_t s = 0; s < layout_.shard_count(); ++s) {
      there.emplace_back(layout_, s, 3, o, queue_);
      expected.emplace_back(layout_, s, 3, o);
      there.back().save(*block);
    }
    const auto store = std::make_shared<hogwild_store>(std::span<const float>());
    hogwild_writer writer(layout_, store, o, block, 0, std::make_shared<cuda::gpu_queue>(0));
    for (std::uint64_t t = 0; t < 5; ++t) {
      const auto g = drawn(t);
      writer.begin_step();
      writer.write(g.second, 0.5F);
      for (shard& s : expected) update_once(s, g.first, 0.5F);
    }
    for (std::uint32_t s = 0; s < layout_.shard_count(); ++s) {
      there[s].load(*block, 5);
      expect_close(read(there[s].snapshot()), expected[s], rule);
    }
  }
}

/// The first update that a shard makes there.
TEST_F(GpuTableShard, IsUpdatedByAListOfNoRows) {
  const auto g = there(std::vector<float>(layout_.dense_size()));
  g->sparse_on_gpu.push_back({variable_of("t"), 4, {}, {}});
  for (std::uint32_t i = 0; i < layout_.shard_count(); ++i) {
    shard s(layout_, i, 3, testing::sgd(0.1), queue_);
    const std::vector<float> before = read(s.snapshot());
    update_once(s, g);
    EXPECT_EQ(read(s.snapshot()), before) << i;
  }
}

/// A gradient of samples without entries, which a shard on the host had kept for its turn.
TEST_F(GpuTableShard, TakesKeptRowsOfWhichThereAreNone) {
  const auto g = testing::dense_gradient(std::vector<float>(layout_.dense_size()));
  testing::add_rows(*g, variable_of("t"), 4, {-1, -1}, std::vector<float>(8));
  for (std::uint32_t i = 0; i < layout_.shard_count(); ++i) {
    shard on_host(layout_, i, 3, testing::sgd(0.1)), on_gpu(layout_, i, 3, testing::sgd(0.1), queue_);
    waiting_gradient kept, found;
    kept.what.payload.values = g;
    saved_fields written;
    keep_gradient(written, kept, on_host);
    saved_fields reading(written.text(), written.arrays());
    keep_gradient(reading, found, on_gpu);
    const std::vector<float> before = read(on_gpu.snapshot());
    on_gpu.wait_for(*found.what.payload.values);
    update_once(on_gpu, found.what.payload.values);
    EXPECT_EQ(read(on_gpu.snapshot()), before) << i;
  }
}

TEST_F(GpuTableShard, RefusesRowsOfTheHost) {
  EXPECT_NE(growing_buffer(queue_).of(0), nullptr) << "an address for no bytes";
  shard s(layout_, 0, 3, testing::sgd(0.1), queue_);
  const auto g = drawn(1).first;
  EXPECT_THAT([&] { s.reachable(g); }, ThrowsMessage<device_error>(HasSubstr("lie on the host")));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <mailgrad/engine/shard/gpu_block.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/shard/waiting_gradients.hpp>
#include <mailgrad/engine/worker/hogwild_writer.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

// Tables of a shard whose weights lie on a GPU. One source for two GPUs: the simulated one, and a real one.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using testing::layout_of;
using testing::random_values;
using ::testing::ThrowsMessage;

class GpuTableShard : public ::testing::Test {
protected:
  void SetUp() override {
    MAILGRAD_NEEDS_GPU();
    queue_ = std::make_shared<cuda::gpu_queue>(0);
  }

  memory there(const void* from, std::size_t bytes) const {
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
    gpu->dense = there(host->dense.on_host<float>().data(), host->dense.bytes());
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
    const auto held_rows = std::make_shared<memory>(there(rows.data(), rows.size() * sizeof(std::int32_t)));
    const auto held_values = std::make_shared<memory>(there(values.data(), values.size() * sizeof(float)));
    gpu.sparse_on_gpu.push_back({variable, width, std::as_const(*held_rows).on<std::int32_t>(queue_->where()),
                                 std::as_const(*held_values).on<float>(queue_->where())});
    gpu.held.push_back(held_rows);
    gpu.held.push_back(held_values);
  }

  std::vector<float> read(const snapshot& s) const {
    std::vector<float> values(s.size());
    queue_->read(*s.owner(), std::as_writable_bytes(std::span(values)));
    return values;
  }
  void expect_close(shard& on_gpu, const shard& on_host, const std::string& what) const {
    const std::vector<float> found = read(on_gpu.snapshot());
    const std::span<const float> expected = on_host.snapshot().on_host();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << what << " at " << i;
  }

  const parameter_layout layout_ =
      layout_of({{"t", {31, 4}, true}, {"w", {64}}, {"u", {9, 5}, true}, {"b", {7}}}, 3);
  std::shared_ptr<cuda::gpu_queue> queue_;
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
      expect_close(on_gpu, on_host, std::string(rule) + " in shard " + std::to_string(s));
    }
  }
}

TEST_F(GpuTableShard, LeavesASnapshotAsItIs) {
  shard s(layout_, 0, 3, testing::sgd(0.1), queue_);
  const snapshot before = s.snapshot();
  const std::vector<float> values = read(before);
  for (std::uint64_t t = 0; t < 3; ++t) {
    const contribution one{drawn(t).second, 1};
    s.update({&one, 1});
  }
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
  expect_close(*on_gpu, *on_host, "a batch");
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
      const contribution one{g.first, 0.5F};
      for (shard& s : expected) s.update({&one, 1});
    }
    for (std::uint32_t s = 0; s < layout_.shard_count(); ++s) {
      there[s].load(*block, 5);
      expect_close(there[s], expected[s], rule);
    }
  }
}

TEST_F(GpuTableShard, HasAnAddressForNoBytes) {
  growing_buffer buffer(queue_);
  EXPECT_NE(buffer.of(0), nullptr);
}

/// The first update that a shard makes there.
TEST_F(GpuTableShard, IsUpdatedByAListOfNoRows) {
  const auto g = std::make_shared<gradient>();
  g->dense = there(std::vector<float>(layout_.dense_size()).data(), layout_.dense_size() * sizeof(float));
  g->sparse_on_gpu.push_back({variable_of("t"), 4, {}, {}});
  for (std::uint32_t i = 0; i < layout_.shard_count(); ++i) {
    shard s(layout_, i, 3, testing::sgd(0.1), queue_);
    const std::vector<float> before = read(s.snapshot());
    const contribution one{g, 1};
    s.update({&one, 1});
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
    const contribution one{found.what.payload.values, 1};
    const std::vector<float> before = read(on_gpu.snapshot());
    on_gpu.wait_for(*one.values);
    on_gpu.update({&one, 1});
    EXPECT_EQ(read(on_gpu.snapshot()), before) << i;
  }
}

TEST_F(GpuTableShard, RefusesRowsOfTheHost) {
  shard s(layout_, 0, 3, testing::sgd(0.1), queue_);
  const auto g = drawn(1).first;
  EXPECT_THAT([&] { s.reachable(g); }, ThrowsMessage<device_error>(HasSubstr("lie on the host")));
}

} // namespace
} // namespace mailgrad

#pragma once

#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <mailgrad/engine/shard/row_log.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace mailgrad::testing {

/// A device queue, and memory of its GPU.
class gpu_row_log_test : public ::testing::Test {
protected:
  void SetUp() override {
    MAILGRAD_NEEDS_GPU();
    queue_ = std::make_shared<cuda::gpu_queue>(0);
  }
  std::span<const std::int32_t> numbers(const std::vector<std::int32_t>& values) {
    std::vector<float> words(values.size());
    if (!values.empty()) std::memcpy(words.data(), values.data(), values.size() * sizeof(float));
    memory& m = kept_.emplace_back(queue_->allocate(words.size() * sizeof(float)));
    queue_->write(words, m);
    return std::as_const(m).on<std::int32_t>(queue_->where());
  }
  float* floats(const std::vector<float>& values) {
    memory& m = kept_.emplace_back(queue_->allocate(values.size() * sizeof(float)));
    queue_->write(values, m);
    return m.on<float>(queue_->where()).data();
  }
  std::vector<float> read(const float* there, std::size_t n) {
    std::vector<float> here(n);
    cuda::runtime::copy(std::get<cuda_stream>(queue_->where()).stream, here.data(), there, n * sizeof(float));
    queue_->finish();
    return here;
  }
  void note(gpu_row_log& log, std::uint64_t version, std::size_t table, std::size_t floats,
            const std::vector<std::vector<std::int32_t>>& lists) {
    std::vector<row_gradient> rows;
    for (const auto& list : lists) rows.push_back({numbers(list), nullptr});
    log.begin(version);
    log.note(table, floats, rows);
    log.end();
  }

  static constexpr std::size_t height = 300;
  std::shared_ptr<cuda::gpu_queue> queue_;
  std::deque<memory> kept_;
};

/// A shard with snapshots beside one that always updates in place.
class gpu_row_log_of_a_shard : public gpu_row_log_test {
protected:
  void SetUp() override {
    gpu_row_log_test::SetUp();
    if (!IsSkipped()) begin(1);
  }
  void begin(std::size_t shards, std::uint32_t index = 0) {
    layout_ = std::make_unique<parameter_layout>(
        layout_of({{"t", {4000, 4}, true}, {"w", {64}}, {"u", {3000, 5}, true}}, shards));
    shard_.reset();
    in_place_.reset();
    shard_.emplace(*layout_, index, 3, parse_optimizer("adagrad"), queue_);
    in_place_.emplace(*layout_, index, 3, parse_optimizer("adagrad"), queue_);
    gradients_ = 0;
  }

  std::shared_ptr<gradient> drawn(std::size_t named) {
    const auto g = std::make_shared<gradient>();
    std::mt19937_64 random(++gradients_);
    g->dense = memory(
        cuda::allocate_on(std::get<cuda_stream>(queue_->where()), layout_->dense_size() * sizeof(float)));
    queue_->write(random_values(layout_->dense_size(), gradients_), g->dense);
    for (std::size_t v = 0; v < layout_->variables().size(); ++v) {
      const placed_variable& placed = layout_->variables()[v];
      if (!placed.sparse) continue;
      std::vector<std::int32_t> rows(named);
      for (std::int32_t& row : rows) row = static_cast<std::int32_t>(random() % placed.dims[0]);
      const std::size_t width = placed.dims[1];
      const auto values = floats(random_values(named * width, gradients_ + v));
      g->sparse_on_gpu.push_back({v, width, numbers(rows), {values, named * width}});
    }
    return g;
  }
  void update(std::size_t named = 8) {
    const contribution one{drawn(named), 1};
    shard_->update({&one, 1}, 0.1);
    in_place_->update({&one, 1}, 0.1);
    queue_->finish(); // so that a block is free when nobody holds it
    for (const gpu_rows& part : one.values->sparse_on_gpu) overwrite(part.rows);
  }
  /// A worker writes to the same gradient again.
  void overwrite(std::span<const std::int32_t> rows) {
    const std::vector<std::int32_t> others(rows.size(), 1);
    cuda::runtime::copy(std::get<cuda_stream>(queue_->where()).stream, const_cast<std::int32_t*>(rows.data()),
                        others.data(), rows.size_bytes());
    queue_->finish();
  }
  std::vector<float> read_snapshot(const snapshot& s) { return read(s.on(queue_->where()).data(), s.size()); }
  void expect_same(const std::string& when) {
    ASSERT_EQ(read_snapshot(shard_->snapshot()), read_snapshot(in_place_->snapshot())) << when;
  }
  /// Makes another block the latest.
  void update_elsewhere(std::size_t named = 8) {
    const snapshot held = shard_->snapshot();
    update(named);
  }

  /// Begins with two blocks, whose versions the shard knows.
  void begin_with_two_blocks(std::size_t shards, std::uint32_t index = 0) {
    begin(shards, index);
    for (int i = 0; i < 2; ++i) update_elsewhere();
  }

  std::unique_ptr<parameter_layout> layout_;
  std::optional<shard> shard_, in_place_;
  std::uint64_t gradients_ = 0;
};

} // namespace mailgrad::testing

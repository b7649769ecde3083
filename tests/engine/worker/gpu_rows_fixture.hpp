#pragma once

#include <mailgrad/tests/engine/tall_tables.hpp>
#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>

#include <limits>
#include <utility>

namespace mailgrad::testing {

/// The same model with tables on a GPU and on the host, whose weights change with each step.
class gpu_rows_test : public gpu_replica_test {
protected:
  void build_with(const model_function& model, const std::shared_ptr<const data_split>& data,
                  std::size_t shards, const weight_places& where) {
    make_replicas(model, data, shards, where);
    first_ = weights_;
    near_ = where.on_gpu_by_shard(shards);
    queue_ = std::make_shared<cuda::gpu_queue>(0);
    given_.clear();
    steps_ = 0;
  }

  /// The weights, with not-a-numbers in all rows of tables that `b` does not name.
  std::vector<float> poisoned(const batch& b) const {
    std::vector<float> values(weights_.size(), std::numeric_limits<float>::quiet_NaN());
    std::copy_n(weights_.begin(), layout_->dense_size(), values.begin());
    std::size_t column = 0;
    for (const placed_variable& v : layout_->variables()) {
      if (!v.sparse) continue;
      for (const std::int32_t row : named(b, column++)) {
        if (row < 0 || static_cast<std::size_t>(row) >= v.dims[0]) continue;
        const std::size_t width = v.dims[1], first = v.offset + static_cast<std::size_t>(row) * width;
        std::copy_n(weights_.begin() + static_cast<std::ptrdiff_t>(first), width,
                    values.begin() + static_cast<std::ptrdiff_t>(first));
      }
    }
    return values;
  }
  /// The rows of table number `column` that a batch names.
  std::vector<std::int32_t> named(const batch& b, std::size_t column) const {
    std::vector<std::int32_t> rows;
    if (data_->train.is_sparse()) {
      const auto all = b.columns.values<std::int32_t>();
      return {all.begin(), all.end()};
    }
    const auto all = b.categories.values<std::int32_t>();
    const bool every = every_row_of_first_ && column == 0;
    for (std::size_t i = every ? 0 : column; i < all.size(); i += every ? 1 : 2) rows.push_back(all[i]);
    return rows;
  }

  /// Gives the GPU such weights of a shard as it has in this step.
  void give(std::uint32_t shard, const std::vector<float>& all) {
    const shard_range range = layout_->shard(shard);
    const std::span<const float> mine = std::span(all).subspan(range.begin, range.size());
    if (near_[shard]) {
      const auto there = std::make_shared<memory>(queue_->allocate(mine.size_bytes()));
      queue_->write(mine, *there);
      on_gpu_->use_weights(shard, snapshot(there, queue_->record()));
      given_.push_back(there);
    } else {
      const auto here = std::make_shared<memory>(block(mine.size_bytes()));
      std::ranges::copy(mine, here->on_host<float>().begin());
      on_gpu_->use_weights(shard, snapshot(here));
      given_.push_back(here);
    }
  }
  /// Changes all weights, and gives the GPU those that it may read.
  void give_next(const batch& b, bool poison = true) {
    ++steps_;
    for (std::size_t i = 0; i < weights_.size(); ++i)
      weights_[i] = first_[i] + 0.01F * static_cast<float>((i + steps_) % 7);
    const std::vector<float> all = poison ? poisoned(b) : weights_;
    for (std::uint32_t s = 0; s < near_.size(); ++s) {
      give(s, all);
      on_host_->use_weights(s, weights_.data() + layout_->shard(s).begin);
    }
  }
  /// Lets both compute `b`, and compares what they find.
  void expect_same_step(const std::shared_ptr<const batch>& b, bool poison = true) {
    give_next(*b, poison);
    const result expected = host_step(b);
    const auto g = on_gpu_->make_gradient();
    gradients_.push_back(g);
    on_gpu_->begin_step(b, g);
    await_end();
    expect_close(result_on_gpu(on_gpu_->end_step(), *g), expected);
  }
  result result_on_gpu(float loss, const gradient& g) const {
    if (g.dense.is_on_host() && !g.sparse_on_gpu.empty()) ADD_FAILURE() << "rows in two places";
    if (g.dense.is_on_host()) return result_of(loss, g);
    std::vector<float> dense(layout_->dense_size());
    queue_->wait_for(g.ready);
    queue_->read(g.dense, std::as_writable_bytes(std::span(dense)));
    result found{loss, dense};
    for (const gpu_rows& part : g.sparse_on_gpu) {
      const auto rows = read(part.rows);
      const auto end = std::ranges::find_if(rows, [](std::int32_t row) { return row < 0; });
      const auto listed = static_cast<std::size_t>(end - rows.begin());
      for (std::size_t i = 0; i < listed; ++i) found.gradient.push_back(static_cast<float>(rows[i]));
      const auto values = read(part.values.first(listed * part.width));
      found.gradient.insert(found.gradient.end(), values.begin(), values.end());
    }
    return found;
  }
  template <class T>
  std::vector<T> read(std::span<const T> there) const {
    std::vector<T> here(there.size());
    cuda::runtime::copy(std::get<cuda_stream>(queue_->where()).stream, here.data(), there.data(),
                        there.size_bytes());
    queue_->finish();
    return here;
  }

  std::vector<bool> near_;
  std::vector<float> first_;
  bool every_row_of_first_ = false; ///< all categories of a batch are rows of the first table
  std::shared_ptr<cuda::gpu_queue> queue_;
  std::vector<std::shared_ptr<memory>> given_;
  std::size_t steps_ = 0;
};

} // namespace mailgrad::testing

#pragma once

#include <mailgrad/engine/shard/parallel_update.hpp>

#include <unordered_map>

namespace mailgrad {

/// The sum of a shard's parts of several gradients, in the memory of one. Of tables it has rows that occur.
///
/// shard::add_to() selects the parts of its shard.
/// Threads one caller at a time; no call of add() while result() is in use.
class gradient_sum {
public:
  /// `at` is the queue of the shard, and `dense_size` the number of its floats with dense gradients.
  gradient_sum(std::shared_ptr<device_queue> at, std::size_t dense_size);
  void clear(); ///< empties the sum, but keeps its memory
  /// Queues scale * values to be added to the floats from `begin` on.
  void add(float scale, std::span<const float> values, std::size_t begin);
  /// Adds `ranges` of the model's flat vector to those that the sum covers; null: all of it.
  void cover(const std::shared_ptr<const coverage>& ranges);
  void add_row(std::size_t variable, std::int32_t row, float scale, std::span<const float> values);
  contribution result(); ///< the sum as an update takes it, with scale 1, until the next clear()

  void keep(archive& a);

private:
  /// The sum of one table's gradients; rows are in the order in which they first came.
  struct table {
    std::size_t variable;
    std::size_t width;
    std::vector<std::int32_t> rows;
    std::vector<float> values;
    std::unordered_map<std::int32_t, std::size_t> place; ///< of a row in `rows`

    void keep(archive& a);
  };

  std::shared_ptr<device_queue> at_;
  std::shared_ptr<memory> dense_;
  bool any_ = false; ///< whether anything was added to `dense_`, which holds old values before that
  bool all_ = false; ///< whether the sum covers the whole model
  coverage covered_; ///< what it covers otherwise
  std::vector<table> tables_;
  std::shared_ptr<gradient> sum_;
};

} // namespace mailgrad

#include <mailgrad/optim/row_sum.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace mailgrad {

namespace {

void require_fitting(const sparse_update& work) {
  if (work.width > 0 && work.values.size() / work.width < work.rows.size())
    throw shape_error(fmt::format("update_rows: {} values for {} rows of {}", work.values.size(),
                                  work.rows.size(), work.width));
  const std::int64_t rows = std::int64_t{work.row_end} - work.row_begin;
  const auto height = static_cast<std::size_t>(rows);
  const std::size_t held = work.width == 0 ? height : work.weights.size() / work.width;
  if (rows < 0 || held != height || work.weights.size() != height * work.width)
    throw shape_error(fmt::format("update_rows: {} weights for rows {} to {} of {}", work.weights.size(),
                                  work.row_begin, work.row_end, work.width));
}

/// Calls `f(row of the shard, its values)` for each entry that belongs to the shard.
template <class F>
void for_each_row(const sparse_update& work, F f) {
  for (std::size_t j = 0; j < work.rows.size() && work.rows[j] >= 0; ++j) {
    const std::int32_t row = work.rows[j];
    if (row < work.row_begin || row >= work.row_end) continue;
    f(static_cast<std::uint32_t>(row - work.row_begin), work.values.subspan(j * work.width, work.width));
  }
}

} // namespace

row_list row_sum::as_they_come(const sparse_update& work) {
  require_fitting(work);
  rows_.clear();
  values_.clear();
  for_each_row(work, [this](std::uint32_t row, std::span<const float> values) {
    rows_.push_back(row);
    values_.insert(values_.end(), values.begin(), values.end());
  });
  return {rows_, values_};
}

row_list row_sum::distinct(const sparse_update& work) {
  require_fitting(work);
  rows_.clear();
  values_.clear();
  place_.resize(std::max(place_.size(), static_cast<std::size_t>(work.row_end - work.row_begin)));
  for_each_row(work, [&](std::uint32_t row, std::span<const float> values) {
    if (place_[row] == 0) {
      rows_.push_back(row);
      values_.insert(values_.end(), values.begin(), values.end());
      place_[row] = static_cast<std::uint32_t>(rows_.size());
      return;
    }
    float* sum = values_.data() + (place_[row] - 1) * work.width;
    for (std::size_t c = 0; c < work.width; ++c) sum[c] += values[c];
  });
  for (const std::uint32_t row : rows_) place_[row] = 0;
  return {rows_, values_};
}

} // namespace mailgrad

#include <mailgrad/engine/model/row_join.hpp>

namespace mailgrad {

void row_join::begin(std::size_t variable) noexcept {
  variable_ = variable;
  rows_ = {};
  values_ = {};
  joined_rows_.clear();
  joined_values_.clear();
}

void row_join::add(const gradient& g, float scale) {
  for (const gradient_rows& part : g.sparse)
    if (part.variable == variable_) add(part, scale);
}

void row_join::add(const gradient_rows& part, float scale) {
  const auto [variable, width, rows, values] = listed_rows(part);
  if (rows.empty()) return;
  if (rows_.empty() && scale == 1) {
    rows_ = rows;
    values_ = values;
    return;
  }
  if (joined_rows_.empty()) copy(rows_, values_, 1); // copies the first list, which was read in place so far
  copy(rows, values, scale);
  rows_ = joined_rows_;
  values_ = joined_values_;
}

void row_join::copy(std::span<const std::int32_t> rows, std::span<const float> values, float scale) {
  joined_rows_.insert(joined_rows_.end(), rows.begin(), rows.end());
  for (const float g : values) joined_values_.push_back(scale * g);
}

} // namespace mailgrad

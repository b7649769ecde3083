#pragma once

#include <mailgrad/engine/model/gradient.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace mailgrad {

/// Joins the rows of one table from all gradients of an update into one list, because a rule with state must
/// see every repeat of a row at once. A model that gathers a table twice has two lists of it in one gradient.
///
/// A single list with scale 1 is used in place; several lists are copied one after the other.
/// Shapes  rows int32[n], may repeat, none is negative; values float32[n, width], scaled.
/// Errors  std::bad_alloc if a list is longer than any before.
/// Threads one caller at a time; what rows() and values() return is valid until the next begin() or add().
class row_join {
public:
  /// Clears all lists; the following add() take those of `variable`.
  void begin(std::size_t variable) noexcept;
  /// Adds all lists of `g`, which must live as long as rows() and values() are used.
  void add(const gradient& g, float scale);

  std::span<const std::int32_t> rows() const noexcept { return rows_; }
  std::span<const float> values() const noexcept { return values_; }

private:
  void add(const gradient_rows& part, float scale);
  void copy(std::span<const std::int32_t> rows, std::span<const float> values, float scale);

  std::size_t variable_ = 0;
  std::span<const std::int32_t> rows_; ///< points to the single list, or to the memory below
  std::span<const float> values_;
  std::vector<std::int32_t> joined_rows_;
  std::vector<float> joined_values_;
};

} // namespace mailgrad

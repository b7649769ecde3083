#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mailgrad {

/// An amount that each worker has its own of: "2", "sqrt(i)", "i^2", "1+4*i".
///
/// It may have numbers, i (the number of the worker, from 1), n (how many workers there are), + - * / ^,
/// parentheses and sqrt().
class worker_formula {
public:
  /// Errors  std::invalid_argument in one line: the text is no formula.
  explicit worker_formula(std::string_view text);

  const std::string& text() const noexcept { return text_; }
  /// May be infinite or NaN, as in "1/(i-1)" for the first worker.
  double of(std::uint32_t worker, std::uint32_t workers) const;

private:
  std::string text_;
};

} // namespace mailgrad

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace mailgrad {

/// The place of the first value that is infinite or NaN; none if all are finite.
std::optional<std::size_t> first_not_finite(std::span<const float> values) noexcept;

/// Checks that all values are finite. `what` is the word for a value, such as "number". Each sample has
/// `width` values; with 0, the message names no sample.
///
/// Errors  std::invalid_argument that names the first value which is infinite or NaN: "dataset: number 2 of
///         sample 7 is nan; numbers must be finite".
void require_finite(std::span<const float> values, std::size_t width, const std::string& what);

} // namespace mailgrad

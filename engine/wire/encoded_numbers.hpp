#pragma once

#include <mailgrad/engine/wire/wire_format.hpp>

#include <cstddef>
#include <span>

namespace mailgrad {

// A part of a gradient as bytes, laid out as docs/wire_formats.md says. The same numbers give the same bytes
// in every run and on every processor.

/// How many bytes `count` numbers take, whatever they are.
///
/// Errors  shape_error if `count` does not fit into 32 bits.
std::size_t encoded_bytes(const wire_format& f, std::size_t count);

/// Writes x + residual, and leaves in the residual what the receiver will lack. False if a number is NaN or
/// infinite and the format cannot say so (int8, top-k, 1-bit): the residual is as it was then, and the
/// gradient is to be counted as "not finite" and not sent.
///
/// Shapes  x: float32[n]; residual: float32[n], or empty for none; to: encoded_bytes(f, n). float32 lacks
///         nothing and takes no residual.
/// Errors  shape_error for other lengths; nothing has changed then.
/// Threads one caller at a time for one residual.
[[nodiscard]] bool encode_numbers(const wire_format& f, std::span<const float> x, std::span<float> residual,
                                  std::span<std::byte> to);

/// Reads what encode_numbers() has written. The bytes may come from anybody: everything is checked against
/// the format, the number of values that is expected and the bytes that are there, before a value is written.
///
/// Errors  wire_error in one line with what was expected and what was found; `to` is as it was then.
void decode_numbers(const wire_format& f, std::span<const std::byte> from, std::span<float> to);

} // namespace mailgrad

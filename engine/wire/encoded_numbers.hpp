#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>

namespace mailgrad {

// A part of a gradient as bytes, laid out as docs/wire_formats.md says, the same on every processor.

/// How many bytes `count` numbers take, whatever they are.
/// Errors  shape_error if `count` does not fit into 32 bits.
std::size_t encoded_bytes(const wire_format& f, std::size_t count);

/// Writes x + residual, and leaves in the residual what the receiver will lack. False if a number is NaN or
/// infinite and the format cannot say so (int8, top-k, 1-bit): then nothing changes or is to be sent.
/// Shapes  x: float32[n]; residual: float32[n], or empty for none, as for float32; to: encoded_bytes(f, n).
/// Errors  shape_error for other lengths; nothing has changed then.
/// Threads one caller at a time for one residual.
[[nodiscard]] bool encode_numbers(const wire_format& f, std::span<const float> x, std::span<float> residual,
                                  std::span<std::byte> to);

/// Reads what encode_numbers() has written. The bytes may come from anybody: everything is checked against
/// the format, the number of values that is expected and the bytes that are there, before a value is written.
/// Errors  wire_error in one line with what was expected and what was found; `to` is as it was then.
void decode_numbers(const wire_format& f, std::span<const std::byte> from, std::span<float> to);

// Rows of the gradient of a table as bytes: their numbers exactly, in their order, and values in the format.

/// The table that rows are of.
struct table_extent {
  std::size_t rows = 0;
  std::size_t width = 0;
};

/// How many bytes so many rows take.
/// Errors  shape_error if the rows or their values do not fit into 32 bits.
std::size_t encoded_row_bytes(const wire_format& f, std::size_t rows, std::size_t width);

/// Writes the listed rows of `part`, as encode_numbers() writes its numbers. A row that comes twice takes its
/// residual with it the first time, and both leave there what the receiver will lack.
/// Shapes  residual: float32[rows * width], or empty for none; to: encoded_row_bytes() of the listed rows.
/// Errors  shape_error for other lengths, or a row that the table lacks; nothing has changed then.
/// Threads one caller at a time for one residual; `scratch` is memory between the steps, of any size.
[[nodiscard]] bool encode_rows(const wire_format& f, const gradient_rows& part, const table_extent& table,
                               std::span<float> residual, std::vector<float>& scratch,
                               std::span<std::byte> to);

struct decoded_rows {
  std::vector<std::int32_t> rows;
  std::vector<float> values; ///< float32[n, width]
};

/// Reads what encode_rows() has written, with everything checked as by decode_numbers(). The values take at
/// most `width` times as many bytes as there are in `from`, plus those of the format itself.
/// Errors  wire_error; `to` lists no row then.
void decode_rows(const wire_format& f, std::span<const std::byte> from, const table_extent& table,
                 decoded_rows& to);

} // namespace mailgrad

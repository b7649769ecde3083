#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>

/// The order in which the rows of a list are added to a table: those of one row of the table one behind the
/// other, as they stand in the list. It is made on the card, which has the list, in two short kernels.
namespace mailgrad::cuda {

/// A row of the table, and below it the position in the list. All keys of a list differ, so any way of
/// sorting them gives the same order.
using row_key = std::uint64_t;

/// The row of keys that end the list: of numbers below 0.
inline constexpr std::uint32_t row_of_end = std::uint32_t{1} << 31;

constexpr row_key first_key_of(std::uint32_t row) { return row_key{row} << 32; }
constexpr std::uint32_t row_of(row_key key) { return static_cast<std::uint32_t>(key >> 32); }
constexpr std::uint32_t position_of(row_key key) { return static_cast<std::uint32_t>(key); }

/// Bytes that order_rows() needs for a list of n rows.
constexpr std::size_t row_order_bytes(std::size_t n) { return 2 * n * sizeof(row_key); }

/// Returns the keys of all n rows in ascending order, in `scratch`.
///
/// Shapes  n is at least 1 and below 2^31.
const row_key* order_rows(const cuda_stream& s, const std::int32_t* rows, std::uint32_t n, void* scratch);

} // namespace mailgrad::cuda

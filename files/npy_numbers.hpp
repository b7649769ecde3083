#pragma once

#include <mailgrad/files/npy_header.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

/// Converts numbers of type `from`, little endian, to.size() of them. Returns the place of the first that
/// `to` cannot hold, one beyond float32 or a fraction among whole numbers; to.size() if all fit. A whole
/// number of more than 53 bits is rounded to the next double.
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<float> to);
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<double> to);
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<std::int64_t> to);
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<std::int32_t> to);
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<std::uint8_t> to);

} // namespace mailgrad

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mailgrad {

/// The type of a tensor's elements: float32 for numbers to compute with, int32 for labels and indices.
enum class dtype : std::uint8_t { float32, int32 };

constexpr std::size_t byte_size(dtype) noexcept { return 4; }

constexpr std::string_view to_string(dtype t) noexcept { return t == dtype::float32 ? "float32" : "int32"; }

template <class T>
inline constexpr dtype dtype_of = dtype::float32;
template <>
inline constexpr dtype dtype_of<std::int32_t> = dtype::int32;

} // namespace mailgrad

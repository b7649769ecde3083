#pragma once

#include <limits>

namespace mailgrad::testing {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float largest_float = std::numeric_limits<float>::max();

} // namespace mailgrad::testing

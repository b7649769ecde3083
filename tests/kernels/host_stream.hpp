#pragma once

#include <mailgrad/tensor/stream.hpp>

namespace mailgrad::testing {

inline constexpr stream host = host_stream{};

} // namespace mailgrad::testing

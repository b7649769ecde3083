#pragma once

#include <mailgrad/tensor/small_floats.hpp>

#include <string_view>
#include <variant>

namespace mailgrad {

/// An array of floats, or one of numbers that are rounded to bfloat16, for kernels that take either on a
/// card.
using read_numbers = std::variant<const float*, const bfloat16*>;
using written_numbers = std::variant<float*, bfloat16*>;

/// The array, for a kernel of the host.
///
/// Errors  device_error that names the kernel, if it is one of bfloat16, of which the host computes nothing.
const float* floats_of(const read_numbers& x, std::string_view kernel);
float* floats_of(const written_numbers& x, std::string_view kernel);

} // namespace mailgrad

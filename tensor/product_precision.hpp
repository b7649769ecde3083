#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// What a card rounds the operands of a matrix product to. Sums, results, weights and gradients are float32
/// in any case.
enum class product_precision : std::uint8_t {
  float32,  ///< they stay as they are
  tf32,     ///< 8 bits of exponent, 10 of fraction, by the card itself
  bfloat16, ///< 8 bits of exponent, 7 of fraction, by a kernel before the product
};

/// "float32", "tf32", "bfloat16"
std::string_view name(product_precision p);

/// The names of all, in their order.
std::vector<std::string> product_precision_names();

/// Errors  std::invalid_argument in one line with the names there are.
product_precision parse_product_precision(std::string_view text);

} // namespace mailgrad

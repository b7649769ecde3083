#include <mailgrad/tensor/product_precision.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace mailgrad {

namespace {

/// In the order of the enumerators.
constexpr std::array<std::string_view, 3> names{"float32", "tf32", "bfloat16"};

} // namespace

std::string_view name(product_precision p) { return names[static_cast<std::size_t>(p)]; }

std::vector<std::string> product_precision_names() { return {names.begin(), names.end()}; }

product_precision parse_product_precision(std::string_view text) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end())
    throw std::invalid_argument(fmt::format("precision '{}': expected float32, tf32 or bfloat16", text));
  return static_cast<product_precision>(found - names.begin());
}

} // namespace mailgrad

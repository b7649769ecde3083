#include <mailgrad/tensor/fail_with.hpp>
#include <mailgrad/tensor/small_floats.hpp>

#include <algorithm>

namespace mailgrad {
namespace {

/// In the order of the enumerators.
constexpr std::array<std::string_view, 3> names{"float32", "tf32", "bfloat16"};

template <class Float, class Numbers>
Float* floats_in(const Numbers& x, std::string_view kernel) {
  if (const auto* floats = std::get_if<Float*>(&x)) return *floats;
  fail_with(world_errc::no_such_device, "{}: the host computes nothing in bfloat16", kernel);
}

} // namespace

std::string_view name(product_precision p) { return names[static_cast<std::size_t>(p)]; }
std::vector<std::string> product_precision_names() { return {names.begin(), names.end()}; }

product_precision parse_product_precision(std::string_view text) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end())
    fail_with<std::invalid_argument>("precision '{}': expected float32, tf32 or bfloat16", text);
  return static_cast<product_precision>(found - names.begin());
}

const float* floats_of(const read_numbers& x, std::string_view kernel) {
  return floats_in<const float>(x, kernel);
}

float* floats_of(const written_numbers& x, std::string_view kernel) { return floats_in<float>(x, kernel); }

} // namespace mailgrad

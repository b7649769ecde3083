#include <mailgrad/tensor/numbers.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

template <class Float, class Numbers>
Float* floats_in(const Numbers& x, std::string_view kernel) {
  if (const auto* floats = std::get_if<Float*>(&x)) return *floats;
  throw device_error(world_errc::no_such_device,
                     fmt::format("{}: the host computes nothing in bfloat16", kernel));
}

} // namespace

const float* floats_of(const read_numbers& x, std::string_view kernel) {
  return floats_in<const float>(x, kernel);
}

float* floats_of(const written_numbers& x, std::string_view kernel) { return floats_in<float>(x, kernel); }

} // namespace mailgrad

#include <mailgrad/files/npy_numbers.hpp>

#include <mailgrad/tensor/small_floats.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace mailgrad {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in memory");

namespace {

/// Stores `value` if `to` can hold it.
template <class From, class To>
bool store(From value, To& to) {
  if constexpr (std::is_floating_point_v<To>) {
    to = static_cast<To>(value);
    if constexpr (std::is_floating_point_v<From>) return std::isfinite(to) || !std::isfinite(value);
    return true;
  } else if constexpr (std::is_floating_point_v<From>) {
    const double beyond = std::ldexp(1.0, std::numeric_limits<To>::digits); // the largest one, and 1
    const bool fits = value >= static_cast<From>(std::numeric_limits<To>::min()) &&
                      static_cast<double>(value) < beyond && value == std::floor(value);
    if (fits) to = static_cast<To>(value);
    return fits;
  } else {
    if (!std::in_range<To>(value)) return false;
    to = static_cast<To>(value);
    return true;
  }
}

/// Converts numbers of type `From`. Returns the index of the first that does not fit.
template <class From, class To>
std::size_t convert(const char* bytes, std::span<To> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    From value{};
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);
    if (!store(value, to[i])) return i;
  }
  return to.size();
}

template <class To>
std::size_t convert_halves(const char* bytes, std::span<To> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
    if (!store(float_of_half(bits), to[i])) return i;
  }
  return to.size();
}

template <class To>
std::size_t convert(npy_number from, const char* bytes, std::span<To> to) {
  switch (from) {
  case npy_number::f64:
    return convert<double>(bytes, to);
  case npy_number::f32:
    return convert<float>(bytes, to);
  case npy_number::f16:
    return convert_halves(bytes, to);
  case npy_number::i64:
    return convert<std::int64_t>(bytes, to);
  case npy_number::i32:
    return convert<std::int32_t>(bytes, to);
  case npy_number::i16:
    return convert<std::int16_t>(bytes, to);
  case npy_number::i8:
    return convert<std::int8_t>(bytes, to);
  case npy_number::u64:
    return convert<std::uint64_t>(bytes, to);
  case npy_number::u32:
    return convert<std::uint32_t>(bytes, to);
  case npy_number::u16:
    return convert<std::uint16_t>(bytes, to);
  case npy_number::u8:
  case npy_number::boolean:
    break;
  }
  return convert<std::uint8_t>(bytes, to);
}

} // namespace

std::size_t convert_numbers(npy_number from, const char* bytes, std::span<float> to) {
  return convert(from, bytes, to);
}
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<double> to) {
  return convert(from, bytes, to);
}
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<std::int64_t> to) {
  return convert(from, bytes, to);
}
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<std::int32_t> to) {
  return convert(from, bytes, to);
}
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<std::uint8_t> to) {
  return convert(from, bytes, to);
}

} // namespace mailgrad

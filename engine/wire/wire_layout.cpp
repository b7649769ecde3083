#include <mailgrad/engine/wire/wire_layout.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mailgrad {

namespace {

/// The share of so many numbers, rounded to the nearest, but at least one.
std::size_t places_of(double share, std::size_t count) {
  const double wanted = std::round(share * static_cast<double>(count));
  return std::min(count, std::max(std::size_t{1}, static_cast<std::size_t>(wanted)));
}

} // namespace

wire_layout::wire_layout(const wire_format& f, std::size_t count) {
  if (count > std::numeric_limits<std::uint32_t>::max())
    throw shape_error(fmt::format("{}: {} numbers are more than 32 bits can count; send them in parts",
                                  to_string(f), count));
  header = {f.encoding, static_cast<std::uint32_t>(count), f.block};
  const std::size_t blocks = f.block == 0 ? 0 : (count + f.block - 1) / f.block;
  switch (f.encoding) {
  case wire_encoding::float32:
    second = 4 * count;
    break;
  case wire_encoding::float16:
  case wire_encoding::bfloat16:
    second = 2 * count;
    break;
  case wire_encoding::int8:
    first = 4 * blocks;
    second = count;
    break;
  case wire_encoding::top_k:
    header.setting = static_cast<std::uint32_t>(places_of(f.share, count));
    first = second = std::size_t{4} * header.setting;
    break;
  case wire_encoding::one_bit:
    first = 8 * blocks;
    second = (count + 7) / 8;
    break;
  }
}

} // namespace mailgrad

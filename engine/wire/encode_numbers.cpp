#include <mailgrad/engine/wire/encoded_numbers.hpp>

#include <mailgrad/engine/wire/wire_layout.hpp>
#include <mailgrad/engine/wire/wire_words.hpp>
#include <mailgrad/kernels/encode_floats.hpp>
#include <mailgrad/kernels/encode_int8.hpp>
#include <mailgrad/kernels/encode_largest.hpp>
#include <mailgrad/kernels/encode_signs.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mailgrad {

namespace {

struct compensated_numbers {
  std::span<const float> x;
  std::span<float> residual;

  compensated_numbers block(std::size_t begin, std::size_t size) const {
    const std::size_t count = std::min(size, x.size() - begin);
    return {x.subspan(begin, count), residual.empty() ? residual : residual.subspan(begin, count)};
  }
};

void write_header(const wire_header& h, std::span<std::byte> to) {
  put_whole(to, 0, static_cast<std::uint8_t>(h.encoding));
  put_whole(to, 4, h.count);
  put_whole(to, 8, h.setting);
}

// What a block shares is written first, for all blocks. Only then is it known that all numbers are finite,
// and the residual may change.

bool encode_blocks_as_int8(std::size_t block, compensated_numbers all, std::span<std::byte> scales,
                           std::span<std::byte> multiples) {
  for (std::size_t begin = 0, at = 0; begin < all.x.size(); begin += block, at += 4) {
    const compensated_numbers b = all.block(begin, block);
    const float scale = int8_scale(host_stream{}, b.x, b.residual);
    if (std::isnan(scale)) return false;
    put_float(scales, at, scale);
  }
  auto* to = reinterpret_cast<std::int8_t*>(multiples.data());
  for (std::size_t begin = 0, at = 0; begin < all.x.size(); begin += block, at += 4) {
    const compensated_numbers b = all.block(begin, block);
    encode_int8(host_stream{}, b.x, b.residual, float_at(scales, at), {to + begin, b.x.size()});
  }
  return true;
}

bool encode_blocks_as_signs(std::size_t block, compensated_numbers all, std::span<std::byte> means,
                            std::span<std::byte> signs) {
  for (std::size_t begin = 0, at = 0; begin < all.x.size(); begin += block, at += 8) {
    const compensated_numbers b = all.block(begin, block);
    const sign_means m = means_of_signs(host_stream{}, b.x, b.residual);
    if (!std::isfinite(m.negative) || !std::isfinite(m.other)) return false;
    put_float(means, at, m.negative);
    put_float(means, at + 4, m.other);
  }
  for (std::size_t begin = 0, at = 0; begin < all.x.size(); begin += block, at += 8) {
    const compensated_numbers b = all.block(begin, block);
    const sign_means m{float_at(means, at), float_at(means, at + 4)};
    encode_signs(host_stream{}, b.x, b.residual, m, signs.subspan(begin / 8, (b.x.size() + 7) / 8));
  }
  return true;
}

bool encode_the_largest(std::size_t count, compensated_numbers all, std::span<std::byte> places,
                        std::span<std::byte> values) {
  if (count == 0) return true;
  const auto cut = cut_of_largest(host_stream{}, all.x, all.residual, count);
  if (!cut) return false;
  encode_largest(host_stream{}, all.x, all.residual, *cut, places, values);
  return true;
}

void require_encodable(const wire_format& f, const wire_layout& layout, compensated_numbers all,
                       std::size_t bytes) {
  if (!all.residual.empty() && !is_lossy(f)) throw shape_error(to_string(f) + " takes no residual");
  if (!all.residual.empty() && all.residual.size() != all.x.size())
    throw shape_error(
        fmt::format("{}: {} numbers with a residual of {}", to_string(f), all.x.size(), all.residual.size()));
  if (bytes != layout.bytes())
    throw shape_error(fmt::format("{}: {} numbers take {} bytes; there is room for {}", to_string(f),
                                  all.x.size(), layout.bytes(), bytes));
}

} // namespace

std::size_t encoded_bytes(const wire_format& f, std::size_t count) { return wire_layout(f, count).bytes(); }

bool encode_numbers(const wire_format& f, std::span<const float> x, std::span<float> residual,
                    std::span<std::byte> to) {
  const wire_layout layout(f, x.size());
  const compensated_numbers all{x, residual};
  require_encodable(f, layout, all, to.size());
  write_header(layout.header, to);
  const std::span<std::byte> first = layout.first_of(to), second = layout.second_of(to);
  switch (f.encoding) {
  case wire_encoding::float32:
    if (!x.empty()) std::memcpy(second.data(), x.data(), second.size());
    return true;
  case wire_encoding::float16:
    encode_float16(host_stream{}, x, residual, second);
    return true;
  case wire_encoding::bfloat16:
    encode_bfloat16(host_stream{}, x, residual, second);
    return true;
  case wire_encoding::int8:
    return encode_blocks_as_int8(f.block, all, first, second);
  case wire_encoding::top_k:
    return encode_the_largest(layout.header.setting, all, first, second);
  case wire_encoding::one_bit:
    return encode_blocks_as_signs(f.block, all, first, second);
  }
  return true;
}

} // namespace mailgrad

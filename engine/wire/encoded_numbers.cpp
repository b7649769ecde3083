#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/engine/wire/wire_layout.hpp>
#include <mailgrad/kernels/encodings.hpp>
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

namespace {

using message_bytes = std::span<const std::byte>;

[[noreturn]] void refuse_numbers(const wire_format& f, std::string_view why) {
  throw wire_error(fmt::format("{} message: {}", to_string(f), why));
}

void require_header(const wire_format& f, const wire_header& expected, message_bytes from) {
  if (from.size() < wire_header::bytes)
    refuse_numbers(f,
                   fmt::format("expected a header of {} bytes, found {}", wire_header::bytes, from.size()));
  const std::uint32_t encoding = static_cast<std::uint8_t>(expected.encoding);
  if (whole_at(from, 0) != encoding)
    refuse_numbers(f, fmt::format("expected encoding {}, found {}", encoding, whole_at(from, 0)));
  if (whole_at(from, 4) != expected.count)
    refuse_numbers(f, fmt::format("expected {} numbers, found {}", expected.count, whole_at(from, 4)));
  const std::string_view what = f.encoding == wire_encoding::top_k ? "places" : "numbers a block";
  if (whole_at(from, 8) != expected.setting)
    refuse_numbers(f, fmt::format("expected {} {}, found {}", expected.setting, what, whole_at(from, 8)));
}

void require_finite_floats(const wire_format& f, std::string_view what, message_bytes from) {
  for (std::size_t at = 0; at < from.size(); at += 4)
    if (!std::isfinite(float_at(from, at)))
      refuse_numbers(f, fmt::format("expected {} that are finite, found {} as number {}", what,
                                    float_at(from, at), at / 4));
}

/// A scale of at most a 127th of the largest float, so that no multiple is infinite.
void require_scales(const wire_format& f, message_bytes from) {
  for (std::size_t at = 0; at < from.size(); at += 4)
    if (const float scale = float_at(from, at); !(scale >= 0 && std::isfinite(scale * 127)))
      refuse_numbers(f, fmt::format("expected scales from 0 on, found {} as number {}", scale, at / 4));
}

void require_multiples(const wire_format& f, message_bytes from) {
  unsigned found = 0;
#pragma omp simd reduction(| : found)
  for (std::size_t i = 0; i < from.size(); ++i) found |= from[i] == std::byte{0x80} ? 1U : 0U;
  if (found != 0)
    refuse_numbers(f, fmt::format("expected multiples from -127 on, found -128 as number {}",
                                  std::ranges::find(from, std::byte{0x80}) - from.begin()));
}

void require_places(const wire_format& f, std::uint32_t count, message_bytes from) {
  std::uint64_t least = 0;
  for (std::size_t at = 0; at < from.size(); at += 4) {
    const std::uint32_t place = whole_at(from, at);
    if (place < least || place >= count)
      refuse_numbers(
          f, fmt::format("expected ascending places from {} to {}, found {}", least, count - 1, place));
    least = std::uint64_t{place} + 1;
  }
}

void require_no_more_signs(const wire_format& f, std::uint32_t count, message_bytes from) {
  if (count % 8 != 0 && (static_cast<unsigned>(from.back()) >> count % 8) != 0)
    refuse_numbers(f, fmt::format("expected {} signs, found bits behind them", count));
}

void require_content(const wire_format& f, std::uint32_t count, message_bytes first, message_bytes second) {
  switch (f.encoding) {
  case wire_encoding::float32:
  case wire_encoding::float16:
  case wire_encoding::bfloat16:
    return; // every bit pattern is a number, an infinity or a NaN
  case wire_encoding::int8:
    require_scales(f, first);
    return require_multiples(f, second);
  case wire_encoding::top_k:
    require_places(f, count, first);
    return require_finite_floats(f, "numbers", second);
  case wire_encoding::one_bit:
    require_finite_floats(f, "means", first);
    return require_no_more_signs(f, count, second);
  }
}

void decode_int8_blocks(std::size_t block, message_bytes scales, message_bytes multiples,
                        std::span<float> to) {
  const auto* from = reinterpret_cast<const std::int8_t*>(multiples.data());
  for (std::size_t begin = 0, at = 0; begin < to.size(); begin += block, at += 4) {
    const std::span<float> part = to.subspan(begin, std::min(block, to.size() - begin));
    decode_int8(host_stream{}, {from + begin, part.size()}, float_at(scales, at), part);
  }
}

void decode_sign_blocks(std::size_t block, message_bytes means, message_bytes signs, std::span<float> to) {
  for (std::size_t begin = 0, at = 0; begin < to.size(); begin += block, at += 8) {
    const std::span<float> part = to.subspan(begin, std::min(block, to.size() - begin));
    decode_signs(host_stream{}, signs.subspan(begin / 8, (part.size() + 7) / 8),
                 {float_at(means, at), float_at(means, at + 4)}, part);
  }
}

} // namespace

void decode_numbers(const wire_format& f, message_bytes from, std::span<float> to) {
  const wire_layout layout(f, to.size());
  require_header(f, layout.header, from);
  if (from.size() != layout.bytes())
    refuse_numbers(
        f, fmt::format("expected {} bytes for {} numbers, found {}", layout.bytes(), to.size(), from.size()));
  const message_bytes first = layout.first_of(from), second = layout.second_of(from);
  require_content(f, layout.header.count, first, second);
  switch (f.encoding) {
  case wire_encoding::float32:
    if (!to.empty()) std::memcpy(to.data(), second.data(), second.size());
    return;
  case wire_encoding::float16:
    return decode_float16(host_stream{}, second, to);
  case wire_encoding::bfloat16:
    return decode_bfloat16(host_stream{}, second, to);
  case wire_encoding::int8:
    return decode_int8_blocks(f.block, first, second, to);
  case wire_encoding::top_k:
    return decode_largest(host_stream{}, first, second, to);
  case wire_encoding::one_bit:
    return decode_sign_blocks(f.block, first, second, to);
  }
}

} // namespace mailgrad

#include <mailgrad/kernels/encode_floats.hpp>

#include <mailgrad/kernels/host/compensated.hpp>
#include <mailgrad/tensor/small_floats.hpp>

namespace mailgrad {

namespace {

struct float16_format {
  static constexpr float largest = 65504;
  static std::uint16_t of(float x) { return half_of_float(x); }
  static float value(std::uint16_t bits) { return float_of_half(bits); }
};

struct bfloat16_format {
  static constexpr float largest = 0x1.fep127F;
  static std::uint16_t of(float x) { return bfloat16_of_float(x); }
  static float value(std::uint16_t bits) { return float_of_bfloat16(bits); }
};

/// Infinity and NaN pass unharmed.
template <class Format>
float saturated(float p) {
  const float low = p < -Format::largest ? -Format::largest : p;
  const float between = low > Format::largest ? Format::largest : low;
  return magnitude_bits(p) < bits_of_infinity ? between : p;
}

template <class Format, class Residual>
void encode_loop(compensated<Residual> values, std::size_t n, std::byte* to) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    const float p = values(i);
    const std::uint16_t bits = Format::of(saturated<Format>(p));
    std::memcpy(to + 2 * i, &bits, 2);
    if constexpr (compensated<Residual>::keeps) {
      const float rest = p - Format::value(bits);
      values.keep(i, magnitude_bits(p) < bits_of_infinity ? rest : values.residual[i]);
    }
  }
}

template <class Format>
void encode(const stream& s, std::string_view what, std::span<const float> x, std::span<float> residual,
            std::span<std::byte> to) {
  require_bytes(what, to.size(), 2 * x.size());
  with_compensated(s, what, x, residual,
                   [&](auto values) { encode_loop<Format>(values, x.size(), to.data()); });
}

template <class Format>
void decode(const stream& s, std::string_view what, std::span<const std::byte> from, std::span<float> to) {
  require_host(s, what);
  require_bytes(what, from.size(), 2 * to.size());
  const std::byte* bytes = from.data();
  float* values = to.data();
  const std::size_t n = to.size();
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, 2);
    values[i] = Format::value(bits);
  }
}

} // namespace

void encode_float16(const stream& s, std::span<const float> x, std::span<float> residual,
                    std::span<std::byte> to) {
  encode<float16_format>(s, "encode_float16", x, residual, to);
}

void encode_bfloat16(const stream& s, std::span<const float> x, std::span<float> residual,
                     std::span<std::byte> to) {
  encode<bfloat16_format>(s, "encode_bfloat16", x, residual, to);
}

void decode_float16(const stream& s, std::span<const std::byte> from, std::span<float> to) {
  decode<float16_format>(s, "decode_float16", from, to);
}

void decode_bfloat16(const stream& s, std::span<const std::byte> from, std::span<float> to) {
  decode<bfloat16_format>(s, "decode_bfloat16", from, to);
}

} // namespace mailgrad

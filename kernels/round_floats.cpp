#include <mailgrad/kernels/round_floats.hpp>

#include <algorithm>

namespace mailgrad {

void round_floats(const stream& s, std::span<const float> x, bfloat16* y) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::round_floats(*card, x, y);
  std::ranges::transform(x, y, [](float v) { return bfloat16{bfloat16_of_float(v)}; });
}

void widen_floats(const stream& s, std::span<const bfloat16> x, float* y) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::widen_floats(*card, x, y);
  std::ranges::transform(x, y, [](bfloat16 v) { return float_of_bfloat16(v.bits); });
}

} // namespace mailgrad

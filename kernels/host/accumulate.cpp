#include <mailgrad/kernels/host/accumulate.hpp>

#include <algorithm>
#include <cstddef>

namespace mailgrad::host {

void fill(float value, std::span<float> x) { std::ranges::fill(x, value); }

void begin_sum(float scale, std::span<const float> x, std::span<float> sum) {
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] = scale * x[i];
}

void add_to_sum(float scale, std::span<const float> x, std::span<float> sum) {
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += scale * x[i];
}

void scale_in_place(float scale, std::span<float> x) {
  for (float& v : x) v *= scale;
}

} // namespace mailgrad::host

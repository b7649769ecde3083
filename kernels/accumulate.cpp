#include <mailgrad/kernels/accumulate.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace mailgrad::host {

// On the calling thread. The caller has checked all sizes.

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

namespace mailgrad {

namespace {

void require_equal(std::span<const float> x, std::span<const float> sum) {
  if (x.size() != sum.size()) throw shape_error("accumulate", shape{x.size()}, shape{sum.size()});
}

} // namespace

void fill(const stream& s, float value, std::span<float> x) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::fill(*card, value, x);
  host::fill(value, x);
}

void begin_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  require_equal(x, sum);
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::begin_sum(*card, scale, x, sum);
  host::begin_sum(scale, x, sum);
}

void add_to_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  require_equal(x, sum);
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::add_to_sum(*card, scale, x, sum);
  host::add_to_sum(scale, x, sum);
}

void scale_in_place(const stream& s, float scale, std::span<float> x) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::scale_in_place(*card, scale, x);
  host::scale_in_place(scale, x);
}

} // namespace mailgrad

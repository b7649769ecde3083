#include <mailgrad/kernels/accumulate.hpp>

#include <mailgrad/tensor/require_host.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

void require_equal(std::span<const float> x, std::span<const float> sum) {
  if (x.size() != sum.size()) throw shape_error("accumulate", shape{x.size()}, shape{sum.size()});
}

} // namespace

void fill(const stream& s, float value, std::span<float> x) {
  require_host(s, "fill");
  std::ranges::fill(x, value);
}

void begin_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  require_host(s, "begin_sum");
  require_equal(x, sum);
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] = scale * x[i];
}

void add_to_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  require_host(s, "add_to_sum");
  require_equal(x, sum);
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += scale * x[i];
}

void scale_in_place(const stream& s, float scale, std::span<float> x) {
  require_host(s, "scale_in_place");
  for (float& v : x) v *= scale;
}

} // namespace mailgrad

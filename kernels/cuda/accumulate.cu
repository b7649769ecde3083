#include <mailgrad/kernels/accumulate.hpp>
#include <mailgrad/kernels/cuda/map.hpp>
#include <mailgrad/kernels/functors/weight_functions.hpp>

#include <array>

namespace mailgrad::cuda {

namespace {

struct same_value {
  static constexpr std::size_t reads = 0, writes = 1;
  float value;

  MAILGRAD_HOST_DEVICE void operator()(float& x) const { x = value; }
};

struct scaled_addition {
  static constexpr std::size_t reads = 1, writes = 1;
  float scale;

  MAILGRAD_HOST_DEVICE void operator()(float x, float& sum) const { sum += scale * x; }
};

struct scaling {
  static constexpr std::size_t reads = 0, writes = 1;
  float scale;

  MAILGRAD_HOST_DEVICE void operator()(float& x) const { x *= scale; }
};

} // namespace

void fill(const cuda_stream& s, float value, std::span<float> x) {
  map(s, "fill", same_value{value}, {}, std::array{x.data()}, x.size());
}

void begin_sum(const cuda_stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  map(s, "begin_sum", scaled_copy{scale}, std::array{x.data()}, std::array{sum.data()}, x.size());
}

void add_to_sum(const cuda_stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  map(s, "add_to_sum", scaled_addition{scale}, std::array{x.data()}, std::array{sum.data()}, x.size());
}

void scale_in_place(const cuda_stream& s, float scale, std::span<float> x) {
  map(s, "scale_in_place", scaling{scale}, {}, std::array{x.data()}, x.size());
}

} // namespace mailgrad::cuda

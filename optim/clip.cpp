#include <mailgrad/optim/clip.hpp>

#include <mailgrad/kernels/vectors.hpp>

#include <array>
#include <cstddef>

namespace mailgrad {

double sum_of_squares(const stream& s, std::span<const float> values) {
  return inner_product(s, values, values);
}

void sum_of_squares(const stream& s, std::span<const float> values, double* result) {
  inner_product(s, values, values, result);
}

float clip_factor(double norm, double max_norm) {
  if (max_norm == 0) return 1;
  const double factor = max_norm / (norm + 1e-6);
  return static_cast<float>(factor > 1 ? 1 : factor); // not std::min, which would turn a NaN into 1
}

} // namespace mailgrad

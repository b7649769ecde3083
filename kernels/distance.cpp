#include <mailgrad/kernels/distance.hpp>

#include <mailgrad/kernels/cuda/distance.hpp>
#include <mailgrad/kernels/host/distance.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/require_host.hpp>

namespace mailgrad {

namespace {

void require_equal(const char* what, std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) throw shape_error(what, shape{a.size()}, shape{b.size()});
}

} // namespace

double inner_product(const stream& s, std::span<const float> a, std::span<const float> b) {
  require_host(s, "inner_product");
  require_equal("inner product", a, b);
  return host::inner_product(a, b);
}

void inner_product(const stream& s, std::span<const float> a, std::span<const float> b, double* result) {
  require_equal("inner product", a, b);
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::inner_product(*card, a, b, result);
  *result = host::inner_product(a, b);
}

double squared_distance(const stream& s, std::span<const float> a, std::span<const float> b) {
  require_host(s, "squared_distance");
  require_equal("squared distance", a, b);
  return host::squared_distance(a, b);
}

void squared_distance(const stream& s, std::span<const float> a, std::span<const float> b, double* result) {
  require_equal("squared distance", a, b);
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::squared_distance(*card, a, b, result);
  *result = host::squared_distance(a, b);
}

} // namespace mailgrad

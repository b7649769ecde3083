#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/kernels/vectors.hpp>

#include <cmath>

namespace mailgrad {

std::optional<double> cosine(const gradient& a, const gradient& b) {
  if (a.sparse.size() != b.sparse.size()) return std::nullopt;
  double product = 0;
  double squares_a = 0;
  double squares_b = 0;
  const auto add = [&](std::span<const float> x, std::span<const float> y) {
    product += inner_product(host_stream{}, x, y);
    squares_a += inner_product(host_stream{}, x, x);
    squares_b += inner_product(host_stream{}, y, y);
  };
  add(whole_dense(a), whole_dense(b));
  for (std::size_t i = 0; i < a.sparse.size(); ++i) {
    const gradient_rows of_a = listed_rows(a.sparse[i]);
    const gradient_rows of_b = listed_rows(b.sparse[i]);
    if (!std::ranges::equal(of_a.rows, of_b.rows)) return std::nullopt;
    add(of_a.values, of_b.values);
  }
  return cosine(product, squares_a, squares_b);
}

std::optional<double> cosine(double product, double squares_a, double squares_b) {
  // One root of the product: for equal gradients it is exact, a product of two roots is not.
  const double both = std::sqrt(squares_a * squares_b);
  if (!std::isfinite(both) || both == 0) return std::nullopt;
  return product / both;
}

void gradient_comparison::forget() {
  stale_.reset();
  for (auto& held : weights_) held.reset();
  missing_ = weights_.size();
}

} // namespace mailgrad

#include "card_machine.hpp"

#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <vector>

namespace mailgrad::cuda {

namespace {

using simulated_card::card_machine;

/// A matrix as cuBLAS counts it: by columns, whose beginnings lie `leading` elements apart.
struct column_matrix {
  std::size_t rows, columns, leading;
  bool transposed; ///< as an operand of the product

  std::size_t elements() const { return rows * columns == 0 ? 0 : (columns - 1) * leading + rows; }
  std::size_t operand_rows() const { return transposed ? columns : rows; }
  std::size_t operand_columns() const { return transposed ? rows : columns; }
  std::size_t at(std::size_t i, std::size_t j) const {
    return transposed ? j + i * leading : i + j * leading;
  }
};

/// C = op(A) op(B) by columns, with sums in double precision.
struct column_product {
  column_matrix a, b, c;
  std::size_t batch, a_distance, b_distance, c_distance;
  const float* bias;

  void run(const float* a_values, const float* b_values, float* c_values) const {
    for (std::size_t i = 0; i < batch; ++i)
      run_one(a_values + i * a_distance, b_values + i * b_distance, c_values + i * c_distance);
  }

private:
  void run_one(const float* x, const float* y, float* z) const {
    std::vector<double> sums(c.rows);
    for (std::size_t j = 0; j < c.columns; ++j) {
      std::ranges::fill(sums, 0.0);
      for (std::size_t p = 0; p < a.operand_columns(); ++p) {
        const double factor = y[b.at(p, j)];
        for (std::size_t i = 0; i < c.rows; ++i) sums[i] += x[a.at(i, p)] * factor;
      }
      for (std::size_t i = 0; i < c.rows; ++i) z[c.at(i, j)] = finished(sums[i], i);
    }
  }
  float finished(double sum, std::size_t row) const {
    return static_cast<float>(bias != nullptr ? sum + bias[row] : sum);
  }
};

void require_extent(std::size_t n) {
  if (n > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw shape_error(fmt::format("gemm: cuBLAS cannot count an extent of {}", n));
}

/// The operands as cublas_products.cpp hands them over: C^T = B^T A^T, so B comes first.
column_product by_columns(const gemm_shape& g, const float* bias) {
  const auto matrix = [](std::size_t rows, std::size_t columns, operand_order o) {
    return o == operand_order::as_is ? column_matrix{columns, rows, columns, false}
                                     : column_matrix{rows, columns, rows, true};
  };
  return {.a = matrix(g.k, g.n, g.b),
          .b = matrix(g.m, g.k, g.a),
          .c = {g.n, g.m, g.n, false},
          .batch = g.batch,
          .a_distance = g.k * g.n,
          .b_distance = g.m * g.k,
          .c_distance = g.m * g.n,
          .bias = bias};
}

class simulated_products final : public products {
public:
  explicit simulated_products(std::uint32_t card) : card_(card) {}

  void run(const cuda_stream& s, const gemm_shape& g, const float* a, const float* b, float* c,
           const float* bias) override {
    if (g.batch * g.m * g.n == 0) return;
    for (const std::size_t n : {g.m, g.n, g.k, g.batch}) require_extent(n);
    const column_product p = by_columns(g, bias);
    card_machine& all = card_machine::of_process();
    const std::lock_guard held(all.lock);
    auto& stream = all.stream(s.stream);
    all.begin_call("cublasLtMatmul", stream.card);
    require_inside(all, "A", a, (g.batch - 1) * p.b_distance + p.b.elements());
    require_inside(all, "B", b, (g.batch - 1) * p.a_distance + p.a.elements());
    require_inside(all, "C", c, (g.batch - 1) * p.c_distance + p.c.elements());
    if (bias != nullptr) require_inside(all, "the bias", bias, g.n);
    all.queue(stream, {.body = [=, &all]() -> std::optional<std::string> {
                ++all.counted.products;
                p.run(b, a, c);
                return std::nullopt;
              }});
  }

private:
  void require_inside(const card_machine& all, const char* name, const float* address, std::size_t n) const {
    const auto* const found = all.memory.find(address);
    if (found == nullptr || found->pinned || found->card != card_)
      throw device_error(world_errc::device_failure,
                         fmt::format("gemm: {} is no memory of cuda:{}", name, card_));
    const std::size_t there =
        (all.memory.end_of(address) - reinterpret_cast<std::uintptr_t>(address)) / sizeof(float);
    if (there < n)
      throw device_error(world_errc::device_failure,
                         fmt::format("gemm: {} has {} elements, but only {} are allocated", name, n, there));
  }

  std::uint32_t card_;
};

} // namespace

std::unique_ptr<products> make_products(std::uint32_t card) {
  return std::make_unique<simulated_products>(card);
}

} // namespace mailgrad::cuda

#include "gpu_machine.hpp"

#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace mailgrad::cuda {

namespace {

using simulated_gpu::gpu_machine, simulated_gpu::held_machine;

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

/// What the GPU multiplies, which in TF32 is not what lies there.
struct exactly {
  double operator()(float x) const { return static_cast<double>(x); }
  double operator()(bfloat16 x) const { return static_cast<double>(float_of_bfloat16(x.bits)); }
};
struct in_tf32 {
  double operator()(float x) const { return static_cast<double>(tf32_of_float(x)); }
};

void write(float& to, double x) { to = static_cast<float>(x); }
void write(bfloat16& to, double x) { to.bits = bfloat16_of_float(static_cast<float>(x)); }

/// C = op(A) op(B) by columns, with sums in double precision. The bias is of the type of C.
template <class Result>
struct column_product {
  column_matrix a, b, c;
  std::size_t batch, a_distance, b_distance, c_distance;
  const Result* bias;

  template <class Operand, class Reading>
  void run(const Operand* a_values, const Operand* b_values, Result* c_values, Reading read) const {
    for (std::size_t i = 0; i < batch; ++i)
      run_one(a_values + i * a_distance, b_values + i * b_distance, c_values + i * c_distance, read);
  }

private:
  template <class Operand, class Reading>
  void run_one(const Operand* x, const Operand* y, Result* z, Reading read) const {
    std::vector<double> sums(c.rows);
    for (std::size_t j = 0; j < c.columns; ++j) {
      std::ranges::fill(sums, 0.0);
      for (std::size_t p = 0; p < a.operand_columns(); ++p) {
        const double factor = read(y[b.at(p, j)]);
        for (std::size_t i = 0; i < c.rows; ++i) sums[i] += read(x[a.at(i, p)]) * factor;
      }
      for (std::size_t i = 0; i < c.rows; ++i) write(z[c.at(i, j)], finished(sums[i], i));
    }
  }
  double finished(double sum, std::size_t row) const {
    return bias != nullptr ? sum + exactly{}(bias[row]) : sum;
  }
};

void require_extent(std::size_t n) {
  if (n > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw shape_error(fmt::format("gemm: cuBLAS cannot count an extent of {}", n));
}

/// The operands as cublas_products.cpp hands them over: C^T = B^T A^T, so B comes first.
template <class Result>
column_product<Result> by_columns(const gemm_shape& g, const Result* bias) {
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
  simulated_products(std::uint32_t gpu, product_precision precision) : products(precision), gpu_(gpu) {}
  simulated_products(const simulated_products&) = delete;
  simulated_products& operator=(const simulated_products&) = delete;
  ~simulated_products() override { runtime::release(gpu_, workspace_); }

  void take_workspace() override {
    if (workspace_ != nullptr) return;
    constexpr std::size_t workspace_bytes =
        1024; // cuBLAS wants 32 MiB, which a test would not like to wait for
    workspace_ =
        naming_memory("what cuBLAS works in", [this] { return runtime::allocate(gpu_, workspace_bytes); });
  }

  void run(const cuda_stream& s, const gemm_shape& g, const float* a, const float* b, float* c,
           const float* bias) override {
    if (precision() == product_precision::tf32) return queue(s, g, a, b, c, bias, in_tf32{});
    queue(s, g, a, b, c, bias, exactly{});
  }
  void run(const cuda_stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, float* c,
           const float* bias) override {
    queue(s, g, a, b, c, bias, exactly{});
  }
  void run(const cuda_stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, bfloat16* c,
           const bfloat16* bias) override {
    queue(s, g, a, b, c, bias, exactly{});
  }

private:
  template <class Operand, class Result, class Reading>
  void queue(const cuda_stream& s, const gemm_shape& g, const Operand* a, const Operand* b, Result* c,
             const Result* bias, Reading read) {
    if (g.batch * g.m * g.n == 0) return;
    take_workspace();
    for (const std::size_t n : {g.m, g.n, g.k, g.batch}) require_extent(n);
    const column_product<Result> p = by_columns(g, bias);
    const held_machine all;
    auto& stream = all->stream(s.stream, "cublasLtMatmul");
    require_inside(*all, "A", a, (g.batch - 1) * p.b_distance + p.b.elements());
    require_inside(*all, "B", b, (g.batch - 1) * p.a_distance + p.a.elements());
    require_inside(*all, "C", c, (g.batch - 1) * p.c_distance + p.c.elements());
    if (bias != nullptr) require_inside(*all, "the bias", bias, g.n);
    all->queue_sure(stream, [=, &done = all->counted.products] {
      ++done;
      p.run(b, a, c, read);
    });
  }

  template <class T>
  void require_inside(const gpu_machine& all, const char* name, const T* address, std::size_t n) const {
    const auto* const found = all.memory.find(address);
    if (found == nullptr || found->pinned || found->gpu != gpu_)
      throw device_error(world_errc::device_failure,
                         fmt::format("gemm: {} is no memory of cuda:{}", name, gpu_));
    const std::size_t there =
        (all.memory.end_of(address) - reinterpret_cast<std::uintptr_t>(address)) / sizeof(T);
    if (there < n)
      throw device_error(world_errc::device_failure,
                         fmt::format("gemm: {} has {} elements, but only {} are allocated", name, n, there));
  }

  std::uint32_t gpu_;
  void* workspace_ = nullptr;
};

} // namespace

std::string format_products() {
  const held_machine all;
  return all->set.products;
}

std::unique_ptr<products> make_products(std::uint32_t gpu, product_precision p) {
  return std::make_unique<simulated_products>(gpu, p);
}

} // namespace mailgrad::cuda

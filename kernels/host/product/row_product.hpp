#pragma once

#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/kernels/host/vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace mailgrad {

/// The product of one row with a matrix, as the prediction of one sample needs it. Each number of B is read
/// once, so the rate is that of memory: rows of B are read whole, as they lie, and those that meet a zero of
/// A are not read at all. Behind relu, and in most pictures, these are half of them or more. What such a row
/// holds does not matter then, not even if it is infinite.
class row_product {
public:
  static bool suits(const gemm_shape& g) {
    return g.m == 1 && g.b == operand_order::as_is && g.n > 1 && g.k <= UINT32_MAX;
  }

  static std::size_t scratch_bytes(const gemm_shape& g) { return g.k * sizeof(std::uint32_t); }

  row_product(const gemm_shape& g, const float* a, const float* b, float* c, void* scratch)
      : n_(g.n), k_(g.k), a_(a), b_(b), c_(c), used_(static_cast<std::uint32_t*>(scratch)) {}

  void run() const {
    const std::size_t count = list_used();
    std::fill_n(c_, n_, 0.0F);
    std::size_t i = 0;
    for (; i + at_once <= count; i += at_once) add_rows<at_once>(used_ + i);
    for (; i < count; ++i) add_rows<1>(used_ + i);
  }

private:
  /// Rows of B that are added to C in one pass over it. With 4 or 16 it is slower by a tenth.
  static constexpr std::size_t at_once = 8;

  /// Lists the rows of B that meet no zero, and returns their number. There is no branch to mispredict.
  std::size_t list_used() const {
    std::size_t count = 0;
    for (std::size_t p = 0; p < k_; ++p) {
      used_[count] = static_cast<std::uint32_t>(p);
      count += a_[p] != 0 ? 1 : 0;
    }
    return count;
  }

  template <std::size_t Rows>
  void add_rows(const std::uint32_t* which) const {
    const float* rows[Rows];
    float by[Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      rows[r] = b_ + std::size_t{which[r]} * n_;
      by[r] = a_[which[r]];
    }
    std::size_t column = 0;
    for (; column + simd::width <= n_; column += simd::width) {
      simd::vector sum = simd::load(c_ + column);
      for (std::size_t r = 0; r < Rows; ++r) sum += simd::load(rows[r] + column) * by[r];
      simd::store(c_ + column, sum);
    }
    for (; column < n_; ++column)
      for (std::size_t r = 0; r < Rows; ++r) c_[column] += rows[r][column] * by[r];
  }

  std::size_t n_, k_;
  const float* a_;
  const float* b_;
  float* c_;
  std::uint32_t* used_; ///< rows of B, at most k
};

} // namespace mailgrad

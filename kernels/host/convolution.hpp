#pragma once

#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/host/vector.hpp>
#include <mailgrad/tensor/block.hpp>

#include <algorithm>
#include <bit>

namespace mailgrad {

// The passes of a convolution that read every value, zeros included. No extent is 0.

// These two are defined in direct_convolution.cpp.
std::unique_ptr<convolution_plan> plan_dense_convolution(const convolution_shape& c);
std::unique_ptr<convolution_plan> plan_dense_weight_gradient(const convolution_shape& c);

/// Plans the data gradient by oneDNN, or by Eigen in a build without it. oneDNN allocates a few small blocks
/// in each run.
std::unique_ptr<convolution_plan> plan_dense_data_gradient(const convolution_shape& c);

/// Divides scratch memory into aligned parts. Without memory, it only counts their bytes.
class scratch_parts {
public:
  explicit scratch_parts(std::byte* memory = nullptr) : memory_(memory) {}

  template <class T>
  std::span<T> take(std::size_t count) {
    auto* first = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += aligned(count * sizeof(T));
    return {first, memory_ ? count : 0};
  }
  std::size_t used() const noexcept { return used_; }

private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

/// A value that is not zero, and the offset of the run of floats that it multiplies.
struct term {
  float factor;
  std::uint32_t offset;
};

inline constexpr std::size_t packet_size = simd::width; ///< floats in one vector register
inline constexpr std::size_t max_packets = 12; ///< sums that fit into 16 registers with the other operands

/// sum[0 .. n) += factor * base[offset .. offset + n) for all terms, in their order.
using add_terms_function = void (*)(float* sum, std::span<const term> terms, const float* base);

/// Bit k tells whether values[k] is not zero, for n <= 64 values.
std::uint64_t filled_mask(const float* values, std::size_t n) noexcept;

/// Calls visit(k) for each of n values that is not zero, in order.
template <class Visit>
void for_each_filled(const float* values, std::size_t n, Visit visit) {
  for (std::size_t first = 0; first < n; first += 64)
    for (std::uint64_t left = filled_mask(values + first, std::min<std::size_t>(n - first, 64)); left != 0;
         left &= left - 1)
      visit(first + static_cast<std::size_t>(std::countr_zero(left)));
}

/// The part of dy that may be nonzero; with more of it, skipping zeros is slower than the dense kernels.
inline constexpr double dense_part = 0.6;

// Gradients of a convolution that skip the zeros of dy. Where max pooling and relu follow the convolution, at
// most a quarter of dy is not zero, and often an eighth; the work shrinks by as much. A zero of dy times an
// infinity or a NaN is 0 here. If too much of dy is not zero, `dense` does the work. That choice depends only
// on dy, so the same operands still give the same bits.
//
// Windows have at most max_packets columns. No extent is 0.

std::unique_ptr<convolution_plan> plan_sparse_data_gradient(const convolution_shape& c,
                                                            std::unique_ptr<convolution_plan> dense);
std::unique_ptr<convolution_plan> plan_sparse_weight_gradient(const convolution_shape& c,
                                                              std::unique_ptr<convolution_plan> dense);

} // namespace mailgrad

#pragma once

#include <mailgrad/tensor/small_floats.hpp>
#include <mailgrad/tensor/stream.hpp>

namespace mailgrad {

/// When the result of a kernel is read next. This is a hint, which changes no bit. Large results that are
/// read later, or by another processor, are better written past the caches. Then no cache line is fetched
/// only to be overwritten, and none evicts data that is needed sooner. Nor must a line be taken back from a
/// processor that has read it.
enum class next_use : std::uint8_t { soon, later };

/// How an operand of a product lies in memory.
enum class operand_order : std::uint8_t { as_is, transposed };

/// C = A B, `batch` times, each matrix row-major and without gaps, the matrices of a batch one after the
/// other.
///
/// Shapes  A: m x k, stored k x m if transposed; B: k x n, stored n x k if transposed; C: m x n.
struct gemm_shape {
  std::size_t m = 0, n = 0, k = 0;
  operand_order a = operand_order::as_is;
  operand_order b = operand_order::as_is;
  std::size_t batch = 1;
};

/// What is done to C = A B before it is written.
struct gemm_epilogue {
  const float* bias = nullptr; ///< float32[n], added to each row of C; null: none
  bool relu = false;           ///< C = max(C, 0), after the bias

  bool none() const noexcept { return bias == nullptr && !relu; }
};

/// Bytes of scratch memory that gemm() needs on the host.
std::size_t gemm_scratch_bytes(const gemm_shape& g) noexcept;

/// Computes C = A B, with the epilogue, in which a NaN stays a NaN. On a GPU the product adds a bias itself.
/// With relu, and on the host, a second pass over C does both.
///
/// `c_use` is a hint that changes no bit: on the host a large C that is read later is written past the
/// caches, on a GPU the hint is ignored. With one row in A the host reads no row of B that meets a zero of A,
/// so that an infinite or NaN weight there does not show in C.
/// Source  Goto & van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008,
///         with the register tile of Van Zee & van de Geijn, "BLIS", ACM TOMS 41(3), 2015. Differs: an
///         untransposed A is read where it lies. A transposed A and an untransposed B are copied by the first
///         tile that reads them. Only a transposed B is packed in advance.
/// Shapes  c: apart from a and b. scratch: gemm_scratch_bytes(g), 64-byte aligned.
/// Errors  device_error that cuBLAS reports.
/// Threads one caller at a time for one c and scratch. The same operands give the same bits.
void gemm(const stream& s, const gemm_shape& g, const float* a, const float* b, float* c, void* scratch,
          next_use c_use = next_use::soon, const gemm_epilogue& epilogue = {});

/// The same on a GPU for operands of bfloat16. Sums, C and the bias are float32.
///
/// Errors  device_error for the host, which has no such products; as above.
void gemm(const stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, float* c,
          const gemm_epilogue& epilogue = {});
/// And with a result of bfloat16, to which a bias of bfloat16 is added unless it is null.
///
/// Errors  shape_error for a product of no inner elements; as above.
void gemm(const stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, bfloat16* c,
          const bfloat16* bias = nullptr);

/// The sizes of the operand: samples of `count` vectors, each with `width` numbers.
struct vector_sets {
  std::size_t samples;
  std::size_t count;
  std::size_t width;

  std::size_t pairs() const noexcept { return count * (count - (count > 0 ? 1 : 0)) / 2; }
};

/// The dot products of all pairs of vectors in a sample, in the order (1,0), (2,0), (2,1), (3,0), ...
///
/// Shapes  x: float32[samples, count, width]; dots: float32[samples, pairs].
void pairwise_dots(const stream& s, const vector_sets& sets, const float* x, float* dots);

/// The gradient with respect to x, from ddots, the gradient with respect to the dot products.
///
/// Shapes  dx: as x.
void pairwise_dots_gradient(const stream& s, const vector_sets& sets, const float* x, const float* ddots,
                            float* dx);

} // namespace mailgrad

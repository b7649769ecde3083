#pragma once

#include <mailgrad/optim/rules/variable_rule.hpp>
#include <mailgrad/tensor/block.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

/// A^(-1/p) of a symmetric matrix without negative eigenvalues, by products alone.
///
///     B = A + 1e-6 |A| I,   z = (1 + p) / (2 |B|),   M = z B,   H = z^(1/p) I
///     until M = I:  T = (1 + 1/p) I - M / p,   M = T^p M,   H = H T
///
/// with |A| the root of the sum of squares.
/// Source  Guo & Higham, "A Schur-Newton method for the matrix p-th root and its inverse", SIAM Journal on
///         Matrix Analysis 28(3), 2006, the coupled iteration; on optimisers Anil et al., "Scalable second
///         order optimization for deep learning", 2020, arXiv:2002.09018, who also add to the diagonal,
///         because float32 cannot tell eigenvalues so far apart.
/// Threads one caller at a time.
class inverse_root {
public:
  /// Takes the memory for matrices of n rows.
  void expect(std::size_t n);
  /// Writes the root, for p = 2 or 4. False if the iteration found none, as for a matrix with a NaN; `root`
  /// has not changed then.
  ///
  /// Shapes  a, root: float32[n, n], apart.
  bool compute(std::size_t n, unsigned p, std::span<const float> a, std::span<float> root);

private:
  void begin(std::size_t n, unsigned p, std::span<const float> a);
  double iterate(std::size_t n, unsigned p);

  matrix_products products_;
  block from_, root_, factor_, power_, spare_;
};

/// Shampoo: AdaGrad whose square of the past is a matrix for each side of a matrix.
///
///     L = L + G G^T,   R = R + G^T G,   from epsilon I
///     w = w - rate L^(-1/4) G R^(-1/4)
///
/// A side longer than `largest` has no matrix; the exponent of the other is then -1/2. Scalars, vectors,
/// matrices without a side, and tables whose gradients come as rows take AdaGrad. The roots are computed at
/// updates 1, 2, 4, ... and at each multiple of `every`, because they cost far more than the rest.
///
/// We took Shampoo and not SOAP (Vyas et al., 2024), which rotates Adam by the eigenvectors of L and R: it
/// needs eigenvectors and factors Q R, where Shampoo's roots are products alone, which Mailgrad has fast on
/// one thread and the same to the bit; and two more floats for a weight.
/// Source  Gupta, Koren & Singer, "Shampoo: preconditioned stochastic tensor optimization", ICML 2018,
///         arXiv:1802.09568, Algorithm 1. Differs: the roots, by inverse_root(), are not of each update.
/// Shapes  state "sum_of_squares": float32[shard], for AdaGrad. States "left", "right" and their roots: the
///         matrices of all variables, one after the other.
class shampoo_rule final : public variable_rule {
public:
  shampoo_rule(const shampoo_options& options, std::size_t shard_size,
               std::span<const shard_variable> variables);

  void update(const variable_step& work) override;
  void update_rows(const rows_step& work) override;
  std::vector<optimizer_state> state() override;

private:
  struct place {
    std::size_t offset;
    matrix_dims dims;
    std::optional<std::size_t> left{}, right{}; ///< where the matrix of a side begins, if it has one
  };

  /// The matrices of one side of all variables.
  struct side {
    std::size_t floats = 0;
    block sums, roots;
  };

  std::optional<std::size_t> reserve(side& s, std::size_t n);
  void begin(side& s);
  void expect(const matrix_dims& dims, const place& at);
  void add_square(const variable_step& work, const place& at);
  void find_roots(const place& at);
  std::span<const float> preconditioned(const variable_step& work, const place& at);
  void update_by_adagrad(const variable_step& work, const place& at);
  bool roots_are_due(std::uint64_t step) const;
  bool has_roots(const place& at) const;

  shampoo_options options_;
  std::vector<place> places_; ///< by variable
  side left_, right_;
  block sum_of_squares_;
  matrix_products products_;
  inverse_root root_;
  block square_;       ///< G G^T or G^T G of the largest side
  block half_, whole_; ///< products with one root and with both
};

/// The floats of all matrices and roots that Shampoo keeps for a variable.
std::size_t floats_of_matrices(const shampoo_options& options, const shape& dims);

} // namespace mailgrad

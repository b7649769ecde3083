#pragma once

#include <mailgrad/optim/rules/variable_rule.hpp>

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
  /// Shapes  a, root: float32[n, n], apart.
  bool compute(std::size_t n, unsigned p, std::span<const float> a, std::span<float> root);

private:
  void begin(std::size_t n, unsigned p, std::span<const float> a);
  double iterate(std::size_t n, unsigned p);

  matrix_products products_;
  block from_, root_, factor_, power_, spare_;
};

/// The floats of all matrices and roots that Shampoo keeps for a variable.
std::size_t floats_of_matrices(const shampoo_options& options, const shape& dims);

/// The rule for the variables of a shard of `shard_size` floats.
std::unique_ptr<variable_rule> make_rule(const shampoo_options& options, std::size_t shard_size,
                                         std::span<const shard_variable> variables);

} // namespace mailgrad

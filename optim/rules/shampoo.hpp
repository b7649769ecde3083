#pragma once

#include <mailgrad/optim/rules/inverse_root.hpp>
#include <mailgrad/optim/rules/variable_rule.hpp>
#include <mailgrad/tensor/block.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace mailgrad {

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
///         arXiv:1802.09568, Algorithm 1, and inverse_root.hpp. Differs: the roots are not of each update.
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

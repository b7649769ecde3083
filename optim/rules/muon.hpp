#pragma once

#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/rules/variable_rule.hpp>
#include <mailgrad/tensor/block.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// Brings all singular values of a matrix near 1 and leaves its singular vectors: of G = U S V^T it makes
/// about U V^T.
///
///     X = G / (|G| + 1e-7)
///     five times:  A = X X^T,  X = a X + (b A + c A A) X,   a, b, c = 3.4445, -4.7750, 2.0315
///
/// With these coefficients the singular values end between about 0.7 and 1.2, and not at 1: the author found
/// the polynomial that raises small ones fastest.
/// Source  Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024,
///         https://kellerjordan.github.io/posts/muon/. Differs: float32 in place of bfloat16; of a matrix
///         with more rows than columns it computes X^T X and X (b A + c A A) in place of transposing it.
/// Threads one caller at a time.
class newton_schulz {
public:
  static constexpr int steps = 5;

  /// Takes the memory for matrices of this size.
  void expect(const matrix_dims& dims);
  /// Changes a matrix in place, of a size that was expected.
  void orthogonalise(std::span<float> x, const matrix_dims& dims);

private:
  matrix_products products_;
  block square_, next_square_, product_;
};

/// Muon: momentum whose step on a matrix is made orthogonal, so that no direction of it is left behind.
/// Scalars, vectors, tables whose gradients come as rows, and variables that the user names take AdamW.
///
///     M = mu M + (1 - mu) G
///     U = (1 - mu) G + mu M                       (Nesterov; without it U = M)
///     w = w - rate (lambda w + sqrt(max(1, columns / rows)) newton_schulz(U))
///
/// with mu = momentum, lambda = weight decay. The learning rate of AdamW is `adamw_rate`, under the same
/// schedule.
/// Source  Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024,
///         https://kellerjordan.github.io/posts/muon/, and the author's program of 2025. Differs: weights are
///         [in, units] here and [units, in] there, so rows and columns change places in the factor.
/// Shapes  states "momentum" and "mean_square": float32[shard]; the second is for AdamW, which has its mean
///         in the first.
class muon_rule final : public variable_rule {
public:
  muon_rule(const muon_options& options, std::size_t shard_size, std::span<const shard_variable> variables);

  void update(const variable_step& work) override;
  void update_rows(const rows_step& work) override;
  std::vector<optimizer_state> state() override;

private:
  struct place {
    std::size_t offset;
    matrix_dims dims;
    bool by_adamw;
  };

  std::array<float*, 2> states_from(std::size_t first);
  void update_matrix(const variable_step& work, const place& at);

  muon_options options_;
  std::vector<place> places_; ///< by variable
  block momentum_;
  block mean_square_;
  block step_; ///< U of the largest matrix
  newton_schulz orthogonal_;
};

/// The words of muon_options::adamw.
std::vector<std::string> words_for_adamw(const muon_options& options);

/// Whether Muon leaves this variable to AdamW.
bool takes_adamw(const muon_options& options, const shard_variable& v);

} // namespace mailgrad

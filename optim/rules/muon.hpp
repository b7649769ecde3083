#pragma once

#include <mailgrad/optim/rules/variable_rule.hpp>

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

/// The words of muon_options::adamw.
std::vector<std::string> words_for_adamw(const muon_options& options);

/// Whether Muon leaves this variable to AdamW.
bool takes_adamw(const muon_options& options, const shard_variable& v);

/// The rule for the variables of a shard of `shard_size` floats.
std::unique_ptr<variable_rule> make_rule(const muon_options& options, std::size_t shard_size,
                                         std::span<const shard_variable> variables);

} // namespace mailgrad

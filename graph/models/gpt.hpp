#pragma once

#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/options/settings.hpp>

namespace mailgrad {

struct gpt_options {
  std::size_t layers = 2;
  std::size_t width = 128; ///< numbers in the vector of a token
  std::size_t heads = 4;   ///< heads of attention, which share the width equally
  float dropout = 0;       ///< the rate for embeddings and for what each half of a layer adds
  bool tied = true; ///< whether logits are products with the table of tokens; else they have own weights
};

/// Takes "layers", "width", "heads", "dropout" and "tied".
///
/// Errors  std::invalid_argument for a value out of range, or a width that the heads do not divide.
gpt_options read_gpt_options(settings& s);

/// A language model: for each position of a window, it predicts the next token from all tokens up to there.
///
/// Variables are "tokens/table", "positions/table", "block1/norm1", "block1/attention/qkv/weights",
/// ".../attention/projection", "block1/norm2", "block1/mlp/up", "block1/mlp/down", "norm" and, unless tied,
/// "logits/weights".
/// Source  Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (GPT-2): layer
///         normalisation first in each half of a layer, and its first values. Differs: no dropout within
///         attention.
/// Errors  graph_error if the data are not tokens.
model_outputs build_gpt(graph& g, const gpt_options& options, const model_request& request);

} // namespace mailgrad

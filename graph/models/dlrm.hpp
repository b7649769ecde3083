#pragma once

#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/options/model_settings.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mailgrad {

/// How the vectors of a sample meet.
enum class interaction : std::uint8_t {
  dot,    ///< the dot product of each two, beside what the bottom network makes of the numbers
  concat, ///< side by side, as they are
};

struct dlrm_options {
  std::size_t width = 16;               ///< of an embedding
  std::vector<std::size_t> bottom{64};  ///< hidden layers of the network that reads the numbers
  std::vector<std::size_t> top{64, 32}; ///< hidden layers of the network that answers
  interaction how = interaction::dot;
};

/// A recommender: a table of embeddings for each category, a network for the numbers of a sample if it has
/// any, whose result is one more vector, their interactions, and a network on top. Tables get their gradients
/// in rows.
///
/// Variables are called "category1/table", "bottom1/weights", "top1/bias" and so on.
/// Source  Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation
///         Systems", 2019, arXiv:1906.00091. First values of tables: uniform in +-1/sqrt(rows), as in its
///         code; layers as dense() has them.
/// Errors  graph_error if the samples have no categories, or with `dot` less than two vectors.
model_outputs build_dlrm(graph& g, const dlrm_options& options, const model_request& request);

/// "dlrm:width=16,bottom=64,top=64x32,interaction=dot"
///
/// Errors  as model_settings.
dlrm_options take_dlrm_options(model_settings& s);

} // namespace mailgrad

#pragma once

#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/options/settings.hpp>

namespace mailgrad {

/// How the vectors of a sample are combined.
enum class interaction : std::uint8_t {
  dot,    ///< the dot product of each pair, together with the result of the bottom network
  concat, ///< the vectors side by side
};

struct dlrm_options {
  std::size_t width = 16;               ///< of an embedding
  std::vector<std::size_t> bottom{64};  ///< widths of the hidden layers of the network that reads the numbers
  std::vector<std::size_t> top{64, 32}; ///< widths of the hidden layers of the network that predicts
  interaction how = interaction::dot;
};

/// A recommender. Each category has a table of embeddings, whose gradient is a list of rows. If samples have
/// numbers, the bottom network turns them into one more vector. The top network reads the interactions of
/// these vectors.
///
/// Variables are called "category1/table", "bottom1/weights", "top1/bias" and so on.
/// Source  Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation
///         Systems", 2019, arXiv:1906.00091. Tables start uniform in +-1/sqrt(rows), as in its code; layers
///         start as those of dense().
/// Errors  graph_error if the samples have no categories, or if there are fewer than two vectors for `dot`.
model_outputs build_dlrm(graph& g, const dlrm_options& options, const model_request& request);

/// Takes the settings of "dlrm:width=16,bottom=64,top=64x32,interaction=dot".
///
/// Errors  as settings.
dlrm_options take_dlrm_options(settings& s);

} // namespace mailgrad

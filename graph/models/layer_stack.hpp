#pragma once

#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/model.hpp>

namespace mailgrad {

// A model as a list of layers, one after the other. Built-in models and model files are such lists.

/// The most units or filters of a layer, and the largest window. A larger number is taken for a typing error.
inline constexpr std::size_t largest_extent = 1 << 20;

struct dense_layer {
  static constexpr std::string_view kind = "dense";
  std::optional<std::size_t> units; ///< unset: the number of classes, or of numbers that are predicted
  activation how = activation::none;
};

struct conv_layer {
  static constexpr std::string_view kind = "conv";
  std::size_t filters = 0;
  conv_options options;
};

struct pool_layer {
  static constexpr std::string_view kind = "pool";
  enum class rule : std::uint8_t { largest, mean };
  rule how = rule::largest;
  std::size_t size = 2;   ///< rows and columns of a window
  std::size_t stride = 2; ///< from one window to the next
};

/// A table of vectors, one for each token.
struct embedding_layer {
  static constexpr std::string_view kind = "embedding";
  std::size_t width = 0;
};

struct flatten_layer {
  static constexpr std::string_view kind = "flatten";
};

struct dropout_layer {
  static constexpr std::string_view kind = "dropout";
  float rate = 0.5F; ///< share of values set to 0 while training
};

struct layer_norm_layer {
  static constexpr std::string_view kind = "layer_norm";
};

using layer = std::variant<dense_layer, conv_layer, pool_layer, embedding_layer, flatten_layer, dropout_layer,
                           layer_norm_layer>;
using layer_stack = std::vector<layer>;

/// Builds a model from layers. Images are flattened where a dense layer needs it. Rows that are mostly zero
/// need a dense layer first, tokens an embedding. For classes, the loss is the cross-entropy of the last
/// layer's values; for numbers it is their mean squared error.
///
/// Layers are named after their kind and numbered within it: "conv1", "conv2", "dense1".
/// Errors  graph_error, naming the layer and its place in the list, if a layer does not fit the one before
///         it, or the last layer does not give a value for each class or each number that is predicted.
model_outputs build_classifier(graph& g, const layer_stack& layers, const model_request& request);

} // namespace mailgrad

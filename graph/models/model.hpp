#pragma once

#include <mailgrad/graph/graph.hpp>

namespace mailgrad {

/// What a model is built for. A model for evaluation has no dropout.
enum class phase : std::uint8_t { training, evaluation };

/// What the features of a sample are.
enum class feature_kind : std::uint8_t { numbers, tokens };

/// What a model predicts for a sample.
enum class answer : std::uint8_t { a_class, a_number };

/// A named input that the samples of a data set feed.
struct input_request {
  std::string name;
  value_type sample; ///< type of one sample; the model's input has the batch as its first axis

  friend bool operator==(const input_request&, const input_request&) = default;
};

/// The data, the batch and the worker that a model function builds for.
struct model_request {
  /// The shape of one sample's features: {height, width, channels}, {features}, or {window length} of tokens.
  /// It is {0} if a sample has only categories, or named inputs without float32 "features".
  shape sample_dims;
  feature_kind features = feature_kind::numbers;
  std::vector<std::size_t> categories{}; ///< counts: category j of a sample lies in [0, categories[j])
  /// The inputs of samples that a program holds in memory, including "features" if it has such an input.
  /// Empty for other samples.
  std::vector<input_request> inputs{};
  answer wanted = answer::a_class;
  shape target_dims{};      ///< where numbers are predicted, the target of one sample: a scalar, or {width}
  std::size_t classes = 2;  ///< labels and tokens are 0 to classes - 1; 0 where numbers are predicted
  std::size_t batch = 1;    ///< samples in a mini-batch
  std::size_t nonzeros = 0; ///< room for entries in a mini-batch of sparse rows; 0 if rows are dense
  phase purpose = phase::training;
  std::uint64_t seed = 1; ///< seed of random operations
  /// The devices of the worker. Operations that neither a scope nor an operand places run on the first.
  std::vector<device> devices{{device_kind::cpu, 0}};
  /// The rank of the worker and the number of workers. Workers may build different graphs; variables of one
  /// name are shared. A model for evaluation is built as for worker 0.
  std::uint32_t worker = 0;
  std::uint32_t workers = 1;

  /// The number of values that the last layer gives for a sample.
  std::size_t outputs() const noexcept { return wanted == answer::a_number ? target_dims.size() : classes; }
};

/// The results of a model function.
///
/// Shapes  logits: float32[batch, classes], for tokens [batch, window length, classes]; where numbers are
///         predicted, float32[batch, 1] or float32[batch, width] with the predictions. loss: scalar, the mean
///         over the labels.
struct model_outputs {
  value logits;
  value loss;
};

/// Builds a model in an empty graph. Its inputs have the names under which a batch feeds them:
///
///     dense numbers, tokens  features, labels
///     sparse rows            columns, values, offsets, labels
///     categories             categories: int32[batch, categories]; labels; features if samples have numbers
///     samples in memory      an input for each of model_request::inputs, labels
///
/// Shapes  labels: int32[batch], for tokens int32[batch, window length]; float32[batch, target_dims...] where
///         numbers are predicted.
/// Errors  graph_error if the model does not fit the request.
using model_function = std::function<model_outputs(graph&, const model_request&)>;

/// Builds a model, and refuses one whose loss or logits do not fit the request.
///
/// Errors  std::invalid_argument if there is no function. graph_error, naming the user's line and both
///         shapes, if the loss or the logits are missing or have another shape or type than model_outputs
///         says. What the function throws passes through.
model_outputs build_model(const model_function& build, graph& g, const model_request& request);

/// Returns the built-in model of that name, "mlp" or "mlp:hidden=512x256" (built_in.hpp), or the model whose
/// layers a JSON file lists (model_file.hpp), or a text that has the content of such a file.
///
/// Errors  std::invalid_argument that names the most similar model, or says what is wrong in the file and
///         where.
model_function find_model(std::string_view name_or_file);

/// A text from which find_model() makes the same model when the file is gone: the name, or the file's
/// content.
///
/// Errors  std::invalid_argument if the file cannot be read.
std::string model_text(std::string_view name_or_file);

} // namespace mailgrad

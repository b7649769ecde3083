#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/tensor/device.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace mailgrad {

/// What a model is built for: dropout and the like are left out of an evaluation.
enum class phase : std::uint8_t { training, evaluation };

/// What the samples of a data set are made of.
enum class feature_kind : std::uint8_t { numbers, tokens };

/// What a model says of a sample.
enum class answer : std::uint8_t { a_class, a_number };

/// What a model function has to fit.
struct model_request {
  /// Of one sample: {height, width, channels}, {features}, or {window length} of tokens; {0} if it has
  /// categories alone.
  shape sample_dims;
  feature_kind features = feature_kind::numbers;
  std::vector<std::size_t> categories{}; ///< counts: category j of a sample lies in [0, categories[j])
  answer wanted = answer::a_class;
  std::size_t classes = 2;  ///< labels are 0 to classes - 1, and so are tokens; 0 where a number is wanted
  std::size_t batch = 1;    ///< samples in a mini-batch
  std::size_t nonzeros = 0; ///< room for entries in a mini-batch of sparse rows; 0: rows are dense
  phase purpose = phase::training;
  std::uint64_t seed = 1; ///< of random operations
  /// Of the worker that it is built for: what has no scope goes to the first.
  std::vector<device> devices{{device_kind::cpu, 0}};
  /// Who asks, by rank, and how many there are. Workers may build different graphs: what has one name is
  /// shared, whoever made it. Evaluations ask as worker 0.
  std::uint32_t worker = 0;
  std::uint32_t workers = 1;

  /// Values that the last layer gives for a sample.
  std::size_t outputs() const noexcept { return wanted == answer::a_number ? 1 : classes; }
};

/// What a model function built.
///
/// Shapes  logits: float32[batch, classes], of tokens [batch, window length, classes]; where a number is
///         wanted float32[batch, 1], the number itself. loss: scalar, the mean over the labels.
struct model_outputs {
  value logits;
  value loss;
};

/// Builds a model in an empty graph. Its inputs are named as a batch names its parts: "features" and
/// "labels", or "columns", "values", "offsets" and "labels" where the rows are sparse; "categories",
/// int32[batch, categories], stands beside "features" where samples have some, and alone where they have no
/// numbers. Labels are int32, or float32 where a number is wanted.
///
/// Errors  graph_error if the model does not fit what is asked for.
using model_function = std::function<model_outputs(graph&, const model_request&)>;

/// Builds a model, and refuses one that does not answer what it was asked for.
///
/// Errors  std::invalid_argument if there is no function. graph_error, naming the user's line and both
///         shapes, if the loss or the logits are missing or have another shape or type than model_outputs
///         says; whatever the function throws.
model_outputs build_model(const model_function& build, graph& g, const model_request& request);

/// The built-in model of that name, "mlp" or "mlp:hidden=512x256" (built_in.hpp), or the model that a JSON
/// file lists the layers of (model_file.hpp).
///
/// Errors  std::invalid_argument that names the nearest right one, or says what in the file is wrong and
///         where.
model_function find_model(std::string_view name_or_file);

} // namespace mailgrad

#pragma once

#include <mailgrad/data/batch.hpp>
#include <mailgrad/engine/model/weight_addresses.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/program/program.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad {

/// The part of a batch that feeds an input: a member of `batch`, or one of its named inputs.
class batch_part {
public:
  explicit batch_part(const tensor batch::*own) : own_(own) {}
  explicit batch_part(std::size_t input) : input_(input) {}

  const tensor& of(const batch& b) const noexcept { return own_ != nullptr ? b.*own_ : b.inputs[input_]; }

private:
  const tensor batch::*own_ = nullptr;
  std::size_t input_ = 0;
};

/// Connects the inputs and variables of a program, by name, with the parts of a batch and the layout of the
/// weights.
///
/// Errors  graph_error, naming the user's line, if the program needs an input that the batches of the request
///         lack or have with another shape or type, or the graph has a variable that the layout lacks or has
///         with another shape.
class bound_sources {
public:
  bound_sources(const graph& g, const program& code, const parameter_layout& layout,
                const model_request& request);

  struct input_binding {
    value what;
    batch_part part;
    shape dims; ///< required of the batch

    /// The memory of this input in a batch.
    ///
    /// Errors  graph_error if the batch has another shape.
    const std::byte* in(const batch& inputs) const;
  };
  struct variable_binding {
    value what;
    std::size_t index; ///< in parameter_layout::variables()
  };

  /// Errors  graph_error if the shapes of the batch differ from those of the request.
  void bind(program& code, const batch& inputs, const weight_addresses& weights) const;

  const std::vector<input_binding>& inputs() const noexcept { return inputs_; }
  const std::vector<variable_binding>& variables() const noexcept { return variables_; }

private:
  std::vector<input_binding> inputs_;
  std::vector<variable_binding> variables_;
};

/// Builds a model, and refuses one that does not fit the batches of the request.
///
/// Errors  as build_model; graph_error, naming the user's line and both shapes, for an input that these
///         batches lack, or have with another shape or type.
model_outputs build_fitting(const model_function& build, graph& g, const model_request& request);

/// A model built for one batch size and compiled for some fetches, with its inputs and variables found by
/// name. Training and evaluation share it.
///
/// Errors  as build_fitting; graph_error if the model has a variable that the layout lacks or places
///         otherwise.
/// Threads one caller at a time.
class bound_model {
public:
  /// Chooses the values to compute; may add nodes to the graph.
  using choose_fetches = std::function<std::vector<value>(graph&, const model_outputs&)>;

  bound_model(const model_function& build, const model_request& request, const parameter_layout& layout,
              const choose_fetches& choose);
  /// The same for a lane, which outlives the model.
  bound_model(const model_function& build, const model_request& request, const parameter_layout& layout,
              const choose_fetches& choose, lane& place);

  void bind(const batch& inputs, const weight_addresses& weights) {
    sources_->bind(*program_, inputs, weights);
  }

  const bound_sources& sources() const noexcept { return *sources_; }
  program& code() noexcept { return *program_; }
  const graph& model() const noexcept { return *graph_; }

private:
  using compile = std::function<std::unique_ptr<program>(const graph&, const std::vector<value>& fetches)>;
  bound_model(const model_function& build, const model_request& request, const parameter_layout& layout,
              const choose_fetches& choose, const compile& made);

  std::unique_ptr<graph> graph_;
  std::unique_ptr<program> program_;
  std::optional<bound_sources> sources_;
};

/// The part of the request's batches that feeds the input of this name.
/// Errors  graph_error if no part has it.
batch_part part_for(std::string_view input, const model_request& request);

} // namespace mailgrad

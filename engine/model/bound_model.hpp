#pragma once

#include <mailgrad/data/batch.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/block.hpp>

namespace mailgrad {

/// The most entries in a mini-batch of `batch` of these samples; 0 for dense samples. For a sparse set it is
/// at least 1, even if no row has an entry, because 0 means dense rows (model_request::nonzeros).
std::size_t room_for_entries(const dataset& samples, std::size_t batch);

/// The request to a model that is to learn from `data` in mini-batches of `batch` samples.
model_request request_for(const data_split& data, std::size_t batch);

/// Requires that a model built for `request` can read these samples: kind and size must be the same, and the
/// model must know their classes and categories.
/// Errors  std::invalid_argument, with what was expected and found.
void require_readable(const model_request& request, const dataset& samples);

/// The address of each variable for a replica, from the snapshots of all shards.
///
/// A variable in one shard is read in place, from the shard's snapshot. One that is cut between shards is
/// copied for each new snapshot, because kernels need it in one piece.
/// Threads one caller at a time.
class weight_addresses {
public:
  explicit weight_addresses(const parameter_layout& layout);
  /// Of weights in one piece, float32[layout.size()], on the host or on a GPU. `use()` is not for these.
  static weight_addresses in_one_piece(const parameter_layout& layout, const float* values);
  /// `values` are the weights of `shard`; they stay valid until the next call for that shard.
  /// Errors  std::invalid_argument if there is no such shard, or there are no values.
  void use(std::uint32_t shard, const float* values);

  const float* of(std::size_t variable) const noexcept { return addresses_[variable]; }

private:
  weight_addresses() = default;

  struct place {
    std::size_t variable;
    variable_piece piece;
    bool whole; ///< the piece is the whole variable
  };

  std::vector<std::vector<place>> places_; ///< by shard
  std::vector<const float*> addresses_;    ///< by variable
  std::vector<block> joined_;              ///< by variable; empty for a variable in one shard
};

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

/// Connects inputs and variables of a program, by name, with the parts of a batch and the layout of the
/// weights.
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
    std::size_t bytes() const { return what.dims().size() * byte_size(what.type().type); }
    /// The memory of this input in a batch.
    /// Errors  graph_error if the batch has another shape.
    const std::byte* in(const batch& inputs) const;
  };
  struct variable_binding {
    value what;
    std::size_t index; ///< in parameter_layout::variables()
  };

  /// Errors  graph_error if the shapes of the batch differ from those of the request.
  void bind(program& code, const batch& inputs, const weight_addresses& weights) const;
  /// Calls `use` with each input and its place where they lie side by side. Returns how many bytes they take.
  template <class Use>
  std::size_t lay_side_by_side(const Use& use) const {
    std::size_t place = 0;
    for (const input_binding& input : inputs_) {
      use(input, place);
      place += aligned(input.bytes());
    }
    return place;
  }
  /// Copies the inputs of a batch to such places.
  /// Errors  as bind().
  void stage(const batch& inputs, std::byte* to) const;
  void bind_staged(program& code, const std::byte* from) const;

  const std::vector<input_binding>& inputs() const noexcept { return inputs_; }
  const std::vector<variable_binding>& variables() const noexcept { return variables_; }

private:
  std::vector<input_binding> inputs_;
  std::vector<variable_binding> variables_;
};

/// Builds a model, and refuses one that does not fit the batches of the request.
/// Errors  as build_model; graph_error, naming the user's line and both shapes, for an input that these
///         batches lack, or have with another shape or type.
model_outputs build_fitting(const model_function& build, graph& g, const model_request& request);

/// A model built for one batch size and compiled for some fetches, with its inputs and variables found by
/// name. Training and evaluation share it.
/// Errors  as build_fitting; graph_error for a variable that the layout lacks or places otherwise.
/// Threads one caller at a time.
class bound_model {
public:
  /// Chooses the values to compute; may add nodes to the graph.
  using choose_fetches = std::function<std::vector<value>(graph&, const model_outputs&)>;

  bound_model(const model_function& build, const model_request& request, const parameter_layout& layout,
              const choose_fetches& choose);
  /// The same for a queue, which outlives the model.
  bound_model(const model_function& build, const model_request& request, const parameter_layout& layout,
              const choose_fetches& choose, device_queue& place);

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

/// Lays the variables of a model out over `shards` shards. Workers may build different graphs, so the layout
/// has the variables of all `request.workers` of them.
/// Errors  graph_error from the model function, or as variable_union; std::invalid_argument: too many shards.
parameter_layout lay_out(const model_function& build, model_request request, std::size_t shards,
                         shard_cuts where = shard_cuts::within_variables);

// What the optimiser of `options` must be told of variables: nothing, unless it looks at whole ones.

/// Those of one shard.
/// Errors  std::invalid_argument: a variable of the shard lies in others too.
std::vector<shard_variable> variables_for(const optimizer_options& options, const parameter_layout& layout,
                                          std::uint32_t shard);
/// All of the model, for an optimiser of one flat vector.
std::vector<shard_variable> all_variables_for(const optimizer_options& options,
                                              const parameter_layout& layout);

/// The variables of one shard, whatever its optimiser; none if one of them lies in others too.
std::vector<shard_variable> whole_variables_of(const parameter_layout& layout, std::uint32_t shard);

/// A gradient that a program writes in place into the block of the whole model.
struct dense_fetch {
  std::size_t index;    ///< among the fetches
  std::size_t variable; ///< index in parameter_layout::variables()
  std::size_t offset;   ///< in floats, from the start of the block
  std::size_t size;     ///< in floats
  bool further = false; ///< another device computes the first addend of this variable's gradient
};

/// Rows of the gradient of a table. The row numbers come from the batch if an input has them, otherwise from
/// a fetch.
struct sparse_fetch {
  std::size_t variable; ///< index in parameter_layout::variables()
  std::size_t width;
  std::size_t count;  ///< rows of the list
  std::size_t values; ///< index among the fetches
  std::optional<std::size_t> rows;
  std::optional<batch_part> rows_in_batch{};
};

/// Loss and gradients as fetches of one program, and the meaning of each fetch.
struct training_fetches {
  static constexpr std::size_t loss = 0; ///< index among the fetches

  std::vector<value> fetches;
  std::vector<dense_fetch> dense;
  std::vector<sparse_fetch> sparse;

  std::vector<std::size_t> dense_variables() const {
    std::vector<std::size_t> all;
    for (const dense_fetch& f : dense) all.push_back(f.variable);
    return all;
  }
};

/// Replaces the fetch of a gradient that is a sum over several devices by fetches of the addends.
void take_sums_apart(training_fetches& list, const graph& g, const placement& places);

/// Adds the backward pass to the graph of a model.
/// Errors  graph_error if the model has a variable that the layout lacks.
training_fetches loss_and_gradients(graph& g, const model_outputs& outputs, const parameter_layout& layout,
                                    const model_request& request);

} // namespace mailgrad

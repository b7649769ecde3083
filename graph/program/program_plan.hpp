#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/kernels/elementwise.hpp>

namespace mailgrad {

/// Element-wise nodes that run as one kernel, at the place of their last node in the order of the graph.
struct fused_run {
  std::vector<std::uint32_t> nodes; ///< ascending, at least two
  std::vector<value> inputs;        ///< values that the nodes read from outside the run
  std::vector<value> outputs;       ///< results that other nodes read or the caller fetches
  elementwise_chain chain;
  std::optional<std::size_t> overwrites; ///< the input whose memory outputs[0] may take
};

/// Finds runs of nodes that read each other's results, over values of one size. No node is in two runs. A run
/// is computed at its last node, so nodes outside must not read its results before that.
///
/// `needed` tells for each node whether it is computed at all.
/// Errors  graph_error if `needed` has not one element for each node.
std::vector<fused_run> find_fused_runs(const graph& model, std::span<const char> needed,
                                       std::span<const value> fetches);

/// The steps during which a value needs memory: from the step that writes it to the last step that reads it,
/// both included.
struct lifetime {
  std::size_t bytes;
  std::size_t first;
  std::size_t last;
};

struct memory_plan {
  std::vector<std::size_t> offsets; ///< one for each lifetime, a multiple of 64
  std::size_t bytes = 0;            ///< the size of the whole arena
};

/// Places values so that two of them never overlap if both are alive at one step: greedy by size, best fit.
///
/// Source  Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020,
///         arXiv:2001.03288, section 5.2.
memory_plan plan_memory(const std::vector<lifetime>& lifetimes);

/// The memory of one or more values. Values share memory if one is a view of the other or overwrites it.
struct storage {
  enum class place : std::uint8_t {
    arena,    ///< at `offset`
    source,   ///< the caller binds it: an input, a variable or a given value
    constant, ///< at `constant`
  };
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  place where = place::arena;
  std::size_t bytes = 0;
  std::size_t first = 0;          ///< step that writes it
  std::size_t last = 0;           ///< last step that reads it
  std::size_t fetch = none;       ///< index of the fetch that lies in this memory
  std::size_t only_step = none;   ///< the step that writes it as its only output, if no other step uses it
  std::size_t offset = 0;         ///< in the arena
  const void* constant = nullptr; ///< the values of a constant
  bool kept = false;              ///< it has what executable::kept_bytes() says, and not its value
  std::string name{};             ///< of a source, for errors
};

/// One kernel, and the storages that it works on.
struct planned_step {
  std::unique_ptr<executable> work;
  std::vector<std::size_t> inputs{};       ///< storages
  std::vector<std::size_t> outputs{};      ///< storages
  std::optional<std::size_t> overwrites{}; ///< the input whose memory the first output may take
  std::string words{}; ///< the node in errors, "models.cpp:12: gather"; for a fused run its last node
};

/// A graph compiled for fixed shapes, before any memory is taken: which kernels run, and where each value
/// lies.
struct program_plan {
  std::vector<planned_step> steps;
  std::vector<storage> storages;
  std::vector<std::size_t> fetches;                  ///< the storage of each
  std::vector<std::vector<std::size_t>> storages_of; ///< by node and output
  std::size_t arena_bytes = 0;                       ///< of values
  std::size_t scratch_bytes = 0;                     ///< of the kernel that needs most

  /// Returns storage::none for a value that the program does not need, or that was added after it was
  ///         planned.
  std::size_t storage_of(const value& v) const;
};

/// Plans the nodes that `fetches` need, and no others. The values of `given` are computed elsewhere. On a
/// GPU the plan joins products and the bias behind them. With products in bfloat16
/// what they read is rounded.
///
/// The first `handed_on` fetches go to other programs of such a device. Each of them may be what a kernel of
/// a GPU keeps for its gradient in place of the value, and so may those of `given`.
///
/// Errors  graph_error if a fetched or given value comes from another graph, or an operation cannot be run.
program_plan plan_program(const graph& model, std::span<const value> fetches, std::span<const value> given,
                          device_kind place = device_kind::cpu,
                          product_precision products = product_precision::float32, std::size_t handed_on = 0);

} // namespace mailgrad

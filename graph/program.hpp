#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/kernels/next_use.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace mailgrad {

/// Called when the last kernel of a run has finished: on the caller's thread before run() returns on a CPU,
/// on a thread of the driver on a GPU.
using completion = std::function<void()>;

/// A graph compiled for fixed shapes: a list of kernels over memory planned once.
///
/// Inputs and variables are read where the caller's memory lies, fetched values are written where the caller
/// wants them; everything between lies in one arena, in which values that are never alive together share
/// bytes. An address has no length: a caller answers for the memory it binds, as bound_model (actors/) does
/// by comparing shapes.
/// Errors  compile: graph_error if a fetched or given value comes from another graph, or an operation cannot
///         be run. bind: graph_error for a value of another graph; std::invalid_argument for a fetch that is
///         not there or no memory. run: device_error; std::out_of_range, naming the user's line, if an
///         operation meets a row or a label that is not there; std::logic_error if an input or a variable the
///         fetched values need is not bound.
/// Threads one caller at a time. run() allocates nothing.
class program {
public:
  /// Compiles what is needed to compute `fetches`, and nothing else. `given` are computed elsewhere, and
  /// bound like inputs.
  program(const graph& model, std::span<const value> fetches, std::span<const value> given = {});
  ~program();
  program(program&&) noexcept;
  program& operator=(program&&) noexcept;

  /// Memory of an input, a variable or a given value, valid until the runs that use it are over; 64-byte
  /// aligned.
  void bind(const value& source, const void* memory);
  /// Memory that a fetched value is written to, instead of the program's own. `use`, until bound anew, is
  /// when the caller will read it; it counts where no kernel of the program reads it too.
  void bind_fetch(std::size_t index, void* memory, next_use use = next_use::soon);
  /// Where fetch `index` lies after a run.
  const void* fetched(std::size_t index) const;

  /// Whether the fetched values depend on this input or variable.
  bool needs(const value& source) const;

  /// Runs every kernel once; `step` seeds random operations. `done` may be empty.
  void run(const stream& s, std::uint64_t step, const completion& done);

  std::size_t arena_bytes() const noexcept;
  std::size_t kernel_count() const noexcept;

private:
  class implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad

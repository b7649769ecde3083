#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/tensor/memory.hpp>

namespace mailgrad {
namespace cuda {
struct fault_word; // kernels/cuda/stream_status.hpp
}

/// Called when the last kernel of a run has finished. On a CPU that is on the caller's thread, before run()
/// returns.
using completion = std::function<void()>;

/// A graph compiled for fixed shapes: a list of kernels over memory that is planned once.
///
/// Inputs and variables are read from the caller's memory, and fetched values are written to memory that the
/// caller binds. All other values lie in one arena, in which values that are never alive together share
/// bytes. Arena and constants lie where the program's queue allocates; what is bound lies there too.
/// The program cannot check the size of bound memory. Its caller must do that, as bound_model
/// (engine/model/) does by comparing shapes.
/// Errors  compile: graph_error if a fetched or given value comes from another graph, or an operation cannot
///         be run. bind: graph_error for a value of another graph; std::invalid_argument for a fetch that
///         does not exist, or a null pointer. run: device_error; std::out_of_range, naming the user's line,
///         for a row or a label that does not exist; std::logic_error if an input or a variable that the
///         fetched values need is not bound, or for a stream of another kind than the queue's.
/// Threads one caller at a time. run() allocates nothing.
class program {
public:
  /// Compiles the nodes that `fetches` need, and no others. The values of `given` are computed elsewhere and
  /// bound like inputs.
  program(const graph& model, std::span<const value> fetches, std::span<const value> given = {});
  /// The same for a queue, on whose stream every run() is queued and which outlives the program. The first
  /// `handed_on` fetches go to programs of other queues (plan_program()).
  program(const graph& model, std::span<const value> fetches, std::span<const value> given,
          device_queue& place, std::size_t handed_on = 0);
  ~program();
  program(program&&) noexcept;
  program& operator=(program&&) noexcept;

  /// Sets the memory of an input, a variable or a given value. It is 64-byte aligned, and must be valid
  /// during all runs that use it.
  void bind(const value& source, const void* memory);
  /// Sets the memory that a fetched value is written to, in place of the program's own. `use` tells when the
  /// caller reads it, until it is bound anew. It has no effect on a value that a kernel of the program also
  /// reads.
  void bind_fetch(std::size_t index, void* memory, next_use use = next_use::soon);
  /// The bytes of fetch `index`.
  std::size_t fetch_bytes(std::size_t index) const;
  /// The address of fetch `index` after a run.
  const void* fetched(std::size_t index) const;

  /// Whether the fetched values depend on this input or variable.
  bool needs(const value& source) const;

  /// Runs every kernel once. Random operations draw from their seed and `step`. `done` may be empty.
  ///
  /// On a GPU the kernels are queued when this returns. `done` must be empty then: the queue's owner records
  /// an event behind the run, and learns from the stream's status what a kernel found wrong.
  void run(const stream& s, std::uint64_t step, const completion& done);

  /// Queues every kernel on a stream of a GPU, with the step's number that the stream's status holds then.
  /// Nothing in it depends on the step, so it can be captured once and replayed on the queue's stream, while
  /// the program, its queue and all bound memory stay.
  ///
  /// `queued` is called behind each kernel with what it computes, "models.cpp:12: gather", so that a
  /// measurement can record the time between two.
  ///
  /// Errors  as run() on a GPU.
  void queue(const cuda_stream& s, const std::function<void(std::string_view what)>& queued = {});

  /// Throws what run() on the host would have thrown for this fault, which names the user's line too.
  ///
  /// Errors  std::out_of_range, unless the fault is none.
  void raise(const cuda::fault_word& fault) const;

  std::size_t arena_bytes() const noexcept;
  std::size_t kernel_count() const noexcept;

private:
  struct implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad

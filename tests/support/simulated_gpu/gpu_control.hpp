#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// How a test sets up the simulated GPU, and what it asks it.
namespace mailgrad::simulated_gpu {

/// Which blocks, and which threads of a block, run first.
enum class thread_order : std::uint8_t { forward, backward, shuffled };

/// Whether all threads get to a barrier before one goes on behind it, or one warp gets as far as it can
/// before another begins.
enum class reach : std::uint8_t { breadth_first, one_warp_far };

/// An order that a GPU may run the threads of a kernel in.
struct schedule {
  thread_order order = thread_order::forward;
  reach far = reach::breadth_first;
  std::uint64_t seed = 1; ///< of a shuffled order
  friend bool operator==(const schedule&, const schedule&) = default;
};

inline constexpr std::array<schedule, 6> all_schedules{{
    {thread_order::forward, reach::breadth_first},
    {thread_order::backward, reach::breadth_first},
    {thread_order::shuffled, reach::breadth_first},
    {thread_order::forward, reach::one_warp_far},
    {thread_order::backward, reach::one_warp_far},
    {thread_order::shuffled, reach::one_warp_far},
}};

/// When what is queued on a stream runs.
enum class timing : std::uint8_t {
  eager, ///< within the call that queues it
  late,  ///< when somebody waits for it, or has asked `late_queries` times whether it has run
  drawn, ///< when somebody waits for it, or run_next() has drawn it; who asks learns, and moves nothing
};

/// What the machine lacks, if anything.
enum class machine : std::uint8_t { complete, without_driver, with_old_driver, without_gpu };

/// What fails. Calls are counted from 1, from now on.
struct faults {
  std::optional<std::uint64_t> out_of_memory_at = {};        ///< the n-th allocation; those behind it succeed
  std::optional<std::uint64_t> pinned_out_of_memory_at = {}; ///< the same of pinned memory
  /// The n-th stream, event or graph that is made, for which the driver has no memory left.
  std::optional<std::uint64_t> driver_out_of_memory_at = {};
  /// The n-th kernel that runs; its GPU fails each call from then on.
  std::optional<std::uint64_t> launch_error_at = {};
  /// The n-th call of the runtime; all GPUs fail each call from then on.
  std::optional<std::uint64_t> lost_gpu_at = {};
  std::optional<std::uint32_t> silent_gpu = {}; ///< the GPU of this number tells nothing of itself
};

struct settings {
  schedule order = {};
  timing when = timing::eager;
  std::uint64_t late_queries = 2;
  faults fail = {};
  machine has = machine::complete;
  std::uint32_t gpus = 1;
  std::vector<std::string> names = {};             ///< of the first GPUs; any other is a "simulated GPU"
  std::size_t memory_bytes = std::size_t{8} << 30; ///< of each GPU
  std::uint32_t capability_major = 9;
  /// false: a synchronisation, and a copy of pageable memory, which may wait, throw std::logic_error. Unless
  /// streams run eagerly, one that asks for a stream on which nothing is queued does not wait. A release of
  /// memory waits as well; it cannot throw, and only counts.
  bool may_wait = true;
  std::string products = "products of the simulated GPU"; ///< the version of what multiplies
  /// Whether kernels are generated for chains: the compiler of the build takes a second or two for each.
  bool generates_kernels = false;
  /// Called before each compilation, by the thread that compiles. It may wait, or throw what the compiler
  /// says.
  std::function<void()> on_compile = {};
  /// The clock that kernels read, in ns; null: that of the machine.
  std::function<std::uint64_t()> clock = {};
};

/// What was done since set_up().
struct counters {
  std::uint64_t launches = 0; ///< calls of a test or of the product that queued a kernel or a graph
  std::uint64_t kernels = 0;  ///< that have run, each of a graph by itself
  std::uint64_t products = 0; ///< that have run
  std::uint64_t waits = 0;    ///< calls that wait for a GPU or may, each release of memory among them
  std::uint64_t allocations = 0;
  std::uint64_t pinned_allocations = 0;
  std::uint64_t events = 0;         ///< created
  std::uint64_t driver_objects = 0; ///< streams, events and graphs that were made, or failed to be
  std::uint64_t calls = 0;          ///< of the runtime
  std::size_t bytes_now = 0, bytes_at_most = 0;                      ///< allocated on all GPUs
  std::size_t bytes_to_gpu = 0, bytes_to_host = 0, bytes_on_gpu = 0; ///< copied
};

/// Begins anew: what was queued is run, errors are forgotten, counters are 0. Allocations, streams and events
/// stay.
void set_up(const settings& s);

/// Makes no GPU current on this thread, as on one that has not called the runtime yet.
void leave_gpus();
/// The settings of the environment: MAILGRAD_SIMULATED_GPU holds words such as "backward far late seed=3".
settings default_settings();
counters count();
/// Runs the next entry of one stream, which `drawn` chooses among those whose next entry waits for nothing
/// that has not run. Returns false if there is none.
bool run_next(std::uint64_t drawn);

} // namespace mailgrad::simulated_gpu

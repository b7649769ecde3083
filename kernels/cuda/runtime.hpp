#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// What Mailgrad asks of CUDA's runtime. Beside it only launch.hpp and elements.hpp, which hold the
/// language of kernels, cublas_products.cpp and nvrtc_compiler.cpp name CUDA.
///
/// It has three bodies: runtime.cpp calls CUDA, tests/support/simulated_gpu/ runs the same kernels on the
/// processor, and no_cuda.cpp stands in for a build without CUDA.
///
/// Errors  every function throws device_error, which names GPU, call and the driver's reason, unless it is
///         noexcept. One that makes something throws an out_of_memory, which names the GPU, if memory lacks;
///         one that queues work has failed. An error that a kernel left is thrown by whichever call is next.
/// Threads any thread may call any function, but one that names no GPU comes behind make_current(): CUDA
///         would else wake the first GPU. A stream takes work of one thread at a time.
namespace mailgrad::cuda::runtime {

/// A GPU of this machine.
struct gpu {
  std::string name;
  std::size_t memory_bytes = 0;
  std::uint32_t major = 0, minor = 0; ///< compute capability
  std::uint32_t multiprocessors = 0;
  std::string why_unknown; ///< empty, unless the GPU did not answer, and then all else is unknown
  /// Ampere is the first whose code a build has.
  bool is_too_old() const noexcept { return why_unknown.empty() && major < least_major; }
  static constexpr std::uint32_t least_major = 8;
  friend bool operator==(const gpu&, const gpu&) = default;
};

/// The GPUs of this machine, or one line that says why there is none.
struct found_gpus {
  std::vector<gpu> gpus; ///< by their numbers
  std::string driver;    ///< "CUDA 13.0"; empty without a driver
  std::string why_none;  ///< empty if there are GPUs
};
found_gpus find_gpus();

/// Memory of a GPU.
///
/// Errors  out_of_memory, which says how much was asked for and how much is free.
void* allocate(std::uint32_t gpu, std::size_t bytes);
void release(std::uint32_t gpu, void* memory) noexcept;

/// Memory of the host that copies reach without the driver's own buffer, and that kernels may read and write
/// at the same address.
///
/// Errors  out_of_memory, which says how much was asked for.
void* allocate_pinned(std::size_t bytes);
void release_pinned(void* memory) noexcept;

/// Whose kernels the GPU runs first, if those of several streams may run.
enum class urgency : std::uint8_t { usual, first };

/// cudaStream_t, which does not wait for the default stream.
void* create_stream(std::uint32_t gpu, urgency when = urgency::usual);
void destroy_stream(std::uint32_t gpu, void* stream) noexcept;
/// Waits until everything queued is done.
void synchronise(void* stream);

/// cudaEvent_t. Only a timed one may be asked for milliseconds_between.
enum class event_kind : std::uint8_t { untimed, timed };
void* create_event(std::uint32_t gpu, event_kind kind);
void destroy_event(void* event) noexcept;
void record(void* event, void* stream);
/// Lets work that is queued later on `stream` wait for `event`.
void wait(void* stream, void* event);
bool has_passed(void* event);
float milliseconds_between(void* begin, void* end);

/// Copies between memories of the host and of GPUs. `from` and `to` must stay until the copy has run, unless
/// the host's memory is not pinned: then the call returns when it has been read or written.
void copy(void* stream, void* to, const void* from, std::size_t bytes);
/// Writes `value` to each byte.
void fill(void* stream, void* memory, std::uint8_t value, std::size_t bytes);

/// Makes `gpu` the one that this thread calls, and launches kernels on. launch() and products call it
/// themselves.
void make_current(std::uint32_t gpu);
/// Lets blocks of a kernel have more shared memory than those of any kernel may.
void allow_shared_bytes(const void* kernel, std::size_t bytes);
/// Throws what the launch of kernel `name` was refused for.
void check_launch(const char* name);

/// Loads a kernel that was made while the program runs, so that nothing is left to do at its first launch. It
/// stays until the process ends. launch_loaded() launches it.
void* load_kernel(std::uint32_t gpu, std::span<const std::byte> code, const char* name);

/// What is queued on `stream` between both calls is not run but kept as a graph, which launch_graph() queues
/// as one.
void begin_capture(void* stream);
void* end_capture(void* stream);
void launch_graph(void* graph, void* stream);
void destroy_graph(void* graph) noexcept;

} // namespace mailgrad::cuda::runtime

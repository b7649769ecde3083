#include <mailgrad/kernels/cuda/missing_gpu.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <mutex>

namespace mailgrad::cuda::runtime {
namespace {

/// The GPU that this thread has made current. To ask the runtime could bring the error of earlier work.
thread_local int current_gpu = 0;

[[noreturn]] void fail(cudaError_t code, const char* what) {
  static_cast<void>(cudaGetLastError()); // so that the next call does not report it again
  fail_with(world_errc::device_failure, "cuda:{}: {}: {}", current_gpu, what, cudaGetErrorString(code));
}

void require(cudaError_t code, const char* what) {
  if (code != cudaSuccess) fail(code, what);
}

/// The driver takes memory for streams, events, graphs and code as well, and does not say how much. If it is
/// lacking, nothing has been queued, which a call that queues work cannot say.
void require_made(cudaError_t code, const char* what) {
  if (code != cudaErrorMemoryAllocation) return require(code, what);
  static_cast<void>(cudaGetLastError());
  fail_with<out_of_memory>("cuda:{}: out of memory: {}", current_gpu, what);
}

cudaError_t try_to_use(std::uint32_t gpu) noexcept {
  current_gpu = static_cast<int>(gpu);
  return cudaSetDevice(current_gpu);
}
void use(std::uint32_t gpu) { require(try_to_use(gpu), "cudaSetDevice"); }

/// For functions that cannot throw: the next call of the runtime must not report their error as its own.
void forget(cudaError_t code) noexcept {
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

/// The runtime's own text speaks of an old driver where there is none.
std::string why_none(cudaError_t code, int driver) {
  const bool too_old = code == cudaErrorInsufficientDriver;
  const bool none_found = code == cudaErrorNoDevice || code == cudaSuccess;
  missing_gpu x{driver, CUDART_VERSION, too_old, none_found ? "" : cudaGetErrorString(code)};
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) x.visible = visible;
  return in_words(x);
}

/// A GPU that does not answer keeps its number, and hides no other.
gpu facts_of(int number) {
  cudaDeviceProp p;
  gpu c;
  if (const cudaError_t code = cudaGetDeviceProperties(&p, number); code != cudaSuccess) {
    forget(code);
    c.why_unknown = cudaGetErrorString(code);
    return c;
  }
  c.name = p.name;
  c.memory_bytes = p.totalGlobalMem;
  c.major = static_cast<std::uint32_t>(p.major);
  c.minor = static_cast<std::uint32_t>(p.minor);
  c.multiprocessors = static_cast<std::uint32_t>(p.multiProcessorCount);
  return c;
}

} // namespace

found_gpus find_gpus() {
  // Before the first call of the driver. Streams share 8 connections to a GPU if nothing else is said, and
  // one that waits for another holds up all behind it on its connection.
  static std::once_flag asked;
  std::call_once(asked, [] { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); });
  found_gpus found;
  int driver = 0, count = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  if (driver != 0) found.driver = format_cuda_version(driver);
  const cudaError_t code = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (code != cudaSuccess || count == 0) {
    found.why_none = why_none(code, driver);
    return found;
  }
  for (int i = 0; i < count; ++i) found.gpus.push_back(facts_of(i));
  return found;
}

void* allocate(std::uint32_t gpu, std::size_t bytes) {
  use(gpu);
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, bytes);
  if (code != cudaErrorMemoryAllocation) {
    require(code, "cudaMalloc");
    return memory;
  }
  static_cast<void>(cudaGetLastError());
  std::size_t unused = 0, all = 0;
  require(cudaMemGetInfo(&unused, &all), "cudaMemGetInfo");
  fail_with<out_of_memory>("cuda:{}: out of memory: {} asked for, {} of {} free", gpu,
                           byte_count(bytes).text(), byte_count(unused).text(), byte_count(all).text());
}

void release(std::uint32_t gpu, void* memory) noexcept {
  forget(try_to_use(gpu));
  forget(cudaFree(memory));
}

void* allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t code = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  if (code != cudaErrorMemoryAllocation) {
    require(code, "cudaHostAlloc");
    return memory;
  }
  forget(code);
  fail_with<out_of_memory>("pinned memory of the host: out of memory: {} asked for",
                           byte_count(bytes).text());
}

void release_pinned(void* memory) noexcept { forget(cudaFreeHost(memory)); }

void* create_stream(std::uint32_t gpu, urgency when) {
  use(gpu);
  int usual = 0, first = 0;
  require(cudaDeviceGetStreamPriorityRange(&usual, &first), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t made = nullptr;
  require_made(
      cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, when == urgency::first ? first : usual),
      "cudaStreamCreateWithPriority");
  return made;
}

void destroy_stream(std::uint32_t gpu, void* stream) noexcept {
  forget(try_to_use(gpu));
  forget(cudaStreamDestroy(stream_of(stream)));
}

void synchronise(void* stream) { require(cudaStreamSynchronize(stream_of(stream)), "cudaStreamSynchronize"); }

void* create_event(std::uint32_t gpu, event_kind kind) {
  use(gpu);
  cudaEvent_t made = nullptr;
  const unsigned flags = kind == event_kind::timed ? cudaEventDefault : cudaEventDisableTiming;
  require_made(cudaEventCreateWithFlags(&made, flags), "cudaEventCreateWithFlags");
  return made;
}

void destroy_event(void* event) noexcept { forget(cudaEventDestroy(event_of(event))); }

void record(void* event, void* stream) {
  require(cudaEventRecord(event_of(event), stream_of(stream)), "cudaEventRecord");
}

void wait(void* stream, void* event) {
  require(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "cudaStreamWaitEvent");
}

bool has_passed(void* event) {
  const cudaError_t code = cudaEventQuery(event_of(event));
  if (code == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  require(code, "cudaEventQuery");
  return true;
}

float milliseconds_between(void* begin, void* end) {
  float passed = 0;
  require(cudaEventElapsedTime(&passed, event_of(begin), event_of(end)), "cudaEventElapsedTime");
  return passed;
}

void copy(void* stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)), "cudaMemcpyAsync");
}

void fill(void* stream, void* memory, std::uint8_t value, std::size_t bytes) {
  if (bytes == 0) return;
  require(cudaMemsetAsync(memory, value, bytes, stream_of(stream)), "cudaMemsetAsync");
}

void make_current(std::uint32_t gpu) { use(gpu); }

void allow_shared_bytes(const void* kernel, std::size_t bytes) {
  require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "cudaFuncSetAttribute");
}

void check_launch(const char* name) { require(cudaGetLastError(), name); }

void* load_kernel(std::uint32_t gpu, std::span<const std::byte> code, const char* name) {
  use(gpu);
  cudaLibrary_t library = nullptr;
  require_made(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
               "cudaLibraryLoadData");
  cudaKernel_t kernel = nullptr;
  cudaFuncAttributes unused{};
  cudaError_t status = cudaLibraryGetKernel(&kernel, library, name);
  // The driver would else load the code at the first launch, which may be part of a capture.
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&unused, static_cast<const void*>(kernel));
  if (status != cudaSuccess) forget(cudaLibraryUnload(library));
  require_made(status, "cudaLibraryGetKernel");
  return kernel;
}

void begin_capture(void* stream) {
  require(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
}

void* end_capture(void* stream) {
  cudaGraph_t graph = nullptr;
  require_made(cudaStreamEndCapture(stream_of(stream), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t made = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&made, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  require_made(code, "cudaGraphInstantiate");
  return made;
}

void launch_graph(void* graph, void* stream) {
  require(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream)), "cudaGraphLaunch");
}

void destroy_graph(void* graph) noexcept {
  forget(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

} // namespace mailgrad::cuda::runtime

#include "current_gpu.hpp"
#include "gpu_machine.hpp"

#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

// The half of kernels/cuda/runtime.hpp that allocates and copies.
namespace mailgrad::cuda::runtime {

namespace {

using simulated_gpu::gpu_machine;
using simulated_gpu::refuse;
using simulated_gpu::stream_state;

/// Where the host's and the GPUs' memory is: what a copy has to know.
enum class place : std::uint8_t { pageable, pinned, gpu };

place place_of(const gpu_machine& all, const char* name, const void* address, std::size_t bytes) {
  const auto* const found = all.memory.find(address);
  if (found == nullptr) return place::pageable;
  if (reinterpret_cast<std::uintptr_t>(address) + bytes > all.memory.end_of(address))
    refuse(name, "invalid argument");
  return found->pinned ? place::pinned : place::gpu;
}

/// Allocating and releasing wait for the GPU, which a stream that is being captured by this thread never
/// reaches. Returns whether there is such a stream; its capture is broken then.
bool breaks_capture(gpu_machine& all, const char* name) {
  bool broken = false;
  for (const auto& [handle, s] : all.streams) {
    if (!s->captured || s->captured->by != std::this_thread::get_id()) continue;
    s->captured->broken = name;
    broken = true;
  }
  return broken;
}

void refuse_within_capture(gpu_machine& all, const char* name) {
  if (breaks_capture(all, name)) refuse(name, "operation not permitted when stream is capturing");
}

void count_copy(gpu_machine& all, place to, place from, std::size_t bytes) {
  if (to == place::gpu)
    (from == place::gpu ? all.counted.bytes_on_gpu : all.counted.bytes_to_gpu) += bytes;
  else
    all.counted.bytes_to_host += bytes;
}

void queue_copy(gpu_machine& all, stream_state& s, void* to, const void* from, std::size_t bytes) {
  all.queue(s, {.body = [=]() -> std::optional<std::string> {
              std::memcpy(to, from, bytes);
              return std::nullopt;
            }});
}

/// Pageable memory is read by the host now, into a buffer of the driver's. CUDA may wait for the stream to
/// have that buffer, so the caller must be one that may wait.
void copy_from_pageable(gpu_machine& all, stream_state& s, void* to, const void* from, std::size_t bytes) {
  all.require_may_wait("cudaMemcpyAsync from pageable memory");
  const auto* const begin = static_cast<const std::byte*>(from);
  auto kept = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
  all.queue(s, {.body = [=, kept = std::move(kept)]() -> std::optional<std::string> {
              std::memcpy(to, kept->data(), bytes);
              return std::nullopt;
            }});
}

/// And written by the host, when the copy has run.
void copy_to_pageable(gpu_machine& all, stream_state& s, void* to, const void* from, std::size_t bytes) {
  all.require_may_wait("cudaMemcpyAsync to pageable memory");
  std::vector<std::byte> kept(bytes);
  queue_copy(all, s, kept.data(), from, bytes);
  all.finish(s);
  if (const auto error = all.has_failed(s.gpu)) refuse("cudaMemcpyAsync", *error);
  std::memcpy(to, kept.data(), bytes);
}

} // namespace

void* allocate(std::uint32_t gpu, std::size_t bytes) {
  simulated_gpu::current_gpu = gpu;
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  all.begin_call("cudaMalloc", gpu);
  refuse_within_capture(all, "cudaMalloc");
  const std::size_t used = all.memory.bytes_of(gpu);
  if (++all.counted.allocations == all.set.fail.out_of_memory_at || used + bytes > all.set.memory_bytes)
    throw out_of_memory(fmt::format("cuda:{}: out of memory: {} asked for, {} of {} free", gpu,
                                    byte_count(bytes).text(), byte_count(all.set.memory_bytes - used).text(),
                                    byte_count(all.set.memory_bytes).text()));
  void* const made = all.memory.allocate(gpu, bytes);
  all.counted.bytes_now += bytes;
  all.counted.bytes_at_most = std::max(all.counted.bytes_at_most, all.counted.bytes_now);
  return made;
}

void release(std::uint32_t gpu, void* memory) noexcept {
  simulated_gpu::current_gpu = gpu;
  if (memory == nullptr) return;
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  if (breaks_capture(all, "cudaFree")) return; // the memory is lost
  ++all.counted.waits;
  all.finish_gpu(gpu);
  const auto* const found = all.memory.find(memory);
  if (found != nullptr) all.counted.bytes_now -= found->bytes;
  if (!all.memory.release(memory)) std::terminate(); // released twice, or never allocated
}

void* allocate_pinned(std::size_t bytes) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  all.begin_call("cudaHostAlloc");
  refuse_within_capture(all, "cudaHostAlloc");
  if (++all.counted.pinned_allocations == all.set.fail.pinned_out_of_memory_at)
    throw out_of_memory(
        fmt::format("pinned memory of the host: out of memory: {} asked for", byte_count(bytes).text()));
  return all.memory.allocate_pinned(bytes);
}

void release_pinned(void* memory) noexcept {
  if (memory == nullptr) return;
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  if (breaks_capture(all, "cudaFreeHost")) return; // the memory is lost
  ++all.counted.waits;
  for (std::uint32_t gpu = 0; gpu < all.set.gpus; ++gpu) all.finish_gpu(gpu);
  if (!all.memory.release(memory)) std::terminate();
}

void copy(void* stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  stream_state& s = all.stream(stream);
  all.begin_call("cudaMemcpyAsync", s.gpu);
  const place target = place_of(all, "cudaMemcpyAsync", to, bytes);
  const place source = place_of(all, "cudaMemcpyAsync", from, bytes);
  if (s.captured && (target == place::pageable || source == place::pageable)) {
    s.captured->broken = "a copy of pageable memory";
    refuse("cudaMemcpyAsync", "operation not permitted when stream is capturing");
  }
  count_copy(all, target, source, bytes);
  if (target == place::pageable) return copy_to_pageable(all, s, to, from, bytes);
  if (source == place::pageable) return copy_from_pageable(all, s, to, from, bytes);
  queue_copy(all, s, to, from, bytes);
}

void fill(void* stream, void* memory, std::uint8_t value, std::size_t bytes) {
  if (bytes == 0) return;
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  stream_state& s = all.stream(stream);
  all.begin_call("cudaMemsetAsync", s.gpu);
  if (place_of(all, "cudaMemsetAsync", memory, bytes) == place::pageable)
    refuse("cudaMemsetAsync", "invalid argument");
  all.queue(s, {.body = [=]() -> std::optional<std::string> {
              std::memset(memory, value, bytes);
              return std::nullopt;
            }});
}

} // namespace mailgrad::cuda::runtime

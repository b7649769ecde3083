#include "block.hpp"
#include "gpu_machine.hpp"

#include <mailgrad/kernels/cuda/missing_gpu.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace mailgrad::simulated_gpu {

namespace {

thread_local std::optional<std::string> last_error;

bool is_mapped(std::uint64_t address) {
  static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  unsigned char present = 0;
  return mincore(reinterpret_cast<void*>(address / page * page), page, &present) == 0;
}

/// Whether these 8 bytes can only be the address of something in this process. Addresses of programs, of
/// heaps and of stacks are larger than what two counts of 32 bits make.
bool is_address_of_host(std::uint64_t word) {
  return word >= 0x5500'0000'0000U && word < 0x8000'0000'0000U && is_mapped(word);
}

/// Why a kernel must not be given these arguments, if it must not.
std::optional<std::string> wrong_argument(const gpu_memory& memory, std::uint32_t gpu,
                                          const std::vector<argument_bytes>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i)
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= arguments[i].size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, arguments[i].data() + at, sizeof word);
      if (!is_address_of_host(word)) continue;
      const auto* const found = memory.find(reinterpret_cast<const void*>(word));
      if (found == nullptr)
        return fmt::format("argument {} holds, at byte {}, an address that is not of the GPU", i + 1, at);
      if (!found->pinned && found->gpu != gpu)
        return fmt::format("argument {} holds, at byte {}, an address of cuda:{}", i + 1, at, found->gpu);
    }
  return std::nullopt;
}

void queue_locked(gpu_machine& all, stream_state& s, kernel_launch launch,
                  const std::vector<argument_bytes>& arguments) {
  if (const auto why = refusal_of(launch)) return note_error(*why);
  if (!s.captured) ++all.counted.launches;
  if (const auto why = wrong_argument(all.memory, s.gpu, arguments))
    return all.fail(s.gpu, fmt::format("kernel {}: {}", launch.name, *why));
  const std::uint32_t gpu = s.gpu;
  all.queue(s, {.body = [&all, gpu, launch = std::move(launch)]() -> std::optional<std::string> {
              const std::uint64_t number = all.next_kernel(gpu);
              auto failure = run_grid(launch, all.set.order, number);
              if (const auto damage = all.memory.damaged(); damage && !failure)
                failure = fmt::format("kernel {} {}", launch.name, *damage);
              return failure;
            }});
}

} // namespace

void note_error(std::string why) { last_error = std::move(why); }
std::optional<std::string> take_error() { return std::exchange(last_error, std::nullopt); }

void queue_kernel(void* stream, kernel_launch launch, const std::vector<argument_bytes>& arguments) {
  const held_machine all;
  const auto found = all->streams.find(stream);
  if (found == all->streams.end() || found->second->gpu != current_gpu)
    return note_error("invalid resource handle");
  stream_state& s = *found->second;
  if (!all->has_failed(s.gpu)) queue_locked(*all, s, std::move(launch), arguments);
  if (const auto error = all->has_failed(s.gpu)) note_error(*error);
}

} // namespace mailgrad::simulated_gpu

// The body of kernels/cuda/runtime.hpp.
namespace mailgrad::cuda::runtime {

using simulated_gpu::event_point, simulated_gpu::event_state, simulated_gpu::gpu_machine,
    simulated_gpu::graph_state, simulated_gpu::held_machine, simulated_gpu::machine, simulated_gpu::refuse,
    simulated_gpu::stream_state;

namespace {

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
  all.queue_sure(s, [=] { std::memcpy(to, from, bytes); });
}

/// Pageable memory is read by the host now, into a buffer of the driver's. CUDA may wait for the stream to
/// have that buffer, so the caller must be one that may wait.
void copy_from_pageable(gpu_machine& all, stream_state& s, void* to, const void* from, std::size_t bytes) {
  all.require_may_wait("cudaMemcpyAsync from pageable memory");
  const auto* const begin = static_cast<const std::byte*>(from);
  auto kept = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
  all.queue_sure(s, [=, kept = std::move(kept)] { std::memcpy(to, kept->data(), bytes); });
}

/// And written by the host, when the copy has run.
void copy_to_pageable(gpu_machine& all, stream_state& s, void* to, const void* from, std::size_t bytes) {
  all.require_may_wait("cudaMemcpyAsync to pageable memory");
  std::vector<std::byte> kept(bytes);
  queue_copy(all, s, kept.data(), from, bytes);
  all.finish(s);
  all.report("cudaMemcpyAsync", s.gpu);
  std::memcpy(to, kept.data(), bytes);
}

} // namespace

found_gpus find_gpus() {
  const held_machine all;
  const auto none = [](const char* driver, missing_gpu why) {
    why.built_for = 13000;
    return found_gpus{.gpus = {}, .driver = driver, .why_none = in_words(why)};
  };
  const machine has = all->set.has;
  if (has == machine::without_driver) return none("", {});
  if (has == machine::with_old_driver) return none("CUDA 11.4", {.driver = 11040});
  if (has == machine::without_gpu) return none("CUDA 13.0", {.driver = 13000});
  const gpu one{.name = "simulated GPU",
                .memory_bytes = all->set.memory_bytes,
                .major = all->set.capability_major,
                .minor = 0,
                .multiprocessors = 132,
                .why_unknown = {}};
  std::vector<gpu> gpus(all->set.gpus, one);
  for (std::size_t i = 0; i < std::min(gpus.size(), all->set.names.size()); ++i)
    gpus[i].name = all->set.names[i];
  if (const auto silent = all->set.fail.silent_gpu) {
    gpus.at(*silent) = {};
    gpus.at(*silent).why_unknown = "unknown error";
  }
  return {.gpus = std::move(gpus), .driver = "CUDA 13.0", .why_none = {}};
}

void begin_capture(void* stream) {
  const held_machine all;
  stream_state& s = all->stream(stream, "cudaStreamBeginCapture");
  if (s.captured) refuse("cudaStreamBeginCapture", "invalid argument");
  s.captured.emplace().by = std::this_thread::get_id();
}

void* end_capture(void* stream) {
  const held_machine all;
  stream_state& s = all->stream(stream, "cudaStreamEndCapture");
  if (!s.captured) refuse("cudaStreamEndCapture", "invalid argument");
  if (s.captured->by != std::this_thread::get_id())
    refuse("cudaStreamEndCapture",
           "attempt to terminate a thread-local capture sequence from another thread");
  auto made = std::make_unique<graph_state>();
  const auto ended = std::exchange(s.captured, std::nullopt);
  if (ended->broken)
    refuse("cudaStreamEndCapture",
           fmt::format("operation failed due to a previous error during capture ({})", *ended->broken));
  all->begin_making("cudaGraphInstantiate", s.gpu);
  made->nodes = ended->nodes;
  return made.release();
}

void launch_graph(void* graph, void* stream) {
  const held_machine all;
  stream_state& s = all->stream(stream, "cudaGraphLaunch");
  ++all->counted.launches;
  auto* const made = static_cast<graph_state*>(graph);
  all->queue(s, {.body = [made]() -> std::optional<std::string> {
               for (const auto& node : made->nodes)
                 if (auto failure = node.body()) return failure;
               made->order.left();
               return std::nullopt;
             }});
}

void destroy_graph(void* graph) noexcept {
  if (graph == nullptr) return;
  const held_machine all;
  auto* const made = static_cast<graph_state*>(graph);
  all->finish_all();
  made->order.passed();
  delete made;
}

void* allocate(std::uint32_t gpu, std::size_t bytes) {
  simulated_gpu::current_gpu = gpu;
  const held_machine all;
  all->begin_call("cudaMalloc", gpu);
  refuse_within_capture(*all, "cudaMalloc");
  const std::size_t used = all->memory.bytes_of(gpu);
  if (++all->counted.allocations == all->set.fail.out_of_memory_at || used + bytes > all->set.memory_bytes)
    throw out_of_memory(fmt::format("cuda:{}: out of memory: {} asked for, {} of {} free", gpu,
                                    byte_count(bytes).text(), byte_count(all->set.memory_bytes - used).text(),
                                    byte_count(all->set.memory_bytes).text()));
  void* const made = all->memory.allocate(gpu, bytes);
  all->counted.bytes_now += bytes;
  all->counted.bytes_at_most = std::max(all->counted.bytes_at_most, all->counted.bytes_now);
  return made;
}

void release(std::uint32_t gpu, void* memory) noexcept {
  simulated_gpu::current_gpu = gpu;
  if (memory == nullptr) return;
  const held_machine all;
  if (breaks_capture(*all, "cudaFree")) return; // the memory is lost
  ++all->counted.waits;
  all->finish_gpu(gpu);
  const auto* const found = all->memory.find(memory);
  if (found != nullptr) all->counted.bytes_now -= found->bytes;
  if (!all->memory.release(memory)) std::terminate(); // released twice, or never allocated
}

void* allocate_pinned(std::size_t bytes) {
  const held_machine all;
  all->begin_call("cudaHostAlloc");
  refuse_within_capture(*all, "cudaHostAlloc");
  if (++all->counted.pinned_allocations == all->set.fail.pinned_out_of_memory_at)
    throw out_of_memory(
        fmt::format("pinned memory of the host: out of memory: {} asked for", byte_count(bytes).text()));
  return all->memory.allocate_pinned(bytes);
}

void release_pinned(void* memory) noexcept {
  if (memory == nullptr) return;
  const held_machine all;
  if (breaks_capture(*all, "cudaFreeHost")) return; // the memory is lost
  ++all->counted.waits;
  all->finish_all();
  if (!all->memory.release(memory)) std::terminate();
}

void copy(void* stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const held_machine all;
  stream_state& s = all->stream(stream, "cudaMemcpyAsync");
  const place target = place_of(*all, "cudaMemcpyAsync", to, bytes);
  const place source = place_of(*all, "cudaMemcpyAsync", from, bytes);
  if (s.captured && (target == place::pageable || source == place::pageable)) {
    s.captured->broken = "a copy of pageable memory";
    refuse("cudaMemcpyAsync", "operation not permitted when stream is capturing");
  }
  count_copy(*all, target, source, bytes);
  if (target == place::pageable) return copy_to_pageable(*all, s, to, from, bytes);
  if (source == place::pageable) return copy_from_pageable(*all, s, to, from, bytes);
  queue_copy(*all, s, to, from, bytes);
}

void fill(void* stream, void* memory, std::uint8_t value, std::size_t bytes) {
  if (bytes == 0) return;
  const held_machine all;
  stream_state& s = all->stream(stream, "cudaMemsetAsync");
  if (place_of(*all, "cudaMemsetAsync", memory, bytes) == place::pageable)
    refuse("cudaMemsetAsync", "invalid argument");
  all->queue_sure(s, [=] { std::memset(memory, value, bytes); });
}

void* create_stream(std::uint32_t gpu, urgency) {
  simulated_gpu::current_gpu = gpu;
  const held_machine all;
  all->begin_call("cudaStreamCreateWithPriority", gpu);
  all->begin_making("cudaStreamCreateWithPriority", gpu);
  auto made = std::make_unique<stream_state>();
  made->gpu = gpu;
  made->number = all->streams_made++;
  void* const handle = made.get();
  all->streams.emplace(handle, std::move(made));
  return handle;
}

void destroy_stream(std::uint32_t, void* stream) noexcept {
  const held_machine all;
  const auto found = all->streams.find(stream);
  if (found == all->streams.end()) return;
  all->finish(*found->second); // what is queued on it still runs
  all->streams.erase(found);
}

void synchronise(void* stream) {
  const held_machine all;
  stream_state& s = all->stream(stream, "cudaStreamSynchronize");
  const bool idle = all->set.when != simulated_gpu::timing::eager && gpu_machine::is_idle(s) && !s.captured;
  if (!idle) all->require_may_wait("cudaStreamSynchronize");
  if (s.captured) {
    s.captured->broken = "cudaStreamSynchronize";
    refuse("cudaStreamSynchronize", "operation not permitted when stream is capturing");
  }
  all->finish(s);
  all->report("cudaStreamSynchronize", s.gpu);
}

void* create_event(std::uint32_t gpu, event_kind kind) {
  simulated_gpu::current_gpu = gpu;
  const held_machine all;
  all->begin_call("cudaEventCreateWithFlags", gpu);
  all->begin_making("cudaEventCreateWithFlags", gpu);
  ++all->counted.events;
  auto made = std::make_unique<event_state>();
  made->gpu = gpu;
  made->timed = kind == event_kind::timed;
  void* const handle = made.get();
  all->events.emplace(handle, std::move(made));
  return handle;
}

void destroy_event(void* event) noexcept {
  const held_machine all;
  all->events.erase(event);
}

void record(void* event, void* stream) {
  const held_machine all;
  stream_state& s = all->stream(stream, "cudaEventRecord");
  event_state& e = all->event(event);
  if (e.gpu != s.gpu) refuse("cudaEventRecord", "invalid resource handle");
  e.captured = s.captured.has_value();
  e.queries = 0;
  e.point = nullptr;
  if (e.captured) return;
  e.point = std::make_shared<event_point>();
  e.point->where = &s;
  all->queue(s, {.record = e.point});
}

void wait(void* stream, void* event) {
  const held_machine all;
  stream_state& s = all->stream(stream, "cudaStreamWaitEvent");
  const event_state& e = all->event(event);
  if (s.captured && e.point != nullptr) {
    s.captured->broken = "a wait for an event that was recorded outside";
    refuse("cudaStreamWaitEvent", "dependency created on uncaptured work in another stream");
  }
  if (e.captured && !s.captured) // it would join the capture, which nothing of ours needs
    refuse("cudaStreamWaitEvent", "the event was last recorded in a capturing stream");
  if (e.point != nullptr) all->queue(s, {.wait = e.point});
}

bool has_passed(void* event) {
  const held_machine all;
  event_state& e = all->event(event);
  all->begin_call("cudaEventQuery", e.gpu);
  if (e.captured)
    refuse("cudaEventQuery", "operation not permitted on an event last recorded in a capturing stream");
  if (e.point == nullptr) return true;
  const bool moves_nothing = all->set.when == simulated_gpu::timing::drawn;
  if (e.point->where != nullptr && (moves_nothing || e.queries++ < all->set.late_queries)) return false;
  all->reach(e.point);
  e.point->order.passed();
  all->report("cudaEventQuery", e.gpu);
  return true;
}

float milliseconds_between(void* begin, void* end) {
  const held_machine all;
  const event_state& first = all->event(begin);
  const event_state& last = all->event(end);
  all->begin_call("cudaEventElapsedTime", first.gpu);
  if (!first.timed || !last.timed || first.point == nullptr || last.point == nullptr)
    refuse("cudaEventElapsedTime", "invalid resource handle");
  if (first.point->where != nullptr || last.point->where != nullptr)
    refuse("cudaEventElapsedTime", "device not ready");
  return std::chrono::duration<float, std::milli>(last.point->when - first.point->when).count();
}

void make_current(std::uint32_t gpu) { simulated_gpu::current_gpu = gpu; }

void check_launch(const char* name) {
  if (const auto error = simulated_gpu::take_error()) refuse(name, *error);
}

} // namespace mailgrad::cuda::runtime

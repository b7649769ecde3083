#include "current_gpu.hpp"
#include "gpu_machine.hpp"
#include "last_error.hpp"

#include <mailgrad/kernels/cuda/runtime.hpp>

#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

// The half of kernels/cuda/runtime.hpp that speaks of streams and events.
namespace mailgrad::cuda::runtime {

using simulated_gpu::event_point;
using simulated_gpu::event_state;
using simulated_gpu::gpu_machine;
using simulated_gpu::refuse;
using simulated_gpu::stream_state;

void* create_stream(std::uint32_t gpu, urgency) {
  simulated_gpu::current_gpu = gpu;
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  all.begin_call("cudaStreamCreateWithPriority", gpu);
  all.begin_making("cudaStreamCreateWithPriority", gpu);
  auto made = std::make_unique<stream_state>();
  made->gpu = gpu;
  made->number = all.streams_made++;
  void* const handle = made.get();
  all.streams.emplace(handle, std::move(made));
  return handle;
}

void destroy_stream(std::uint32_t, void* stream) noexcept {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  const auto found = all.streams.find(stream);
  if (found == all.streams.end()) return;
  all.finish(*found->second); // what is queued on it still runs
  all.streams.erase(found);
}

void synchronise(void* stream) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  stream_state& s = all.stream(stream);
  all.begin_call("cudaStreamSynchronize", s.gpu);
  const bool idle = all.set.when != simulated_gpu::timing::eager && gpu_machine::is_idle(s) && !s.captured;
  if (!idle) all.require_may_wait("cudaStreamSynchronize");
  if (s.captured) {
    s.captured->broken = "cudaStreamSynchronize";
    refuse("cudaStreamSynchronize", "operation not permitted when stream is capturing");
  }
  all.finish(s);
  if (const auto error = all.has_failed(s.gpu)) refuse("cudaStreamSynchronize", *error);
}

void* create_event(std::uint32_t gpu, event_kind kind) {
  simulated_gpu::current_gpu = gpu;
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  all.begin_call("cudaEventCreateWithFlags", gpu);
  all.begin_making("cudaEventCreateWithFlags", gpu);
  ++all.counted.events;
  auto made = std::make_unique<event_state>();
  made->gpu = gpu;
  made->timed = kind == event_kind::timed;
  void* const handle = made.get();
  all.events.emplace(handle, std::move(made));
  return handle;
}

void destroy_event(void* event) noexcept {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  all.events.erase(event);
}

void record(void* event, void* stream) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  stream_state& s = all.stream(stream);
  event_state& e = all.event(event);
  all.begin_call("cudaEventRecord", s.gpu);
  if (e.gpu != s.gpu) refuse("cudaEventRecord", "invalid resource handle");
  e.captured = s.captured.has_value();
  e.queries = 0;
  e.point = nullptr;
  if (e.captured) return;
  e.point = std::make_shared<event_point>();
  e.point->where = &s;
  all.queue(s, {.record = e.point});
}

void wait(void* stream, void* event) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  stream_state& s = all.stream(stream);
  const event_state& e = all.event(event);
  all.begin_call("cudaStreamWaitEvent", s.gpu);
  if (s.captured && e.point != nullptr) {
    s.captured->broken = "a wait for an event that was recorded outside";
    refuse("cudaStreamWaitEvent", "dependency created on uncaptured work in another stream");
  }
  if (e.captured && !s.captured) // it would join the capture, which nothing of ours needs
    refuse("cudaStreamWaitEvent", "the event was last recorded in a capturing stream");
  if (e.point != nullptr) all.queue(s, {.wait = e.point});
}

bool has_passed(void* event) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  event_state& e = all.event(event);
  all.begin_call("cudaEventQuery", e.gpu);
  if (e.captured)
    refuse("cudaEventQuery", "operation not permitted on an event last recorded in a capturing stream");
  if (e.point == nullptr) return true;
  const bool moves_nothing = all.set.when == simulated_gpu::timing::drawn;
  if (e.point->where != nullptr && (moves_nothing || e.queries++ < all.set.late_queries)) return false;
  all.reach(e.point);
  e.point->order.passed();
  if (const auto error = all.has_failed(e.gpu)) refuse("cudaEventQuery", *error);
  return true;
}

float milliseconds_between(void* begin, void* end) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  const event_state& first = all.event(begin);
  const event_state& last = all.event(end);
  all.begin_call("cudaEventElapsedTime", first.gpu);
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

namespace mailgrad::simulated_gpu {

namespace {

thread_local std::optional<std::string> last_error;

} // namespace

void note_error(std::string why) { last_error = std::move(why); }
std::optional<std::string> take_error() { return std::exchange(last_error, std::nullopt); }

} // namespace mailgrad::simulated_gpu

#include "gpu_machine.hpp"
#include "current_gpu.hpp"

#include "waiting_threads.hpp"

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace mailgrad::simulated_gpu {

namespace {

std::set<std::thread::id> waiting; ///< guarded by the machine's lock

} // namespace

std::set<std::thread::id> take_waiting_threads() {
  const std::lock_guard held(gpu_machine::of_process().lock);
  return std::exchange(waiting, {});
}

gpu_machine& gpu_machine::of_process() {
  static auto* const made =
      new gpu_machine; // never ends: blocks of other static objects may be released after it
  return *made;
}

void refuse(const char* name, std::string_view why) {
  const std::string where = current_gpu ? fmt::format("cuda:{}: ", *current_gpu) : "";
  throw device_error(world_errc::device_failure, fmt::format("{}{}: {}", where, name, why));
}

void gpu_machine::begin_call(const char* name, std::uint32_t gpu) {
  ++counted.calls;
  if (set.has != machine::complete || gpu >= set.gpus) refuse(name, "no CUDA-capable device is detected");
  if (!current_gpu) refuse(name, "no GPU is current on this thread, and the first one would be woken");
  if (set.fail.lost_gpu_at == ++calls_)
    for (std::uint32_t c = 0; c < set.gpus; ++c) fail(c, "the GPU is lost");
  if (const auto error = has_failed(gpu)) refuse(name, *error);
}

void gpu_machine::begin_making(const char* name, std::uint32_t gpu) {
  if (++counted.driver_objects == set.fail.driver_out_of_memory_at)
    throw out_of_memory(fmt::format("cuda:{}: out of memory: {}", gpu, name));
}

std::optional<std::string> gpu_machine::has_failed(std::uint32_t gpu) const {
  const between_threads quiet;
  const auto found = errors_.find(gpu);
  return found == errors_.end() ? std::nullopt : std::optional(found->second);
}

void gpu_machine::require_may_wait(const char* name) {
  ++counted.waits;
  waiting.insert(std::this_thread::get_id());
  if (!set.may_wait) throw std::logic_error(fmt::format("{} waits for a GPU where nobody may wait", name));
}

// The text was written where the kernel ran, and is read by the host.
void gpu_machine::fail(std::uint32_t gpu, std::string why) {
  const between_threads quiet;
  errors_.emplace(gpu, std::move(why));
}

void gpu_machine::forget_errors() {
  const between_threads quiet;
  errors_.clear();
  calls_ = 0;
}

std::uint64_t gpu_machine::next_kernel(std::uint32_t gpu) {
  ++counted.kernels;
  if (set.fail.launch_error_at == counted.kernels) fail(gpu, "an illegal memory access was encountered");
  return counted.kernels;
}

stream_state& gpu_machine::stream(void* handle) {
  const auto found = streams.find(handle);
  if (found == streams.end()) refuse("stream", "invalid resource handle");
  return *found->second;
}

event_state& gpu_machine::event(void* handle) {
  const auto found = events.find(handle);
  if (found == events.end()) refuse("event", "invalid resource handle");
  return *found->second;
}

void gpu_machine::queue(stream_state& s, work w) {
  if (s.captured) {
    if (w.body) s.captured->nodes.push_back(std::move(w));
    return;
  }
  s.submitted.left();
  s.queued.push_back(std::move(w));
  if (set.when == timing::eager)
    while (!s.queued.empty()) run_next(s);
}

void gpu_machine::run_next(stream_state& s) {
  if (s.queued.front().wait) reach(s.queued.front().wait);
  s.order.enter();
  s.submitted.passed();
  work w;
  {
    const between_threads quiet;
    w = std::move(s.queued.front());
    s.queued.pop_front();
    if (w.record) w.record->when = std::chrono::steady_clock::now();
  }
  if (w.wait) w.wait->order.passed();
  if (w.record) {
    w.record->order.left();
    w.record->where = nullptr;
  }
  if (w.body && !has_failed(s.gpu)) run_body(s, w);
  s.done.left();
  {
    const between_threads quiet; // the threads of the GPU have read its arguments
    w = {};
  }
  s.order.leave();
}

void gpu_machine::run_body(const stream_state& s, const work& w) {
  memory.open();
  auto failure = w.body();
  memory.close();
  if (failure) fail(s.gpu, std::move(*failure));
}

void gpu_machine::reach(const std::shared_ptr<event_point>& point) {
  while (point->where != nullptr) run_next(*point->where);
}

bool gpu_machine::is_idle(const stream_state& s) {
  return std::ranges::all_of(s.queued, [](const work& w) { return !w.body && (!w.wait || !w.wait->where); });
}

bool gpu_machine::may_go_on(const stream_state& s) {
  return !s.queued.empty() && (s.queued.front().wait == nullptr || s.queued.front().wait->where == nullptr);
}

bool gpu_machine::run_one(std::uint64_t drawn) {
  std::vector<stream_state*> ready;
  for (const auto& [handle, s] : streams)
    if (may_go_on(*s)) ready.push_back(s.get());
  if (ready.empty()) return false;
  std::ranges::sort(ready, {}, &stream_state::number); // their addresses differ from run to run
  run_next(*ready[drawn % ready.size()]);
  return true;
}

void gpu_machine::finish(stream_state& s) {
  while (!s.queued.empty()) run_next(s);
  s.done.passed();
}

void gpu_machine::finish_gpu(std::uint32_t gpu) {
  for (const auto& [handle, s] : streams)
    if (s->gpu == gpu) finish(*s);
}

} // namespace mailgrad::simulated_gpu

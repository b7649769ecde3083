#include "gpu_machine.hpp"

#include <mailgrad/kernels/cuda/missing_gpu.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>

// The part of kernels/cuda/runtime.hpp that keeps work as a graph, and what it says of the machine.
namespace mailgrad::cuda::runtime {

using simulated_gpu::gpu_machine;
using simulated_gpu::graph_state;
using simulated_gpu::refuse;
using simulated_gpu::stream_state;

found_gpus find_gpus() {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  using simulated_gpu::machine;
  switch (all.set.has) {
  case machine::without_driver:
    return {.gpus = {}, .driver = {}, .why_none = in_words(missing_gpu{.built_for = 13000})};
  case machine::with_old_driver:
    return {.gpus = {},
            .driver = "CUDA 11.4",
            .why_none = in_words(missing_gpu{.driver = 11040, .built_for = 13000})};
  case machine::without_gpu:
    return {.gpus = {},
            .driver = "CUDA 13.0",
            .why_none = in_words(missing_gpu{.driver = 13000, .built_for = 13000})};
  case machine::complete:
    break;
  }
  const gpu one{.name = "simulated GPU",
                .memory_bytes = all.set.memory_bytes,
                .major = all.set.capability_major,
                .minor = 0,
                .multiprocessors = 132,
                .why_unknown = {}};
  std::vector<gpu> gpus(all.set.gpus, one);
  for (std::size_t i = 0; i < std::min(gpus.size(), all.set.names.size()); ++i)
    gpus[i].name = all.set.names[i];
  if (const auto silent = all.set.fail.silent_gpu) {
    gpus.at(*silent) = {};
    gpus.at(*silent).why_unknown = "unknown error";
  }
  return {.gpus = std::move(gpus), .driver = "CUDA 13.0", .why_none = {}};
}

void begin_capture(void* stream) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  stream_state& s = all.stream(stream);
  all.begin_call("cudaStreamBeginCapture", s.gpu);
  if (s.captured) refuse("cudaStreamBeginCapture", "invalid argument");
  s.captured.emplace().by = std::this_thread::get_id();
}

void* end_capture(void* stream) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  stream_state& s = all.stream(stream);
  all.begin_call("cudaStreamEndCapture", s.gpu);
  if (!s.captured) refuse("cudaStreamEndCapture", "invalid argument");
  if (s.captured->by != std::this_thread::get_id())
    refuse("cudaStreamEndCapture",
           "attempt to terminate a thread-local capture sequence from another thread");
  auto made = std::make_unique<graph_state>();
  const auto ended = std::exchange(s.captured, std::nullopt);
  if (ended->broken)
    refuse("cudaStreamEndCapture",
           fmt::format("operation failed due to a previous error during capture ({})", *ended->broken));
  all.begin_making("cudaGraphInstantiate", s.gpu);
  made->nodes = ended->nodes;
  return made.release();
}

void launch_graph(void* graph, void* stream) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  stream_state& s = all.stream(stream);
  all.begin_call("cudaGraphLaunch", s.gpu);
  ++all.counted.launches;
  auto* const made = static_cast<graph_state*>(graph);
  all.queue(s, {.body = [made]() -> std::optional<std::string> {
              for (const auto& node : made->nodes)
                if (auto failure = node.body()) return failure;
              made->order.left();
              return std::nullopt;
            }});
}

void destroy_graph(void* graph) noexcept {
  if (graph == nullptr) return;
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  auto* const made = static_cast<graph_state*>(graph);
  for (std::uint32_t gpu = 0; gpu < all.set.gpus; ++gpu) all.finish_gpu(gpu);
  made->order.passed();
  delete made;
}

} // namespace mailgrad::cuda::runtime

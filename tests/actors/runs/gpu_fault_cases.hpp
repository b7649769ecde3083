#pragma once

#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>

// What may fail of a GPU, and the runs in which it does.

namespace mailgrad::testing {

struct fault_case {
  const char* name;
  const char* policy = "async";
  bool weights_there = false;
  std::uint64_t local_steps = 0;
  const char* cure = "none";
  const char* model = nullptr; ///< null: the small one
  std::uint64_t sample_gap = 0;
  bool mixed = false; ///< shards at several places, and a worker on a core
  bool alone = false; ///< one worker, which trains the batches in their order
  double clip_norm = 0;
  bool spans = false;   ///< the model of each worker spans two streams
  bool resumes = false; ///< goes on from a checkpoint
  bool records = false;
};

struct fault_kind {
  const char* name;
  std::uint64_t simulated_gpu::counters::*counted;
  std::optional<std::uint64_t> simulated_gpu::faults::*at;
  const char* words; ///< that the run is to tell
};

inline constexpr fault_kind fault_kinds[] = {
    {"OutOfMemory", &simulated_gpu::counters::allocations, &simulated_gpu::faults::out_of_memory_at,
     "out of memory"},
    {"OutOfPinnedMemory", &simulated_gpu::counters::pinned_allocations,
     &simulated_gpu::faults::pinned_out_of_memory_at, "out of memory"},
    {"OutOfDriverMemory", &simulated_gpu::counters::driver_objects,
     &simulated_gpu::faults::driver_out_of_memory_at, "out of memory"},
    {"StickyFault", &simulated_gpu::counters::kernels, &simulated_gpu::faults::launch_error_at,
     "illegal memory access"},
    {"LostGpu", &simulated_gpu::counters::calls, &simulated_gpu::faults::lost_gpu_at, "the GPU is lost"},
};

inline constexpr const char* faulty_recommender = "dlrm:width=4,bottom=6,top=8";

inline constexpr fault_case fault_cases[] = {
    {.name = "HostShards", .policy = "async"},
    {.name = "HostShardsInStep", .policy = "sync"},
    {.name = "WeightsThere", .weights_there = true},
    {.name = "WeightsThereInStep", .policy = "sync", .weights_there = true},
    {.name = "BatchesThere", .policy = "k-batch-async:2", .weights_there = true},
    {.name = "SwitchesThere", .policy = "async, sync@4", .weights_there = true},
    {.name = "LocalSteps", .weights_there = true, .local_steps = 2},
    {.name = "SampledGaps", .weights_there = true, .sample_gap = 2},
    {.name = "Tables", .weights_there = true, .model = faulty_recommender},
    {.name = "Mixed", .weights_there = true, .mixed = true},
    {.name = "AloneThere", .weights_there = true, .alone = true},
    {.name = "Spans", .model = faulty_recommender, .spans = true},
    {.name = "SpansThere",
     .policy = "sync",
     .weights_there = true,
     .model = faulty_recommender,
     .spans = true},
    {.name = "CuredThere",
     .policy = "queue:2,3",
     .weights_there = true,
     .cure = "dc-asgd-a",
     .records = true},
    {.name = "ClippedThere",
     .policy = "ringleader",
     .weights_there = true,
     .clip_norm = 0.5,
     .resumes = true},
    {.name = "ElasticThere", .weights_there = true, .local_steps = 2, .cure = "easgd", .resumes = true},
#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
    {.name = "HogwildThere", .policy = "async, hogwild@4, sync@8", .weights_there = true},
    {.name = "Hogwild", .policy = "async, hogwild@4, sync@8"},
#endif
};

/// Those of these names, in their order.
template <class Kind, std::size_t many, class... Names>
constexpr std::array<Kind, sizeof...(Names)> named(const Kind (&all)[many], Names... names) {
  const auto find = [&](std::string_view name) {
    for (const Kind& x : all)
      if (x.name == name) return x;
    throw std::invalid_argument("there is none of this name");
  };
  return {find(names)...};
}

} // namespace mailgrad::testing

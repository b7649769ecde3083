#pragma once

#include <mailgrad/tests/actors/runs/gpu_orders.hpp>
#include <mailgrad/tests/actors/runs/ordered_policies.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// A way of gradients to and from a GPU.
struct gpu_case {
  const char* policy;
  std::uint64_t local_steps = 0;
  std::uint64_t sample_gap = 0;
  const char* cure = "none";
  bool weights_there = false; ///< on the GPU
  double clip_norm = 0;
  std::uint64_t run_ahead = most_run_ahead;
  bool mixed = false; ///< shards at several places, and a worker on a core
};

inline std::string name_of(const ::testing::TestParamInfo<gpu_case>& info) {
  return test_name(std::string(info.param.policy) + (info.param.local_steps > 0 ? " local" : "") +
                   (info.param.sample_gap > 0 ? " sampled" : "") +
                   (std::string_view(info.param.cure) == "none" ? "" : info.param.cure) +
                   (info.param.clip_norm > 0 ? " clipped" : "") +
                   (info.param.weights_there ? " with weights there" : "") +
                   (info.param.run_ahead == 0 ? " not ahead" : "") + (info.param.mixed ? " mixed" : ""));
}

/// What the options of the case ask for.
inline assembly assembly_of(const gpu_case& c) {
  assembly a;
  a.policy = c.policy;
  a.local_steps = c.local_steps;
  a.sample_gap = c.sample_gap;
  a.cure = c.cure;
  a.clip_norm = c.clip_norm;
  a.run_ahead = c.run_ahead;
  if (c.mixed) a.shards = 3;
  if (c.local_steps > 0 || a.cure != "none") a.optimizer = "sgd";
  if (a.cure == "momentum-compensation") a.optimizer = "momentum";
  if (a.cure == "cgad") a.outer_optimizer = "adam";
  if (a.cure == "mla" || a.cure == "heloco") a.outer_optimizer = "nesterov";
  return a;
}

/// The run on the GPU, with or without its weights.
inline assembly placed(const gpu_case& c, assembly a, const std::shared_ptr<const data_split>& data,
                       const std::shared_ptr<event_watch>& watch = std::make_shared<prompt_watch>()) {
  if (!c.weights_there) return on_gpu(std::move(a), data, watch);
  a.parameters = {{device_kind::cuda, 0}};
  a.watch = watch;
  if (!c.mixed) return a;
  a.parameters = {{device_kind::cuda, 0}, {}, {device_kind::cuda, 1}};
  a.devices = {{device_kind::cuda, 0}, {}, {device_kind::cuda, 1}};
  return a;
}

/// Fixture of whole runs of one such case.
class GpuSteps : public GpuRun, public ::testing::WithParamInterface<gpu_case> {};

/// A policy that switches by a rule, as often as a few batches let it.
inline constexpr const char* automatic = "auto:window=1,wait=0.05,harm=0.01";

/// Each policy that has an order, with the weights on the host and on the GPU.
inline std::vector<gpu_case> with_every_policy() {
  std::vector<gpu_case> all;
  for (const char* policy : ordered_policies)
    for (const bool there : {false, true}) all.push_back({.policy = policy, .weights_there = there});
  return all;
}

} // namespace mailgrad::testing

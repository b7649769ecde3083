#pragma once

#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mailgrad::testing {

/// A small run on so many streams of the GPU.
inline training_options gpu_options(const std::string& policy, std::uint32_t streams) {
  training_options o = options_for(policy, streams);
  for (std::uint32_t i = 0; i < streams; ++i) o.devices[i] = {device_kind::cuda, 0, i};
  return o;
}

/// The weights lie on the GPU as well.
inline training_options all_on_gpu(const std::string& policy, std::uint32_t streams) {
  training_options o = gpu_options(policy, streams);
  o.parameters = {{device_kind::cuda, 0}};
  return o;
}

/// The weights with which a run of the small model ends.
inline std::vector<float> weights_of(const training_options& o) {
  training run(small_model(), small_data(), o);
  run.report();
  const auto found = run.parameters();
  return {found.begin(), found.end()};
}

/// Fixture of whole runs on streams of a GPU, on threads: the simulated GPU, or a real one.
class GpuRuns : public ::testing::Test {
protected:
  void SetUp() override { MAILGRAD_NEEDS_GPU(); }
};

} // namespace mailgrad::testing

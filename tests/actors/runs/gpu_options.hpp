#pragma once

#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

namespace mailgrad::testing {

/// A small run on so many streams of the GPU.
inline training_options gpu_options(const std::string& policy, std::uint32_t streams,
                                    const small_options& s = {}) {
  training_options o = options_for(policy, streams, s);
  for (std::uint32_t i = 0; i < streams; ++i) o.devices[i] = {device_kind::cuda, 0, i};
  if (s.weights_there) o.parameters = {{device_kind::cuda, 0}};
  return o;
}

inline training_options all_on_gpu(const std::string& policy, std::uint32_t streams, small_options s = {}) {
  s.weights_there = true;
  return gpu_options(policy, streams, s);
}
/// The second device of this run is a core.
inline training_options beside_a_core(training_options o) {
  o.devices[1] = {device_kind::cpu, 0};
  return o;
}

/// Stops a run when its weights have been tested three times. Returns its report.
inline training_report report_when_tested(training& run) {
  stop_at<evaluation_made>(run, 3, "tested");
  training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped") << r.why;
  EXPECT_GE(r.evaluations.count, 3U);
  return r;
}

/// Fixture of whole runs on streams of a GPU, on threads: the simulated GPU, or a real one.
class GpuRuns : public ::testing::Test {
protected:
  void SetUp() override { MAILGRAD_NEEDS_GPU(); }
};

} // namespace mailgrad::testing

#pragma once

#include "../../../support/google_test_names.hpp"
#include "../../../support/gpu_test.hpp"
#include "../../../support/simulated_gpu/gpu_control.hpp"
#include "../../../support/simulated_gpu/sanitizers.hpp"

#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/kernels/cuda/launch.hpp>
#include <mailgrad/tensor/error.hpp>

#include <source_location>

namespace mailgrad::testing {

/// 0, 1, 2 and so on.
inline std::vector<float> counted(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  return values;
}

inline const cuda_stream& stream_of(const cuda::gpu_queue& queue) {
  return std::get<cuda_stream>(queue.where());
}

/// A line of the caller's file, as faults name it.
inline std::string at_line(unsigned line, std::source_location here = std::source_location::current()) {
  const std::string file = here.file_name();
  return file.substr(file.rfind('/') + 1) + ':' + std::to_string(line);
}

/// A test of the simulated GPU itself, which begins and ends as the environment has set it up.
class simulator_test : public ::testing::Test {
protected:
  simulator_test() { simulated_gpu::set_up(simulated_gpu::settings{}); }
  ~simulator_test() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  static void run_in(const simulated_gpu::schedule& order) { simulated_gpu::set_up({.order = order}); }

  /// What a call throws; empty if nothing.
  template <class Call>
  static std::string refusal(Call call) {
    try {
      call();
    } catch (const device_error& e) {
      return e.what();
    }
    return {};
  }
};

} // namespace mailgrad::testing

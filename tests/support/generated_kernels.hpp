#pragma once

#ifdef MAILGRAD_SIMULATED_GPU
#include "simulated_gpu/gpu_control.hpp"
#endif

namespace mailgrad::testing {

/// Lets the GPU generate kernels for chains while it lives. A real GPU generates them anyway.
class with_generated_kernels {
public:
  with_generated_kernels() {
#ifdef MAILGRAD_SIMULATED_GPU
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.generates_kernels = true;
    simulated_gpu::set_up(s);
#endif
  }
  with_generated_kernels(const with_generated_kernels&) = delete;
  with_generated_kernels& operator=(const with_generated_kernels&) = delete;
  ~with_generated_kernels() {
#ifdef MAILGRAD_SIMULATED_GPU
    simulated_gpu::set_up(simulated_gpu::default_settings());
#endif
  }
};

} // namespace mailgrad::testing

#pragma once

#include <mailgrad/kernels/cuda/runtime.hpp>

/// Skips the test where there is no GPU. In a binary that is linked with the simulated GPU there always is
/// one.
#define MAILGRAD_NEEDS_GPU()                                                                                 \
  if (const auto found = ::mailgrad::cuda::runtime::find_gpus(); found.gpus.empty())                         \
  GTEST_SKIP() << found.why_none

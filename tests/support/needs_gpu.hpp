#pragma once

#include <mailgrad/kernels/cuda/runtime.hpp>

/// Skips the test where there is no GPU. In a binary that is linked with the simulated GPU there always is
/// one.
#define MAILGRAD_NEEDS_GPU()                                                                                 \
  if (const auto found = ::mailgrad::cuda::runtime::find_gpus(); found.gpus.empty())                         \
  GTEST_SKIP() << found.why_none

/// Skips the test in a build with CUDA, where the kernel that it wants refused would run.
#define MAILGRAD_SKIP_WITH_CUDA()                                                                            \
  if (::mailgrad::cuda::runtime::find_gpus().why_none.find("this build has no CUDA") != 0)                   \
  GTEST_SKIP() << "this build has CUDA"

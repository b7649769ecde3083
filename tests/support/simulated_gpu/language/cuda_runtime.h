#pragma once

// The language of kernels, as nvcc understands it, for a C++ compiler. A .cu that includes <cuda_runtime.h> finds this
// file in the place of CUDA's.

#include "intrinsics.hpp"
#include "launch.hpp"
#include "warp.hpp"

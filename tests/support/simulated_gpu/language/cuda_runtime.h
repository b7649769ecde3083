#pragma once

// The language of kernels, as nvcc understands it, for a C++ compiler. A .cu that includes <cuda_runtime.h> finds this
// file in the place of CUDA's.

#include "atomics.hpp"
#include "indices.hpp"
#include "intrinsics.hpp"
#include "later_copies.hpp"
#include "launch.hpp"
#include "matrices.hpp"
#include "warp.hpp"

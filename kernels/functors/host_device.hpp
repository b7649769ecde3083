#pragma once

/// Marks a function that runs on the host and, where nvcc compiles it, on a GPU as well.
#ifdef __CUDACC__
#define MAILGRAD_HOST_DEVICE __host__ __device__
#else
#define MAILGRAD_HOST_DEVICE
#endif

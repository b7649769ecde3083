#include <mailgrad/kernels/cuda/handles.hpp>
#include <mailgrad/tensor/error.hpp>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

// What the runtime makes of a driver that has no memory. The linker gives it these functions in the place of
// CUDA's (--wrap), so no GPU is needed.

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): the names are those of CUDA
extern "C" {
cudaError_t __wrap_cudaSetDevice(int) { return cudaSuccess; }
/// By CUDA's documentation it may return the error of earlier work, and then names no GPU.
cudaError_t __wrap_cudaGetDevice(int*) { return cudaErrorLaunchFailure; }
cudaError_t last_error = cudaSuccess;
cudaError_t __wrap_cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t __wrap_cudaDeviceGetStreamPriorityRange(int*, int*) { return cudaSuccess; }
cudaError_t __wrap_cudaStreamCreateWithPriority(cudaStream_t*, unsigned, int) {
  return cudaErrorMemoryAllocation;
}
cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t*, unsigned) { return cudaErrorMemoryAllocation; }
cudaError_t __wrap_cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return cudaSuccess; }
cudaError_t __wrap_cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return cudaSuccess; }
cudaError_t __wrap_cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return cudaErrorMemoryAllocation;
}
cudaError_t __wrap_cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t) { return cudaErrorLaunchFailure; }
cudaError_t __wrap_cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t) {
  return cudaErrorMemoryAllocation;
}
cudaError_t __wrap_cudaMemsetAsync(void*, int, size_t, cudaStream_t) { return cudaErrorMemoryAllocation; }
cudaError_t __wrap_cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaErrorMemoryAllocation; }
cudaError_t __wrap_cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaErrorMemoryAllocation; }
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

namespace mailgrad {
namespace {

template <class Call>
std::string lacking(const Call& call) {
  try {
    call();
  } catch (const out_of_memory& e) {
    return e.what();
  }
  return "no lack of memory";
}

TEST(RuntimeRefusals, OfMemoryNameTheGpuTheCallAndWhatFor) {
  EXPECT_EQ(lacking([] { const cuda::owned_stream s(3); }),
            "cuda:3: out of memory: cudaStreamCreateWithPriority, for a stream of work");
  EXPECT_EQ(lacking([] { const cuda::owned_event e(3); }),
            "cuda:3: out of memory: cudaEventCreateWithFlags, for an event in a stream");
  EXPECT_EQ(lacking([] { const cuda::captured_graph g(nullptr, [] {}); }),
            "cuda:3: out of memory: cudaGraphInstantiate, for the graph of a step");
}

template <class Call>
std::error_code refusal(const Call& call) {
  try {
    call();
  } catch (const device_error& e) {
    return e.code();
  }
  return {};
}

/// What was queued before is a part of the same work, such as of an update that writes in place.
TEST(RuntimeRefusals, OfQueuedWorkDoNotSayThatNothingHasChanged) {
  float number = 0;
  EXPECT_EQ(refusal([&] { cuda::runtime::copy(nullptr, &number, &number, sizeof number); }),
            world_errc::device_failure);
  EXPECT_EQ(refusal([&] { cuda::runtime::fill(nullptr, &number, 0, sizeof number); }),
            world_errc::device_failure);
  EXPECT_EQ(refusal([] { cuda::runtime::record(nullptr, nullptr); }), world_errc::device_failure);
  EXPECT_EQ(refusal([] { cuda::runtime::launch_graph(nullptr, nullptr); }), world_errc::device_failure);
  last_error = cudaErrorMemoryAllocation; // of a launch whose code the driver loads now
  EXPECT_EQ(refusal([] { cuda::runtime::check_launch("update"); }), world_errc::device_failure);
}

TEST(RuntimeRefusals, OfAnyOtherKindAreFailuresOfTheDevice) {
  cuda::runtime::make_current(3);
  try {
    cuda::runtime::synchronise(nullptr);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const device_error& e) {
    EXPECT_EQ(e.code(), world_errc::device_failure);
    EXPECT_TRUE(std::string(e.what()).starts_with("cuda:3: cudaStreamSynchronize: ")) << e.what();
  }
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/support/needs_gpu.hpp>

#include <mailgrad/kernels/cuda/runtime.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

void expect_forgotten(const char* what) {
  EXPECT_NO_THROW(cuda::runtime::check_launch("a kernel")) << "it is told of what " << what << " left behind";
}

TEST(GpuRuntime, ForgetsTheErrorOfAFunctionThatCannotThrow) {
  MAILGRAD_NEEDS_GPU(); // without a driver, every call of CUDA fails
  cuda::runtime::release(99, nullptr);
  expect_forgotten("release()");
  cuda::runtime::release_pinned(nullptr);
  expect_forgotten("release_pinned()");
  cuda::runtime::destroy_stream(99, nullptr);
  expect_forgotten("destroy_stream()");
  cuda::runtime::destroy_event(nullptr);
  expect_forgotten("destroy_event()");
  cuda::runtime::destroy_graph(nullptr);
  expect_forgotten("destroy_graph()");
}

} // namespace
} // namespace mailgrad

#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/tensor/error.hpp>

#include <cstdlib>

// The cuBLAS that was made for the tests says that a GPU has no memory left for it, or that it fails.

namespace mailgrad {
namespace {

/// What is told when `function` of cuBLAS lacks memory, or fails, in a product of this extent, which is asked
/// for the first time.
std::string told_by(cuda::gpu_queue& queue, const char* function, std::size_t k,
                    const char* how = "MADE_CUBLAS_LACKS_MEMORY") {
  const testing::gpu_array<float> a(queue, 2 * k), b(queue, 2 * k), c(queue, 4);
  const gemm_shape g{.m = 2, .n = 2, .k = k};
  setenv(how, function, 1);
  std::string told;
  try {
    gemm(queue.where(), g, a.data(), b.data(), c.data(), nullptr);
  } catch (const out_of_memory& e) {
    told = e.what();
  } catch (const device_error& e) {
    told = std::string("a GPU that has failed: ") + e.what();
  }
  unsetenv(how);
  EXPECT_NO_THROW(gemm(queue.where(), g, a.data(), b.data(), c.data(), nullptr)) << "the GPU works on";
  return told;
}

TEST(CublasMemory, ThatIsLackingIsToldWithTheGpuAndTheWorkspace) {
  cuda::gpu_queue queue(0);
  EXPECT_EQ(told_by(queue, "cublasLtMatmul", 2),
            "cuda:0: out of memory: cublasLtMatmul says no memory, beside its workspace of 32.0 MiB");
}

TEST(CublasMemory, OfTheHostIsToldAsThat) {
  cuda::gpu_queue queue(0);
  std::size_t k = 2;
  for (const char* function : {"cublasLtMatmulDescCreate", "cublasLtMatrixLayoutCreate",
                               "cublasLtMatmulPreferenceCreate", "cublasLtMatmulDescSetAttribute",
                               "cublasLtMatrixLayoutSetAttribute", "cublasLtMatmulPreferenceSetAttribute"})
    EXPECT_EQ(told_by(queue, function, ++k),
              std::string("the host, for cuBLAS: out of memory: ") + function + " says no memory");
}

TEST(CublasFailures, NameTheGpu) {
  cuda::gpu_queue queue(0);
  EXPECT_EQ(told_by(queue, "cublasLtMatmul", 2, "MADE_CUBLAS_FAILS"),
            "a GPU that has failed: cuda:0: cublasLtMatmul: another error");
  EXPECT_EQ(told_by(queue, "cublasLtMatmulAlgoGetHeuristic", 3, "MADE_CUBLAS_FAILS"),
            "a GPU that has failed: cuda:0: cuBLAS has no algorithm for a product");
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/support/card_array.hpp>

#include <mailgrad/kernels/cuda/card_lane.hpp>
#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

// The cuBLAS that was made for the tests says that a card has no memory left for it.

namespace mailgrad {
namespace {

TEST(CublasMemory, ThatIsLackingIsToldWithTheCardAndTheWorkspace) {
  cuda::card_lane lane(0);
  const testing::card_array<float> a(lane, 4), b(lane, 4), c(lane, 4);
  const gemm_shape g{.m = 2, .n = 2, .k = 2};
  setenv("MADE_CUBLAS_LACKS_MEMORY", "1", 1);
  std::string told;
  try {
    gemm(lane.where(), g, a.data(), b.data(), c.data(), nullptr);
  } catch (const out_of_memory& e) {
    told = e.what();
  }
  unsetenv("MADE_CUBLAS_LACKS_MEMORY");
  EXPECT_EQ(told, "cuda:0: out of memory: cublasLtMatmul says no memory, beside its workspace of 32.0 MiB");
  EXPECT_NO_THROW(gemm(lane.where(), g, a.data(), b.data(), c.data(), nullptr)) << "the card works on";
}

} // namespace
} // namespace mailgrad

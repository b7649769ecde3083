#include <mailgrad/kernels/cuda/missing_gpu.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using cuda::in_words;

TEST(MissingGpu, IsExplainedByTheDriver) {
  EXPECT_EQ(in_words({.built_for = 13020}),
            "no NVIDIA driver could be opened (libcuda.so.1); this build needs one for CUDA 13.0");
  EXPECT_EQ(in_words({.driver = 12040, .built_for = 13020}),
            "the driver is for CUDA 12.4, and this build needs one for CUDA 13.0");
  EXPECT_EQ(in_words({.driver = 13000, .built_for = 13020, .failure = "system not yet initialized"}),
            "the driver for CUDA 13.0 says: system not yet initialized");
  EXPECT_EQ(in_words({.driver = 14010, .built_for = 13020}), "the driver for CUDA 14.1 finds no GPU");
  EXPECT_EQ(in_words({.driver = 13000, .built_for = 13020, .too_old = true}),
            "the driver is for CUDA 13.0, which the runtime of CUDA 13.2 in this build finds too old");
}

TEST(MissingGpu, MayBeHiddenByTheEnvironment) {
  EXPECT_EQ(in_words({.driver = 13000, .built_for = 13020, .visible = ""}),
            "the driver for CUDA 13.0 finds no GPU among those that CUDA_VISIBLE_DEVICES names: ''");
  EXPECT_EQ(in_words({.driver = 13000, .built_for = 13020, .visible = "1\n2"}),
            "the driver for CUDA 13.0 finds no GPU among those that CUDA_VISIBLE_DEVICES names: '1 2'");
}

} // namespace
} // namespace mailgrad

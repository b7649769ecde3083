#pragma once

#include "gpu_array.hpp"

#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <variant>
#include <vector>

namespace mailgrad::testing {

/// A test that runs on a GPU: the simulated one, or a real one, without which it skips itself.
class gpu_test : public ::testing::Test {
protected:
  void SetUp() override {
    const auto found = cuda::runtime::find_gpus();
    if (found.gpus.empty()) GTEST_SKIP() << found.why_none;
    queue_.emplace(0);
  }

  cuda::gpu_queue& queue() { return *queue_; }
  /// The stream that kernels take.
  const stream& gpu() { return queue_->where(); }
  /// The same, for functions of namespace cuda.
  const cuda_stream& on_gpu() { return std::get<cuda_stream>(queue_->where()); }

  /// The stream that kernels take, which number only so many elements in 32 bits.
  stream gpu_with_few_in_32_bits(std::size_t most) {
    cuda_stream s = on_gpu();
    s.most_in_32_bits = most;
    return s;
  }

  template <class T>
  gpu_array<T> array(const std::vector<T>& values) {
    return {queue(), values};
  }
  /// An array that a kernel has still to write.
  template <class T>
  gpu_array<T> unwritten(std::size_t n) {
    return {queue(), n};
  }

private:
  std::optional<cuda::gpu_queue> queue_;
};

} // namespace mailgrad::testing

#pragma once

#include <mailgrad/kernels/cuda/gpu_queue.hpp>

#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace mailgrad::testing {

/// Values in memory of the GPU that a test runs on: the simulated one, or a real one in a binary that is
/// linked with CUDA. The array and its queue end together.
template <class T>
class gpu_array {
public:
  gpu_array(cuda::gpu_queue& queue, const std::vector<T>& values)
      : queue_(queue), size_(values.size()), memory_(queue.allocate(bytes())) {
    const auto& s = std::get<cuda_stream>(queue.where());
    cuda::runtime::copy(s.stream, data(), values.data(), bytes());
  }
  /// An array of `n` elements that a kernel has still to write: not-a-numbers, or the least integers.
  gpu_array(cuda::gpu_queue& queue, std::size_t n) : gpu_array(queue, std::vector<T>(n, unwritten())) {}

  T* data() const { return const_cast<memory&>(memory_).on<T>(queue_.where()).data(); }
  std::size_t size() const { return size_; }
  std::span<T> span() const { return {data(), size_}; }
  /// Waits for the queue, and returns what the array holds then.
  std::vector<T> read() const {
    std::vector<T> values(size_);
    queue_.read(memory_, std::as_writable_bytes(std::span(values)));
    return values;
  }

  static constexpr T unwritten() {
    if constexpr (std::is_floating_point_v<T>)
      return std::numeric_limits<T>::quiet_NaN();
    else
      return std::numeric_limits<T>::min();
  }

private:
  std::size_t bytes() const { return size_ * sizeof(T); }

  cuda::gpu_queue& queue_;
  std::size_t size_;
  memory memory_;
};

} // namespace mailgrad::testing

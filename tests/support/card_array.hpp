#pragma once

#include <mailgrad/kernels/cuda/card_lane.hpp>

#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace mailgrad::testing {

/// Values in memory of the card that a test runs on: the simulated one, or a real one in a binary that is
/// linked with CUDA. The array and its lane end together.
template <class T>
class card_array {
public:
  card_array(cuda::card_lane& lane, const std::vector<T>& values)
      : lane_(lane), size_(values.size()), memory_(lane.allocate(bytes())) {
    const auto& s = std::get<cuda_stream>(lane.where());
    cuda::runtime::copy(s.stream, data(), values.data(), bytes());
  }
  /// An array of `n` elements that a kernel has still to write: not-a-numbers, or the least integers.
  card_array(cuda::card_lane& lane, std::size_t n) : card_array(lane, std::vector<T>(n, unwritten())) {}

  T* data() const { return const_cast<memory&>(memory_).on<T>(lane_.where()).data(); }
  std::size_t size() const { return size_; }
  std::span<T> span() const { return {data(), size_}; }
  /// Waits for the lane, and returns what the array holds then.
  std::vector<T> read() const {
    std::vector<T> values(size_);
    lane_.read(memory_, std::as_writable_bytes(std::span(values)));
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

  cuda::card_lane& lane_;
  std::size_t size_;
  memory memory_;
};

} // namespace mailgrad::testing

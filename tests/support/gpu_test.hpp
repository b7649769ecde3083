#pragma once

#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/small_floats.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <type_traits>
#include <variant>
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

/// An array whose first element lies `shift` elements behind an address that packs could be read from.
template <class T>
class shifted_array {
public:
  shifted_array(cuda::gpu_queue& queue, std::vector<T> values, std::size_t shift)
      : shift_(shift), all_(queue, (values.insert(values.begin(), shift, T{}), values)) {}
  shifted_array(cuda::gpu_queue& queue, std::size_t n, std::size_t shift)
      : shift_(shift), all_(queue, n + shift) {}

  T* data() const { return all_.data() + shift_; }
  std::size_t shift() const { return shift_; }
  std::vector<T> read() const {
    std::vector<T> values = all_.read();
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(shift_));
    return values;
  }

private:
  std::size_t shift_;
  gpu_array<T> all_;
};

/// How far each of `arrays` arrays is shifted: none of them, then each alone. A kernel that moves packs has
/// to ask for the address of every one.
inline std::vector<std::vector<std::size_t>> one_shifted_of(std::size_t arrays) {
  std::vector<std::vector<std::size_t>> cases(arrays + 1, std::vector<std::size_t>(arrays));
  for (std::size_t i = 0; i < arrays; ++i) cases[i + 1][i] = 1;
  return cases;
}

/// Normally distributed numbers; the same seed gives the same ones.
inline std::vector<float> normal_values(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(rng);
  return values;
}
/// Likewise without negative ones or zeros, as of means of squares.
inline std::vector<float> positive_values(std::size_t n, std::uint64_t seed) {
  std::vector<float> values = normal_values(n, seed);
  for (float& value : values) value = std::abs(value) + 0.1F;
  return values;
}
inline std::vector<std::int32_t> drawn_integers(std::size_t n, std::int32_t last, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::uniform_int_distribution<std::int32_t> drawn(0, last);
  std::vector<std::int32_t> values(n);
  for (std::int32_t& value : values) value = drawn(rng);
  return values;
}

/// Numbers as arrays of bfloat16 hold them, and the same as float32.
inline std::vector<std::uint16_t> bfloat16_bits(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float v : values) bits.push_back(bfloat16_of_float(v));
  return bits;
}
inline std::vector<float> floats_of(const std::vector<std::uint16_t>& bits) {
  std::vector<float> values;
  for (const std::uint16_t b : bits) values.push_back(float_of_bfloat16(b));
  return values;
}
/// The address of such an array, or of one of float32, for a kernel that takes either.
inline bfloat16* numbers_at(const shifted_array<std::uint16_t>& x) {
  return reinterpret_cast<bfloat16*>(x.data());
}
inline float* numbers_at(const shifted_array<float>& x) { return x.data(); }

/// Expects numbers that differ by at most 1e-5 of their size, or of `scale` for those that come from the
/// difference of larger ones.
inline void expect_close(const std::vector<float>& found, const std::vector<float>& expected,
                         float scale = 1) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    ASSERT_NEAR(found[i], expected[i], 1e-5F * (scale + std::abs(expected[i]))) << "at " << i;
  }
}

/// An operand or a result, once on the host and once on the GPU.
template <class T>
struct twin {
  std::vector<T> here;
  shifted_array<T> there;
};

/// Expects the GPU to have what the host has, to the bit.
template <class T>
void expect_same(const twin<T>& x) {
  EXPECT_EQ(x.there.read(), x.here);
}
inline void expect_close(const twin<float>& x, float scale = 1) {
  expect_close(x.there.read(), x.here, scale);
}

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
  /// The stream of operation `number`, which faults name.
  cuda_stream gpu_for_operation(std::uint32_t number) {
    cuda_stream s = on_gpu();
    s.operation = number;
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

  template <class T>
  twin<T> given(const std::vector<T>& values, std::size_t shift = 0) {
    return {values, {queue(), values, shift}};
  }
  /// What kernels have still to write.
  template <class T = float>
  twin<T> wanted(std::size_t n, std::size_t shift = 0) {
    return {std::vector<T>(n), {queue(), n, shift}};
  }
  /// Runs kernels on the host, then on the GPU: kernels(stream, at), where at(x) is the address of twin x.
  template <class Kernels>
  void on_both(const Kernels& kernels) {
    on_host_and(gpu(), kernels);
  }
  /// Likewise on a stream of the GPU that is not as usual.
  template <class Kernels>
  static void on_host_and(const stream& there, const Kernels& kernels) {
    kernels(stream(host_stream{}), [](auto& x) { return x.here.data(); });
    kernels(there, [](auto& x) { return x.there.data(); });
  }

private:
  std::optional<cuda::gpu_queue> queue_;
};

} // namespace mailgrad::testing

#include "gpu_timing.hpp"

#include <algorithm>
#include <random>

namespace mailgrad::bench {

namespace {

/// Draws a million numbers and repeats them: drawing all of a large array takes longer than measuring.
template <class T, class Draw>
std::vector<T> drawn(std::size_t n, Draw draw) {
  std::vector<T> values(n);
  const std::size_t distinct = std::min<std::size_t>(n, 1 << 20);
  std::generate_n(values.begin(), distinct, draw);
  for (std::size_t i = distinct; i < n; ++i) values[i] = values[i - distinct];
  return values;
}

} // namespace

float* gpu_arrays::floats(std::size_t n) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> between(-1, 1);
  const auto values = drawn<float>(n, [&] { return between(random); });
  float* const there = buffer<float>(n);
  queue_.write(values, *kept_.back());
  return there;
}

std::int32_t* gpu_arrays::labels(std::size_t n, std::int32_t classes) {
  std::minstd_rand random(2);
  std::uniform_int_distribution<std::int32_t> any(0, classes - 1);
  const auto values = drawn<std::int32_t>(n, [&] { return any(random); });
  std::int32_t* const there = buffer<std::int32_t>(n);
  cuda::runtime::copy(std::get<cuda_stream>(queue_.where()).stream, there, values.data(),
                      n * sizeof(std::int32_t));
  return there;
}

} // namespace mailgrad::bench

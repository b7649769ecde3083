#include <mailgrad/kernels/dropout.hpp>
#include <mailgrad/kernels/functors/philox.hpp>

#include <algorithm>
#include <array>

namespace mailgrad {

namespace {

constexpr std::size_t lanes = 8; ///< counters whose numbers are drawn side by side
constexpr std::size_t numbers_at_once = 4 * lanes;

std::uint32_t low(std::uint64_t n) { return static_cast<std::uint32_t>(n); }
std::uint32_t high(std::uint64_t n) { return static_cast<std::uint32_t>(n >> 32); }

/// Draws the numbers of counters first to first + lanes - 1. Number k of counter first + i lies at k * lanes
/// + i.
void draw_numbers(const philox& random, std::uint64_t first, std::uint64_t step,
                  std::array<std::uint32_t, numbers_at_once>& numbers) {
#pragma omp simd
  for (std::size_t i = 0; i < lanes; ++i) {
    const std::uint64_t counter = first + i;
    const philox::numbers x = random({low(counter), high(counter), low(step), high(step)});
    numbers[i] = x.x0;
    numbers[lanes + i] = x.x1;
    numbers[2 * lanes + i] = x.x2;
    numbers[3 * lanes + i] = x.x3;
  }
}

} // namespace

namespace host {

// On the calling thread.

void dropout(const dropout_draw& draw, const float* x, float* y, std::size_t size) {
  const philox random{low(draw.seed), high(draw.seed)};
  const std::uint32_t threshold = draw.threshold();
  const float scale = draw.scale();
  std::array<std::uint32_t, numbers_at_once> numbers;
  for (std::size_t first = 0; first < size; first += numbers_at_once) {
    draw_numbers(random, first / 4, draw.step, numbers);
    const std::size_t count = std::min(numbers_at_once, size - first);
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i)
      y[first + i] = numbers[i] < threshold ? 0.0F : x[first + i] * scale;
  }
}

} // namespace host

void dropout(const stream& s, const dropout_draw& draw, const float* x, float* y, std::size_t size) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::dropout(*card, draw, x, y, size);
  host::dropout(draw, x, y, size);
}

} // namespace mailgrad

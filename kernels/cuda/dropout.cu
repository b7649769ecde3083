#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/dropout.hpp>
#include <mailgrad/kernels/functors/philox.hpp>

namespace mailgrad::cuda {

namespace {

/// The four numbers of one counter belong to elements that lie `lanes` apart, as on the host. So 32 elements
/// take eight counters, and a thread draws four neighbouring ones: those of four packs.
constexpr unsigned lanes = 8;
constexpr unsigned elements_together = 4 * lanes;
constexpr unsigned threads_together = lanes / float_pack::size;

__device__ std::uint32_t low(std::uint64_t n) { return static_cast<std::uint32_t>(n); }
__device__ std::uint32_t high(std::uint64_t n) { return static_cast<std::uint32_t>(n >> 32); }

__global__ void dropout_kernel(philox random, std::uint32_t threshold, float scale, const lane_words* words,
                               const float* x, float* y, element_range range) {
  const std::size_t together = grid_thread() / threads_together;
  const unsigned lane = static_cast<unsigned>(grid_thread() % threads_together) * float_pack::size;
  const std::size_t first = together * elements_together + lane;
  float_pack packs[4] = {};
#pragma unroll
  for (unsigned k = 0; k < 4; ++k)
    range.visit(first + k * lanes, [&](auto elements) { packs[k] = elements.load(x); });
  const std::uint64_t step = words->step;
#pragma unroll
  for (unsigned i = 0; i < float_pack::size; ++i) {
    const std::uint64_t counter = together * lanes + lane + i;
    const philox::numbers drawn = random({low(counter), high(counter), low(step), high(step)});
    const std::uint32_t numbers[4] = {drawn.x0, drawn.x1, drawn.x2, drawn.x3};
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) packs[k].v[i] = numbers[k] < threshold ? 0.0F : packs[k].v[i] * scale;
  }
#pragma unroll
  for (unsigned k = 0; k < 4; ++k)
    range.visit(first + k * lanes, [&](auto elements) { elements.store(y, packs[k]); });
}

} // namespace

void dropout(const cuda_stream& s, const dropout_draw& draw, const float* x, float* y, std::size_t size) {
  if (size == 0) return;
  const philox random{static_cast<std::uint32_t>(draw.seed), static_cast<std::uint32_t>(draw.seed >> 32)};
  const std::size_t threads = (size + elements_together - 1) / elements_together * threads_together;
  launch(s, "dropout", static_cast<unsigned>((threads + threads_per_block - 1) / threads_per_block),
         threads_per_block, 0, dropout_kernel, random, draw.threshold(), draw.scale(), s.words, x, y,
         element_range{size, are_packs(x, y)});
}

} // namespace mailgrad::cuda

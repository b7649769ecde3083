#include <mailgrad/kernels/cross_entropy.hpp>
#include <mailgrad/kernels/cuda/row_lanes.hpp>

#include <cstdint>
#include <limits>

namespace mailgrad::cuda {

namespace {

/// A logit and its class.
struct candidate {
  float logit;
  std::int32_t label;

  /// Of equal logits that of the lower class counts. A NaN beats no other.
  __device__ bool beats(const candidate& other) const {
    return logit > other.logit || (logit == other.logit && label < other.label);
  }
};

/// The answer of a row, which all of its lanes get. A NaN is the answer only as the first logit, as on the
/// host.
__device__ candidate answer_of(const float* logits, const row_lanes& n, std::size_t row, unsigned lane,
                               float infinity) {
  candidate best{-infinity, INT32_MAX};
  if (row < n.rows)
    for (std::size_t i = lane; i < n.columns; i += n.width) {
      const float logit = logits[row * n.columns + i];
      const candidate next{i == 0 && logit != logit ? infinity : logit, static_cast<std::int32_t>(i)};
      if (next.beats(best)) best = next;
    }
  for (unsigned distance = n.width / 2; distance > 0; distance /= 2) {
    const candidate other{__shfl_xor_sync(0xffffffffU, best.logit, distance),
                          __shfl_xor_sync(0xffffffffU, best.label, distance)};
    if (other.beats(best)) best = other;
  }
  return best;
}

__global__ void right_labels_kernel(const float* logits, const std::int32_t* labels, std::int32_t* parts,
                                    row_lanes n, float infinity) {
  std::int32_t right = 0;
  for_each_row(n, [&](std::size_t row, unsigned lane) {
    const candidate answer = answer_of(logits, n, row, lane, infinity);
    if (row < n.rows && lane == 0 && answer.label == labels[row]) ++right;
  });
  right = block_sum(right, shared_memory<std::int32_t>());
  if (threadIdx.x == 0) parts[blockIdx.x] = right;
}

__global__ void total_of_counts_kernel(const std::int32_t* parts, unsigned count, std::int32_t* right) {
  std::int32_t total = 0;
  for (unsigned i = threadIdx.x; i < count; i += threads_per_block) total += parts[i];
  total = block_sum(total, shared_memory<std::int32_t>());
  if (threadIdx.x == 0) *right = total;
}

} // namespace

void count_right_labels(const cuda_stream& s, const float* logits, const std::int32_t* labels,
                        std::int32_t* right, std::size_t rows, std::size_t columns) {
  auto* const parts = static_cast<std::int32_t*>(s.scratch);
  const row_lanes n = lanes_of(rows, columns);
  const unsigned blocks = rows == 0 ? 0 : blocks_of(n);
  if (blocks > 0)
    launch(s, "count_right_labels", blocks, threads_per_block, block_sum_bytes<std::int32_t>,
           right_labels_kernel, logits, labels, parts, n, std::numeric_limits<float>::infinity());
  launch(s, "count_right_labels", 1, threads_per_block, block_sum_bytes<std::int32_t>, total_of_counts_kernel,
         parts, blocks, right);
}

} // namespace mailgrad::cuda

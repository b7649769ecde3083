#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/kernels/cuda/row_lanes.hpp>
#include <mailgrad/kernels/softmax.hpp>

#include <limits>

namespace mailgrad::cuda {
namespace {

template <unsigned count, unsigned size>
__global__ void softmax_kernel(const float* x, float* y, row_lanes n, float lowest) {
  for_each_row(n, [=](std::size_t row, unsigned lane) {
    register_row<count, size> values(x, n, row, lane, lowest);
    float largest = values.v[0];
#pragma unroll
    for (unsigned i = 1; i < count; ++i) largest = larger{}(largest, values.v[i]);
    largest = over_lanes(largest, n.width, larger{});
    float sum = 0;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) {
      values.v[i] = exp_of_negative(values.v[i] - largest);
      sum += values.v[i];
    }
    const float factor = 1 / over_lanes(sum, n.width, plus{});
#pragma unroll
    for (unsigned i = 0; i < count; ++i) values.v[i] *= factor;
    values.store(y, n, row, lane);
  });
}

__global__ void long_softmax_kernel(const float* x, float* y, std::size_t rows, std::size_t columns) {
  float* const workspace = shared_memory<float>();
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* const from = x + row * columns;
    float largest = from[0];
    for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x) largest = larger{}(largest, from[i]);
    largest = block_largest(largest, workspace);
    float sum = 0;
    for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x) sum += exp_of_negative(from[i] - largest);
    const float factor = 1 / block_sum(sum, workspace);
    for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x)
      y[row * columns + i] = exp_of_negative(from[i] - largest) * factor;
  }
}

template <unsigned count, unsigned size>
__global__ void softmax_gradient_kernel(const float* y, const float* dy, float* dx, row_lanes n) {
  for_each_row(n, [=](std::size_t row, unsigned lane) {
    const register_row<count, size> of_y(y, n, row, lane, 0);
    register_row<count, size> gradient(dy, n, row, lane, 0);
    float projection = 0;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) projection += of_y.v[i] * gradient.v[i];
    projection = over_lanes(projection, n.width, plus{});
#pragma unroll
    for (unsigned i = 0; i < count; ++i) gradient.v[i] = of_y.v[i] * (gradient.v[i] - projection);
    gradient.store(dx, n, row, lane);
  });
}

__global__ void long_softmax_gradient_kernel(const float* y, const float* dy, float* dx, std::size_t rows,
                                             std::size_t columns) {
  float* const workspace = shared_memory<float>();
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::size_t first = row * columns, last = first + columns;
    float projection = 0;
    for (std::size_t i = first + threadIdx.x; i < last; i += blockDim.x) projection += y[i] * dy[i];
    projection = block_sum(projection, workspace);
    for (std::size_t i = first + threadIdx.x; i < last; i += blockDim.x) dx[i] = y[i] * (dy[i] - projection);
  }
}

void softmax(const cuda_stream& s, const float* x, float* y, std::size_t rows, std::size_t columns) {
  if (rows * columns == 0) return;
  if (columns > longest_register_row)
    return launch(s, "softmax", blocks_for(rows, 1), threads_per_block, block_sum_bytes<float>,
                  long_softmax_kernel, x, y, rows, columns);
  const row_lanes n = lanes_of(rows, columns);
  with_register_count(columns, are_packed_rows(columns, x, y), [&]<unsigned count, unsigned size>() {
    launch(s, "softmax", blocks_of(n), threads_per_block, 0, softmax_kernel<count, size>, x, y, n,
           -std::numeric_limits<float>::infinity());
  });
}

void softmax_gradient(const cuda_stream& s, const float* y, const float* dy, float* dx, std::size_t rows,
                      std::size_t columns) {
  if (rows * columns == 0) return;
  if (columns > longest_register_row)
    return launch(s, "softmax_gradient", blocks_for(rows, 1), threads_per_block, block_sum_bytes<float>,
                  long_softmax_gradient_kernel, y, dy, dx, rows, columns);
  const row_lanes n = lanes_of(rows, columns);
  with_register_count(columns, are_packed_rows(columns, y, dy, dx), [&]<unsigned count, unsigned size>() {
    launch(s, "softmax_gradient", blocks_of(n), threads_per_block, 0, softmax_gradient_kernel<count, size>, y,
           dy, dx, n);
  });
}

/// The labels of all rows, and where it is noted that one is no class.
struct label_list {
  const std::int32_t* labels;
  fault_report fault; ///< its limit is the number of classes

  /// The loss of a row, given the sum of its exponentials and its shifted logit at the label.
  __device__ double loss(std::size_t row, float sum, float logit) const {
    const std::int32_t label = labels[row];
    if (static_cast<std::size_t>(label) >= fault.limit) { // a negative label becomes too large
      fault.note(static_cast<std::uint32_t>(row), label);
      return 0;
    }
    return static_cast<double>(approximate::log(sum)) - static_cast<double>(logit);
  }
  /// Whether `column` is the label of a row.
  __device__ bool is(std::size_t row, std::size_t column) const {
    return static_cast<std::size_t>(labels[row]) == column;
  }
};

/// Each block writes the sum of its rows' losses to `parts`.
template <unsigned count, unsigned size>
__global__ void cross_entropy_kernel(const float* logits, label_list labels, double* parts,
                                     float* probabilities, row_lanes n, float lowest) {
  double loss = 0;
  for_each_row(n, [&](std::size_t row, unsigned lane) {
    register_row<count, size> values(logits, n, row, lane, lowest);
    float largest = values.v[0];
#pragma unroll
    for (unsigned i = 1; i < count; ++i) largest = larger{}(largest, values.v[i]);
    largest = over_lanes(largest, n.width, larger{});
    const unsigned label = row < n.rows ? static_cast<unsigned>(labels.labels[row]) : 0;
    const unsigned at = values.place_of(label, n, lane);
    float sum = 0, at_label = 0;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) {
      const float shifted = values.v[i] - largest;
      if (i == at) at_label = shifted;
      values.v[i] = exp_of_negative(shifted);
      sum += values.v[i];
    }
    sum = over_lanes(sum, n.width, plus{});
    at_label = over_lanes(at_label, n.width, plus{}); // all lanes but one have 0
    const float factor = 1 / sum;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) values.v[i] *= factor;
    values.store(probabilities, n, row, lane);
    if (row < n.rows && lane == 0) loss += labels.loss(row, sum, at_label);
  });
  loss = block_sum(loss, shared_memory<double>());
  if (threadIdx.x == 0) parts[blockIdx.x] = loss;
}

__global__ void long_cross_entropy_kernel(const float* logits, label_list labels, double* parts,
                                          float* probabilities, std::size_t rows, std::size_t columns) {
  float* const workspace = shared_memory<float>();
  double loss = 0;
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* const from = logits + row * columns;
    float largest = from[0];
    for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x) largest = larger{}(largest, from[i]);
    largest = block_largest(largest, workspace);
    float sum = 0, at_label = 0;
    for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x) {
      const float shifted = from[i] - largest;
      if (labels.is(row, i)) at_label = shifted;
      sum += exp_of_negative(shifted);
    }
    sum = block_sum(sum, workspace);
    at_label = block_sum(at_label, workspace);
    const float factor = 1 / sum;
    for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x)
      probabilities[row * columns + i] = exp_of_negative(from[i] - largest) * factor;
    if (threadIdx.x == 0) loss += labels.loss(row, sum, at_label);
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = loss;
}

/// Each thread writes so many neighbours, which lie in one row.
template <unsigned count>
__global__ void cross_entropy_gradient_kernel(const float* probabilities, const std::int32_t* labels,
                                              const float* d_loss, float* d_logits, float rows,
                                              divider<std::uint32_t> columns, std::uint32_t n) {
  struct alignas(count * sizeof(float)) pack {
    float v[count];
  };
  const float factor = *d_loss / rows;
  for (std::size_t k = grid_thread() * count; k < n; k += grid_threads() * count) {
    auto column = static_cast<std::uint32_t>(k);
    const std::uint32_t row = columns.divide(column);
    const std::uint32_t label = static_cast<std::uint32_t>(labels[row]) - column; // its place in the pack
    pack d = *reinterpret_cast<const pack*>(probabilities + k);
#pragma unroll
    for (unsigned i = 0; i < count; ++i) d.v[i] = (label == i ? d.v[i] - 1 : d.v[i]) * factor;
    *reinterpret_cast<pack*>(d_logits + k) = d;
  }
}

void cross_entropy(const cuda_stream& s, const float* logits, const std::int32_t* labels, float* loss,
                   float* probabilities, std::size_t rows, std::size_t columns) {
  auto* const parts = static_cast<double*>(s.scratch);
  const label_list list{labels, fault_of(s, fault_kind::label, columns)};
  unsigned blocks = 0;
  if (rows > 0 && columns > longest_register_row) {
    blocks = blocks_for(rows, 1);
    launch(s, "cross_entropy", blocks, threads_per_block, block_sum_bytes<double>, long_cross_entropy_kernel,
           logits, list, parts, probabilities, rows, columns);
  } else if (rows > 0) {
    const row_lanes n = lanes_of(rows, columns);
    blocks = blocks_of(n);
    with_register_count(columns, are_packed_rows(columns, logits, probabilities),
                        [&]<unsigned count, unsigned size>() {
                          launch(s, "cross_entropy", blocks, threads_per_block, block_sum_bytes<double>,
                                 cross_entropy_kernel<count, size>, logits, list, parts, probabilities, n,
                                 -std::numeric_limits<float>::infinity());
                        });
  }
  launch(s, "cross_entropy", 1, threads_per_block, block_sum_bytes<double>, total_kernel<double, float>,
         parts, blocks, static_cast<double>(rows), loss);
}

void cross_entropy_gradient(const cuda_stream& s, const float* probabilities, const std::int32_t* labels,
                            const float* d_loss, float* d_logits, std::size_t rows, std::size_t columns) {
  if (rows * columns == 0) return;
  const bool packs = columns % float_pack::size == 0 && are_packs(probabilities, d_logits);
  const auto kernel =
      packs ? cross_entropy_gradient_kernel<float_pack::size> : cross_entropy_gradient_kernel<1>;
  for_row_chunks(s, "cross_entropy_gradient", rows, columns, [&](std::size_t first, std::size_t count) {
    const std::size_t n = count * columns;
    launch(s, "cross_entropy_gradient", blocks_for(packs ? n / float_pack::size : n), threads_per_block, 0,
           kernel, probabilities + first * columns, labels + first, d_loss, d_logits + first * columns,
           static_cast<float>(rows), divider<std::uint32_t>(columns), static_cast<std::uint32_t>(n));
  });
}

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

void count_right_labels(const cuda_stream& s, const float* logits, const std::int32_t* labels,
                        std::int32_t* right, std::size_t rows, std::size_t columns) {
  auto* const parts = static_cast<std::int32_t*>(s.scratch);
  const row_lanes n = lanes_of(rows, columns);
  const unsigned blocks = rows == 0 ? 0 : blocks_of(n);
  if (blocks > 0)
    launch(s, "count_right_labels", blocks, threads_per_block, block_sum_bytes<std::int32_t>,
           right_labels_kernel, logits, labels, parts, n, std::numeric_limits<float>::infinity());
  launch(s, "count_right_labels", 1, threads_per_block, block_sum_bytes<std::int32_t>,
         total_kernel<std::int32_t, std::int32_t>, parts, blocks, 1, right);
}

} // namespace

MAILGRAD_GPU_BODY(softmax)
MAILGRAD_GPU_BODY(softmax_gradient)
MAILGRAD_GPU_BODY(cross_entropy)
MAILGRAD_GPU_BODY(cross_entropy_gradient)
MAILGRAD_GPU_BODY(count_right_labels)

} // namespace mailgrad::cuda

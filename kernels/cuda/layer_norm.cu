#include <mailgrad/kernels/cuda/row_lanes.hpp>
#include <mailgrad/kernels/layer_norm.hpp>
#include <mailgrad/kernels/reduce.hpp>

namespace mailgrad::cuda {
namespace {

__device__ float inverse_of(float squares, float columns, float epsilon) {
  return 1 / sqrtf(squares / columns + epsilon);
}

template <unsigned count, unsigned size, class Y>
__global__ void __launch_bounds__(threads_per_block, count > 24 ? 1 : 2)
    layer_norm_kernel(const float* x, const float* gamma, const float* beta, Y* y, float* mean,
                      float* inverse, row_lanes n, float epsilon) {
  const row_lanes one_row{1, n.columns, n.width};
  const auto columns = static_cast<float>(n.columns);
  for_each_row(n, [=](std::size_t row, unsigned lane) {
    using values_of_row = register_row<count, size>;
    values_of_row values(x, n, row, lane, 0);
    float sum = 0;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) sum += values.v[i];
    const float mu = over_lanes(sum, n.width, plus{}) / columns;
    float squares = 0;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) {
      values.v[i] -= mu;
      if (values_of_row::has(i, n, lane)) squares += values.v[i] * values.v[i];
    }
    const float inv = inverse_of(over_lanes(squares, n.width, plus{}), columns, epsilon);
    const values_of_row scale(gamma, one_row, 0, lane, 0), shift(beta, one_row, 0, lane, 0);
#pragma unroll
    for (unsigned i = 0; i < count; ++i) values.v[i] = values.v[i] * inv * scale.v[i] + shift.v[i];
    values.store(y, n, row, lane);
    if (row < n.rows && lane == 0) {
      mean[row] = mu;
      inverse[row] = inv;
    }
  });
}

template <class Y>
__global__ void long_layer_norm_kernel(const float* x, const float* gamma, const float* beta, Y* y,
                                       float* mean, float* inverse, std::size_t rows, std::size_t columns,
                                       float epsilon) {
  float* const workspace = shared_memory<float>();
  const auto n = static_cast<float>(columns);
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* const from = x + row * columns;
    const float mu =
        block_sum(strided_sum(threadIdx.x, columns, blockDim.x, [=](std::size_t i) { return from[i]; }),
                  workspace) /
        n;
    const auto square = [=](std::size_t i) { return (from[i] - mu) * (from[i] - mu); };
    const float inv =
        inverse_of(block_sum(strided_sum(threadIdx.x, columns, blockDim.x, square), workspace), n, epsilon);
    for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x)
      store_number(y + (row * columns + i), (from[i] - mu) * inv * gamma[i] + beta[i]);
    if (threadIdx.x == 0) {
      mean[row] = mu;
      inverse[row] = inv;
    }
  }
}

template <class DY>
struct gradient_operands {
  const float *x, *gamma, *mean, *inverse;
  const DY* dy;
};

/// Where each block writes what its rows add to the gradients of gamma and of beta: float32[blocks, columns]
/// each.
struct parameter_parts {
  float *gamma, *beta;
};

/// Few enough that a thread may keep two rows and two sums in registers.
constexpr unsigned gradient_threads = 128;
constexpr std::size_t gradient_blocks = multiprocessors * 3;

/// Adds up what the groups of a block have for each column, and writes it. `workspace` is shared memory
/// for float32[groups, columns].
template <unsigned count, unsigned size>
__device__ void sum_over_groups(const float (&mine)[count], float* workspace, float* to, const row_lanes& n,
                                unsigned lane) {
  const auto columns = static_cast<unsigned>(n.columns);
  const unsigned group = threadIdx.x / n.width, groups = blockDim.x / n.width;
#pragma unroll
  for (unsigned p = 0; p < count / size; ++p) {
    const unsigned column = (lane + p * n.width) * size;
    moved_floats<size> moved;
#pragma unroll
    for (unsigned i = 0; i < size; ++i) moved.v[i] = mine[p * size + i];
    if (column < columns) store_in_block(workspace + group * columns + column, moved);
  }
  __syncthreads();
  for (unsigned column = threadIdx.x; column < columns; column += blockDim.x) {
    float total = 0;
    for (unsigned g = 0; g < groups; ++g) total += workspace[g * columns + column];
    to[column] = total;
  }
  __syncthreads(); // the memory may be used again
}

template <unsigned count, unsigned size, class DY>
__global__ void __launch_bounds__(gradient_threads, count > 24 ? 2 : 3)
    layer_norm_gradient_kernel(gradient_operands<DY> from, float* dx, parameter_parts parts, row_lanes n) {
  const row_lanes one_row{1, n.columns, n.width};
  const auto columns = static_cast<float>(n.columns);
  float of_gamma[count] = {}, of_beta[count] = {};
  for_each_row(n, [&](std::size_t row, unsigned lane) {
    using values_of_row = register_row<count, size>;
    values_of_row x_hat(from.x, n, row, lane, 0), gradient(from.dy, n, row, lane, 0);
    const values_of_row gamma(from.gamma, one_row, 0, lane, 0);
    const float mu = row < n.rows ? from.mean[row] : 0, inv = row < n.rows ? from.inverse[row] : 0;
    float sum = 0, sum_x_hat = 0; // as on the host
#pragma unroll
    for (unsigned i = 0; i < count; ++i) {
      x_hat.v[i] = (x_hat.v[i] - mu) * inv;
      of_gamma[i] += gradient.v[i] * x_hat.v[i];
      of_beta[i] += gradient.v[i];
      gradient.v[i] *= gamma.v[i];
      sum += gradient.v[i];
      sum_x_hat += gradient.v[i] * x_hat.v[i];
    }
    sum = over_lanes(sum, n.width, plus{});
    sum_x_hat = over_lanes(sum_x_hat, n.width, plus{});
#pragma unroll
    for (unsigned i = 0; i < count; ++i)
      gradient.v[i] = inv * (gradient.v[i] - (sum + x_hat.v[i] * sum_x_hat) / columns);
    gradient.store(dx, n, row, lane);
  });
  float* const workspace = shared_memory<float>();
  const unsigned lane = threadIdx.x % n.width;
  sum_over_groups<count, size>(of_gamma, workspace, parts.gamma + blockIdx.x * n.columns, n, lane);
  sum_over_groups<count, size>(of_beta, workspace, parts.beta + blockIdx.x * n.columns, n, lane);
}

template <class DY>
__global__ void long_layer_norm_gradient_kernel(gradient_operands<DY> from, float* dx, std::size_t rows,
                                                std::size_t columns) {
  float* const workspace = shared_memory<float>();
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float *const x = from.x + row * columns, *const gamma = from.gamma;
    const DY* const dy = from.dy + row * columns;
    const float mu = from.mean[row], inv = from.inverse[row];
    const auto gradient = [=](std::size_t i) { return as_float(dy[i]) * gamma[i]; };
    const auto product = [=](std::size_t i) { return as_float(dy[i]) * gamma[i] * ((x[i] - mu) * inv); };
    const float sum = block_sum(strided_sum(threadIdx.x, columns, blockDim.x, gradient), workspace);
    const float sum_x_hat = block_sum(strided_sum(threadIdx.x, columns, blockDim.x, product), workspace);
    for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x)
      dx[row * columns + i] =
          inv * (gradient(i) - (sum + (x[i] - mu) * inv * sum_x_hat) / static_cast<float>(columns));
  }
}

/// The gradients of gamma and beta over the rows that block (x, y) has; a thread has one column.
template <class DY>
__global__ void long_parameter_kernel(gradient_operands<DY> from, parameter_parts parts, std::size_t rows,
                                      std::size_t columns) {
  const std::size_t column = grid_thread();
  if (column >= columns) return;
  const float *const x = from.x, *const mean = from.mean, *const inverse = from.inverse;
  const DY* const dy = from.dy;
  const auto x_hat = [=](std::size_t row) { return (x[row * columns + column] - mean[row]) * inverse[row]; };
  const std::size_t place = blockIdx.y * columns + column;
  parts.gamma[place] = strided_sum(blockIdx.y, rows, gridDim.y, [=](std::size_t row) {
    return as_float(dy[row * columns + column]) * x_hat(row);
  });
  parts.beta[place] = strided_sum(blockIdx.y, rows, gridDim.y,
                                  [=](std::size_t row) { return as_float(dy[row * columns + column]); });
}

/// How many parts of both sums the scratch memory holds, at most `wanted`, and at least one.
std::size_t parts_in_scratch(const cuda_stream& s, std::size_t wanted, std::size_t columns) {
  return std::clamp<std::size_t>(s.scratch_bytes / (2 * sizeof(float) * columns), 1, wanted);
}

/// Longer rows that allow no packs would need more registers than a thread has.
constexpr std::size_t longest_register_gradient = 512;

/// Calls compute(parts), which writes `count` parts of both gradients, and adds these up.
template <class Compute>
void sum_parameters(const cuda_stream& s, std::size_t count, std::size_t columns, float* dgamma, float* dbeta,
                    Compute compute) {
  if (count == 1) return compute(parameter_parts{dgamma, dbeta});
  auto* const scratch = static_cast<float*>(s.scratch);
  const parameter_parts parts{scratch, scratch + count * columns};
  compute(parts);
  sum_columns(s, "layer_norm_gradient", parts.gamma, count, columns, 1, dgamma);
  sum_columns(s, "layer_norm_gradient", parts.beta, count, columns, 1, dbeta);
}

template <class DY>
void long_gradient(const cuda_stream& s, const layer_norm_rows& r, const gradient_operands<DY>& from,
                   float* dx, float* dgamma, float* dbeta) {
  if (r.rows > 0)
    launch(s, "layer_norm_gradient", blocks_for(r.rows, 1), threads_per_block, block_sum_bytes<float>,
           long_layer_norm_gradient_kernel<DY>, from, dx, r.rows, r.width);
  const auto across = static_cast<unsigned>((r.width + threads_per_block - 1) / threads_per_block);
  const std::size_t wanted = std::min<std::size_t>(busy_blocks / across + 1, r.rows / 16 + 1);
  const std::size_t count = parts_in_scratch(s, wanted, r.width);
  sum_parameters(s, count, r.width, dgamma, dbeta, [&](const parameter_parts& parts) {
    launch(s, "layer_norm_gradient", dim3(across, static_cast<unsigned>(count)), threads_per_block, 0,
           long_parameter_kernel<DY>, from, parts, r.rows, r.width);
  });
}

template <class DY>
void short_gradient(const cuda_stream& s, const layer_norm_rows& r, const gradient_operands<DY>& from,
                    float* dx, float* dgamma, float* dbeta, bool packed) {
  const row_lanes n = lanes_of(r.rows, r.width);
  const std::size_t rows_of_block = gradient_threads / n.width;
  const std::size_t wanted =
      std::clamp<std::size_t>((r.rows + rows_of_block - 1) / rows_of_block, 1, gradient_blocks);
  const std::size_t count = parts_in_scratch(s, wanted, r.width);
  sum_parameters(s, count, r.width, dgamma, dbeta, [&](const parameter_parts& parts) {
    with_register_count(r.width, packed, [&]<unsigned elements, unsigned size>() {
      if constexpr (size > 1 || elements * warp_size <= longest_register_gradient)
        launch(s, "layer_norm_gradient", static_cast<unsigned>(count), gradient_threads,
               rows_of_block * r.width * sizeof(float), layer_norm_gradient_kernel<elements, size, DY>, from,
               dx, parts, n);
    });
  });
}

template <class Y>
void normalise(const cuda_stream& s, const layer_norm_rows& r, const float* x, const float* gamma,
               const float* beta, Y* y, float* mean, float* inverse) {
  if (r.width > longest_register_row)
    return launch(s, "layer_norm", blocks_for(r.rows, 1), threads_per_block, block_sum_bytes<float>,
                  long_layer_norm_kernel<Y>, x, gamma, beta, y, mean, inverse, r.rows, r.width, r.epsilon);
  const row_lanes n = lanes_of(r.rows, r.width);
  with_register_count(
      r.width, are_packed_rows(r.width, x, gamma, beta, y), [&]<unsigned count, unsigned size>() {
        launch(s, "layer_norm", blocks_of(n), threads_per_block, 0, layer_norm_kernel<count, size, Y>, x,
               gamma, beta, y, mean, inverse, n, r.epsilon);
      });
}

void layer_norm(const cuda_stream& s, const layer_norm_rows& r, const float* x, const float* gamma,
                const float* beta, written_numbers y, float* mean, float* inverse) {
  if (r.rows * r.width == 0) return;
  std::visit([&](auto* to) { normalise(s, r, x, gamma, beta, to, mean, inverse); }, y);
}

void layer_norm_gradient(const cuda_stream& s, const layer_norm_rows& r, const float* x, const float* gamma,
                         const float* mean, const float* inverse, read_numbers dy, float* dx, float* dgamma,
                         float* dbeta) {
  if (r.width == 0) return;
  std::visit(
      [&]<class DY>(const DY* numbers) {
        const gradient_operands<DY> from{x, gamma, mean, inverse, numbers};
        const bool packed = are_packed_rows(r.width, x, gamma, numbers, dx);
        if (r.width > (packed ? longest_register_row : longest_register_gradient))
          long_gradient(s, r, from, dx, dgamma, dbeta);
        else
          short_gradient(s, r, from, dx, dgamma, dbeta, packed);
      },
      dy);
}

} // namespace

MAILGRAD_GPU_BODY(layer_norm)
MAILGRAD_GPU_BODY(layer_norm_gradient)

} // namespace mailgrad::cuda

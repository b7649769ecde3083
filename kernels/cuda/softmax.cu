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
  float* const room = shared_memory<float>();
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* const from = x + row * columns;
    float largest = from[0];
    for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x) largest = larger{}(largest, from[i]);
    largest = block_largest(largest, room);
    float sum = 0;
    for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x) sum += exp_of_negative(from[i] - largest);
    const float factor = 1 / block_sum(sum, room);
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
  float* const room = shared_memory<float>();
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::size_t first = row * columns, last = first + columns;
    float projection = 0;
    for (std::size_t i = first + threadIdx.x; i < last; i += blockDim.x) projection += y[i] * dy[i];
    projection = block_sum(projection, room);
    for (std::size_t i = first + threadIdx.x; i < last; i += blockDim.x) dx[i] = y[i] * (dy[i] - projection);
  }
}

} // namespace

void softmax(const cuda_stream& s, const float* x, float* y, std::size_t rows, std::size_t columns) {
  if (rows * columns == 0) return;
  if (columns > longest_register_row) {
    launch(s, "softmax", blocks_for(rows, 1), threads_per_block, block_sum_bytes<float>, long_softmax_kernel,
           x, y, rows, columns);
    return;
  }
  const row_lanes n = lanes_of(rows, columns);
  with_register_count(columns, are_packed_rows(columns, x, y), [&]<unsigned count, unsigned size>() {
    launch(s, "softmax", blocks_of(n), threads_per_block, 0, softmax_kernel<count, size>, x, y, n,
           -std::numeric_limits<float>::infinity());
  });
}

void softmax_gradient(const cuda_stream& s, const float* y, const float* dy, float* dx, std::size_t rows,
                      std::size_t columns) {
  if (rows * columns == 0) return;
  if (columns > longest_register_row) {
    launch(s, "softmax_gradient", blocks_for(rows, 1), threads_per_block, block_sum_bytes<float>,
           long_softmax_gradient_kernel, y, dy, dx, rows, columns);
    return;
  }
  const row_lanes n = lanes_of(rows, columns);
  with_register_count(columns, are_packed_rows(columns, y, dy, dx), [&]<unsigned count, unsigned size>() {
    launch(s, "softmax_gradient", blocks_of(n), threads_per_block, 0, softmax_gradient_kernel<count, size>, y,
           dy, dx, n);
  });
}

} // namespace mailgrad::cuda

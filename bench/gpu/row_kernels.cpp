#include "gpu_kernels.hpp"

#include <mailgrad/kernels/pooling.hpp>
#include <mailgrad/kernels/reduce.hpp>
#include <mailgrad/kernels/softmax.hpp>
#include <mailgrad/kernels/vectors.hpp>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

timed_kernel sum_of(gpu_arrays& a, const char* name, const shape& dims,
                    std::array<bool, shape::max_rank> summed) {
  const sum_plan plan = plan_sum(dims, summed);
  return {name, float_bytes(dims.size(), 1), 0,
          [plan, x = a.floats(dims.size()), y = a.buffer<float>(plan.result_size)](const stream& s) {
            sum(s, plan, x, 1, y);
          }};
}
timed_kernel sum_all(gpu_arrays& a) { return sum_of(a, "sum of all", {floats_of(64)}, {true}); }
timed_kernel sum_rows(gpu_arrays& a) {
  const std::size_t rows = row_count();
  return sum_of(a, "sum over rows", {rows, columns}, {true, false});
}
timed_kernel sum_columns(gpu_arrays& a) {
  const std::size_t rows = row_count();
  return sum_of(a, "sum over columns", {rows, columns}, {false, true});
}
timed_kernel softmax_of_rows(gpu_arrays& a) {
  const std::size_t rows = row_count();
  return {"softmax", float_bytes(rows * columns, 2), 0,
          [rows, x = a.floats(rows * columns), y = a.buffer<float>(rows * columns)](const stream& s) {
            softmax(s, x, y, rows, columns);
          }};
}
timed_kernel softmax_backward(gpu_arrays& a) {
  const std::size_t rows = row_count();
  return {"gradient of softmax", float_bytes(rows * columns, 3), 0,
          [rows, y = a.floats(rows * columns), dy = a.floats(rows * columns),
           dx = a.buffer<float>(rows * columns)](const stream& s) {
            softmax_gradient(s, y, dy, dx, rows, columns);
          }};
}
timed_kernel loss(gpu_arrays& a) {
  const std::size_t rows = row_count();
  return {"cross-entropy", float_bytes(rows * columns, 2), 0,
          [rows, x = a.floats(rows * columns), labels = a.labels(rows, columns), loss = a.buffer<float>(1),
           p = a.buffer<float>(rows * columns)](const stream& s) {
            cross_entropy(s, x, labels, loss, p, rows, columns);
          }};
}
timed_kernel loss_backward(gpu_arrays& a) {
  const std::size_t rows = row_count();
  return {"gradient of cross-entropy", float_bytes(rows * columns, 2), 0,
          [rows, p = a.floats(rows * columns), labels = a.labels(rows, columns), d = a.floats(1),
           dx = a.buffer<float>(rows * columns)](const stream& s) {
            cross_entropy_gradient(s, p, labels, d, dx, rows, columns);
          }};
}
timed_kernel squared_error(gpu_arrays& a) {
  const std::size_t n = floats_of(64);
  return {"mean squared error", float_bytes(n, 2), 0,
          [n, x = a.floats(n), t = a.floats(n), y = a.buffer<float>(1)](const stream& s) {
            mean_squared_difference(s, x, t, n, y);
          }};
}
timed_kernel distance_of_two(gpu_arrays& a) {
  const std::size_t n = floats_of(64);
  return {"squared distance", float_bytes(n, 2), 0,
          [n, x = a.floats(n), y = a.floats(n), to = a.buffer<double>(1)](const stream& s) {
            squared_distance(s, {x, n}, {y, n}, to);
          }};
}

/// Pictures of 56 x 56 with 64 channels, whose values take 64 MiB.
window_grid pictures() {
  return {.batch = divisor == 1 ? 83U : 1U,
          .height = 56,
          .width = 56,
          .channels = 64,
          .rows = 2,
          .columns = 2,
          .stride_rows = 2,
          .stride_columns = 2,
          .out_height = 28,
          .out_width = 28};
}
std::size_t picture_floats() { return pictures().batch * pictures().image_size(); }
std::size_t pooled_floats() { return picture_floats() / 4; }

timed_kernel largest_of_windows(gpu_arrays& a) {
  return {"max pooling 2x2", float_bytes(picture_floats() + 2 * pooled_floats(), 1), 0,
          [x = a.floats(picture_floats()), y = a.buffer<float>(pooled_floats()),
           chosen = a.buffer<std::int32_t>(pooled_floats())](const stream& s) {
            max_pool(s, pictures(), x, y, chosen);
          }};
}
timed_kernel largest_backward(gpu_arrays& a) {
  return {"gradient of max pooling", float_bytes(picture_floats() + 2 * pooled_floats(), 1), 0,
          [dx = a.buffer<float>(picture_floats()), dy = a.floats(pooled_floats()),
           chosen = a.labels(pooled_floats(), 4)](const stream& s) {
            max_pool_gradient(s, pictures(), dy, chosen, dx);
          }};
}
timed_kernel mean_of_windows(gpu_arrays& a) {
  return {"average pooling 2x2", float_bytes(picture_floats() + pooled_floats(), 1), 0,
          [x = a.floats(picture_floats()), y = a.buffer<float>(pooled_floats())](const stream& s) {
            average_pool(s, pictures(), x, y);
          }};
}

} // namespace

namespace mailgrad::bench {

std::vector<kernel_maker> row_kernels() {
  return {
      sum_all,       sum_rows,      sum_columns,        softmax_of_rows,  softmax_backward, loss,
      loss_backward, squared_error, largest_of_windows, largest_backward, mean_of_windows,  distance_of_two};
}

} // namespace mailgrad::bench

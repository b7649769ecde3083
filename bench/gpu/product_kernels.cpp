#include "gpu_kernels.hpp"

#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/gemm.hpp>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

timed_kernel product(gpu_arrays& a, const char* name, const gemm_shape& g) {
  return {name, float_bytes(g.m * g.k + g.k * g.n + g.m * g.n, 1),
          2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k),
          [g, x = a.floats(g.m * g.k), y = a.floats(g.k * g.n),
           z = a.buffer<float>(g.m * g.n)](const stream& s) { gemm(s, g, x, y, z, nullptr); }};
}
timed_kernel product_4096(gpu_arrays& a) { return product(a, "product 4096x4096x4096", {4096, 4096, 4096}); }
timed_kernel product_forward(gpu_arrays& a) { return product(a, "product 64x512x784", {64, 512, 784}); }
timed_kernel product_weights(gpu_arrays& a) {
  return product(a, "product 784x512x64, A transposed", {784, 512, 64, operand_order::transposed});
}
timed_kernel product_data(gpu_arrays& a) {
  return product(a, "product 64x512x256, B transposed",
                 {64, 512, 256, operand_order::as_is, operand_order::transposed});
}

/// A convolution of LeNet: filters of 5 x 5 on square pictures that keep their size.
constexpr convolution_shape of_lenet(std::size_t batch, std::size_t side, std::size_t channels,
                                     std::size_t filters) {
  return {{.batch = batch,
           .height = side,
           .width = side,
           .channels = channels,
           .rows = 5,
           .columns = 5,
           .pad_top = 2,
           .pad_left = 2,
           .pad_bottom = 2,
           .pad_right = 2,
           .out_height = side,
           .out_width = side},
          filters};
}
constexpr convolution_shape first_convolution(std::size_t batch) { return of_lenet(batch, 28, 1, 32); }
constexpr convolution_shape second_convolution(std::size_t batch) { return of_lenet(batch, 14, 32, 64); }

using planner = std::unique_ptr<convolution_plan> (*)(const convolution_shape&, device_kind);

timed_kernel convolution(gpu_arrays& a, const char* name, const convolution_shape& c, planner plan,
                         std::size_t left, std::size_t right, std::size_t result) {
  std::shared_ptr<convolution_plan> planned = plan(c, device_kind::cuda);
  const double per_output = 2.0 * static_cast<double>(c.windows.window_size());
  return {name, float_bytes(left + right + result, 1), per_output * static_cast<double>(c.y_size()),
          [planned, x = a.floats(left), y = a.floats(right), z = a.buffer<float>(result)](const stream& s) {
            planned->run(s, x, y, z, nullptr);
          }};
}

template <convolution_shape (*shape_of)(std::size_t), std::size_t batch>
struct passes {
  static timed_kernel forward(gpu_arrays& a, const char* name) {
    constexpr auto c = shape_of(batch);
    return convolution(a, name, c, plan_convolution, c.x_size(), c.w_size(), c.y_size());
  }
  static timed_kernel data(gpu_arrays& a, const char* name) {
    constexpr auto c = shape_of(batch);
    return convolution(a, name, c, plan_convolution_data_gradient, c.y_size(), c.w_size(), c.x_size());
  }
  static timed_kernel weights(gpu_arrays& a, const char* name) {
    constexpr auto c = shape_of(batch);
    return convolution(a, name, c, plan_convolution_weight_gradient, c.x_size(), c.y_size(), c.w_size());
  }
};

} // namespace

namespace mailgrad::bench {

std::vector<kernel_maker> product_kernels() {
  return {
      product_4096,
      product_forward,
      product_weights,
      product_data,
      [](gpu_arrays& a) { return passes<first_convolution, 64>::forward(a, "conv1 of lenet, batch 64"); },
      [](gpu_arrays& a) { return passes<first_convolution, 64>::weights(a, "conv1 weights, batch 64"); },
      [](gpu_arrays& a) { return passes<second_convolution, 64>::forward(a, "conv2 of lenet, batch 64"); },
      [](gpu_arrays& a) { return passes<second_convolution, 64>::data(a, "conv2 data, batch 64"); },
      [](gpu_arrays& a) { return passes<second_convolution, 64>::weights(a, "conv2 weights, batch 64"); },
      [](gpu_arrays& a) { return passes<first_convolution, 1024>::forward(a, "conv1 of lenet, batch 1024"); },
      [](gpu_arrays& a) { return passes<first_convolution, 1024>::weights(a, "conv1 weights, batch 1024"); },
      [](gpu_arrays& a) {
        return passes<second_convolution, 1024>::forward(a, "conv2 of lenet, batch 1024");
      },
      [](gpu_arrays& a) { return passes<second_convolution, 1024>::data(a, "conv2 data, batch 1024"); },
      [](gpu_arrays& a) { return passes<second_convolution, 1024>::weights(a, "conv2 weights, batch 1024"); },
  };
}

} // namespace mailgrad::bench

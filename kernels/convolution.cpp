#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/host/convolution.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {
namespace {

/// A convolution without windows, channels or images. Its result, an empty sum, is all zeros.
class zero_plan : public convolution_plan {
public:
  explicit zero_plan(std::size_t size) : size_(size) {}
  void run(const stream& s, const float*, const float*, float* result, void*) override {
    fill(s, 0, {result, size_});
  }

private:
  std::size_t size_;
};

/// A pass of a convolution on a GPU, which plans nothing ahead.
template <auto Plan>
class gpu_plan : public convolution_plan {
public:
  explicit gpu_plan(const convolution_shape& c) : shape_(c) {}
  void run(const stream& s, const float* left, const float* right, float* result, void*) override {
    const auto* gpu = std::get_if<cuda_stream>(&s);
    if (gpu == nullptr)
      throw device_error(world_errc::no_such_device, "convolution: planned for a GPU, and asked of the host");
    cuda::body<Plan>::get()(*gpu, shape_, left, right, result);
  }

private:
  convolution_shape shape_;
};

/// Whether a row of a window fits into the registers of the kernels that skip zeros, and fills them.
bool suits_sparse_gradients(const convolution_shape& c) {
  return c.windows.columns <= max_packets && c.windows.channels >= packet_size;
}

/// The plan of a pass whose result has so many numbers. `on_host` plans it for the calling thread.
template <auto Plan, class OnHost>
std::unique_ptr<convolution_plan> plan(const convolution_shape& c, std::size_t result_size, device_kind where,
                                       OnHost on_host) {
  if (c.x_size() == 0 || c.w_size() == 0 || c.y_size() == 0) return std::make_unique<zero_plan>(result_size);
  if (where == device_kind::cuda) return std::make_unique<gpu_plan<Plan>>(c);
  return on_host();
}

} // namespace

std::unique_ptr<convolution_plan> plan_convolution(const convolution_shape& c, device_kind where) {
  return plan<plan_convolution>(c, c.y_size(), where, [&] { return plan_dense_convolution(c); });
}

std::unique_ptr<convolution_plan> plan_convolution_data_gradient(const convolution_shape& c,
                                                                 device_kind where) {
  return plan<plan_convolution_data_gradient>(c, c.x_size(), where, [&] {
    auto dense = plan_dense_data_gradient(c);
    return suits_sparse_gradients(c) ? plan_sparse_data_gradient(c, std::move(dense)) : std::move(dense);
  });
}

std::unique_ptr<convolution_plan> plan_convolution_weight_gradient(const convolution_shape& c,
                                                                   device_kind where) {
  return plan<plan_convolution_weight_gradient>(c, c.w_size(), where, [&] {
    auto dense = plan_dense_weight_gradient(c);
    return suits_sparse_gradients(c) ? plan_sparse_weight_gradient(c, std::move(dense)) : std::move(dense);
  });
}

} // namespace mailgrad

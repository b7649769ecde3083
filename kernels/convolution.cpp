#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/host/convolution.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad::host {

// The plans of kernels/convolution.hpp for the calling thread. No extent is 0.

namespace {

/// Whether a row of a window fits into the registers of the kernels that skip zeros, and fills them.
bool suits_sparse_gradients(const convolution_shape& c) {
  return c.windows.columns <= max_packets && c.windows.channels >= packet_size;
}

} // namespace

std::unique_ptr<convolution_plan> plan_convolution(const convolution_shape& c) {
  return plan_dense_convolution(c);
}

std::unique_ptr<convolution_plan> plan_convolution_data_gradient(const convolution_shape& c) {
  auto dense = plan_dense_data_gradient(c);
  return suits_sparse_gradients(c) ? plan_sparse_data_gradient(c, std::move(dense)) : std::move(dense);
}

std::unique_ptr<convolution_plan> plan_convolution_weight_gradient(const convolution_shape& c) {
  auto dense = plan_dense_weight_gradient(c);
  return suits_sparse_gradients(c) ? plan_sparse_weight_gradient(c, std::move(dense)) : std::move(dense);
}

} // namespace mailgrad::host

namespace mailgrad {

namespace {

/// A convolution without windows, channels or images. Its result, an empty sum, is all zeros.
class zero_plan : public convolution_plan {
public:
  explicit zero_plan(std::size_t size) : size_(size) {}
  std::size_t scratch_bytes() const noexcept override { return 0; }
  void run(const stream& s, const float*, const float*, float* result, void*) override {
    if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::clear(*card, result, size_);
    std::fill_n(result, size_, 0.0F);
  }

private:
  std::size_t size_;
};

/// A pass of a convolution on a card, which plans nothing ahead.
class card_plan : public convolution_plan {
public:
  using card_pass = void (*)(const cuda_stream&, const convolution_shape&, const float*, const float*,
                             float*);

  card_plan(const convolution_shape& c, card_pass pass) : shape_(c), pass_(pass) {}

  std::size_t scratch_bytes() const noexcept override { return 0; }
  void run(const stream& s, const float* left, const float* right, float* result, void*) override {
    const auto* card = std::get_if<cuda_stream>(&s);
    if (card == nullptr)
      throw device_error(world_errc::no_such_device,
                         "convolution: planned for a card, and asked of the host");
    pass_(*card, shape_, left, right, result);
  }

private:
  convolution_shape shape_;
  card_pass pass_;
};

using host_planner = std::unique_ptr<convolution_plan> (*)(const convolution_shape&);

std::unique_ptr<convolution_plan> plan(const convolution_shape& c, std::size_t result_size, device_kind where,
                                       card_plan::card_pass on_card, host_planner on_host) {
  if (c.x_size() == 0 || c.w_size() == 0 || c.y_size() == 0) return std::make_unique<zero_plan>(result_size);
  if (where == device_kind::cuda) return std::make_unique<card_plan>(c, on_card);
  return on_host(c);
}

} // namespace

std::unique_ptr<convolution_plan> plan_convolution(const convolution_shape& c, device_kind where) {
  return plan(c, c.y_size(), where, cuda::convolution, host::plan_convolution);
}

std::unique_ptr<convolution_plan> plan_convolution_data_gradient(const convolution_shape& c,
                                                                 device_kind where) {
  return plan(c, c.x_size(), where, cuda::convolution_data_gradient, host::plan_convolution_data_gradient);
}

std::unique_ptr<convolution_plan> plan_convolution_weight_gradient(const convolution_shape& c,
                                                                   device_kind where) {
  return plan(c, c.w_size(), where, cuda::convolution_weight_gradient,
              host::plan_convolution_weight_gradient);
}

} // namespace mailgrad

#include <mailgrad/kernels/convolution.hpp>

#include <mailgrad/kernels/cuda/convolution.hpp>
#include <mailgrad/kernels/host/convolution/convolution.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad {

namespace {

/// A pass of a convolution for both places. The card plans nothing ahead.
class placed_plan : public convolution_plan {
public:
  using card_pass = void (*)(const cuda_stream&, const convolution_shape&, const float*, const float*,
                             float*);

  placed_plan(const convolution_shape& c, card_pass on_card, std::unique_ptr<convolution_plan> on_host)
      : shape_(c), on_card_(on_card), on_host_(std::move(on_host)) {}

  std::size_t scratch_bytes() const noexcept override { return on_host_->scratch_bytes(); }
  void run(const stream& s, const float* left, const float* right, float* result, void* scratch) override {
    if (const auto* card = std::get_if<cuda_stream>(&s)) return on_card_(*card, shape_, left, right, result);
    on_host_->run(s, left, right, result, scratch);
  }

private:
  convolution_shape shape_;
  card_pass on_card_;
  std::unique_ptr<convolution_plan> on_host_;
};

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

bool is_empty(const convolution_shape& c) { return c.x_size() == 0 || c.w_size() == 0 || c.y_size() == 0; }

} // namespace

std::unique_ptr<convolution_plan> plan_convolution(const convolution_shape& c) {
  if (is_empty(c)) return std::make_unique<zero_plan>(c.y_size());
  return std::make_unique<placed_plan>(c, cuda::convolution, host::plan_convolution(c));
}

std::unique_ptr<convolution_plan> plan_convolution_data_gradient(const convolution_shape& c) {
  if (is_empty(c)) return std::make_unique<zero_plan>(c.x_size());
  return std::make_unique<placed_plan>(c, cuda::convolution_data_gradient,
                                       host::plan_convolution_data_gradient(c));
}

std::unique_ptr<convolution_plan> plan_convolution_weight_gradient(const convolution_shape& c) {
  if (is_empty(c)) return std::make_unique<zero_plan>(c.w_size());
  return std::make_unique<placed_plan>(c, cuda::convolution_weight_gradient,
                                       host::plan_convolution_weight_gradient(c));
}

} // namespace mailgrad

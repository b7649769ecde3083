#include <mailgrad/kernels/convolution.hpp>

#include <mailgrad/tensor/require_host.hpp>
#include <mailgrad/kernels/host/convolution/dense_convolution.hpp>
#include <mailgrad/kernels/host/convolution/sparse_convolution.hpp>
#include <mailgrad/kernels/host/convolution/sparse_terms.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

/// A convolution without windows, channels or images. Its result, an empty sum, is all zeros.
class zero_plan : public convolution_plan {
public:
  explicit zero_plan(std::size_t size) : size_(size) {}
  std::size_t scratch_bytes() const noexcept override { return 0; }
  void run(const stream& s, const float*, const float*, float* result, void*) override {
    require_host(s, "convolution");
    std::fill_n(result, size_, 0.0F);
  }

private:
  std::size_t size_;
};

/// Whether a row of a window fits into the registers of the kernels that skip zeros, and fills them.
bool suits_sparse_gradients(const convolution_shape& c) {
  return c.windows.columns <= max_packets && c.windows.channels >= packet_size;
}

bool is_empty(const convolution_shape& c) { return c.x_size() == 0 || c.w_size() == 0 || c.y_size() == 0; }

} // namespace

std::unique_ptr<convolution_plan> plan_convolution(const convolution_shape& c) {
  if (is_empty(c)) return std::make_unique<zero_plan>(c.y_size());
  return plan_dense_convolution(c);
}

std::unique_ptr<convolution_plan> plan_convolution_data_gradient(const convolution_shape& c) {
  if (is_empty(c)) return std::make_unique<zero_plan>(c.x_size());
  auto dense = plan_dense_data_gradient(c);
  return suits_sparse_gradients(c) ? plan_sparse_data_gradient(c, std::move(dense)) : std::move(dense);
}

std::unique_ptr<convolution_plan> plan_convolution_weight_gradient(const convolution_shape& c) {
  if (is_empty(c)) return std::make_unique<zero_plan>(c.w_size());
  auto dense = plan_dense_weight_gradient(c);
  return suits_sparse_gradients(c) ? plan_sparse_weight_gradient(c, std::move(dense)) : std::move(dense);
}

} // namespace mailgrad

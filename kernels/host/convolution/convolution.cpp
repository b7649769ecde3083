#include <mailgrad/kernels/host/convolution/convolution.hpp>

#include <mailgrad/kernels/host/convolution/dense_convolution.hpp>
#include <mailgrad/kernels/host/convolution/sparse_convolution.hpp>
#include <mailgrad/kernels/host/convolution/sparse_terms.hpp>

namespace mailgrad::host {

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

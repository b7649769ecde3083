#include <mailgrad/kernels/cuda/launch.hpp>
#include <mailgrad/kernels/cuda/map_weights.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad::cuda {

namespace {

template <class T, std::size_t count>
struct pointer_list {
  T* items[count == 0 ? 1 : count];
};

template <class F, std::size_t... i, std::size_t... o>
__device__ void call(const F& f, const pointer_list<const float, F::reads>& reads,
                     const pointer_list<float, F::writes>& writes, std::size_t k, std::index_sequence<i...>,
                     std::index_sequence<o...>) {
  f(reads.items[i][k]..., writes.items[o][k]...);
}

template <class F>
__global__ void map_kernel(F f, pointer_list<const float, F::reads> reads,
                           pointer_list<float, F::writes> writes, std::size_t n) {
  const std::size_t stride = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t k = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; k < n; k += stride)
    call(f, reads, writes, k, std::make_index_sequence<F::reads>{}, std::make_index_sequence<F::writes>{});
}

} // namespace

void map_weights(const cuda_stream& s, const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n) {
  if (n == 0) return;
  std::visit(
      [&](const auto& function) {
        using F = std::decay_t<decltype(function)>;
        pointer_list<const float, F::reads> in{};
        pointer_list<float, F::writes> out{};
        std::copy(reads.begin(), reads.end(), in.items);
        std::copy(writes.begin(), writes.end(), out.items);
        launch(s, "map_weights", blocks_for(n), threads_per_block, 0, map_kernel<F>, function, in, out, n);
      },
      f);
}

} // namespace mailgrad::cuda

#include <mailgrad/kernels/host/map_weights.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace mailgrad {

namespace {

template <class F, std::size_t... i, std::size_t... o>
void loop(const F& f, const std::array<const float*, F::reads>& reads,
          const std::array<float*, F::writes>& writes, std::size_t n, std::index_sequence<i...>,
          std::index_sequence<o...>) {
#pragma omp simd
  for (std::size_t k = 0; k < n; ++k) f(reads[i][k]..., writes[o][k]...);
}

template <class F>
void run(const F& f, std::span<const float* const> reads, std::span<float* const> writes, std::size_t n) {
  std::array<const float*, F::reads> in{};
  std::array<float*, F::writes> out{};
  std::ranges::copy(reads, in.begin());
  std::ranges::copy(writes, out.begin());
  loop(f, in, out, n, std::make_index_sequence<F::reads>{}, std::make_index_sequence<F::writes>{});
}

} // namespace

void host::map_weights(const weight_function& f, std::span<const float* const> reads,
                       std::span<float* const> writes, std::size_t n) {
  std::visit([&](const auto& function) { run(function, reads, writes, n); }, f);
}

} // namespace mailgrad

#include <mailgrad/kernels/map_weights.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

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

namespace host {

// On the calling thread. The caller has checked the number of arrays.

void map_weights(const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n) {
  std::visit([&](const auto& function) { run(function, reads, writes, n); }, f);
}

} // namespace host

namespace {

void require_arrays(const char* what, std::size_t found, std::size_t expected) {
  if (found != expected)
    throw shape_error(
        fmt::format("map_weights: {} arrays to {}, where the function takes {}", found, what, expected));
}

} // namespace

void map_weights(const stream& s, const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n) {
  std::visit(
      [&]<class F>(const F&) {
        require_arrays("read", reads.size(), F::reads);
        require_arrays("write", writes.size(), F::writes);
      },
      f);
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) return cuda::map_weights(*gpu, f, reads, writes, n);
  host::map_weights(f, reads, writes, n);
}

} // namespace mailgrad

#pragma once

#include <mailgrad/kernels/elementwise.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>

#ifdef MAILGRAD_SIMULATED_GPU
#include "simulated_gpu/gpu_control.hpp"
#endif

namespace mailgrad::testing {

inline constexpr elementwise_function last_function = elementwise_function::sqrt_gradient;

/// A chain of any functions of any operands; the same seed gives the same chain. Its last step is its last
/// output.
inline elementwise_chain drawn_chain(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(rng); };
  elementwise_chain chain;
  chain.input_count = static_cast<std::uint8_t>(1 + below(elementwise_chain::max_inputs));
  chain.step_count = static_cast<std::uint8_t>(2 + below(elementwise_chain::max_steps - 1));
  for (std::size_t i = 0; i < chain.input_count; ++i)
    if (below(4) == 0) chain.inputs[i] = elementwise_chain::extent::one;
  std::int8_t outputs = 0;
  for (std::size_t i = 0; i < chain.step_count; ++i) {
    const auto function =
        static_cast<elementwise_function>(below(static_cast<std::size_t>(last_function) + 1));
    const auto a = static_cast<std::uint8_t>(below(chain.input_count + i));
    const auto b = is_unary(function) ? a : static_cast<std::uint8_t>(below(chain.input_count + i));
    const bool is_output = i + 1 == chain.step_count || below(3) == 0;
    chain.steps[i] = {function, a, b, is_output ? outputs++ : std::int8_t{-1}};
  }
  return chain;
}

inline std::size_t outputs_of(const elementwise_chain& chain) {
  return static_cast<std::size_t>(std::ranges::max(chain.steps, {}, &elementwise_chain::step::output).output +
                                  1);
}

/// Lets the GPU generate kernels for chains while it lives. A real GPU generates them anyway.
class with_generated_kernels {
public:
  with_generated_kernels() {
#ifdef MAILGRAD_SIMULATED_GPU
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.generates_kernels = true;
    simulated_gpu::set_up(s);
#endif
  }
  with_generated_kernels(const with_generated_kernels&) = delete;
  with_generated_kernels& operator=(const with_generated_kernels&) = delete;
  ~with_generated_kernels() {
#ifdef MAILGRAD_SIMULATED_GPU
    simulated_gpu::set_up(simulated_gpu::default_settings());
#endif
  }
};

} // namespace mailgrad::testing

#pragma once

#include <mailgrad/kernels/functors/philox.hpp>

#include <array>
#include <cstdint>

namespace mailgrad {

/// The random numbers of one step of one worker. They depend on the seed, the worker and the step alone, so
/// the order in which the steps of different workers are drawn makes no difference.
///
/// The distributions are written out here, because those of the standard library draw other numbers with each
/// compiler.
/// Source  the numbers: Philox (philox.hpp). normal(): Box & Muller, 1958. gamma(): Marsaglia & Tsang, "A
///         simple method for generating gamma variables", 2000.
class step_draws {
public:
  /// Step 0 is for what a worker draws once.
  step_draws(std::uint64_t seed, std::uint32_t worker, std::uint64_t step);

  /// 0 < number < 1.
  double uniform();
  double exponential(); ///< with mean 1
  double normal();      ///< with mean 0 and variance 1
  /// With mean `shape` and scale 1; shape > 0.
  double gamma(double shape);

private:
  std::uint32_t word();

  philox draw_;
  philox::numbers counter_;
  std::array<std::uint32_t, 4> words_{}; ///< of the present counter
  std::size_t used_ = 4;
};

} // namespace mailgrad

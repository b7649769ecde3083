#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory.hpp>

#include <fmt/format.h>

// A quadratic with curvature 1, a step of a = 0.1 and gradients with normal noise of deviation 1. After a
// while the mean square of the weights stays where it is; over a^2 it is the floor of the figure.

namespace mailgrad::lab {

namespace {

constexpr double step_size = 0.1;
constexpr std::size_t noisy_coordinates = 100;

double measured_floor(std::uint32_t workers, const std::string& delays, std::uint64_t seed,
                      const experiment_options& options) {
  const std::uint64_t updates = options.quick ? 6'000 : 30'000, burn_in = 1'000;
  double sum = 0;
  std::uint64_t reads = 0;
  quadratic_case c = case_of(fmt::format("quadratic:dimension={},noise=1,start=0", noisy_coordinates),
                             workers, delays, "async", step_size, updates + burn_in, seed);
  c.on_read = [&](rank, instant, std::span<const float> x) {
    if (++reads <= burn_in) return;
    for (std::size_t j = 0; j < noisy_coordinates; ++j) sum += static_cast<double>(x[j]) * x[j];
  };
  run_quadratic(c, options);
  return sum / static_cast<double>(reads - burn_in) / noisy_coordinates / (step_size * step_size);
}

struct law_of_floor {
  const char *name, *delays;
  std::uint32_t most; ///< workers; with 16 that take turns the step is so long that the floor is far away
  double (*exact)(std::uint32_t workers);
};

} // namespace

void run_noise_floor(const experiment_options& options, experiment_result& result) {
  constexpr law_of_floor laws[] = {
      {"exponential times", "exp", 16,
       [](std::uint32_t workers) { return floor_of_memoryless(workers, step_size); }},
      {"equal times", "constant:1", 8,
       [](std::uint32_t workers) { return floor_of_fixed_delay(workers - 1, step_size); }}};
  const std::uint64_t seeds = options.quick ? 2 : 5;
  figure f("floor", "How far noise keeps descent from its minimum",
           "Mean square of the weights of a quadratic with curvature 1 over that of a step's noise, with "
           "gradients whose noise is normal. Points are the mean over seeds with their standard deviation.",
           {"workers", axis_scale::doubling}, {"mean square / (step x deviation)^2"});
  for (const law_of_floor& l : laws) {
    figure_series known{fmt::format("closed form, {}", l.name), series_look::line};
    figure_series found{fmt::format("measured, {}", l.name)};
    for (const std::uint32_t workers : {1U, 2U, 4U, 8U, 16U}) {
      if (workers > l.most) continue;
      const seeds_mean m = mean_over_seeds(options, seeds, [&](std::uint64_t seed) {
        return measured_floor(workers, l.delays, seed, options);
      });
      const double exact = l.exact(workers);
      known.add(workers, exact);
      found.add(workers, m);
      result.expect(fmt::format("floor of {} workers, {}", workers, l.name), "", "closed form", exact, m,
                    (options.quick ? 0.03 : 0.01) * exact);
    }
    f.series.push_back(std::move(known));
    f.series.push_back(std::move(found));
  }
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab

#pragma once

#include <mailgrad/engine/delays/delay_spec.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace mailgrad::testing {

/// The first steps of one worker, each begun when the last has ended.
inline std::vector<double> steps_of(const delay_spec& law, rank worker, std::size_t count,
                                    std::uint64_t seed = 1) {
  const std::unique_ptr<delay_law> times = law.law_of(worker, seed);
  std::vector<double> all;
  double now = 0;
  for (std::uint64_t step = 1; step <= count; ++step) {
    all.push_back(times->seconds(step, now));
    now += all.back();
  }
  return all;
}
inline std::vector<double> steps_of(std::string_view law, std::size_t count, std::uint64_t seed = 1) {
  return steps_of(delay_spec(law, 1), {0}, count, seed);
}

inline double mean_of(const std::vector<double>& all) {
  double sum = 0;
  for (const double x : all) sum += x;
  return sum / static_cast<double>(all.size());
}

/// The standard deviation by the mean.
inline double variation_of(const std::vector<double>& all) {
  const double mean = mean_of(all);
  double squares = 0;
  for (const double x : all) squares += (x - mean) * (x - mean);
  return std::sqrt(squares / static_cast<double>(all.size())) / mean;
}

inline double quantile_of(std::vector<double> all, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(all.size()));
  std::ranges::nth_element(all, all.begin() + at);
  return all[static_cast<std::size_t>(at)];
}

} // namespace mailgrad::testing

#include <mailgrad/lab/theory/order_statistics.hpp>

#include <boost/math/distributions/students_t.hpp>

#include <cmath>
#include <limits>

namespace mailgrad::lab {

double mean_of_kth_exponential(std::uint32_t k, std::uint32_t m) {
  double sum = 0;
  for (std::uint32_t i = 0; i < k; ++i) sum += 1.0 / (m - i);
  return sum;
}

double deviation_of_kth_exponential(std::uint32_t k, std::uint32_t m) {
  double sum = 0;
  for (std::uint32_t i = 0; i < k; ++i) sum += 1.0 / (m - i) / (m - i);
  return std::sqrt(sum);
}

double mean_of_kth_pareto(std::uint32_t k, std::uint32_t m, double alpha) {
  const double left = m - k + 1 - 1 / alpha;
  if (left <= 0) return std::numeric_limits<double>::infinity();
  return std::exp(std::lgamma(m + 1.0) + std::lgamma(left) - std::lgamma(m - k + 1.0) -
                  std::lgamma(m + 1 - 1 / alpha));
}

/// The square of a Pareto time is one with half the exponent, and is the k-th when the time is.
double deviation_of_kth_pareto(std::uint32_t k, std::uint32_t m, double alpha) {
  const double mean = mean_of_kth_pareto(k, m, alpha);
  return std::sqrt(mean_of_kth_pareto(k, m, alpha / 2) - mean * mean);
}

std::uint32_t best_number_to_wait_for(std::uint32_t m, double shift) {
  std::uint32_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  double waits = shift;
  for (std::uint32_t n = 1; n <= m; ++n) {
    waits += 1.0 / (m - n + 1);
    const double seconds = waits / n;
    if (seconds < least) least = seconds, best = n;
  }
  return best;
}

double goodput_of_quorum(std::uint32_t learners, std::uint32_t quorum, double up) {
  double sum = 0, ways = 1; // C(n, u)
  for (std::uint32_t u = 0; u <= learners; ++u) {
    if (u >= quorum) sum += u * ways * std::pow(up, u) * std::pow(1 - up, learners - u);
    ways *= static_cast<double>(learners - u) / (u + 1);
  }
  return sum / learners;
}

double students_quantile(std::uint64_t freedom, double beyond) {
  if (freedom == 0) return std::numeric_limits<double>::infinity();
  const boost::math::students_t law(static_cast<double>(freedom));
  return boost::math::quantile(boost::math::complement(law, beyond / 2));
}

} // namespace mailgrad::lab

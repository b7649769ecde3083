#include <mailgrad/lab/theory.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

// The closed forms and recursions that experiments are compared with, against values that were computed
// elsewhere, to the digits that are known of them.

namespace mailgrad::lab {
namespace {

constexpr double four_digits = 0.51e-4;
constexpr double unstable = std::numeric_limits<double>::infinity();

TEST(FixedDelay, HasTheKnownLargestStableSteps) {
  const std::pair<unsigned, double> known[] = {{0, 2.0000}, {1, 1.0000}, {2, 0.6180},  {3, 0.4450},
                                               {4, 0.3473}, {8, 0.1845}, {16, 0.0952}, {32, 0.0483}};
  for (const auto& [tau, step] : known) {
    EXPECT_NEAR(largest_stable_step(tau), step, four_digits) << tau;
    EXPECT_NEAR(radius_of_fixed_delay(tau, largest_stable_step(tau)), 1, 1e-6) << tau;
  }
}

TEST(FixedDelay, ShrinksJustBelowTheLimitAndGrowsJustAboveIt) {
  struct radii {
    unsigned tau;
    double below, above;
  };
  for (const auto& [tau, below, above] :
       {radii{1, 0.9747, 1.0247}, {2, 0.9852, 1.0143}, {4, 0.9919, 1.0078}, {8, 0.9957, 1.0041}}) {
    EXPECT_NEAR(radius_of_fixed_delay(tau, 0.95 * largest_stable_step(tau)), below, four_digits) << tau;
    EXPECT_NEAR(radius_of_fixed_delay(tau, 1.05 * largest_stable_step(tau)), above, four_digits) << tau;
  }
}

TEST(FixedDelay, HasTheKnownBestSteps) {
  struct best {
    unsigned tau;
    double step, radius;
  };
  for (const auto& [tau, step, radius] : {best{1, 0.2500, 0.5000},
                                          {2, 0.1481, 0.6667},
                                          {4, 0.0819, 0.8000},
                                          {8, 0.0433, 0.8889},
                                          {16, 0.0223, 0.9412}}) {
    const best_rate found = best_of_fixed_delay(tau);
    EXPECT_NEAR(found.step, step, four_digits) << tau;
    EXPECT_NEAR(found.radius, radius, four_digits) << tau;
    for (const double other : {0.9, 1.1})
      EXPECT_GT(radius_of_fixed_delay(tau, other * found.step), found.radius) << tau;
    EXPECT_NEAR(radius_of_fixed_delay(tau, found.step), found.radius, 1e-4) << "a double root, " << tau;
  }
}

TEST(FixedDelay, HasTheKnownLimitsWithMomentum) {
  constexpr unsigned delays[] = {0, 1, 2, 4, 8, 16};
  const std::pair<double, std::vector<double>> known[] = {
      {-0.5, {1.0000, 1.5000, 1.0000, 0.5531, 0.2869, 0.1455}},
      {0.5, {3.0000, 0.5000, 0.2808, 0.1559, 0.0851, 0.0452}},
      {0.9, {3.8000, 0.1000, 0.0512, 0.0265, 0.0139, 0.0075}}};
  for (const auto& [beta, steps] : known)
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double limit = largest_stable_step(delays[i], beta);
      EXPECT_NEAR(limit, steps[i], four_digits) << beta << ", " << delays[i];
      EXPECT_NEAR(radius_of_fixed_delay(delays[i], limit, beta), 1, 1e-6) << beta << ", " << delays[i];
    }
}

/// The best radius of coordinates of curvature 1 and 1/100 at a delay of 3.
TEST(FixedDelay, IsHurtByMomentum) {
  const auto best = [](double beta) {
    double least = 1;
    for (double a = 1e-4; a < 1; a *= 1.01)
      least = std::min(least,
                       std::max(radius_of_fixed_delay(3, a, beta), radius_of_fixed_delay(3, a / 100, beta)));
    return least;
  };
  EXPECT_LT(best(-0.3), best(0));
  EXPECT_LT(best(0), best(0.5));
  EXPECT_LT(best(0.5), best(0.9));
}

TEST(FixedDelay, HasTheKnownFloors) {
  constexpr unsigned delays[] = {0, 1, 2, 4, 8, 15};
  const std::pair<double, std::vector<double>> known[] = {
      {0.05, {10.2564, 10.7831, 11.3389, 12.5516, 15.5079, 23.8016}},
      {0.1, {5.2632, 5.8201, 6.4459, 7.9797, 13.2914, 496.88}},
      {0.2, {2.7778, 3.4091, 4.2398, 7.2259, unstable, unstable}}};
  for (const auto& [a, floors] : known)
    for (std::size_t i = 0; i < floors.size(); ++i)
      if (floors[i] == unstable) {
        EXPECT_EQ(floor_of_fixed_delay(delays[i], a), unstable) << a << ", " << delays[i];
      } else {
        EXPECT_NEAR(floor_of_fixed_delay(delays[i], a), floors[i], floors[i] > 100 ? 0.01 : four_digits)
            << a << ", " << delays[i];
      }
  EXPECT_NEAR(floor_of_fixed_delay(1, 0.3), 1.3 / (0.3 * 0.7 * 2.3), 1e-9) << "(1 + a) / (a (1 - a) (2 + a))";
}

TEST(MemorylessWorkers, MoveInTheMeanAsKnown) {
  const double known[] = {1, 0.5, 0.0625, -0.2734, -0.4912, -0.5931, -0.5954, -0.5227, -0.4029};
  const std::vector<double> x = mean_path(4, 0.5, 8);
  ASSERT_EQ(x.size(), std::size(known));
  for (std::size_t t = 0; t < x.size(); ++t) EXPECT_NEAR(x[t], known[t], four_digits) << t;
  for (std::size_t t = 1; t + 1 < x.size(); ++t)
    EXPECT_NEAR(x[t + 1] - x[t], 0.75 * (x[t] - x[t - 1]) - 0.5 / 4 * x[t], 1e-12)
        << "momentum 1 - 1/M and the step a / M, " << t;
}

/// Explicit and implicit momentum take the same part in the recursion, which has three roots.
TEST(MemorylessWorkers, MoveInTheMeanByTheRootsOfTheirCubic) {
  constexpr double m = 4, a = 0.05, beta = 0.5;
  const std::vector<double> x = mean_path(m, a, 12, beta);
  const double keeps = 1 - 1 / m;
  for (std::size_t t = 1; t + 2 < x.size(); ++t) // (z - 1)(z - beta)(z - 1 + 1/M) + (a / M) z^2 = 0
    EXPECT_NEAR(x[t + 2] - (1 + beta + keeps) * x[t + 1] + (beta + keeps + beta * keeps) * x[t] -
                    beta * keeps * x[t - 1] + a / m * x[t + 1],
                0, 1e-12)
        << t;
}

TEST(MemorylessWorkers, HaveTheKnownLimitsOfTheMeanSquare) {
  const std::pair<double, double> known[] = {{1, 2.0000}, {2, 1.2808},  {3, 1.0000}, {4, 0.8431},
                                             {8, 0.5664}, {16, 0.3862}, {64, 0.1848}};
  for (const auto& [workers, step] : known) {
    EXPECT_NEAR(largest_mean_square_step(workers), step, four_digits) << workers;
    EXPECT_NEAR(mean_square_radius(workers, largest_mean_square_step(workers), 0), 1, 1e-6) << workers;
  }
}

TEST(MemorylessWorkers, HaveTheKnownFloors) {
  const double counts[] = {1, 2, 4, 8, 16};
  const std::pair<double, std::vector<double>> known[] = {
      {0.1, {5.2632, 5.7692, 6.7961, 8.9109, 13.4021}},
      {0.05, {10.2564, 10.7579, 11.7647, 13.7931, 17.9104}}};
  for (const auto& [a, floors] : known)
    for (std::size_t i = 0; i < floors.size(); ++i) {
      EXPECT_NEAR(floor_of_memoryless(counts[i], a), floors[i], four_digits) << a << ", " << counts[i];
      EXPECT_NEAR(mean_square_path(counts[i], a, 0, 1, 20'000).back(), floors[i], four_digits)
          << "the recursion comes to it, " << a << ", " << counts[i];
    }
  EXPECT_NEAR(floor_of_memoryless(8, 0.2), 6.9149, four_digits);
  EXPECT_EQ(floor_of_memoryless(8, 0.57), unstable);
}

/// Eight workers, a = 0.1, noise of deviation 1, from 10 on.
TEST(MemorylessWorkers, HaveTheKnownMeanSquares) {
  const std::vector<double> square = mean_square_path(8, 0.1, 10, 0.1 * 0.1, 800);
  const std::pair<std::size_t, double> known[] = {
      {8, 8.2792}, {16, 1.4838}, {40, 0.4177}, {80, 0.0936}, {800, 0.0891}};
  for (const auto& [t, value] : known) EXPECT_NEAR(square[t], value, four_digits) << t;
}

/// The best explicit momentum falls with the workers and becomes negative. The known figures are the best of
/// a grid of steps, so a finer search is at or below them.
TEST(MemorylessWorkers, WantTheLessMomentumTheMoreTheyAre) {
  struct best {
    double workers, beta, radius, at_09;
  };
  for (const auto& [workers, beta, radius, at_09] : {best{1, 0.70, 0.8367, 0.9487},
                                                     {2, 0.40, 0.9860, 0.9901},
                                                     {4, 0.05, 0.9918, 0.9959},
                                                     {8, -0.15, 0.9946, 0.9977},
                                                     {16, -0.30, 0.9963, 0.9985}}) {
    const auto at = [&, m = workers](double b) { return best_with_momentum(m, b, 100).radius; };
    EXPECT_NEAR(at(beta), radius, 1.1e-4) << workers;
    EXPECT_NEAR(at(0.9), at_09, 3e-4) << workers;
    for (const double other : {beta - 0.15, beta + 0.15})
      EXPECT_GT(at(other), at(beta)) << workers << ", " << other;
  }
}

TEST(OrderStatistics, OfExponentialTimesAreAsKnown) {
  struct row {
    std::uint32_t m;
    double largest, half, three_quarters, all_but_one;
  };
  for (const auto& [m, largest, half, three_quarters, all_but_one] : {row{4, 2.0833, 0.5833, 1.0833, 1.0833},
                                                                      {16, 3.3807, 0.6629, 1.2974, 2.3807},
                                                                      {64, 4.7439, 0.6854, 1.3632, 3.7439}}) {
    EXPECT_NEAR(mean_of_kth_exponential(m, m), largest, four_digits);
    EXPECT_NEAR(mean_of_kth_exponential(m / 2, m), half, four_digits);
    EXPECT_NEAR(mean_of_kth_exponential(3 * m / 4, m), three_quarters, four_digits);
    EXPECT_NEAR(mean_of_kth_exponential(m - 1, m), all_but_one, four_digits);
  }
  const std::pair<std::uint32_t, double> async_over_sync[] = {{4, 8.3333}, {16, 54.0917}, {64, 303.609}};
  for (const auto& [m, ratio] : async_over_sync) EXPECT_NEAR(m * mean_of_kth_exponential(m, m), ratio, 6e-4);
}

TEST(OrderStatistics, OfParetosTimesAreAsKnown) {
  const std::pair<double, std::vector<double>> largest[] = {{1.5, {6.9429, 17.1291, 42.9376}},
                                                            {2, {3.6571, 7.1454, 14.2074}},
                                                            {2.5, {2.6709, 4.5483, 7.8747}},
                                                            {3, {2.2091, 3.4359, 5.4259}}};
  constexpr std::uint32_t workers[] = {4, 16, 64};
  for (const auto& [alpha, means] : largest)
    for (std::size_t i = 0; i < means.size(); ++i)
      EXPECT_NEAR(mean_of_kth_pareto(workers[i], workers[i], alpha), means[i], four_digits) << alpha;
  const std::pair<std::uint32_t, double> all_but_one[] = {{4, 1.8286}, {16, 3.5727}, {64, 7.1037}};
  for (const auto& [m, mean] : all_but_one) EXPECT_NEAR(mean_of_kth_pareto(m - 1, m, 2), mean, four_digits);
  EXPECT_EQ(mean_of_kth_pareto(4, 4, 1), unstable) << "the largest has no mean";
}

TEST(OrderStatistics, TellHowManyWorkersToWaitFor) {
  struct row {
    double shift;
    std::uint32_t of_16, of_64, of_100;
  };
  for (const auto& [shift, of_16, of_64, of_100] : {row{0.5, 10, 37, 58},
                                                    {1, 11, 44, 69},
                                                    {2, 13, 50, 78},
                                                    {5, 14, 57, 88},
                                                    {10, 15, 60, 93},
                                                    {20, 16, 62, 96}}) {
    EXPECT_EQ(best_number_to_wait_for(16, shift), of_16) << shift;
    EXPECT_EQ(best_number_to_wait_for(64, shift), of_64) << shift;
    EXPECT_EQ(best_number_to_wait_for(100, shift), of_100) << shift;
  }
  EXPECT_EQ(best_number_to_wait_for(100, 0), 1u);
  EXPECT_EQ(best_number_to_wait_for(100, 16.09), 95u);
  EXPECT_EQ(best_number_to_wait_for(100, 16.10), 96u);
  EXPECT_EQ(best_number_to_wait_for(100, 20.89), 96u);
  EXPECT_EQ(best_number_to_wait_for(100, 20.90), 97u);
  const std::pair<double, double> in_the_limit[] = {{0.5, 0.5759}, {1, 0.6822},  {2, 0.7780},
                                                    {5, 0.8764},   {10, 0.9265}, {20, 0.9587}};
  for (const auto& [shift, share] : in_the_limit)
    EXPECT_NEAR(best_number_to_wait_for(20'000, shift) / 20'000.0, share, 2e-4) << shift;
}

TEST(Quorum, HasTheKnownGoodput) {
  EXPECT_NEAR(goodput_of_quorum(8, 4, 0.9), 0.899841, 0.51e-6);
  EXPECT_NEAR(goodput_of_quorum(8, 8, 0.9), 0.430467, 0.51e-6) << "0.9^8";
  EXPECT_NEAR(goodput_of_quorum(16, 8, 0.95), 0.950, 0.51e-3);
  EXPECT_NEAR(goodput_of_quorum(4, 3, 0.8), 0.7168, four_digits);
}

/// Of four times and of the fourth of eight, by integrating; 1.4362 and 0.2475 are of Pareto times.
TEST(OrderStatistics, HaveTheKnownDeviations) {
  EXPECT_NEAR(deviation_of_kth_exponential(1, 16), 1.0 / 16, 1e-12) << "as its mean";
  EXPECT_NEAR(deviation_of_kth_exponential(4, 8), 0.3222, four_digits);
  EXPECT_NEAR(deviation_of_kth_pareto(4, 4, 3), 1.4362, four_digits);
  EXPECT_NEAR(deviation_of_kth_pareto(4, 8, 2), 0.2475, four_digits);
  EXPECT_EQ(deviation_of_kth_pareto(4, 4, 2), unstable) << "it has none";
}

/// The table of the handbook.
TEST(StudentsQuantile, HasTheKnownValues) {
  struct known {
    unsigned freedom;
    double beyond, t;
  };
  for (const auto& [freedom, beyond, t] : {known{1, 0.001, 636.619},
                                           {2, 0.001, 31.599},
                                           {3, 0.001, 12.924},
                                           {7, 0.001, 5.408},
                                           {10, 0.05, 2.228},
                                           {15, 0.001, 4.073},
                                           {120, 0.001, 3.373}})
    EXPECT_NEAR(students_quantile(freedom, beyond), t, 0.0006) << freedom;
  EXPECT_EQ(students_quantile(0, 0.001), unstable);
}

} // namespace
} // namespace mailgrad::lab

#include <mailgrad/engine/worker/step_runner.hpp>

#include <mailgrad/engine/account/gradient_ledger.hpp>
#include <mailgrad/tests/engine/layouts.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

namespace mailgrad {
namespace {

using testing::dense_gradient;

std::shared_ptr<gradient> of(const std::vector<float>& values) { return dense_gradient(values); }

TEST(Cosine, IsExactlyOneForTheSameGradient) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto g = of(testing::random_values(37, seed));
    EXPECT_EQ(cosine(*g, *g), 1.0);
  }
}

TEST(Cosine, IsThatOfTheAngle) {
  EXPECT_EQ(cosine(*of({1, 0}), *of({0, 5})), 0.0);
  EXPECT_EQ(cosine(*of({2, 0}), *of({-3, 0})), -1.0);
  EXPECT_NEAR(cosine(*of({1, 0}), *of({7, 7})).value(), std::sqrt(0.5), 1e-12);
}

TEST(Cosine, CountsTheRowsOfTables) {
  const auto a = of({3});
  const auto b = of({3});
  testing::add_rows(*a, 1, 2, {4, 7, -1}, {1, 2, 3, 4, 99, 99});
  testing::add_rows(*b, 1, 2, {4, 7, -1}, {1, 2, -3, -4, -1, -1});
  EXPECT_EQ(cosine(*a, *a), 1.0);
  EXPECT_NEAR(cosine(*a, *b).value(), (9 + 5 - 25) / 39.0, 1e-12)
      << "what follows the end of a list is not read";
  const auto c = of({3});
  testing::add_rows(*c, 1, 2, {4, 8, -1}, {1, 2, 3, 4, 0, 0});
  EXPECT_FALSE(cosine(*a, *c)) << "other rows";
}

TEST(Cosine, CountsWhatFurtherDevicesAddToAllOfAGradient) {
  const auto sum = of({1, 2});
  sum->addends.emplace_back();
  sum->addends[0].values = block(sum->dense.bytes()); // covers all of it, since nothing says otherwise
  std::ranges::copy(of({3, -2})->dense.on_host<float>(), sum->addends[0].values.as<float>().begin());
  EXPECT_EQ(cosine(*sum, *of({4, 0})), 1.0);
}

TEST(Cosine, IsUnknownWhereThereIsNoAngle) {
  EXPECT_FALSE(cosine(*of({0, 0}), *of({1, 2})));
  EXPECT_FALSE(cosine(*of({1, 2}), *of({std::numeric_limits<float>::quiet_NaN(), 1})));
  EXPECT_FALSE(cosine(*of({1, 2}), *of({std::numeric_limits<float>::infinity(), 1})));
}

TEST(GradientComparison, WaitsForTheWeightsThatTheGradientMetOnEveryShard) {
  gradient_comparison c(2);
  const snapshot weights(std::make_shared<memory>(block(64)));
  EXPECT_FALSE(c.ready());
  c.take({0}, {3}, weights);
  EXPECT_FALSE(c.ready()) << "of what nobody asked for";
  c.begin({3}, of({1, 2}));
  c.take({0}, {3}, weights);
  c.take({0}, {3}, weights);
  EXPECT_FALSE(c.ready()) << "shard 1 has not said";
  c.take({1}, {2}, weights);
  EXPECT_FALSE(c.ready()) << "that is of an older gradient";
  c.take({1}, {3}, weights);
  ASSERT_TRUE(c.ready());
  EXPECT_EQ(c.step(), step_number{3});
  c.forget();
  EXPECT_FALSE(c.ready());
}

TEST(GradientComparison, ForgetsWhatIsOvertaken) {
  gradient_comparison c(1);
  const auto first = of({1, 2});
  c.begin({1}, first);
  c.begin({2}, of({1, 2}));
  EXPECT_EQ(first.use_count(), 1);
  c.take({0}, {1}, snapshot(std::make_shared<memory>(block(64))));
  EXPECT_FALSE(c.ready());
}

TEST(RunningStat, KeepsTheLeastAndTheGreatest) {
  running_stat t;
  EXPECT_TRUE(t.empty());
  for (const double x : {0.5, -1.0, 2.0}) t.add(x);
  running_stat all;
  all.merge({});
  all.merge(t);
  EXPECT_EQ(all.count(), 3U);
  EXPECT_EQ(all.least(), -1.0);
  EXPECT_EQ(all.greatest(), 2.0);
  EXPECT_EQ(all.mean(), 0.5);
}

} // namespace
} // namespace mailgrad

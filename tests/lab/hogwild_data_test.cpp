#include <mailgrad/tests/lab/lab_runs.hpp>

#include <mailgrad/data/open.hpp>
#include <mailgrad/lab/experiment.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

// The experiment on threads that write without locks, on data that it is given.

namespace mailgrad::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

experiment_result hogwild_on(data_split data) {
  const auto found = std::ranges::find(experiments(), "hogwild", &experiment::name);
  EXPECT_TRUE(found->takes_data);
  experiment_options o;
  o.quick = true;
  o.data = std::make_shared<const data_split>(std::move(data));
  experiment_result r;
  found->run(o, r);
  return r;
}

TEST(HogwildExperiment, TakesDataAndThenComparesSpeeds) {
  const experiment_result r = hogwild_on(*testing::small_data(40));
  ASSERT_EQ(r.claims.size(), 3U);
  EXPECT_TRUE(r.claims[1].holds()) << "gradients not written";
  EXPECT_THAT(r.claims[2].name, HasSubstr("speed"));
  EXPECT_GT(r.claims[2].measured, 0);
  ASSERT_EQ(r.figures.size(), 2U);
  EXPECT_EQ(r.figures[1].x.marks.size(), 3U);
}

TEST(HogwildExperiment, RefusesDataWithoutClasses) {
  const dataset numbers(float_features{{1}, {1, 2}}, {0.5F, 1.5F});
  EXPECT_THAT(
      [&] {
        hogwild_on({numbers, numbers, "heights", {}});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("--data: 'heights' has no classes")));
}

/// 0.906 is the accuracy of logistic regression by plain SGD after three epochs.
TEST(HogwildExperiment, IsAsAccurateAsOneWorkerOnFarmAds) {
  const char* given = std::getenv("MAILGRAD_DATA");
  const std::filesystem::path folder = std::filesystem::path(given ? given : MAILGRAD_DATA_DIR) / "farm-ads";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no real data set farm-ads";
  const experiment_result r = hogwild_on(open_data(folder.string(), {}));
  EXPECT_NEAR(r.claims[0].expected, 0.906, 0.02);
  EXPECT_NEAR(r.claims[0].measured, 0.906, 0.02);
  EXPECT_TRUE(r.claims[1].holds());
}

} // namespace
} // namespace mailgrad::lab

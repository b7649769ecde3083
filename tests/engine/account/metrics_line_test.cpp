#include <mailgrad/engine/account/metrics_line.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

metrics_line some_line() {
  metrics_line x;
  x.time_s = 1.5;
  x.steps = 20;
  x.updates = 19;
  x.samples = 1280;
  x.epoch = 0.5;
  x.train_loss = 0.25;
  x.learning_rate = 0.01;
  x.staleness_mean = 0.75;
  x.staleness_p99 = 2;
  x.computed = 21;
  x.applied = 15;
  x.merged = 4;
  x.discarded = 1;
  x.samples_per_s = 1000;
  x.waiting_s = 0.125;
  return x;
}

TEST(MetricsLine, HasTheseFieldsInThisOrder) {
  EXPECT_EQ(to_json(some_line()),
            R"({"time_s":1.5,"steps":20,"updates":19,"samples":1280,"epoch":0.5,"train_loss":0.25,)"
            R"("learning_rate":0.01,"staleness_mean":0.75,"staleness_p99":2,"computed":21,"applied":15,)"
            R"("merged":4,"discarded":1,"samples_per_s":1000.0,"waiting_s":0.125})");
}

TEST(MetricsLine, TellsATestWhereThereWasOne) {
  metrics_line x = some_line();
  x.test_loss = 0.5;
  x.test_accuracy = 0.875;
  EXPECT_THAT(to_json(x), HasSubstr(R"("waiting_s":0.125,"test_loss":0.5,"test_accuracy":0.875})"));
  x.test_accuracy.reset();
  x.test_rmse = 3;
  EXPECT_THAT(to_json(x), HasSubstr(R"("test_loss":0.5,"test_rmse":3.0})"));
}

TEST(MetricsLine, TellsATestOnSamplesThatAreHeldOut) {
  metrics_line x = some_line();
  EXPECT_FALSE(x.tested());
  x.validation_loss = 0.5;
  x.validation_accuracy = 0.75;
  EXPECT_TRUE(x.tested());
  EXPECT_THAT(to_json(x),
              HasSubstr(R"("waiting_s":0.125,"validation_loss":0.5,"validation_accuracy":0.75})"));
}

TEST(MetricsLine, LeavesUnknownFiguresEmpty) {
  metrics_line x = some_line();
  x.train_loss = std::numeric_limits<double>::infinity();
  x.staleness_mean.reset();
  x.staleness_p99.reset();
  const auto read = nlohmann::json::parse(to_json(x));
  EXPECT_TRUE(read["train_loss"].is_null());
  EXPECT_TRUE(read["staleness_mean"].is_null());
  EXPECT_EQ(to_csv(x), "1.5,20,19,1280,0.5,,0.01,,,21,15,4,1,1000.0,0.125,,,,,,");
  EXPECT_EQ(
      metrics_csv_header(),
      "time_s,steps,updates,samples,epoch,train_loss,learning_rate,staleness_mean,staleness_p99,computed,"
      "applied,merged,discarded,samples_per_s,waiting_s,test_loss,test_accuracy,test_rmse,validation_loss,"
      "validation_accuracy,validation_rmse");
}

} // namespace
} // namespace mailgrad

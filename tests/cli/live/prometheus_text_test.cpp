#include <mailgrad/cli/live/prometheus_text.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

training_report small_report() {
  training_report r;
  r.ended = "running";
  r.workers = 2;
  r.steps = 7;
  r.samples = 70;
  r.ledger = {10, 5, 2, {{"too stale", 1}}, 0};
  exchange_figures x{0, 1, {}, {}, {}};
  x.gaps.count(0, 3);
  x.gaps.count(5, 2);
  x.gaps.count(1000, 1);
  r.exchanges = {x};
  r.worker_waits = {{1.5, 0, 0.25}, {}};
  r.checkpoints = checkpoint_account{.written = 3};
  return r;
}

TEST(PrometheusText, TellsCountsWithTheirLabels) {
  const std::string text = prometheus_text(small_report(), metrics_line{.train_loss = 0.5}, "mlp");
  for (const char* line :
       {"mailgrad_steps_total 7\n", "mailgrad_gradients_total{fate=\"applied\"} 5\n",
        "mailgrad_gradients_total{fate=\"discarded\",reason=\"too stale\"} 1\n",
        "mailgrad_gradients_under_way 2\n", "mailgrad_wait_seconds_total{worker=\"0\",for=\"barrier\"} 1.5\n",
        "mailgrad_train_loss 0.5\n", "mailgrad_checkpoints_total{result=\"written\"} 3\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

/// A bucket counts all gaps up to its end.
TEST(PrometheusText, TellsStalenessAsAHistogram) {
  const std::string text = prometheus_text(small_report(), {}, "mlp");
  for (const char* line :
       {"_bucket{worker=\"1\",le=\"0\"} 3\n", "_bucket{worker=\"1\",le=\"4\"} 3\n",
        "_bucket{worker=\"1\",le=\"6\"} 5\n", "_bucket{worker=\"1\",le=\"256\"} 5\n",
        "_bucket{worker=\"1\",le=\"+Inf\"} 6\n", "_sum{worker=\"1\"} 1010\n", "_count{worker=\"1\"} 6\n"})
    EXPECT_THAT(text, HasSubstr(std::string("mailgrad_staleness_versions") + line));
}

TEST(PrometheusText, HasNoLineForWhatIsUnknown) {
  training_report r = small_report();
  r.worker_waits.clear();
  r.checkpoints.reset();
  const std::string text = prometheus_text(r, {}, "mlp");
  for (const char* name : {"train_loss", "test_accuracy", "wait_seconds", "checkpoints"})
    EXPECT_THAT(text, Not(HasSubstr(std::string("mailgrad_") + name)));
}

/// A parameter host stands still, before its shards have told anything, or later.
TEST(PrometheusText, TellsNothingThatAShardWouldKnow) {
  training_report r = small_report();
  r.shards = 1;
  r.exchanges.clear();
  r.updates = 0;
  r.late = {{0, {}}};
  const std::string none = prometheus_text(r, {}, "mlp");
  for (const char* name : {"updates_total", "gradients_total", "staleness_versions", "late_shard_seconds"})
    EXPECT_THAT(none, Not(HasSubstr(std::string("mailgrad_") + name)));
  r.late = {{0, 1.5}};
  const std::string old = prometheus_text(r, {}, "mlp");
  EXPECT_THAT(old, HasSubstr("mailgrad_updates_total 0\n"));
  EXPECT_THAT(old, HasSubstr("mailgrad_late_shard_seconds{shard=\"0\"} 1.5\n"));
}

TEST(PrometheusText, LetsNoTextLeaveItsLabel) {
  const std::string text = prometheus_text(small_report(), {}, "a\"b\\c\nd");
  EXPECT_THAT(text, HasSubstr("model=\"a\\\"b\\\\c\\nd\""));
}

/// Every line is a comment or a sample of the metric that the comments before it name, and none comes twice.
TEST(PrometheusText, NamesEachMetricOnceBeforeItsLines) {
  std::istringstream lines(prometheus_text(small_report(), metrics_line{.train_loss = 0.5}, "mlp"));
  std::set<std::string> named;
  std::string metric;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, kind, name;
    words >> hash >> kind >> name;
    if (hash == "#" && kind == "HELP") {
      EXPECT_TRUE(named.insert(name).second) << line;
      metric = name;
    } else {
      EXPECT_THAT(line, ::testing::AnyOf(::testing::StartsWith(metric),
                                         ::testing::StartsWith("# TYPE " + metric + ' ')));
    }
  }
}

} // namespace
} // namespace mailgrad

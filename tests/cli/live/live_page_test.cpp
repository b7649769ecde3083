#include <mailgrad/cli/live/live_page.hpp>

#include <mailgrad/tests/cli/tool.hpp>

#include <chrono>
#include <regex>
#include <set>

namespace mailgrad::testing {
namespace {

/// Of two workers of which each made half of the updates.
training_report half_each() {
  training_report r;
  r.ended = "running";
  r.workers = 2;
  r.updates = 10;
  r.policy = "async, sync@100";
  r.present_policy = "async";
  for (const std::uint32_t worker : {0U, 1U}) {
    exchange_figures x{0, worker, {}, {}, {}};
    x.gaps.count(1, 5);
    r.exchanges.push_back(x);
  }
  return r;
}

TEST(StateEvent, ExpectsWhatThePolicyOfNowLetsExpectUntilItIsSwitched) {
  training_report r = half_each();
  EXPECT_EQ(json::parse(state_event(r, {}))["expected"][1]["mean"], 1.0) << "a switch is still to come";
  r.present_policy = "sync";
  r.switches = {{100, "async", "sync", "planned for step 100"}};
  EXPECT_TRUE(json::parse(state_event(r, {}))["expected"][1]["mean"].is_null()) << "gaps are of both";
}

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

TEST(PrometheusText, TellsTheTimeOfEachPartOfTheWay) {
  training_report r = small_report();
  int seconds = 0;
  for (duration_stat* part :
       {&r.times.read, &r.times.compute, &r.times.wire, &r.times.mailbox, &r.times.apply})
    part->add(std::chrono::seconds{++seconds});
  const std::string text = prometheus_text(r, {}, "mlp");
  for (const char* line : {"read\"} 1\n", "compute\"} 2\n", "wire\"} 3\n", "mailbox\"} 4\n", "apply\"} 5\n"})
    EXPECT_THAT(text, HasSubstr(std::string("mailgrad_gradient_seconds_total{part=\"") + line));
}

TEST(PrometheusText, NamesThePolicyOfNow) {
  training_report r = small_report();
  r.policy = "async, sync@20";
  r.present_policy = "sync";
  EXPECT_THAT(prometheus_text(r, {}, "mlp"), HasSubstr(",policy=\"sync\","));
}

TEST(PrometheusText, CountsMembersByTheirState) {
  training_report r = small_report();
  EXPECT_THAT(prometheus_text(r, {}, "mlp"), Not(HasSubstr("mailgrad_member"))) << "workers are threads";
  r.members = {
      {"worker", 0}, {"worker", 1, 2}, {"worker", 2, 1, run_member::state::lost}, {"parameter host", 0}};
  r.members[1].losses = 2;
  r.members[2].losses = 1;
  const std::string text = prometheus_text(r, {}, "mlp");
  for (const char* line : {"mailgrad_members{role=\"worker\",state=\"joined\"} 2\n",
                           "mailgrad_members{role=\"worker\",state=\"left\"} 0\n",
                           "mailgrad_members{role=\"worker\",state=\"lost\"} 1\n",
                           "mailgrad_members{role=\"parameter host\",state=\"joined\"} 1\n",
                           "mailgrad_member_losses_total{role=\"worker\"} 3\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

/// Of a run that has every figure there is.
std::string all_there_is() {
  training_report r = small_report();
  r.members = {{"worker", 0}};
  r.late = {{0, 1.5}};
  r.times.compute.add(std::chrono::seconds{1});
  metrics_line tested{.train_loss = 0.5};
  for (auto figure :
       {&metrics_line::test_loss, &metrics_line::test_accuracy, &metrics_line::test_rmse,
        &metrics_line::validation_loss, &metrics_line::validation_accuracy, &metrics_line::validation_rmse})
    tested.*figure = 0.5;
  r.curve = {tested};
  return prometheus_text(r, tested, "mlp");
}

/// Names of metrics in a text; those of the parts of a histogram are that of the histogram.
std::set<std::string> metrics_in(const std::string& text) {
  static const std::regex name("mailgrad_[a-z_]+"), part("_(bucket|sum|count)$");
  std::set<std::string> all;
  for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at)
    all.insert(std::regex_replace(at->str(), part, ""));
  return all;
}

/// Names in the sources, each behind the word that begins a metric.
std::set<std::string> metrics_of_source() {
  const std::string source = content_of(MAILGRAD_PROMETHEUS_SOURCE) + content_of(MAILGRAD_FIGURES);
  static const std::regex begun(R"re((?:metric\(|metric = | test\()"([a-z_]+)")re");
  std::set<std::string> all;
  for (std::sregex_iterator at(source.begin(), source.end(), begun), end; at != end; ++at)
    all.insert("mailgrad_" + at->str(1));
  return all;
}

TEST(PrometheusText, IsDrawnByTheDashboardWhichAsksForNothingElse) {
  EXPECT_EQ(metrics_in(all_there_is()), metrics_of_source()) << "this test must know of every metric";
  EXPECT_EQ(metrics_in(content_of(MAILGRAD_MONITORING "/mailgrad-dashboard.json")), metrics_of_source());
}

TEST(PrometheusText, IsAskedForWhereTheToolTellsIt) {
  const std::string asks = content_of(MAILGRAD_MONITORING "/prometheus.yml");
  EXPECT_THAT(asks, Not(HasSubstr("metrics_path"))) << "the usual one, /metrics";
  EXPECT_THAT(asks, HasSubstr("\"127.0.0.1:8080\"")) << "where --live listens";
  const auto board = json::parse(content_of(MAILGRAD_MONITORING "/mailgrad-dashboard.json"));
  std::set<int> numbers;
  for (const auto& panel : board.at("panels")) {
    EXPECT_TRUE(numbers.insert(panel.at("id").get<int>()).second) << panel.at("title");
    for (const auto& asked : panel.at("targets"))
      EXPECT_THAT(asked.at("expr").get<std::string>(), HasSubstr("{instance=~\"$run\"")) << panel.at("title");
  }
}

/// Every line is a comment or a sample of the metric that the comments before it name, and none comes twice.
TEST(PrometheusText, NamesEachMetricOnceBeforeItsLines) {
  std::set<std::string> named;
  std::string metric;
  for (const std::string& line :
       lines_of(prometheus_text(small_report(), metrics_line{.train_loss = 0.5}, "mlp"))) {
    std::istringstream parts(line);
    std::string hash, kind, name;
    parts >> hash >> kind >> name;
    if (hash == "#" && kind == "HELP") {
      EXPECT_TRUE(named.insert(name).second) << line;
      metric = name;
    } else {
      EXPECT_THAT(line, AnyOf(StartsWith(metric), StartsWith("# TYPE " + metric + ' ')));
    }
  }
}

} // namespace
} // namespace mailgrad::testing

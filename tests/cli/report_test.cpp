#include <mailgrad/tests/cli/report_page.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

// What the page and the pictures show. report_refusals_test.cpp has the reports that are refused.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using testing::browser;
using testing::content_of;
using testing::count_of;
using ::testing::HasSubstr;
using testing::json;
using ::testing::Not;
using testing::ReportPage;
using ::testing::StartsWith;
using testing::tool;

TEST_F(ReportPage, HoldsEveryFigureOfTheRun) {
  const json r = trained();
  const std::string html = page({written("run.json", r)});
  const json told = told_in(html)["runs"][0];
  EXPECT_EQ(told["file"], path("run.json"));
  const json report = told["state"]["report"];
  for (const auto& [name, figure] : r.items()) EXPECT_EQ(report[name], figure) << name;
  for (const json& law : told["state"]["expected"]) EXPECT_FALSE(law["geometric"].is_null());
  for (const char* title :
       {"Loss", "Staleness of each worker", "Where workers spend their time", "The way of a gradient"})
    EXPECT_THAT(html, HasSubstr("<h2>" + std::string(title) + "</h2>"));
}

/// As the live page shows them.
TEST_F(ReportPage, ShowsItsFiguresInABrowser) {
  json r = trained();
  r["curve"] = curve();
  page({written("run.json", r)});
  browser* const shown = opened();
  if (!shown) GTEST_SKIP() << "there is no chromium here";
  EXPECT_EQ(shown->text_of("status"), "the run has ended: completed");
  EXPECT_EQ(shown->value("Chart.getChart('loss').data.datasets.map((set) => set.data.length)"),
            (json{20, 0, 4}));
  EXPECT_THAT(shown->text_of("facts"),
              AllOf(HasSubstr("run.json"), HasSubstr(r["parameters_sha256"].get<std::string>()),
                    HasSubstr("samples/s"), HasSubstr("steps, updates40, 40")));
  EXPECT_THAT(shown->text_of("ledger"), HasSubstr("applied40100.0 %"));
  EXPECT_THAT(shown->text_of("panel-1"), ::testing::StartsWith("worker 1: mean "));
  EXPECT_EQ(shown->value("[...document.querySelectorAll('.live')].some((x) => x.offsetParent)"), false)
      << "nothing of a run that goes on";
}

TEST_F(ReportPage, DrawsSampledGradients) {
  json r = trained();
  for (int i = 0; i < 6; ++i)
    r["sampled"].push_back({{"shard", 0},
                            {"worker", 1},
                            {"step", i},
                            {"lag", i % 3},
                            {"gap", 0.25 * i},
                            {"cosine", i == 5 ? json() : json(1 - 0.3 * i)}});
  EXPECT_EQ(told_in(page({written("run.json", r)}))["runs"][0]["state"]["report"]["sampled"].size(), 6U);
  tool t({"report", path("run.json"), "--svg", path("pictures")});
  EXPECT_EQ(t.code(), 0) << t.err();
  for (const char* name : {"gap-lag.svg", "cosine-gap.svg"})
    EXPECT_TRUE(std::filesystem::exists(path("pictures") + "/" + name)) << name;
  browser* const shown = opened();
  if (!shown) GTEST_SKIP() << "there is no chromium here";
  EXPECT_EQ(shown->value("Chart.getChart('lag').data.datasets[0].data.length"), 6);
  EXPECT_EQ(shown->value("Chart.getChart('cosine').data.datasets[0].data.length"), 5);
}

TEST_F(ReportPage, NeedsNothingFromElsewhere) {
  json r = trained();
  r["curve"] = curve();
  const std::string html = page({written("run.json", r)});
  EXPECT_THAT(html, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, HasSubstr("default-src 'none'; script-src 'unsafe-inline'"));
  for (const char* part : {"<script src", "rel=\"stylesheet\"", "<img", "src=", "@import", "url(http"})
    EXPECT_EQ(count_of(html, part), 0U) << part;
}

TEST_F(ReportPage, GoesToStandardOutput) {
  tool t({"report", written("run.json", trained()), "--out", "-"});
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(), AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("</html>\n")));
}

/// Two parts of one page may not have the same name.
TEST_F(ReportPage, NamesEveryPartOnce) {
  const std::string html = page({written("run.json", trained())});
  for (const char* id : {"loss", "facts", "staleness", "times-table", "kept-runs"})
    EXPECT_EQ(count_of(html, " id=\"" + std::string(id) + '"'), 1U) << id;
}

TEST_F(ReportPage, ShowsTextsAsTheyAre) {
  json r = trained();
  const std::string trap =
      "<script>alert(1)</script> & 'q' \"d\" `touch " + path("trap") + "` $(x) %s \xC3\xA4\n\x1b";
  for (const char* name : {"model", "data", "policy", "host", "why", "optimizer"}) r[name] = trap;
  r["switches"] = json::array({{{"step", 10}, {"from", trap}, {"to", "sync"}, {"why", trap}}});
  r["curve"] = curve();
  const std::string html = page({written("run <&>.json", r)});
  EXPECT_EQ(count_of(html, "<script>alert"), 0U);
  EXPECT_THAT(html, HasSubstr("run &lt;&amp;&gt;.json</title>"));
  const json told = told_in(html)["runs"][0];
  EXPECT_EQ(told["state"]["report"]["host"], trap);
  EXPECT_EQ(told["state"]["report"]["switches"][0]["why"], trap);
  EXPECT_FALSE(std::filesystem::exists(path("trap")));
  browser* const shown = opened();
  if (!shown) GTEST_SKIP() << "there is no chromium here";
  EXPECT_THAT(shown->text_of("facts"), HasSubstr("<script>alert(1)</script> & 'q' \"d\" `touch "));
  EXPECT_EQ(shown->value("document.querySelectorAll('td script').length"), 0);
}

TEST_F(ReportPage, NamesWhoWasLostAndThePolicyOfTheEnd) {
  json r = trained();
  r["switches"] = json::array({{{"step", 10}, {"from", "async"}, {"to", "ssp:7"}, {"why", "asked for"}}});
  r["present_policy"] = "ssp:7";
  const auto member = [](int number, const char* state, int losses, const char* why) {
    return json{{"role", "worker"}, {"number", number}, {"state", state}, {"losses", losses}, {"why", why}};
  };
  r["members"]["listed"] = {member(0, "done", 0, ""), member(1, "lost", 1, "it was killed"),
                            member(2, "done", 2, "no sign of life")};
  page({written("run.json", r)});
  browser* const shown = opened();
  if (!shown) GTEST_SKIP() << "there is no chromium here";
  EXPECT_THAT(shown->text_of("what"), HasSubstr(" · ssp:7 · "));
  EXPECT_THAT(shown->text_of("facts"),
              AllOf(HasSubstr("policyssp:7"), HasSubstr("policy as asked forasync"),
                    HasSubstr("lostworker 1: it was killed; worker 2, which is back: no sign of life"),
                    Not(HasSubstr("worker 0: "))));
  EXPECT_THAT(shown->text_of("members"), HasSubstr("worker 1lost"));
}

TEST_F(ReportPage, DrawsLossAndAccuracyOverTheCurve) {
  json r = trained();
  r["curve"] = curve();
  tool t({"report", written("run.json", r), "--svg", path("svg"), "--png", path("png")});
  ASSERT_EQ(t.code(), 0) << t.err();
  for (const char* name : {"loss-time", "loss-updates", "loss-samples", "accuracy-time", "staleness-1",
                           "time-workers", "time-gradient"}) {
    EXPECT_THAT(content_of(path("svg/" + std::string(name) + ".svg")), StartsWith("<?xml")) << name;
    EXPECT_THAT(content_of(path("png/" + std::string(name) + ".png")), StartsWith("\x89PNG")) << name;
  }
  EXPECT_THAT(content_of(path("svg/loss-time.svg")),
              AllOf(HasSubstr("time [s]"), HasSubstr(">loss<"), HasSubstr("async, training"),
                    HasSubstr("async, test")));
  EXPECT_THAT(content_of(path("svg/accuracy-time.svg")), HasSubstr("accuracy [share of samples]"));
}

TEST_F(ReportPage, MarksCountsExactly) {
  json r = trained();
  r["curve"] = curve();
  for (json& point : r["curve"]) point["updates"] = 70 * point["updates"].get<int>();
  tool t({"report", written("run.json", r), "--svg", path("svg")});
  ASSERT_EQ(t.code(), 0) << t.err();
  const std::string svg = content_of(path("svg/loss-updates.svg"));
  for (const char* mark : {">500<", ">1k<", ">1.5k<", ">2k<", ">2.5k<", ">3k<"})
    EXPECT_EQ(count_of(svg, mark), 1U) << mark;
}

TEST_F(ReportPage, SaysWhatAnOlderReportLacks) {
  const std::string html = page({written("old.json", trained())});
  EXPECT_THAT(told_in(html)["loss_words"].get<std::string>(),
              StartsWith("There is no loss to draw. Run 1 is not shown: its report has no field 'curve'"));
}

/// As of numbers: they have an error, and no accuracy. The last point was told a little late.
TEST_F(ReportPage, DrawsTheErrorOfPredictedNumbers) {
  json r = trained();
  r["curve"] = curve();
  for (json& point : r["curve"]) {
    if (point.contains("test_accuracy")) point["test_rmse"] = point["test_loss"];
    point.erase("test_accuracy");
  }
  r["curve"].back()["time_s"] = r["curve"][18]["time_s"].get<double>() - 0.01;
  r["curve"][3]["train_loss"] = nullptr; // nothing was trained since
  r["test_accuracy"] = nullptr;
  r["test_rmse"] = 0.25;
  const json told = told_in(page({written("run.json", r)}))["runs"][0]["curve"];
  EXPECT_EQ(told.back()["time_s"], told[18]["time_s"]) << "no time goes back";
  tool t({"report", path("run.json"), "--svg", path("svg")});
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(content_of(path("svg/rmse-time.svg")), HasSubstr("RMSE [unit of the targets]"));
  EXPECT_FALSE(std::filesystem::exists(path("svg/accuracy-time.svg")));
  browser* const shown = opened();
  if (!shown) GTEST_SKIP() << "there is no chromium here";
  EXPECT_EQ(shown->text_of("quality-title"), "Error on samples not trained on");
  EXPECT_THAT(shown->text_of("facts"), AllOf(HasSubstr("test RMSE0.25"), Not(HasSubstr("test accuracy"))));
}

TEST_F(ReportPage, SetsRunsSideBySide) {
  json first = trained(), second = trained("sync");
  first["curve"] = curve();
  const std::string html = page({written("a.json", first), written("b.json", second)});
  const json told = told_in(html);
  EXPECT_EQ(told["runs"][0]["label"], "1: async");
  EXPECT_EQ(told["runs"][1]["label"], "2: sync");
  EXPECT_THAT(told["loss_words"].get<std::string>(),
              HasSubstr("Run 2 is not shown: its report has no field 'curve'"));
  EXPECT_EQ(told["runs"][1]["state"]["expected"][0]["in_words"], "Under this policy no gradient is stale.");
  browser* const shown = opened();
  if (!shown) GTEST_SKIP() << "there is no chromium here";
  EXPECT_THAT(shown->text_of("facts"), StartsWith("1: async2: sync"));
  EXPECT_THAT(shown->text_of("ledger"), AllOf(HasSubstr("applied400"), HasSubstr("merged040")));
  EXPECT_THAT(shown->text_of("panel-2"), StartsWith("2: sync, worker 0: mean 0, 0 expected"));
  EXPECT_EQ(shown->value("Chart.getChart('loss').data.datasets.length"), 6);
}

/// A worker that makes three of four updates is on average a third of an update behind, the other one three.
TEST_F(ReportPage, ExpectsTheStalenessThatCountingGives) {
  json r = trained();
  const json gaps = {json::array({json::array({0, 20}), json::array({1, 10})}),
                     json::array({json::array({3, 10})})};
  r["updates"] = 40;
  r["shards"] = 1;
  r["staleness"]["histogram"] =
      json::array({json::array({0, 20}), json::array({1, 10}), json::array({3, 10})});
  r["staleness"]["mean"] = 1.0;
  r["staleness"]["per_shard"] =
      json::array({{{"shard", 0}, {"worker", 0}, {"mean", 1.0 / 3}, {"histogram", gaps[0]}},
                   {{"shard", 0}, {"worker", 1}, {"mean", 3.0}, {"histogram", gaps[1]}}});
  tool t({"report", written("run.json", r), "--svg", path("svg")});
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(content_of(path("svg/staleness-1.svg")),
              AllOf(HasSubstr("mean 0.33, expected 0.33"), HasSubstr("mean 3.00, expected 3.00"),
                    HasSubstr("mean expected"), HasSubstr("law of random steps")));
}

TEST_F(ReportPage, ExpectsOfEachPolicyWhatItsPageSays) {
  json r = trained();
  const auto expected = [this](const json& report) {
    const json laws = told_in(page({written("run.json", report)}))["runs"][0]["state"]["expected"];
    EXPECT_EQ(laws.size(), 2U);
    return laws;
  };
  const std::vector<std::pair<std::string, std::string>> known{{"k-batch-async:2", ", expected 0.50"},
                                                               {"k-async:1", ", expected 1.00"},
                                                               {"k-async:2", ", expected 0.00"},
                                                               {"queue:2,4", ", expected 2.00"},
                                                               {"ssp:3", ", at most 1.00"},
                                                               {"hogwild", ", at most 1.00"},
                                                               {"ringmaster:6", ", at most 5.00"},
                                                               {"rennala:4", ", expected 0.00"},
                                                               {"malenia:4", ", expected 0.00"},
                                                               {"ringleader", ", at most 2.00"},
                                                               {"backup:1", ", expected 0.00"}};
  for (const auto& [policy, says] : known) {
    r["policy"] = policy;
    for (const json& law : expected(r)) {
      const char* const what = law["at_most"] == true ? ", at most " : ", expected ";
      std::array<char, 32> mean{};
      std::snprintf(mean.data(), mean.size(), "%.2f", law["mean"].get<double>());
      EXPECT_EQ(what + std::string(mean.data()), says) << policy;
    }
  }
  for (const char* policy : {"auto", "k-async:many", "async, sync@9", "./libmine.so:1", "async by mine"}) {
    r["policy"] = policy;
    for (const json& law : expected(r)) EXPECT_TRUE(law["mean"].is_null()) << policy;
  }
}

TEST_F(ReportPage, TellsWhereTheTimeOfEachWorkerWent) {
  json r = trained();
  r["wall_seconds"] = 8;
  for (json& each : r["time_split"]["per_shard"]) each["compute"]["seconds"] = each["worker"] == 0 ? 4 : 6;
  r["wait_seconds"]["per_worker"] =
      json::array({{{"worker", 0}, {"barrier", 1}, {"bound", 0.5}, {"feeder", 0.25}},
                   {{"worker", 1}, {"barrier", 3}, {"bound", 0}, {"feeder", 0}}});
  page({written("run.json", r)});
  browser* const shown = opened();
  if (!shown) GTEST_SKIP() << "there is no chromium here";
  EXPECT_THAT(shown->text_of("times-table"),
              AllOf(HasSubstr("050.0012.506.253.1328.13"), HasSubstr("175.0037.500.000.000.00")));
}

/// Where a picture has this mark, also in its legend.
std::vector<std::pair<double, double>> places_of(const std::string& svg, const std::string& mark) {
  std::vector<std::pair<double, double>> places;
  const std::string start = "href='#" + mark + "' transform='translate(";
  for (std::size_t at = svg.find(start); at != std::string::npos; at = svg.find(start, at + 1)) {
    auto& [x, y] = places.emplace_back();
    EXPECT_EQ(std::sscanf(svg.c_str() + at + start.size(), "%lf,%lf", &x, &y), 2);
  }
  return places;
}

/// A switch half-way between the two points of a curve.
TEST_F(ReportPage, MarksASwitchWhereItWasOnTheCurve) {
  json r = trained();
  r["curve"] = curve();
  r["curve"].erase(r["curve"].begin() + 2, r["curve"].end());
  r["switches"] = json::array({{{"step", 3}, {"from", "async"}, {"to", "sync"}, {"why", "asked for"}}});
  tool t({"report", written("run.json", r), "--svg", path("svg")});
  ASSERT_EQ(t.code(), 0) << t.err();
  const std::string svg = content_of(path("svg/loss-updates.svg"));
  const auto points = places_of(svg, "gpPt6"), stars = places_of(svg, "gpPt2");
  ASSERT_EQ(points.size(), 3U) << "two, and that of the legend";
  ASSERT_EQ(stars.size(), 2U) << "one, and that of the legend";
  double nearest = 1e9;
  for (const auto& a : points)
    for (const auto& b : points)
      for (const auto& star : stars)
        if (a != b)
          nearest = std::min(nearest, std::abs((a.first + b.first) / 2 - star.first) +
                                          std::abs((a.second + b.second) / 2 - star.second));
  EXPECT_LT(nearest, 0.1) << "pixels";
}

/// As of a hundred workers of which some are slow.
TEST_F(ReportPage, ShowsNearlyAllGapsHoweverLongTheyAre) {
  json report = trained();
  json& first = report["staleness"]["per_shard"][0];
  const std::uint64_t count = first["histogram"].get<std::vector<std::array<std::uint64_t, 2>>>().size();
  ASSERT_GT(count, 0U);
  for (json* of : {&report["staleness"], &first}) {
    std::uint64_t all = 0;
    for (const json& pair : (*of)["histogram"]) all += pair[1].get<std::uint64_t>();
    (*of)["histogram"] = {{0, 1}, {5'200, all - 1}};
    (*of)["mean"] = 5'200.0 * static_cast<double>(all - 1) / static_cast<double>(all);
    (*of)["p50"] = (*of)["p99"] = (*of)["max"] = 5'200;
  }
  page({written("run.json", report)});
  browser* const shown = opened();
  if (!shown) GTEST_SKIP() << "there is no chromium here";
  EXPECT_THAT(shown->text_of("staleness-words"),
              AllOf(HasSubstr("A box stands for 6 gaps."), Not(HasSubstr("beyond the axis"))));
}

TEST_F(ReportPage, SaysThatTimeIsVirtual) {
  json report = trained();
  report["delays"] = {{"law", "1"}, {"seed", 1}, {"virtual_time", true}};
  page({written("run.json", report)});
  browser* const shown = opened();
  if (!shown) GTEST_SKIP() << "there is no chromium here";
  EXPECT_THAT(shown->text_of("facts"),
              AllOf(HasSubstr("virtual time"), HasSubstr("samples a virtual second")));
}

TEST_F(ReportPage, KnowsNoLawWherePoliciesChange) {
  const json state = told_in(page({written("run.json", trained("async, ssp:1@20"))}))["runs"][0]["state"];
  EXPECT_EQ(state["expected"][0]["in_words"], "The policy changed in mid-run, so no single law holds.");
  EXPECT_TRUE(state["expected"][0]["mean"].is_null());
  EXPECT_EQ(state["report"]["switches"][0]["why"], "planned for step 20");
}

} // namespace
} // namespace mailgrad

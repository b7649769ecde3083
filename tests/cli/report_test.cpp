#include <mailgrad/tests/cli/report_page.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

// What the page and the pictures show. report_refusals_test.cpp has the reports that are refused.

namespace mailgrad {
namespace {

using ::testing::AllOf;
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
  for (const char* name : {"model", "data", "policy", "ended", "steps", "updates", "samples", "workers",
                           "shards", "batch", "seed", "parameters_sha256"}) {
    const std::string figure = r[name].is_string() ? r[name].get<std::string>() : r[name].dump();
    EXPECT_THAT(html, HasSubstr("<td>" + figure + "</td>")) << name;
  }
  EXPECT_THAT(html, HasSubstr("40 produced = 40 applied + 0 merged + 0 discarded + 0 lost"));
  EXPECT_THAT(html, HasSubstr(r["commit"].get<std::string>()));
  for (const char* title :
       {"Staleness under async", "Where the time of the workers went", "Where the time of a gradient went"})
    EXPECT_THAT(html, HasSubstr("aria-label=\"" + std::string(title) + "\""));
  EXPECT_THAT(html, AllOf(HasSubstr(">worker 0<"), HasSubstr(">worker 1<"), HasSubstr("gap [versions]"),
                          HasSubstr("mean expected"), HasSubstr("law of random steps")));
}

TEST_F(ReportPage, DrawsSampledGradients) {
  json r = trained();
  EXPECT_THAT(page({written("run.json", r)}), Not(HasSubstr("lag [versions]"))) << "none was sampled";
  for (int i = 0; i < 6; ++i)
    r["sampled"].push_back({{"shard", 0},
                            {"worker", 1},
                            {"step", i},
                            {"lag", i % 3},
                            {"gap", 0.25 * i},
                            {"cosine", i == 5 ? json() : json(1 - 0.3 * i)}});
  const std::string html = page({written("run.json", r)});
  for (const char* words : {"How far weights moved within a lag", "lag [versions]", "gap [weights]",
                            "What the gap does to gradients", "cosine to a fresh gradient"})
    EXPECT_THAT(html, HasSubstr(words));
  tool t({"report", path("run.json"), "--svg", path("pictures")});
  EXPECT_EQ(t.code(), 0) << t.err();
  for (const char* name : {"gap-lag.svg", "cosine-gap.svg"})
    EXPECT_TRUE(std::filesystem::exists(path("pictures") + "/" + name)) << name;
}

TEST_F(ReportPage, NeedsNothingFromElsewhere) {
  json r = trained();
  r["curve"] = curve();
  const std::string html = page({written("run.json", r)});
  EXPECT_THAT(html, StartsWith("<!DOCTYPE html>"));
  EXPECT_EQ(count_of(html, "://"), count_of(html, "=\"http://www.w3.org/")) << "namespaces of SVG alone";
  for (const char* part :
       {"<script", "<link", "<img", "src=", "@import", "url(http", "<?xml", "<title>Gnuplot"})
    EXPECT_EQ(count_of(html, part), 0U) << part;
}

TEST_F(ReportPage, GoesToStandardOutput) {
  tool t({"report", written("run.json", trained()), "--out", "-"});
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(), AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("</html>\n")));
}

/// Two pictures of one page may not have parts of the same name.
TEST_F(ReportPage, NamesEveryPartOnce) {
  json r = trained();
  r["curve"] = curve();
  const std::string html = page({written("run.json", r)});
  EXPECT_EQ(count_of(html, "id='gp"), 0U);
  EXPECT_EQ(count_of(html, "id='loss-time-gpDot'"), 1U);
  EXPECT_EQ(count_of(html, "href='#gp"), 0U);
}

TEST_F(ReportPage, ShowsTextsAsTheyAre) {
  json r = trained();
  const std::string trap =
      "<script>alert(1)</script> & 'q' \"d\" `touch " + path("trap") + "` $(x) %s \xC3\xA4\n\x1b";
  for (const char* name : {"model", "data", "policy", "host", "why", "optimizer"}) r[name] = trap;
  r["switches"] = json::array({{{"step", 10}, {"from", trap}, {"to", "sync"}, {"why", trap}}});
  r["curve"] = curve();
  const std::string html = page({written("run <&>.json", r)});
  EXPECT_EQ(count_of(html, "<script"), 0U);
  EXPECT_THAT(
      html, AllOf(HasSubstr("run &lt;&amp;&gt;.json"),
                  HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#39;q&#39; &quot;d&quot; `touch "),
                  HasSubstr("switch of policy")));
  EXPECT_FALSE(std::filesystem::exists(path("trap")));
}

TEST_F(ReportPage, NamesWhoWasLostAndThePolicyOfTheEnd) {
  json r = trained();
  EXPECT_THAT(page({written("run.json", r)}), Not(HasSubstr("policy at the end")));
  r["switches"] = json::array({{{"step", 10}, {"from", "async"}, {"to", "ssp:7"}, {"why", "asked for"}}});
  const auto member = [](int number, const char* state, int losses, const char* why) {
    return json{{"role", "worker"}, {"number", number}, {"state", state}, {"losses", losses}, {"why", why}};
  };
  r["members"]["listed"] = {member(0, "done", 0, ""), member(1, "lost", 1, "it was killed"),
                            member(2, "done", 2, "no sign of life")};
  const std::string html = page({written("run.json", r)});
  EXPECT_THAT(html, HasSubstr("<td>ssp:7</td>"));
  EXPECT_THAT(html, HasSubstr("<td>worker 1: it was killed; worker 2, which is back: no sign of life</td>"));
  EXPECT_THAT(html, Not(HasSubstr("worker 0: ")));
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
  EXPECT_THAT(
      html,
      HasSubstr("There is no loss to draw. Run 1 is not shown: its report has no field &#39;curve&#39;"));
  EXPECT_THAT(html, Not(HasSubstr("Loss against time<")));
  EXPECT_THAT(html, HasSubstr("The policy never changed in mid-run."));
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
  const std::string html = page({written("run.json", r)});
  EXPECT_THAT(html, AllOf(HasSubstr("RMSE [unit of the targets]"),
                          HasSubstr("<th scope=\"row\">test RMSE</th><td>0.25</td>"),
                          Not(HasSubstr("test accuracy"))));
}

TEST_F(ReportPage, SetsRunsSideBySide) {
  json first = trained(), second = trained("sync");
  first["curve"] = curve();
  const std::string html = page({written("a.json", first), written("b.json", second)});
  EXPECT_THAT(html, AllOf(HasSubstr("<th scope=\"col\">1: async</th><th scope=\"col\">2: sync</th>"),
                          HasSubstr("Run 2 is not shown: its report has no field &#39;curve&#39;"),
                          HasSubstr("Staleness under 2: sync"),
                          HasSubstr("Under this policy no gradient is stale."),
                          HasSubstr("40 produced = 0 applied + 40 merged")));
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
    EXPECT_EQ(count_of(page({written("run.json", r)}), says), 2U) << policy;
  }
  for (const char* policy : {"auto", "k-async:many", "async, sync@9", "./libmine.so:1", "async by mine"}) {
    r["policy"] = policy;
    EXPECT_THAT(page({written("run.json", r)}),
                AllOf(Not(HasSubstr("expected ")), Not(HasSubstr("at most "))))
        << policy;
  }
}

TEST_F(ReportPage, TellsWhereTheTimeOfEachWorkerWent) {
  json r = trained();
  r["wall_seconds"] = 8;
  for (json& each : r["time_split"]["per_shard"]) each["compute"]["seconds"] = each["worker"] == 0 ? 4 : 6;
  r["wait_seconds"]["per_worker"] =
      json::array({{{"worker", 0}, {"barrier", 1}, {"bound", 0.5}, {"feeder", 0.25}},
                   {{"worker", 1}, {"barrier", 3}, {"bound", 0}, {"feeder", 0}}});
  const std::string html = page({written("run.json", r)});
  EXPECT_THAT(
      html,
      AllOf(
          HasSubstr(
              "<td>async</td><td>0</td><td>50.00</td><td>12.50</td><td>6.25</td><td>3.12</td><td>28.12</td>"),
          HasSubstr("<td>async</td><td>1</td><td>75.00</td><td>37.50</td><td>0.00</td><td>0.00</td><td>0.00</"
                    "td>")));
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
  const std::string html = page({written("run.json", report)});
  EXPECT_THAT(html, AllOf(HasSubstr("A box stands for 6 gaps."), Not(HasSubstr("beyond the axis"))));
}

TEST_F(ReportPage, SaysThatTimeIsVirtual) {
  json report = trained();
  report["delays"] = {{"law", "1"}, {"seed", 1}, {"virtual_time", true}};
  const std::string html = page({written("run.json", report)});
  EXPECT_THAT(html, AllOf(HasSubstr("virtual time [s]"), HasSubstr("samples a virtual second")));
}

TEST_F(ReportPage, KnowsNoLawWherePoliciesChange) {
  const std::string html = page({written("run.json", trained("async, ssp:1@20"))});
  EXPECT_THAT(html, AllOf(HasSubstr("The policy changed in mid-run, so no single law holds."),
                          HasSubstr("<td>planned for step 20</td>"), Not(HasSubstr("mean expected"))));
}

} // namespace
} // namespace mailgrad

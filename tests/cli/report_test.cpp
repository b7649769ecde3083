#include <mailgrad/tests/support/browser.hpp> // has a local name that tool.hpp declares

#include <mailgrad/tests/cli/tool.hpp>

#include <array>
#include <cmath>

// Reports, and the pages and pictures that `mailgrad report` makes of them.

namespace mailgrad::testing {
namespace {

struct ReportPage : ToolTest {
  void SetUp() override {
    if (std::system("gnuplot --version >/dev/null 2>&1") != 0) // NOLINT(concurrency-mt-unsafe)
      GTEST_SKIP() << "this machine has no gnuplot";
  }

  /// The report of a small run of two workers.
  json trained(const std::string& policy = "async") const {
    done(train("--steps 40 --devices cpu:0,cpu:0 --shards 2 --quiet --policy"_w + policy + "--report" +
               path("trained.json")));
    json r = report("trained.json");
    r.erase("curve"); // each test brings its own
    return r;
  }
  json trained_with_curve() const {
    json r = trained();
    r["curve"] = curve();
    return r;
  }

  static json curve() {
    json points = json::array();
    for (int i = 1; i <= 20; ++i) {
      points.push_back({{"time_s", 0.5 * i},
                        {"steps", 2 * i},
                        {"updates", 2 * i},
                        {"samples", 8 * i},
                        {"epoch", 0.1 * i},
                        {"train_loss", 2.0 / i},
                        {"learning_rate", 0.1}});
      if (i % 5 == 0) points.back().update({{"test_loss", 2.5 / i}, {"test_accuracy", 1 - 1.0 / i}});
    }
    return points;
  }

  std::string written(const std::string& name, const json& r) const { return folder.write(name, r.dump()); }

  /// The page of these reports.
  std::string page(const words& reports) const {
    const spoken said = done("report"_w + reports + "--out" + path("page.html"));
    EXPECT_EQ(said.out + said.err, "wrote " + path("page.html") + '\n');
    return content_of(path("page.html"));
  }
  /// Draws the pictures of a report as files in the folder "svg".
  void draw(const json& r) const { done({"report", written("run.json", r), "--svg", path("svg")}); }

  /// What the page holds of its runs.
  static json told_in(const std::string& page) {
    const std::string before = "id=\"kept-runs\">";
    const std::size_t at = page.find(before) + before.size();
    return json::parse(page.substr(at, page.find("</script>", at) - at));
  }

  /// Shows the last page in a browser. Where there is none, the test is skipped and this is false.
  bool open() {
    const auto program = browser::program();
    if (!program) [] { GTEST_SKIP() << "no chromium here (scripts/install-dependencies --browser)"; }();
    if (!program) return false;
    shown.emplace(*program, profile.path().string());
    shown->open("file://" + path("page.html"));
    shown->wait_until("document.getElementById('facts').textContent !== ''");
    EXPECT_TRUE(shown->complaints().empty()) << shown->complaints().front();
    return true;
  }

  const scratch_folder profile;
  std::optional<browser> shown;
};

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
  json r = trained_with_curve();
  page({written("run.json", r)});
  if (!open()) return;
  EXPECT_EQ(shown->text_of("status"), "the run has ended: completed");
  EXPECT_EQ(shown->value("Chart.getChart('loss').data.datasets.map((set) => set.data.length)"),
            (json{20, 0, 4}));
  EXPECT_THAT(shown->text_of("facts"), HasAll("run.json", r["parameters_sha256"].get<std::string>(),
                                              "samples/s", "steps, updates40, 40"));
  EXPECT_THAT(shown->text_of("ledger"), HasSubstr("applied40100.0 %"));
  EXPECT_THAT(shown->text_of("panel-1"), StartsWith("worker 1: mean "));
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
  draw(r);
  for (const char* name : {"svg/gap-lag.svg", "svg/cosine-gap.svg"})
    EXPECT_TRUE(std::filesystem::exists(path(name))) << name;
  if (!open()) return;
  EXPECT_EQ(shown->value("Chart.getChart('lag').data.datasets[0].data.length"), 6);
  EXPECT_EQ(shown->value("Chart.getChart('cosine').data.datasets[0].data.length"), 5);
}

TEST_F(ReportPage, NeedsNothingFromElsewhere) {
  const std::string html = page({written("run.json", trained_with_curve())});
  EXPECT_THAT(html, AllOf(StartsWith("<!DOCTYPE html>"),
                          HasSubstr("default-src 'none'; script-src 'unsafe-inline'")));
  for (const char* part : {"<script src", "rel=\"stylesheet\"", "<img", "src=", "@import", "url(http"})
    EXPECT_EQ(count_of(html, part), 0U) << part;
}

TEST_F(ReportPage, GoesToStandardOutput) {
  EXPECT_THAT(done({"report", written("run.json", trained()), "--out", "-"}).out,
              AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("</html>\n")));
}

/// Two parts of one page may not have the same name.
TEST_F(ReportPage, NamesEveryPartOnce) {
  const std::string html = page({written("run.json", trained())});
  for (const char* id : {"loss", "facts", "staleness", "times-table", "kept-runs"})
    EXPECT_EQ(count_of(html, " id=\"" + std::string(id) + '"'), 1U) << id;
}

TEST_F(ReportPage, ShowsTextsAsTheyAre) {
  json r = trained_with_curve();
  const std::string trap =
      "<script>alert(1)</script> & 'q' \"d\" `touch " + path("trap") + "` $(x) %s \xC3\xA4\n\x1b";
  for (const char* name : {"model", "data", "policy", "host", "why", "optimizer"}) r[name] = trap;
  r["switches"] = json::array({{{"step", 10}, {"from", trap}, {"to", "sync"}, {"why", trap}}});
  const std::string html = page({written("run <&>.json", r)});
  EXPECT_EQ(count_of(html, "<script>alert"), 0U);
  EXPECT_THAT(html, HasSubstr("run &lt;&amp;&gt;.json</title>"));
  const json told = told_in(html)["runs"][0];
  EXPECT_EQ(told["state"]["report"]["host"], trap);
  EXPECT_EQ(told["state"]["report"]["switches"][0]["why"], trap);
  EXPECT_FALSE(std::filesystem::exists(path("trap")));
  if (!open()) return;
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
  if (!open()) return;
  EXPECT_THAT(shown->text_of("what"), HasSubstr(" · ssp:7 · "));
  EXPECT_THAT(shown->text_of("facts"),
              AllOf(HasSubstr("policyssp:7"), HasSubstr("policy as asked forasync"),
                    HasSubstr("lostworker 1: it was killed; worker 2, which is back: no sign of life"),
                    Not(HasSubstr("worker 0: "))));
  EXPECT_THAT(shown->text_of("members"), HasSubstr("worker 1lost"));
}

TEST_F(ReportPage, DrawsLossAndAccuracyOverTheCurve) {
  done({"report", written("run.json", trained_with_curve()), "--svg", path("svg"), "--png", path("png")});
  for (const char* name : {"loss-time", "loss-updates", "loss-samples", "accuracy-time", "staleness-1",
                           "time-workers", "time-gradient"}) {
    EXPECT_THAT(content_of(path("svg/" + std::string(name) + ".svg")), StartsWith("<?xml")) << name;
    EXPECT_THAT(content_of(path("png/" + std::string(name) + ".png")), StartsWith("\x89PNG")) << name;
  }
  EXPECT_THAT(content_of(path("svg/loss-time.svg")),
              HasAll("time [s]", ">loss<", "async, training", "async, test"));
  EXPECT_THAT(content_of(path("svg/accuracy-time.svg")), HasSubstr("accuracy [share of samples]"));
}

TEST_F(ReportPage, MarksCountsExactly) {
  json r = trained_with_curve();
  for (json& point : r["curve"]) point["updates"] = 70 * point["updates"].get<int>();
  draw(r);
  const std::string svg = content_of(path("svg/loss-updates.svg"));
  for (const char* mark : {">500<", ">1k<", ">1.5k<", ">2k<", ">2.5k<", ">3k<"})
    EXPECT_EQ(count_of(svg, mark), 1U) << mark;
}

TEST_F(ReportPage, SaysWhatAnOlderReportLacks) {
  EXPECT_THAT(told_in(page({written("old.json", trained())}))["loss_words"].get<std::string>(),
              StartsWith("There is no loss to draw. Run 1 is not shown: its report has no field 'curve'"));
}

/// As of numbers: they have an error, and no accuracy. The last point was told a little late.
TEST_F(ReportPage, DrawsTheErrorOfPredictedNumbers) {
  json r = trained_with_curve();
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
  draw(r);
  EXPECT_THAT(content_of(path("svg/rmse-time.svg")), HasSubstr("RMSE [unit of the targets]"));
  EXPECT_FALSE(std::filesystem::exists(path("svg/accuracy-time.svg")));
  if (!open()) return;
  EXPECT_EQ(shown->text_of("quality-title"), "Error on samples not trained on");
  EXPECT_THAT(shown->text_of("facts"), AllOf(HasSubstr("test RMSE0.25"), Not(HasSubstr("test accuracy"))));
}

TEST_F(ReportPage, SetsRunsSideBySide) {
  const json first = trained_with_curve(), second = trained("sync");
  const json told = told_in(page({written("a.json", first), written("b.json", second)}));
  EXPECT_EQ(told["runs"][0]["label"], "1: async");
  EXPECT_EQ(told["runs"][1]["label"], "2: sync");
  EXPECT_THAT(told["loss_words"].get<std::string>(),
              HasSubstr("Run 2 is not shown: its report has no field 'curve'"));
  EXPECT_EQ(told["runs"][1]["state"]["expected"][0]["in_words"], "Under this policy no gradient is stale.");
  if (!open()) return;
  EXPECT_THAT(shown->text_of("facts"), StartsWith("1: async2: sync"));
  EXPECT_THAT(shown->text_of("ledger"), HasAll("applied400", "merged040"));
  EXPECT_THAT(shown->text_of("panel-2"), StartsWith("2: sync, worker 0: mean 0, 0 expected"));
  EXPECT_EQ(shown->value("Chart.getChart('loss').data.datasets.length"), 6);
}

/// A worker that makes three of four updates is on average a third of an update behind, the other one three.
TEST_F(ReportPage, ExpectsTheStalenessThatCountingGives) {
  json r = trained();
  r["updates"] = 40;
  r["shards"] = 1;
  r["staleness"].update(json::parse(R"({"mean": 1.0, "histogram": [[0, 20], [1, 10], [3, 10]], "per_shard": [
    {"shard": 0, "worker": 0, "mean": 0.3333333333333333, "histogram": [[0, 20], [1, 10]]},
    {"shard": 0, "worker": 1, "mean": 3.0, "histogram": [[3, 10]]}]})"));
  draw(r);
  EXPECT_THAT(
      content_of(path("svg/staleness-1.svg")),
      HasAll("mean 0.33, expected 0.33", "mean 3.00, expected 3.00", "mean expected", "law of random steps"));
}

TEST_F(ReportPage, ExpectsOfEachPolicyWhatItsPageSays) {
  json r = trained();
  const auto expected = [this](const json& report) {
    const json laws = told_in(page({written("run.json", report)}))["runs"][0]["state"]["expected"];
    EXPECT_EQ(laws.size(), 2U);
    return laws;
  };
  for (const auto& [policy, says] : {std::pair{"k-batch-async:2", ", expected 0.50"},
                                     {"k-async:1", ", expected 1.00"},
                                     {"k-async:2", ", expected 0.00"},
                                     {"queue:2,4", ", expected 2.00"},
                                     {"ssp:3", ", at most 1.00"},
                                     {"hogwild", ", at most 1.00"},
                                     {"ringmaster:6", ", at most 5.00"},
                                     {"rennala:4", ", expected 0.00"},
                                     {"malenia:4", ", expected 0.00"},
                                     {"ringleader", ", at most 2.00"},
                                     {"backup:1", ", expected 0.00"}}) {
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
  if (!open()) return;
  EXPECT_THAT(shown->text_of("times-table"), HasAll("050.0012.506.253.1328.13", "175.0037.500.000.000.00"));
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
  json r = trained_with_curve();
  r["curve"].erase(r["curve"].begin() + 2, r["curve"].end());
  r["switches"] = json::array({{{"step", 3}, {"from", "async"}, {"to", "sync"}, {"why", "asked for"}}});
  draw(r);
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
  if (!open()) return;
  EXPECT_THAT(shown->text_of("staleness-words"),
              AllOf(HasSubstr("A box stands for 6 gaps."), Not(HasSubstr("beyond the axis"))));
}

TEST_F(ReportPage, SaysThatTimeIsVirtual) {
  json report = trained();
  report["delays"] = {{"law", "1"}, {"seed", 1}, {"virtual_time", true}};
  page({written("run.json", report)});
  if (!open()) return;
  EXPECT_THAT(shown->text_of("facts"), HasAll("virtual time", "samples a virtual second"));
}

TEST_F(ReportPage, KnowsNoLawWherePoliciesChange) {
  const json state = told_in(page({written("run.json", trained("async, ssp:1@20"))}))["runs"][0]["state"];
  EXPECT_EQ(state["expected"][0]["in_words"], "The policy changed in mid-run, so no single law holds.");
  EXPECT_TRUE(state["expected"][0]["mean"].is_null());
  EXPECT_EQ(state["report"]["switches"][0]["why"], "planned for step 20");
}

/// What is refused: files that are no reports, or lie, and places that must not be written to.
struct ReportRefusals : ReportPage {};

TEST_F(ReportRefusals, RefusesReportsThatAreNoneOrLie) {
  const json good = trained_with_curve();
  struct lie {
    std::string at;      ///< a JSON pointer
    const char* becomes; ///< nullptr: it is left out
    const char* says;
  };
  for (const auto& [at, becomes, says] : {
           lie{"/ledger", nullptr, "found no field 'ledger'"},
           {"", R"({"a": 1})", "expected a report of 'mailgrad train --report', found no field 'policy'"},
           {"", "[1, 2]", "expected an object, found '[1,2]'"},
           {"/steps", "-1", "field 'steps': expected a whole number up to"},
           {"/wall_seconds", R"("long")",
            "field 'wall_seconds': expected a number of at least 0, found '\"long\"'"},
           {"/workers", "1000000000", "field 'workers': expected a number of workers from 1"},
           {"/workers", "0", "field 'workers'"},
           {"/staleness/per_shard/0/worker", "7",
            "field 'staleness.per_shard.worker': expected a rank below 2, the number of workers, found '7'"},
           {"/staleness/histogram", "[[1, 2], [0, 2]]",
            "field 'staleness.histogram': expected pairs of a gap and a count above 0, the gaps rising"},
           {"/staleness/histogram", "[[9223372036854775808, 2]]", "field 'staleness.histogram'"},
           {"/staleness/mean", "77", "the mean is said to be 77, and that of the histogram is"},
           {"/ledger/applied", "41",
            "40 produced = 41 applied + 0 merged + 0 discarded + 0 lost does not balance"},
           {"/curve/5/time_s", "0", "field 'curve': time or steps go back"},
           {"/curve/5/steps", "0", "field 'curve': time or steps go back"},
           {"/cure", "null", "'cure': expected an object, found 'null'"},
           {"/samples_per_second", R"("fast")", "field 'samples_per_second'"},
           {"/staleness/p99", R"("late")", "field 'staleness.p99'"},
           {"/time_split/apply/mean", nullptr, "field 'time_split.apply.mean'"},
           {"/host", "3", "field 'host'"},
           {"/devices", "3", "field 'devices': expected a list, found '3'"},
           {"/members", "{}", "field 'members.listed'"},
           {"/members/listed", R"([{"losses": 0, "number": 1, "role": 2}])", "field 'members.listed.role'"},
           {"/curve", "3", "field 'curve': expected a list, found '3'"},
       }) {
    json r = good;
    const json::json_pointer where(at);
    if (becomes)
      r[where] = json::parse(becomes);
    else
      r[where.parent_pointer()].erase(where.back());
    expect_refused({"report", written("run.json", r), "--out", path("page.html")}, "run.json: ", says);
  }
  EXPECT_FALSE(std::filesystem::exists(path("page.html")));
}

TEST_F(ReportRefusals, RefusesDamagedFiles) {
  const std::string good = trained().dump();
  const auto refused = [&](const std::string& content, const std::string& says) {
    expect_refused({"report", folder.write("run.json", content).string(), "--out", path("page.html")},
                   "run.json", says);
  };
  for (const std::size_t length : {std::size_t{1}, good.size() / 2, good.size() - 1})
    refused(good.substr(0, length), "expected a report as JSON, found what is none, or is cut off");
  refused(std::string(100'000, '['), "too deep");
  refused("", "expected a report as JSON, found an empty file");
  refused("\x89PNG\r\n", "expected a report as JSON");
  refused("{\"steps\": 1e999}", "expected a report as JSON");
  expect_error({"report", path("absent.json")}, "absent.json: cannot be read: No such file or directory");
  expect_error({"report", folder.path().string()},
               "expected a report, found a folder; name the file that 'mailgrad train --report'");
}

TEST_F(ReportRefusals, OverwritesNoReportAndTellsRunsApart) {
  const std::string run = written("run.json", trained());
  expect_error({"report", run, "--out", run}, "both name");
  EXPECT_TRUE(json::accept(content_of(run)));
  expect_error({"report", run, run, run, run, run, run, run},
               "7 runs; at most 6 can be told apart in one picture");
  expect_error({"report", run, "--svg", run}, "is no folder");
}

TEST_F(ReportRefusals, SaysWhereGnuplotIsMissing) {
  const std::string run = written("run.json", trained());
  const std::string path_before = std::getenv("PATH"); // NOLINT(concurrency-mt-unsafe)
  setenv("PATH", folder.path().c_str(), 1);            // NOLINT(concurrency-mt-unsafe)
  tool t({"report", run, "--out", path("page.html"), "--svg", path("svg")});
  const int code = t.code();
  tool without_pictures({"report", run, "--out", path("other.html")});
  EXPECT_EQ(without_pictures.code(), 0) << "a page needs no gnuplot";
  setenv("PATH", path_before.c_str(), 1); // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(code, 1);
  EXPECT_EQ(
      t.err(),
      "mailgrad: the program gnuplot draws the pictures, and it is not installed (Debian: gnuplot-nox)\n");
  EXPECT_FALSE(std::filesystem::exists(path("page.html")));
}

} // namespace
} // namespace mailgrad::testing

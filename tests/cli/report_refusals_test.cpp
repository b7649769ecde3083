#include <mailgrad/tests/cli/report_page.hpp>

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

// What `mailgrad report` refuses: files that are no reports, or lie, and places that it must not write to.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using testing::content_of;
using testing::count_of;
using ::testing::HasSubstr;
using testing::json;
using testing::tool;

class ReportRefusals : public testing::ReportPage {};

TEST_F(ReportRefusals, RefusesReportsThatAreNoneOrLie) {
  const json good = trained();
  struct lie {
    const char* what;
    std::function<void(json&)> tell;
    std::string says;
  };
  const std::vector<lie> lies{
      {"a field is missing", [](json& r) { r.erase("ledger"); }, "found no field 'ledger'"},
      {"foreign",
       [](json& r) {
         r = {{"a", 1}};
       },
       "expected a report of 'mailgrad train --report', found no field 'policy'"},
      {"a list",
       [](json& r) {
         r = json::array({1, 2});
       },
       "expected an object, found '[1,2]'"},
      {"a negative count", [](json& r) { r["steps"] = -1; }, "field 'steps': expected a whole number up to"},
      {"a text", [](json& r) { r["wall_seconds"] = "long"; },
       "field 'wall_seconds': expected a number of at least 0, found '\"long\"'"},
      {"too many workers", [](json& r) { r["workers"] = 1'000'000'000; },
       "field 'workers': expected a number of workers from 1"},
      {"no workers", [](json& r) { r["workers"] = 0; }, "field 'workers'"},
      {"an unknown worker", [](json& r) { r["staleness"]["per_shard"][0]["worker"] = 7; },
       "field 'staleness.per_shard.worker': expected a rank below 2, the number of workers, found '7'"},
      {"gaps fall",
       [](json& r) {
         r["staleness"]["histogram"] = json::array({json::array({1, 2}), json::array({0, 2})});
       },
       "field 'staleness.histogram': expected pairs of a gap and a count above 0, the gaps rising"},
      {"a gap of 2^63",
       [](json& r) {
         r["staleness"]["histogram"] = json::array({json::array({std::uint64_t{1} << 63, 2})});
       },
       "field 'staleness.histogram'"},
      {"the mean lies", [](json& r) { r["staleness"]["mean"] = 77; },
       "the mean is said to be 77, and that of the histogram is"},
      {"the ledger lies", [](json& r) { r["ledger"]["applied"] = 41; },
       "40 produced = 41 applied + 0 merged + 0 discarded + 0 lost does not balance"},
      {"time goes back",
       [](json& r) {
         r["curve"] = curve();
         r["curve"][5]["time_s"] = 0;
       },
       "field 'curve': time or steps go back"},
      {"steps go back",
       [](json& r) {
         r["curve"] = curve();
         r["curve"][5]["steps"] = 0;
       },
       "field 'curve': time or steps go back"},
      {"no cure", [](json& r) { r["cure"] = nullptr; }, "'cure': expected an object, found 'null'"},
      {"a rate in words", [](json& r) { r["samples_per_second"] = "fast"; }, "field 'samples_per_second'"},
      {"a quantile in words", [](json& r) { r["staleness"]["p99"] = "late"; }, "field 'staleness.p99'"},
      {"no mean of a time", [](json& r) { r["time_split"]["apply"].erase("mean"); },
       "field 'time_split.apply.mean'"},
      {"a host without a name", [](json& r) { r["host"] = 3; }, "field 'host'"},
      {"no list of devices", [](json& r) { r["devices"] = 3; },
       "field 'devices': expected a list, found '3'"},
      {"members without a list", [](json& r) { r["members"] = json::object(); }, "field 'members.listed'"},
      {"a member without a role",
       [](json& r) {
         r["members"]["listed"] = json::array({{{"losses", 0}, {"number", 1}, {"role", 2}}});
       },
       "field 'members.listed.role'"},
      {"no curve", [](json& r) { r["curve"] = 3; }, "field 'curve': expected a list, found '3'"},
  };
  for (const lie& l : lies) {
    json r = good;
    l.tell(r);
    tool t({"report", written("run.json", r), "--out", path("page.html")});
    EXPECT_EQ(t.code(), 2) << l.what;
    EXPECT_THAT(t.err(), AllOf(HasSubstr("run.json: "), HasSubstr(l.says))) << l.what;
    EXPECT_EQ(count_of(t.err(), "\n"), 1U) << t.err();
  }
  EXPECT_FALSE(std::filesystem::exists(path("page.html")));
}

TEST_F(ReportRefusals, RefusesDamagedFiles) {
  const std::string good = trained().dump();
  const auto refused = [&](const std::string& what, const std::string& says) {
    tool t({"report", folder_.write("run.json", what).string(), "--out", path("page.html")});
    EXPECT_EQ(t.code(), 2);
    EXPECT_THAT(t.err(), AllOf(HasSubstr("run.json"), HasSubstr(says)));
    EXPECT_EQ(count_of(t.err(), "\n"), 1U) << t.err();
  };
  for (const std::size_t length : {std::size_t{1}, good.size() / 2, good.size() - 1})
    refused(good.substr(0, length), "expected a report as JSON, found what is none, or is cut off");
  refused(std::string(100'000, '['), "too deep");
  refused("", "expected a report as JSON, found an empty file");
  refused("\x89PNG\r\n", "expected a report as JSON");
  refused("{\"steps\": 1e999}", "expected a report as JSON");
  tool absent({"report", path("absent.json")});
  EXPECT_EQ(absent.code(), 2);
  EXPECT_THAT(absent.err(), HasSubstr("absent.json: cannot be read: No such file or directory"));
  tool folder({"report", folder_.path().string()});
  EXPECT_EQ(folder.code(), 2);
  EXPECT_THAT(folder.err(),
              HasSubstr("expected a report, found a folder; name the file that 'mailgrad train --report'"));
}

TEST_F(ReportRefusals, OverwritesNoReportAndTellsRunsApart) {
  const std::string run = written("run.json", trained());
  tool same({"report", run, "--out", run});
  EXPECT_EQ(same.code(), 2);
  EXPECT_THAT(same.err(), HasSubstr("both name"));
  EXPECT_TRUE(json::accept(content_of(run)));
  tool many({"report", run, run, run, run, run, run, run});
  EXPECT_EQ(many.code(), 2);
  EXPECT_THAT(many.err(), HasSubstr("7 runs; at most 6 can be told apart in one picture"));
  tool file({"report", run, "--svg", run});
  EXPECT_EQ(file.code(), 2);
  EXPECT_THAT(file.err(), HasSubstr("is no folder"));
}

TEST_F(ReportRefusals, SaysWhereGnuplotIsMissing) {
  const std::string run = written("run.json", trained());
  const std::string path_before = std::getenv("PATH"); // NOLINT(concurrency-mt-unsafe)
  setenv("PATH", folder_.path().c_str(), 1);           // NOLINT(concurrency-mt-unsafe)
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
} // namespace mailgrad

#include <mailgrad/engine/account/metrics_line.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace mailgrad {
namespace {

using namespace ::testing;

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
  EXPECT_FALSE(x.tested());
  x.test_loss = 0.5;
  x.test_accuracy = 0.875;
  EXPECT_THAT(to_json(x), HasSubstr(R"("waiting_s":0.125,"test_loss":0.5,"test_accuracy":0.875})"));
  x.test_accuracy.reset();
  x.test_rmse = 3;
  EXPECT_THAT(to_json(x), HasSubstr(R"("test_loss":0.5,"test_rmse":3.0})"));
  metrics_line held_out = some_line();
  held_out.validation_loss = 0.5;
  held_out.validation_accuracy = 0.75;
  EXPECT_TRUE(held_out.tested());
  EXPECT_THAT(to_json(held_out),
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

metrics_line line(std::uint64_t step, bool tested = false) {
  metrics_line x;
  x.steps = step;
  if (tested) x.test_loss = 1;
  return x;
}

std::vector<metrics_line> curve_of(std::uint64_t steps, std::uint64_t steps_per_test = 1'000'000) {
  metrics_curve c;
  for (std::uint64_t i = 1; i <= steps; ++i) c.add(line(i, i % steps_per_test == 0));
  return c.lines();
}

TEST(MetricsCurve, KeepsAllLinesOfAShortRun) {
  EXPECT_THAT(curve_of(0), IsEmpty());
  const auto lines = curve_of(metrics_curve::most - 1);
  ASSERT_THAT(lines, SizeIs(metrics_curve::most - 1));
  EXPECT_EQ(lines.back().steps, metrics_curve::most - 1);
}

TEST(MetricsCurve, ThinsEvenlyAndKeepsTheLastLine) {
  for (const std::uint64_t count : {200U, 201U, 399U, 1000U, 54'321U}) {
    const auto lines = curve_of(count);
    ASSERT_LE(lines.size(), metrics_curve::most);
    ASSERT_GE(lines.size(), metrics_curve::most / 2 - 1);
    EXPECT_EQ(lines.front().steps, 1U);
    EXPECT_EQ(lines.back().steps, count);
    const std::uint64_t apart = lines[1].steps - lines[0].steps;
    for (std::size_t i = 2; i + 1 < lines.size(); ++i) EXPECT_EQ(lines[i].steps - lines[i - 1].steps, apart);
  }
}

TEST(MetricsCurve, KeepsTestsLongerThanOtherLinesUnlessTheyAreTooMany) {
  const auto some = curve_of(5000, 100), all = curve_of(5000, 1);
  EXPECT_LE(some.size(), metrics_curve::most);
  EXPECT_EQ(std::ranges::count_if(some, &metrics_line::tested), 50);
  EXPECT_LE(all.size(), metrics_curve::most);
  EXPECT_EQ(all.back().steps, 5000U);
}

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class MetricsFile : public ::testing::Test {
protected:
  std::string path(const char* name) const { return (folder_.path() / name).string(); }

  const scratch_folder folder_;
};

TEST_F(MetricsFile, HasEachLineAtOnceAsItsNameSays) {
  metrics_file f(path("m.jsonl"));
  f.add({.time_s = 1});
  EXPECT_EQ(content(path("m.jsonl")), to_json(metrics_line{.time_s = 1}) + '\n');
  f.add({.time_s = 2});
  EXPECT_EQ(content(path("m.jsonl")),
            to_json(metrics_line{.time_s = 1}) + '\n' + to_json(metrics_line{.time_s = 2}) + '\n');
  EXPECT_THAT(f.failure(), IsEmpty());
  metrics_file table(path("m.csv"));
  EXPECT_EQ(content(path("m.csv")), metrics_csv_header() + '\n');
  table.add({});
  EXPECT_EQ(content(path("m.csv")), metrics_csv_header() + '\n' + to_csv({}) + '\n');
}

TEST_F(MetricsFile, KeepsWhatAnOlderOneHeld) {
  std::ofstream(path("m.jsonl")) << "older\n";
  {
    const metrics_file f(path("m.jsonl"));
    EXPECT_THAT(content(path("m.jsonl")), IsEmpty());
    EXPECT_EQ(content(path("m.jsonl.old")), "older\n");
  }
  std::ofstream(path("m.jsonl")) << "newer\n";
  const metrics_file third(path("m.jsonl"));
  EXPECT_EQ(content(path("m.jsonl.old")), "older\n");
  EXPECT_EQ(content(path("m.jsonl.old-2")), "newer\n");
}

TEST_F(MetricsFile, IsNotTakenFromARunThatWritesIt) {
  metrics_file first(path("m.jsonl"));
  first.add({.time_s = 1});
  EXPECT_THAT([&] { const metrics_file second(path("m.jsonl")); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr(": another run writes there"), HasSubstr("; name another file, or wait"))));
  first.add({.time_s = 2});
  EXPECT_EQ(content(path("m.jsonl")),
            to_json(metrics_line{.time_s = 1}) + '\n' + to_json(metrics_line{.time_s = 2}) + '\n');
  EXPECT_FALSE(std::filesystem::exists(path("m.jsonl.old")));
}

TEST_F(MetricsFile, SaysWhyItCannotBeWrittenAndEndsWithTheDisk) {
  metrics_file f("/dev/full");
  f.add({.time_s = 1});
  EXPECT_THAT(f.failure(), StartsWith("metrics '/dev/full' end early: "));
  EXPECT_THAT(f.failure(), HasSubstr("No space left"));
  const std::string first = f.failure();
  f.add({.time_s = 2});
  EXPECT_EQ(f.failure(), first);
  EXPECT_THROW(metrics_file(path("no/such/folder.csv")), std::system_error);
  EXPECT_THROW(metrics_file(folder_.path().string()), std::system_error);
}

} // namespace
} // namespace mailgrad

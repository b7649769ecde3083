#include <mailgrad/engine/account/metrics_line.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

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

TEST_F(MetricsFile, HasEachLineAtOnce) {
  metrics_file f(path("m.jsonl"));
  f.add({.time_s = 1});
  EXPECT_EQ(content(path("m.jsonl")), to_json(metrics_line{.time_s = 1}) + '\n');
  f.add({.time_s = 2});
  EXPECT_EQ(content(path("m.jsonl")),
            to_json(metrics_line{.time_s = 1}) + '\n' + to_json(metrics_line{.time_s = 2}) + '\n');
  EXPECT_THAT(f.failure(), IsEmpty());
}

TEST_F(MetricsFile, IsATableWhereItsNameSaysSo) {
  metrics_file f(path("m.csv"));
  EXPECT_EQ(content(path("m.csv")), metrics_csv_header() + '\n');
  f.add({});
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
              ::testing::ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr(": another run writes there"), HasSubstr("; name another file, or wait"))));
  first.add({.time_s = 2});
  EXPECT_EQ(content(path("m.jsonl")),
            to_json(metrics_line{.time_s = 1}) + '\n' + to_json(metrics_line{.time_s = 2}) + '\n');
  EXPECT_FALSE(std::filesystem::exists(path("m.jsonl.old")));
}

TEST_F(MetricsFile, SaysWhyItCannotBeWritten) {
  EXPECT_THROW(metrics_file(path("no/such/folder.csv")), std::system_error);
  EXPECT_THROW(metrics_file(folder_.path().string()), std::system_error);
}

TEST_F(MetricsFile, EndsWithTheDisk) {
  metrics_file f("/dev/full");
  f.add({.time_s = 1});
  EXPECT_THAT(f.failure(), StartsWith("metrics '/dev/full' end early: "));
  EXPECT_THAT(f.failure(), HasSubstr("No space left"));
  const std::string first = f.failure();
  f.add({.time_s = 2});
  EXPECT_EQ(f.failure(), first);
}

} // namespace
} // namespace mailgrad

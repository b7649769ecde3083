#include <mailgrad/tests/cli/report_page.hpp>
#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

// Experiments of the lab, from the command line.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using testing::content_of;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::tool;

TEST(LabExperiments, AreListedALineEach) {
  tool t({"lab", "list"});
  EXPECT_EQ(t.code(), 0);
  EXPECT_THAT(t.out(), AllOf(HasSubstr("stability-map"), HasSubstr("backup-workers")));
}

TEST(LabExperiments, PrintTheirClaimsAndWriteWhatTheyFound) {
  const scratch_folder folder;
  const std::string to = (folder.path() / "made").string();
  tool t({"lab", "stability-map", "--quick", "--output", to});
  EXPECT_EQ(t.code(), 0) << t.out() << t.err();
  EXPECT_THAT(t.out(), AllOf(StartsWith("stability-map: "), HasSubstr("paper: "), HasSubstr("tolerance"),
                             HasSubstr("largest stable step, delay 1"), HasSubstr("holds"),
                             Not(HasSubstr("FAILS")), HasSubstr("15 of 15 claims hold")));
  const std::filesystem::path made(to);
  EXPECT_THAT(content_of(made / "stability-map.csv"), StartsWith("experiment,figure,series,x,y,spread\n"));
  EXPECT_THAT(content_of(made / "stability-map-claims.csv"),
              HasSubstr("stability-map,\"largest stable step"));
  if (!std::filesystem::exists(made / "stability-map.html")) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_THAT(content_of(made / "stability-map.html"),
              AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("<svg"), HasSubstr("closed form"),
                    HasSubstr("Made by: mailgrad lab stability-map --quick --output DIR"),
                    Not(HasSubstr("http://localhost")), Not(HasSubstr("<script"))));
  EXPECT_THAT(content_of(made / "stability-map-map.png"), StartsWith("\x89PNG"));
  EXPECT_THAT(content_of(made / "stability-map-map.svg"), HasSubstr("<svg"));
}

TEST(LabExperiments, PrintTheirClaimsAloneIfTheyShallBeQuiet) {
  tool t({"lab", "stability-map", "--quick", "--quiet"});
  EXPECT_EQ(t.code(), 0) << t.out() << t.err();
  EXPECT_THAT(t.out(),
              AllOf(Not(HasSubstr("paper: ")), HasSubstr("tolerance"), HasSubstr("15 of 15 claims hold")));
}

TEST(LabExperiments, SayInOneLineWhatIsWrong) {
  const scratch_folder folder;
  const std::string file = (folder.path() / "file").string();
  std::ofstream(file) << "text";
  const std::pair<std::vector<std::string>, std::string> wrong[] = {
      {{"lab", "stabilty-map"}, "stability-map"},
      {{"lab", "stability-map", "--seed", "-1"}, "--seed"},
      {{"lab", "stability-map", "--fast"}, "--fast"},
      {{"lab", "stability-map", "--output", file}, "is no folder"},
  };
  for (const auto& [words, says] : wrong) {
    tool t(words);
    EXPECT_EQ(t.code(), 2) << says;
    EXPECT_THAT(t.err(), HasSubstr(says));
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
    EXPECT_EQ(t.out(), "") << "before anything runs";
  }
}

TEST(LabExperiments, LeaveTheResultsOfAnEarlierRunAsTheyAreWhenTheyAreStopped) {
  const scratch_folder folder;
  const std::filesystem::path made = folder.path();
  for (const char* name : {"noise-floor.csv", "noise-floor-claims.csv", "noise-floor.html"})
    std::ofstream(made / name) << "earlier";
  const std::string printed = (made / "printed").string();
  tool t({"lab", "noise-floor", "--output", made.string()}, printed.c_str());
  while (!content_of(printed).starts_with("noise-floor: ")) std::this_thread::yield();
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130) << t.err();
  EXPECT_THAT(content_of(printed), HasSubstr("It was stopped before its other claims."));
  for (const char* name : {"noise-floor.csv", "noise-floor-claims.csv", "noise-floor.html"})
    EXPECT_EQ(content_of(made / name), "earlier") << name;
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/cli/report_page.hpp>
#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

// Sweeps in virtual time, from the command line.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using testing::content_of;
using testing::count_of;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::tool;

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class LabSweep : public ::testing::Test {
protected:
  /// A sweep of the small data set; `run` and `rest` are more of its JSON.
  std::string file_of(const std::string& grid, const std::string& run = R"("steps": 60)",
                      const std::string& rest = "") const {
    return folder_
        .write("sweep" + std::to_string(files_++) + ".json",
               R"({"run": {"model": "softmax", "batch": 2, "data": ")" + std::string(MAILGRAD_SMALL_CSV) +
                   "\", " + run + "}, \"grid\": {" + grid + "}" + rest + "}")
        .string();
  }
  std::vector<std::string> words(const std::string& file, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"lab", "sweep", file, "--out", made_.string(), "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  const scratch_folder folder_;
  mutable int files_ = 0;
  const std::filesystem::path made_ = folder_.path() / "made";
};

TEST_F(LabSweep, RunsAGridAndWritesWhatItFound) {
  const std::string file =
      file_of(R"("policy": ["async", "sync"], "workers": [1, 4], "lr": [0.01, 0.2, 3e38], "seed": [1, 2])",
              R"("steps": 60)", R"(, "tune": "lr", "target": {"train_loss": 0.9})");
  tool t(words(file, {"--jobs", "2"}));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(), AllOf(StartsWith("method"), HasSubstr("async, workers 4"),
                             HasSubstr("24 of 24 cells have a row in"), HasSubstr(" of them diverged")));
  const std::vector<std::string> rows = lines_of(made_ / "sweep.csv");
  ASSERT_EQ(rows.size(), 25U);
  EXPECT_THAT(rows[0], StartsWith("cell,policy,workers,lr,seed,ended,why,steps,updates,samples,final_loss"));
  EXPECT_THAT(content_of(made_ / "sweep.csv"), AllOf(HasSubstr(",diverged,"), HasSubstr(",completed,")));
  EXPECT_THAT(content_of(made_ / "summary.csv"), HasSubstr("\nasync,1,"));
  EXPECT_THAT(content_of(made_ / "curves.csv"), StartsWith("cell,time,steps,updates,train_loss,test_loss"));
  if (!std::filesystem::exists(made_ / "sweep.html")) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_THAT(content_of(made_ / "sweep.html"),
              AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("<svg"), Not(HasSubstr("<script")),
                    HasSubstr("Made by: mailgrad lab sweep ")));
  for (const char* name : {"lr", "workers", "loss-time"})
    EXPECT_THAT(content_of(made_ / (std::string(name) + ".png")), StartsWith("\x89PNG")) << name;
}

/// The command of a row repeats its cell alone.
TEST_F(LabSweep, WritesCommandsThatRepeatACell) {
  const std::string file =
      file_of(R"("policy": ["ssp:2", "sync", "async, sync@30"], "workers": [3])",
              R"("steps": 60, "own-samples": true)", R"(, "without": [{"policy": "sync"}])");
  tool t(words(file));
  ASSERT_EQ(t.code(), 0) << t.err();
  for (const std::string& row : {lines_of(made_ / "sweep.csv")[1], lines_of(made_ / "sweep.csv")[2]}) {
    const std::size_t begin = row.find("mailgrad lab run "),
                      end = row.find(",", row.find("--workers=", begin));
    ASSERT_NE(begin, std::string::npos) << row;
    std::string command = row.substr(begin, end - begin);
    std::erase(command, '"'); // of CSV
    const std::string report = (folder_.path() / "alone.json").string();
    command.replace(0, std::string("mailgrad").size(), MAILGRAD_TOOL);
    ASSERT_EQ(std::system((command + " --quiet --report " + report + " > /dev/null").c_str()), 0)
        << command; // NOLINT
    const std::string sha = testing::json::parse(std::ifstream(report))["parameters_sha256"];
    EXPECT_THAT(row, HasSubstr(sha)) << command;
  }
}

TEST_F(LabSweep, GoesOnWithTheCellsThatAreMissing) {
  const std::string file = file_of(R"("workers": [1, 2], "seed": [1, 2])");
  tool first(words(file));
  ASSERT_EQ(first.code(), 0) << first.err();
  const std::vector<std::string> before = lines_of(made_ / "sweep.csv");
  std::string kept = before[0] + '\n' + before[2] + '\n' + before[4].substr(0, 20); // killed while it wrote
  std::ofstream(made_ / "sweep.csv") << kept;
  tool again(words(file));
  ASSERT_EQ(again.code(), 0) << again.err();
  const std::vector<std::string> after = lines_of(made_ / "sweep.csv");
  ASSERT_EQ(after.size(), 5U);
  EXPECT_EQ(after[1], before[2]) << "as it was, to its date";
  EXPECT_EQ(count_of(content_of(made_ / "curves.csv"), "\n"), 1U + 4 * 20);
  tool other(words(file_of(R"("workers": [1, 2], "seed": [1, 3])")));
  EXPECT_EQ(other.code(), 2);
  EXPECT_THAT(other.err(), HasSubstr("has rows of another sweep; --restart sets them aside"));
  tool restarted(words(file, {"--restart"}));
  EXPECT_EQ(restarted.code(), 0) << restarted.err();
  EXPECT_EQ(lines_of(made_ / "sweep.csv.old"), after);
}

TEST_F(LabSweep, ReplacesNoFileThatItReads) {
  std::filesystem::create_directory(made_);
  const std::filesystem::path file = made_ / "sweep.json";
  std::filesystem::copy_file(file_of(R"("workers": [1])"), file);
  tool t(words(file.string(), {"--restart"}));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("would replace"));
  EXPECT_THAT(content_of(file), HasSubstr("\"grid\""));
  EXPECT_FALSE(std::filesystem::exists(made_ / "sweep.csv"));
}

/// A sweep of more data sets than it keeps reads each again when its turn comes.
TEST_F(LabSweep, TriesCellsThatFailedAgain) {
  std::string files;
  for (char name = 'a'; name <= 'f'; ++name) {
    const std::filesystem::path csv = folder_.path() / (std::string(1, name) + ".csv");
    std::filesystem::copy_file(MAILGRAD_SMALL_CSV, csv);
    files += (files.empty() ? "\"" : ", \"") + csv.string() + '"';
  }
  const std::filesystem::path last = folder_.path() / "f.csv", away = folder_.path() / "away";
  const std::string file =
      folder_
          .write(
              "sweep.json",
              R"({"run": {"model": "softmax", "batch": 2, "workers": 2, "steps": 4000}, "grid": {"data": [)" +
                  files + "]}}")
          .string();
  tool t(words(file, {"--jobs", "1"}));
  for (int tries = 0; tries < 10'000 && !std::filesystem::exists(made_ / "sweep.csv"); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  std::filesystem::rename(last, away);
  EXPECT_EQ(t.code(), 1) << t.err();
  EXPECT_THAT(t.out(), AllOf(HasSubstr("6 of 6 cells have a row in"), HasSubstr("1 of them failed ("),
                             HasSubstr("the same command tries those that failed again")));
  std::filesystem::rename(away, last);
  tool again(words(file));
  EXPECT_EQ(again.code(), 0) << again.err();
  ASSERT_EQ(lines_of(made_ / "sweep.csv").size(), 7U);
  EXPECT_THAT(content_of(made_ / "sweep.csv"), Not(HasSubstr(",failed,")));
}

TEST_F(LabSweep, RefusesRowsOfOtherDataAndModels) {
  const std::string layers = R"({"layers": [{"dense": {}}]})";
  const std::filesystem::path data = folder_.path() / "own.csv", model = folder_.write("own.json", layers);
  std::filesystem::copy_file(MAILGRAD_SMALL_CSV, data);
  const std::string file =
      folder_
          .write("sweep.json", R"({"run": {"model": ")" + model.string() + R"(", "data": ")" + data.string() +
                                   R"(", "batch": 2, "steps": 20}, "grid": {"workers": [1, 2]}})")
          .string();
  tool first(words(file));
  ASSERT_EQ(first.code(), 0) << first.err();
  const std::string rows = content_of(made_ / "sweep.csv");
  std::ofstream(model, std::ios::app) << '\n';
  tool other_model(words(file));
  EXPECT_EQ(other_model.code(), 2);
  EXPECT_THAT(other_model.err(), HasSubstr("has rows with another model=" + model.string() + " (SHA-256 "));
  folder_.write("own.json", layers);
  const std::string sample = lines_of(data).back();
  std::ofstream(data, std::ios::app) << sample << '\n';
  tool other_data(words(file));
  EXPECT_EQ(other_data.code(), 2);
  EXPECT_THAT(other_data.err(), HasSubstr("has rows with another data=" + data.string() + " (SHA-256 "));
  EXPECT_EQ(content_of(made_ / "sweep.csv"), rows);
}

/// They have one identity only if nothing was changed since the commit.
TEST_F(LabSweep, TellsBuildsWithChangesApart) {
  const std::string file = file_of(R"("workers": [1])");
  const std::string other = (folder_.path() / "mailgrad").string();
  std::filesystem::copy_file(MAILGRAD_TOOL, other);
  std::filesystem::copy_file(MAILGRAD_TOOL "-lab", other + "-lab");
  std::ofstream(other + "-lab", std::ios::app) << ' ';
  tool first(words(file));
  ASSERT_EQ(first.code(), 0) << first.err();
  const bool clean = content_of(made_ / "sweep.json").find("-dirty") == std::string::npos &&
                     content_of(made_ / "sweep.json").find("unknown") == std::string::npos;
  tool t(words(file), nullptr, {}, other.c_str());
  EXPECT_EQ(t.code(), clean ? 0 : 2) << t.err();
  EXPECT_EQ(t.err().find("has rows of another program") == std::string::npos, clean) << t.err();
}

TEST_F(LabSweep, KeepsWhatIsDoneAtASignal) {
  const std::string file = file_of(R"("workers": [1, 2, 3], "steps": [60, 100000000])", R"("lr": 0.01)");
  tool t(words(file, {"--jobs", "1"}));
  while (!std::filesystem::exists(made_ / "sweep.csv") || lines_of(made_ / "sweep.csv").size() < 2)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130) << t.err();
  EXPECT_THAT(t.out(), ::testing::StartsWith("This is a part of the grid: 1 of 6 cells have ended"));
  EXPECT_THAT(t.out(), HasSubstr("1 of 6 cells have a row in"));
  EXPECT_THAT(t.out(), HasSubstr("the same command goes on with the others"));
  EXPECT_EQ(lines_of(made_ / "sweep.csv").size(), 2U);
  EXPECT_EQ(lines_of(made_ / "summary.csv").size(), 2U);
}

TEST_F(LabSweep, SaysInOneLineWhatIsWrongBeforeAnythingRuns) {
  const std::pair<std::string, std::string> wrong[] = {
      {file_of(R"("workers": [1], "polcy": ["async"])"), "no option '--polcy'; did you mean '--policy'?"},
      {file_of(R"("workers": [1], "lr": [0.1, "fast"])"), "--lr"},
      {file_of(R"("workers": [1], "policy": ["async", "asink"])"), "policy=asink: policy 'asink' is unknown"},
      {file_of(R"("workers": [2], "delays": ["gama"])"), "delays 'gama' are unknown; did you mean 'gamma'?"},
      {file_of(R"("lr": [0.1])"), "'--workers' is missing"},
      {file_of(""), "'grid' is empty"},
      {file_of(R"("workers": [])"), "grid: 'workers' has no value"},
      {file_of(R"("workers": [1], "model": ["mlp"])"), "'model' is in 'run' and in 'grid'"},
      {file_of(R"("workers": [1], "save": ["w.npz"])"), "'save': a sweep has outputs of its own"},
      {file_of(R"("workers": [1])", R"("data-limit": 0)"), "--data-limit"},
      {folder_.write("text", "workers: 1").string(), "line 1 is no JSON"},
      {(folder_.path() / "nowhere").string(), "cannot be read"},
      {"/dev/zero", "it is too long for a sweep"},
  };
  for (const auto& [file, says] : wrong) {
    tool t(words(file));
    EXPECT_EQ(t.code(), 2) << says;
    EXPECT_THAT(t.err(), HasSubstr(says));
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
    EXPECT_FALSE(std::filesystem::exists(made_)) << says;
  }
  tool without(std::vector<std::string>{"lab", "sweep", wrong[0].first});
  EXPECT_EQ(without.code(), 2);
  EXPECT_THAT(without.err(), HasSubstr("--out"));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <tuple>

// Whole runs of the tool, on a table of sixty rows.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::tool;

class TrainCommand : public ::testing::Test {
protected:
  /// `words` after those that choose model, data and report.
  std::vector<std::string> train(std::vector<std::string> words) const {
    std::vector<std::string> all{"train",   "--model", "softmax",  "--data", MAILGRAD_SMALL_CSV,
                                 "--batch", "4",       "--report", report_};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  json report() const { return json::parse(std::ifstream(report_)); }

  static std::uint64_t fates(const json& ledger) {
    std::uint64_t sum = 0;
    for (const char* fate : {"applied", "merged", "lost"}) sum += ledger[fate].get<std::uint64_t>();
    for (const auto& [reason, count] : ledger["discarded"].items()) sum += count.get<std::uint64_t>();
    return sum;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& f : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(f.path().filename());
    return names;
  }

  const scratch_folder folder_;
  const std::string report_ = (folder_.path() / "run.json").string();
};

TEST_F(TrainCommand, WritesAReportThatBalancesInEveryPolicy) {
  for (const char* policy : {"async", "sync", "hogwild"}) {
    tool t(train({"--policy", policy, "--devices", "cpu:0,cpu:0", "--epochs", "5", "--shards", "1"}));
    ASSERT_EQ(t.code(), 0) << t.err();
    const json r = report();
    EXPECT_EQ(r["policy"], policy);
    EXPECT_EQ(r["ended"], "completed");
    EXPECT_EQ(r["devices"], json({"cpu:0", "cpu:0"}));
    EXPECT_GT(r["steps"], 0);
    EXPECT_EQ(r["ledger"]["produced"], r["steps"]);
    EXPECT_EQ(fates(r["ledger"]), r["ledger"]["produced"]);
    EXPECT_EQ(r["parameters_sha256"].get<std::string>().size(), 64U);
    EXPECT_TRUE(r["test_accuracy"].is_number());
    EXPECT_TRUE(r["test_rmse"].is_null());
    EXPECT_TRUE(r["final_loss"].is_number());
    EXPECT_EQ(r["seed"], 1);
    EXPECT_THAT(files(), ::testing::ElementsAre("run.json")) << "nothing is left beside the report";
  }
}

TEST_F(TrainCommand, WritesASampleOfATextAtTheEnd) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += i % 3 == 0 ? "abc\n" : "bca\n";
  const auto file = folder_.write("plays.txt", text);
  const auto words = [&](const char* length) {
    return std::vector<std::string>{"train",
                                    "--model",
                                    "gpt:layers=1,width=8,heads=2",
                                    "--data",
                                    file,
                                    "--batch",
                                    "4",
                                    "--window",
                                    "8",
                                    "--steps",
                                    "6",
                                    "--report",
                                    report_,
                                    "--sample-length",
                                    length,
                                    "--temperature",
                                    "0"};
  };
  tool t(words("20"));
  ASSERT_EQ(t.code(), 0) << t.err();
  const auto sample = report()["sample"].get<std::string>();
  EXPECT_EQ(sample.size(), 20U);
  EXPECT_EQ(sample.find_first_not_of("abc\n"), sample.npos);
  EXPECT_THAT(t.out(), HasSubstr("\nsample\n"));
  tool none(words("0"));
  ASSERT_EQ(none.code(), 0) << none.err();
  EXPECT_TRUE(report()["sample"].is_null());
  EXPECT_THAT(none.out(), Not(HasSubstr("\nsample\n")));
}

TEST_F(TrainCommand, PrintsASummaryAndPlainLinesWhenPiped) {
  tool t(train({"--steps", "20"}));
  ASSERT_EQ(t.code(), 0);
  EXPECT_THAT(t.out(), AllOf(HasSubstr("completed after 20 steps"), HasSubstr("test accuracy"),
                             HasSubstr("staleness"), HasSubstr("20 produced = 20 applied")));
  EXPECT_THAT(t.err(), AllOf(Not(HasSubstr("\r")), Not(HasSubstr("\033"))));
}

TEST_F(TrainCommand, KeepsQuietIfAsked) {
  tool t(train({"--steps", "20", "--quiet"}));
  ASSERT_EQ(t.code(), 0);
  EXPECT_THAT(t.err(), IsEmpty());
}

TEST_F(TrainCommand, MakesTheSameWeightsFromTheSameSeed) {
  std::vector<std::string> hashes;
  for (const char* seed : {"7", "7", "8"}) {
    tool t(train({"--steps", "20", "--seed", seed, "--quiet"}));
    ASSERT_EQ(t.code(), 0);
    hashes.push_back(report()["parameters_sha256"]);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
}

TEST_F(TrainCommand, EndsInGoodOrderOnASignalAndNamesIt) {
  const std::vector<std::tuple<int, std::string, int>> signals{
      {SIGINT, "SIGINT", 130}, {SIGTERM, "SIGTERM", 143}, {SIGHUP, "SIGHUP", 129}};
  for (const auto& [number, name, code] : signals) {
    tool t(train({"--epochs", "1000000000"}));
    ASSERT_TRUE(t.says("step ")) << t.err();
    t.signal(number);
    EXPECT_EQ(t.code(), code) << name;
    const json r = report();
    EXPECT_EQ(r["ended"], "stopped");
    EXPECT_EQ(r["why"], "stopped by " + name);
    EXPECT_GT(r["steps"], 0);
    EXPECT_EQ(fates(r["ledger"]), r["ledger"]["produced"]);
  }
}

/// A run whose training has no end, and whose test takes seconds.
std::vector<std::string> long_test(const scratch_folder& folder) {
  std::string rows = "x,y,label\n";
  for (int i = 0; i < 80'000; ++i)
    rows += std::to_string(i % 7) + ',' + std::to_string(i % 5) + ',' + std::to_string(i % 2) + '\n';
  const std::string data = folder.write("many.csv", rows).string();
  return {"train", "--model", "mlp:hidden=2000x2000x2000", "--data", data, "--batch", "1", "--epochs", "9"};
}

/// As `timeout` sends them: both have come when the process goes on.
TEST_F(TrainCommand, TakesTwoSignalsAtOnceForOne) {
  tool t(train({"--epochs", "1000000000"}));
  ASSERT_TRUE(t.says("step ")) << t.err();
  for (const int number : {SIGSTOP, SIGTERM, SIGINT, SIGCONT}) t.signal(number);
  EXPECT_GT(t.code(), 0) << t.err();
  EXPECT_TRUE(std::filesystem::exists(report_));
}

TEST_F(TrainCommand, EndsAtOnceOnASecondSignalOfAnyKind) {
  for (const auto& [first, second] : std::vector<std::pair<int, int>>{{SIGINT, SIGTERM}, {SIGHUP, SIGINT}}) {
    std::vector<std::string> words = long_test(folder_);
    words.insert(words.end(), {"--report", report_});
    tool t(words);
    ASSERT_TRUE(t.says("step ")) << t.err();
    t.signal(first);
    ASSERT_TRUE(t.says("testing on 16000 samples")) << t.err();
    while (t.runs()) t.signal(second); // once more if it came so soon that it counts as the first
    EXPECT_EQ(t.code(), -second);
    EXPECT_THAT(t.err(),
                HasSubstr("mailgrad: a second signal ends the run at once: its weights, report and other "
                          "outputs are lost\n"));
    EXPECT_FALSE(std::filesystem::exists(report_));
  }
}

TEST_F(TrainCommand, GoesOnWhenItsTerminalIsClosedUnderNohup) {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &before); // the tool inherits it
  tool t(train({"--epochs", "1000000000"}));
  sigaction(SIGHUP, &before, nullptr);
  ASSERT_TRUE(t.says("step ")) << t.err();
  t.signal(SIGHUP);
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130);
  EXPECT_EQ(report()["why"], "stopped by SIGINT");
}

TEST_F(TrainCommand, SaysWhatItRanOnAndWhen) {
  tool t(train({"--epochs", "2", "--devices", "cpu:0,cpu:0", "--policy", "sync"}));
  ASSERT_EQ(t.code(), 0) << t.err();
  const json r = report();
  const std::string version = tool({"--version"}).out();
  for (const char* field : {"version", "commit", "compiler"})
    EXPECT_THAT(version, HasSubstr(r[field].get<std::string>())) << field;
  EXPECT_THAT(r["date"].get<std::string>(), ::testing::MatchesRegex("20..-..-..T..:..:..Z"));
  char host[256];
  ASSERT_EQ(gethostname(host, sizeof host), 0);
  EXPECT_EQ(r["host"], host);
  EXPECT_THAT(r["processor"].get<std::string>(), Not(IsEmpty()));
  EXPECT_EQ(r["epochs"], 2.0);
  EXPECT_EQ(r["wait_seconds"]["per_worker"].size(), 2U);
  double barrier = 0;
  for (const json& w : r["wait_seconds"]["per_worker"]) barrier += w["barrier"].get<double>();
  EXPECT_DOUBLE_EQ(barrier, r["wait_seconds"]["barrier"]);
}

TEST_F(TrainCommand, TellsItsOptionsInTheWordsThatWereGiven) {
  tool t(train({"--epochs", "2", "--keep-weights", "best"}));
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(report()["command"], ::testing::Contains("--keep-weights=best"));
}

TEST_F(TrainCommand, CountsTheWeightsAndNotTheGapsBetweenThem) {
  tool t(train({"--steps", "2"}));
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("; " + report()["weights"].dump() + " weights in 1 shard"));
}

#ifndef __SANITIZE_ADDRESS__ // whose shadow needs all addresses there are
TEST_F(TrainCommand, SaysWhatNeedsMoreMemoryThanThereIs) {
  const auto file = folder_.write("zeros.txt", "");
  std::filesystem::resize_file(file, 800'000'000); // takes no room on a disk
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit less{.rlim_cur = std::uint64_t{2} << 30, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_AS, &less); // the tool inherits it
  tool t({"train", "--data", file});
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(t.code(), 2);
  EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
  EXPECT_THAT(t.err(), AllOf(HasSubstr("'zeros.txt': out of memory after reading some of its 762.9 MiB"),
                             HasSubstr("take a part of it")));

  setrlimit(RLIMIT_AS, &less);
  tool model({"train", "--model", "mlp:hidden=40000x40000", "--data", MAILGRAD_SMALL_CSV, "--batch", "4"});
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(model.code(), 1);
  EXPECT_THAT(model.err(),
              AllOf(HasSubstr("model 'mlp:hidden=40000x40000' on 'cpu:0' with --batch 4: out of memory"),
                    HasSubstr("take a smaller model or batch")));
}
#endif

TEST_F(TrainCommand, SendsNoControlCodesOfATextToTheTerminal) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "\x1b[31m\u0085\u00e9\t\n";
  const auto file = folder_.write("codes.txt", text);
  tool t({"train", "--model", "gpt:layers=1,width=8,heads=2", "--data", file, "--batch", "4", "--window", "8",
          "--steps", "2", "--temperature", "1000", "--report", report_});
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(), AllOf(HasSubstr("\\x1b"), HasSubstr("\\xc2\\x85"), HasSubstr("\u00e9"),
                             HasSubstr("\t"), Not(HasSubstr("\x1b")), Not(HasSubstr("\u0085"))));
  EXPECT_THAT(report()["sample"].get<std::string>(), HasSubstr("\x1b")) << "the report has it as it is";
}

// The test takes some sixty passes through a wide network, and training one step of one sample.
TEST_F(TrainCommand, EndsTheTestEarlyOnCtrlC) {
  std::string rows = "x,y,label\n";
  for (int i = 0; i < 80'000; ++i)
    rows += std::to_string(i % 7) + ',' + std::to_string(i % 5) + ',' + std::to_string(i % 2) + '\n';
  const std::string data = folder_.write("many.csv", rows).string();
  tool t({"train", "--model", "mlp:hidden=1500x1500", "--data", data, "--batch", "1", "--steps", "1",
          "--report", report_});
  ASSERT_TRUE(t.says("testing on 16000 samples")) << t.err();
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130) << t.err();
  const json r = report();
  EXPECT_EQ(r["ended"], "completed");
  EXPECT_EQ(r["why"], "the test was ended early by SIGINT");
  EXPECT_TRUE(r["test_accuracy"].is_null());
  EXPECT_THAT(t.err(), HasSubstr("the test was ended early"));
}

TEST_F(TrainCommand, FailsWithWorkerAndStepWhenTheLossDiverges) {
  tool t(train(
      {"--lr", "1e30", "--l2", "1e30", "--epochs", "3"})); // the first step throws every weight out of range
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), AllOf(HasSubstr("worker 0"), HasSubstr("step"), HasSubstr("loss")));
  const json r = report();
  EXPECT_EQ(r["ended"], "diverged");
  EXPECT_THAT(r["why"].get<std::string>(), HasSubstr("worker 0"));
  EXPECT_TRUE(r["test_accuracy"].is_null());
  EXPECT_EQ(fates(r["ledger"]), r["ledger"]["produced"]);
}

TEST_F(TrainCommand, NamesFileAndLineOfDamagedData) {
  const auto damaged = folder_.write("damaged.csv", "x,y,label\n1,2,0\n3,4,1\n5,oops,1\n");
  tool t({"train", "--model", "softmax", "--data", damaged.string(), "--report", report_});
  EXPECT_EQ(t.code(), 2);
  EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
  EXPECT_THAT(t.err(), AllOf(HasSubstr("damaged.csv"), HasSubstr("4"), HasSubstr("oops")));
  EXPECT_THAT(files(), ::testing::ElementsAre("damaged.csv")) << "no report of what never began";
}

TEST_F(TrainCommand, SaysWhichDataItDoesNotFind) {
  tool t({"train", "--data", "/no/such/data"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("/no/such/data"));
}

TEST_F(TrainCommand, RefusesAReportThatCannotBeWrittenBeforeItTrains) {
  std::filesystem::create_directory(report_); // a folder where the file should be
  for (const std::string& path : {std::string("/no/such/folder/run.json"), report_}) {
    tool t({"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--report", path});
    EXPECT_EQ(t.code(), 2);
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
    EXPECT_THAT(t.err(), HasSubstr(path));
    EXPECT_THAT(t.out(), IsEmpty());
  }
}

TEST_F(TrainCommand, WritesIntoADeviceAndDoesNotReplaceIt) {
  std::vector<std::string> words = train({"--epochs", "1"});
  *std::ranges::find(words, report_) = "/dev/full";
  tool t(words);
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), HasSubstr("report '/dev/full' cannot be written: No space left"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(TrainCommand, ReplacesTheFileBehindALinkAndNotTheLink) {
  const std::filesystem::path file = folder_.path() / "real.json";
  std::ofstream(file) << "old";
  std::filesystem::create_symlink(file, report_);
  tool t(train({"--epochs", "1"}));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_TRUE(std::filesystem::is_symlink(report_));
  EXPECT_EQ(report()["ended"], "completed");
}

TEST_F(TrainCommand, RefusesABatchLargerThanItsData) {
  std::vector<std::string> words = train({"--epochs", "1"});
  *std::ranges::find(words, "4") = "100000000";
  tool t(words);
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("batch: 100000000 samples; the training set has"));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(TrainCommand, SwitchesAndCuresAndTellsInItsReport) {
  tool t(
      train({"--policy", "async, sync@6", "--cure", "inverse", "--devices", "cpu:0,cpu:0", "--epochs", "2"}));
  EXPECT_EQ(t.code(), 0) << t.err();
  const json r = report();
  EXPECT_EQ(r["switches"][0]["to"], "sync");
  EXPECT_EQ(r["cure"]["name"], "inverse");
  EXPECT_GT(r["updates"], 0);
  EXPECT_THAT(t.out(),
              AllOf(HasSubstr("switched      from async to sync"), HasSubstr("cure          inverse")));
}

TEST_F(TrainCommand, LearnsNumbersAndTellsTheirErrorInPlaceOfAnAccuracy) {
  std::string rows = "a,b,target\n";
  for (int i = 0; i < 60; ++i) { // target = 2 a + b + 0.5
    const int a = i % 7, b = i % 5;
    rows += std::to_string(a) + ',' + std::to_string(b) + ',' + std::to_string(2 * a + b) + ".5\n";
  }
  const std::string table = folder_.write("line.csv", rows).string();
  std::vector<std::string> words = train({"--task", "regression", "--lr", "0.1", "--epochs", "200"});
  *std::ranges::find(words, MAILGRAD_SMALL_CSV) = table;
  tool t(words);
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_LT(report()["test_rmse"].get<double>(), 0.02);
  EXPECT_TRUE(report()["test_accuracy"].is_null());
  EXPECT_THAT(t.out(), AllOf(HasSubstr("test RMSE     0.0"), Not(HasSubstr("accuracy"))));
  EXPECT_THAT(t.err(), HasSubstr("12 to test on, a number to predict\n"));
}

TEST_F(TrainCommand, TakesBlanksInAListOfDevices) {
  tool t(train({"--devices", "cpu:0, cpu:0", "--steps", "4"}));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_EQ(report()["devices"].size(), 2U);
}

TEST_F(TrainCommand, ReplacesAnOldReport) {
  folder_.write("run.json", "an old report, longer than it need be\n");
  tool t(train({"--steps", "5", "--quiet"}));
  ASSERT_EQ(t.code(), 0);
  EXPECT_EQ(report()["steps"], 5);
}

TEST_F(TrainCommand, KeepsAnOldReportOfARunThatDoesNotBegin) {
  folder_.write("run.json", "{}");
  tool t({"train", "--data", "/no/such/data", "--report", report_});
  EXPECT_EQ(t.code(), 2);
  EXPECT_EQ(report(), json::object());
  EXPECT_THAT(files(), ::testing::ElementsAre("run.json"));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/cli/train_command_fixture.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// Whole runs of the tool, on a table of sixty rows.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::tool;
using testing::TrainCommand;

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

/// What a person gets who names neither rule nor devices. The tests of this file name both (tool.hpp).
TEST_F(TrainCommand, TakesAdamAndAllThatItMayUseByDefault) {
  const std::string recording = (folder_.path() / "run.rec").string();
  tool t(testing::as_typed{train({"--steps", "20", "--record", recording})});
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("\nadam at 0.001 (default), sync (default) on "));
  const json r = report();
  EXPECT_EQ(r["optimizer"], "adam");
  EXPECT_THAT(r["command"], ::testing::Contains("--optimizer=adam"));
  tool devices({"devices"});
  std::size_t usable = 0;
  for (const std::string line = devices.out();
       line.find("cpu:" + std::to_string(usable)) != std::string::npos;)
    ++usable;
  if (devices.out().find("cuda:0") == std::string::npos) {
    EXPECT_EQ(r["devices"].size(), usable);
  }
  tool again({"replay", recording});
  EXPECT_EQ(again.code(), 0) << again.err();
}

TEST_F(TrainCommand, TakesASmallerBatchByDefaultWhereSamplesAreFew) {
  std::string rows = "x,y\n";
  for (int i = 0; i < 40; ++i) rows += fmt::format("{},{}\n", i, i % 2);
  const auto data = folder_.write("few.csv", rows);
  const std::string recording = (folder_.path() / "few.rec").string();
  tool t(testing::as_typed{{"train", "--model", "softmax", "--data", data, "--workers", "2", "--record",
                            recording, "--report", report_}});
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("samples a mini-batch since there are so few"));
  EXPECT_LE(report()["batch"].get<int>(), 20);
  tool again({"replay", recording});
  EXPECT_EQ(again.code(), 0) << again.err();
}

/// The affinity of this process is that of those that it starts.
TEST_F(TrainCommand, CountsTheCoresThatItMayUse) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "there is one core";
  std::size_t first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  tool devices({"devices"}), run(testing::as_typed{train({"--steps", "8"})});
  const int failed = devices.code() + run.code();
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(failed, 0) << devices.err() << run.err();
  EXPECT_THAT(devices.out(),
              AllOf(::testing::StartsWith("cpu:0\n"), Not(HasSubstr("cpu:1\n")),
                    HasSubstr("may be used: 1 of "), HasSubstr("this process is bound to 1\n")));
  if (devices.out().find("cuda:0") == std::string::npos) {
    EXPECT_EQ(report()["devices"].size(), 1U);
    EXPECT_THAT(run.err(), HasSubstr("sync (default) on 1 of "));
  }
}

TEST_F(TrainCommand, FailsWithWorkerAndStepWhenTheLossDiverges) {
  tool t(train(
      {"--lr", "1e30", "--l2", "1e30", "--epochs", "3"})); // the first step throws every weight out of range
  EXPECT_EQ(t.code(), 5);
  EXPECT_THAT(t.err(), AllOf(HasSubstr("worker 0"), HasSubstr("step"), HasSubstr("loss")));
  const json r = report();
  EXPECT_EQ(r["ended"], "diverged");
  EXPECT_THAT(r["why"].get<std::string>(), HasSubstr("worker 0"));
  EXPECT_TRUE(r["test_accuracy"].is_null());
  EXPECT_EQ(fates(r["ledger"]), r["ledger"]["produced"]);
}

/// Each sample has both labels, so no weights are right, and huge steps give huge losses.
TEST_F(TrainCommand, EndsAtOnceWhenTheLossHasGrownToNonsense) {
  std::string rows = "x,y,label\n";
  for (int i = 0; i < 20; ++i) rows += "1,2,a\n1,2,b\n3,1,a\n3,1,b\n";
  const std::string data = folder_.write("both.csv", rows).string();
  const auto wild = [&](std::vector<std::string> words) {
    std::vector<std::string> all{"train", "--model", "softmax",     "--data", data,       "--batch", "5",
                                 "--lr",  "1e8",     "--clip-norm", "1",      "--report", report_};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  };
  tool t(wild({"--epochs", "100000000"}));
  EXPECT_EQ(t.code(), 5);
  EXPECT_THAT(t.err(), HasSubstr("mailgrad: the loss has grown to nonsense: "));
  EXPECT_THAT(t.out(), ::testing::ContainsRegex("final loss    [0-9.]+e.[0-9]+\n"));
  const json r = report();
  EXPECT_EQ(r["ended"], "diverged");
  EXPECT_THAT(r["why"].get<std::string>(), HasSubstr("steps in a row"));

  tool kept(wild({"--steps", "41", "--save", (folder_.path() / "weights").string()}));
  EXPECT_EQ(kept.code(), 5) << "its last loss is judged";
  EXPECT_THAT(kept.err(),
              AllOf(HasSubstr("that of the test is"), HasSubstr("are not written: the run has diverged")));
  tool on(wild({"--steps", "41", "--on-divergence", "go-on"}));
  EXPECT_EQ(on.code(), 0) << on.err();
  EXPECT_EQ(report()["ended"], "completed");
}

/// It had ended as its workers told, and the replay ends where its recording does.
TEST_F(TrainCommand, RepeatsARunThatEndedInNonsense) {
  std::string rows = "x,y,label\n";
  for (int i = 0; i < 20; ++i) rows += "1,2,a\n1,2,b\n3,1,a\n3,1,b\n";
  const std::string recording = (folder_.path() / "run.rec").string();
  tool t({"train", "--model", "softmax", "--data", folder_.write("both.csv", rows).string(), "--batch", "5",
          "--lr", "1e8", "--clip-norm", "1", "--steps", "100000000", "--devices", "cpu:0,cpu:0", "--record",
          recording});
  ASSERT_EQ(t.code(), 5) << t.err();
  tool again({"replay", recording});
  EXPECT_EQ(again.code(), 0) << again.err();
  EXPECT_THAT(again.out(), HasSubstr("the same parameters as recorded"));
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

TEST_F(TrainCommand, RefusesABatchLargerThanItsData) {
  std::vector<std::string> words = train({"--epochs", "1"});
  *std::ranges::find(words, "4") = "100000000";
  tool t(words);
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("batch: 100000000 samples; the training set has"));
  EXPECT_THAT(files(), IsEmpty());
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

} // namespace
} // namespace mailgrad

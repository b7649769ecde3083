#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <fmt/format.h>

#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <tuple>

// Whole runs of the tool: what they print, report and refuse, what a signal does, and what goes wrong.

namespace mailgrad::testing {
namespace {

struct TrainCommand : ToolTest {
  words train(const words& more) const { return testing::train("--report"_w + path("run.json") + more); }
  json trained(const words& more) const {
    done(train(more));
    return report();
  }
  /// A table of so many rows, of which a fifth is to test on.
  std::string many_rows(int count) const {
    std::string rows = "x,y,label\n";
    for (int i = 0; i < count; ++i) rows += fmt::format("{},{},{}\n", i % 7, i % 5, i % 2);
    return folder.write("many.csv", rows).string();
  }
  /// Each sample has both labels, so no weights are right, and huge steps give huge losses.
  words wild() const {
    std::string rows = "x,y,label\n";
    for (int i = 0; i < 20; ++i) rows += "1,2,a\n1,2,b\n3,1,a\n3,1,b\n";
    return "train --model softmax --batch 5 --lr 1e8 --clip-norm 1 --data"_w +
           folder.write("both.csv", rows).string();
  }
  static std::uint64_t fates(const json& ledger) {
    std::uint64_t sum = 0;
    for (const char* fate : {"applied", "merged", "lost"}) sum += ledger[fate].get<std::uint64_t>();
    for (const auto& [reason, count] : ledger["discarded"].items()) sum += count.get<std::uint64_t>();
    return sum;
  }
  words files() const {
    words names;
    for (const auto& f : std::filesystem::directory_iterator(folder.path()))
      names.push_back(f.path().filename());
    return names;
  }
};

TEST_F(TrainCommand, WritesASampleOfATextAtTheEnd) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += i % 3 == 0 ? "abc\n" : "bca\n";
  const words run =
      "train --model gpt:layers=1,width=8,heads=2 --batch 4 --window 8 --steps 6 --temperature 0 "
      "--data"_w +
      folder.write("plays.txt", text) + "--report"_w + path("run.json") + "--sample-length";
  EXPECT_THAT(done(run + "20").out, HasSubstr("\nsample\n"));
  const auto sample = report()["sample"].get<std::string>();
  EXPECT_EQ(sample.size(), 20U);
  EXPECT_EQ(sample.find_first_not_of("abc\n"), sample.npos);
  EXPECT_THAT(done(run + "0").out, Not(HasSubstr("\nsample\n")));
  EXPECT_TRUE(report()["sample"].is_null());
}

TEST_F(TrainCommand, PrintsASummaryAndPlainLinesWhenPiped) {
  const spoken run = done(train("--steps 20"_w));
  EXPECT_THAT(run.out,
              HasAll("completed after 20 steps", "test accuracy", "staleness", "20 produced = 20 applied"));
  EXPECT_THAT(run.err, AllOf(Not(HasSubstr("\r")), Not(HasSubstr("\033"))));
}

TEST_F(TrainCommand, KeepsQuietIfAsked) { EXPECT_THAT(done(train("--steps 20 --quiet"_w)).err, IsEmpty()); }

TEST_F(TrainCommand, MakesTheSameWeightsFromTheSameSeed) {
  words hashes;
  for (const char* seed : {"7", "7", "8"})
    hashes.push_back(trained("--steps 20 --quiet --seed"_w + seed)["parameters_sha256"]);
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
}

TEST_F(TrainCommand, CountsTheWeightsAndNotTheGapsBetweenThem) {
  const std::string said = done(train("--steps 2"_w)).err;
  EXPECT_THAT(said, HasSubstr("; " + report()["weights"].dump() + " weights in 1 shard"));
}

#ifndef __SANITIZE_ADDRESS__ // whose shadow needs all addresses there are
TEST_F(TrainCommand, SaysWhatNeedsMoreMemoryThanThereIs) {
  const auto file = folder.write("zeros.txt", "");
  std::filesystem::resize_file(file, 800'000'000); // takes no room on a disk
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit less{.rlim_cur = std::uint64_t{2} << 30, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_AS, &less); // the tool inherits it
  tool t("train --data"_w + file), model(testing::train({}, "mlp:hidden=40000x40000"));
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(),
              AllOf(IsOneLine(), HasSubstr("'zeros.txt': out of memory after reading some of its 762.9 MiB"),
                    HasSubstr("take a part of it")));
  EXPECT_EQ(model.code(), 1);
  EXPECT_THAT(model.err(), HasAll("model 'mlp:hidden=40000x40000' on 'cpu:0' with --batch 4: out of memory",
                                  "take a smaller model or batch"));
}
#endif

TEST_F(TrainCommand, SendsNoControlCodesOfATextToTheTerminal) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "\x1b[31m\u0085\u00e9\t\n";
  const std::string out = done("train --model gpt:layers=1,width=8,heads=2 --batch 4 --window 8 --steps 2 "
                               "--temperature 1000 --data"_w +
                               folder.write("codes.txt", text) + "--report"_w + path("run.json"))
                              .out;
  EXPECT_THAT(out, AllOf(HasSubstr("\\x1b"), HasSubstr("\\xc2\\x85"), HasSubstr("\u00e9"), HasSubstr("\t"),
                         Not(HasSubstr("\x1b")), Not(HasSubstr("\u0085"))));
  EXPECT_THAT(report()["sample"].get<std::string>(), HasSubstr("\x1b")) << "the report has it as it is";
}

/// What a person gets who names neither rule nor devices. The tests of this file name both (tool.hpp).
TEST_F(TrainCommand, TakesAdamAndAllThatItMayUseByDefault) {
  tool t(as_typed{train("--steps 20 --record"_w + path("run.rec"))});
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("\nadam at 0.001 (default), sync (default) on "));
  const json r = report();
  EXPECT_EQ(r["optimizer"], "adam");
  EXPECT_THAT(r["command"], Contains("--optimizer=adam"));
  const std::string devices = done("devices"_w).out;
  std::size_t usable = 0;
  while (devices.find("cpu:" + std::to_string(usable)) != std::string::npos) ++usable;
  if (devices.find("cuda:0") == std::string::npos) {
    EXPECT_EQ(r["devices"].size(), usable);
  }
  done("replay"_w + path("run.rec"));
}

TEST_F(TrainCommand, TakesASmallerBatchByDefaultWhereSamplesAreFew) {
  std::string rows = "x,y\n";
  for (int i = 0; i < 40; ++i) rows += fmt::format("{},{}\n", i, i % 2);
  tool t(as_typed{"train --model softmax --workers 2 --data"_w + folder.write("few.csv", rows) +
                  "--record"_w + path("few.rec") + "--report"_w + path("run.json")});
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("samples a mini-batch since there are so few"));
  EXPECT_LE(report()["batch"].get<int>(), 20);
  done("replay"_w + path("few.rec"));
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
  tool devices("devices"_w), run(as_typed{train("--steps 8"_w)});
  const int failed = devices.code() + run.code();
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(failed, 0) << devices.err() << run.err();
  EXPECT_THAT(devices.out(),
              AllOf(StartsWith("cpu:0\n"), Not(HasSubstr("cpu:1\n")), HasSubstr("may be used: 1 of "),
                    HasSubstr("this process is bound to 1\n")));
  if (devices.out().find("cuda:0") == std::string::npos) {
    EXPECT_EQ(report()["devices"].size(), 1U);
    EXPECT_THAT(run.err(), HasSubstr("sync (default) on 1 of "));
  }
}

TEST_F(TrainCommand, FailsWithWorkerAndStepWhenTheLossDiverges) {
  // The first step throws every weight out of range.
  EXPECT_THAT(refusal(train("--lr 1e30 --l2 1e30 --epochs 3"_w), 5), HasAll("worker 0", "step", "loss"));
  const json r = report();
  EXPECT_EQ(r["ended"], "diverged");
  EXPECT_THAT(r["why"].get<std::string>(), HasSubstr("worker 0"));
  EXPECT_TRUE(r["test_accuracy"].is_null());
  EXPECT_EQ(fates(r["ledger"]), r["ledger"]["produced"]);
}

TEST_F(TrainCommand, EndsAtOnceWhenTheLossHasGrownToNonsense) {
  const words run = wild() + "--report"_w + path("run.json");
  tool t(run + "--epochs 100000000"_w);
  EXPECT_EQ(t.code(), 5);
  EXPECT_THAT(t.err(), HasSubstr("mailgrad: the loss has grown to nonsense: "));
  EXPECT_THAT(t.out(), ContainsRegex("final loss    [0-9.]+e.[0-9]+\n"));
  const json r = report();
  EXPECT_EQ(r["ended"], "diverged");
  EXPECT_THAT(r["why"].get<std::string>(), HasSubstr("steps in a row"));
  EXPECT_THAT(refusal(run + "--steps 41 --save"_w + path("weights"), 5),
              HasAll("that of the test is", "are not written: the run has diverged"))
      << "its last loss is judged";
  done(run + "--steps 41 --on-divergence go-on"_w);
  EXPECT_EQ(report()["ended"], "completed");
}

/// It had ended as its workers told, and the replay ends where its recording does.
TEST_F(TrainCommand, RepeatsARunThatEndedInNonsense) {
  refusal(wild() + "--steps 100000000 --devices cpu:0,cpu:0 --record"_w + path("run.rec"), 5);
  EXPECT_THAT(done("replay"_w + path("run.rec")).out, HasSubstr("the same parameters as recorded"));
}

TEST_F(TrainCommand, NamesFileAndLineOfDamagedData) {
  const auto damaged = folder.write("damaged.csv", "x,y,label\n1,2,0\n3,4,1\n5,oops,1\n");
  expect_refused("train --model softmax --data"_w + damaged + "--report"_w + path("run.json"), "damaged.csv",
                 "4", "oops");
  EXPECT_THAT(files(), ElementsAre("damaged.csv")) << "no report of what never began";
}

TEST_F(TrainCommand, RefusesABatchLargerThanItsData) {
  words run = train("--epochs 1"_w);
  *std::ranges::find(run, "4") = "100000000";
  expect_error(run, "batch: 100000000 samples; the training set has");
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(TrainCommand, LearnsNumbersAndTellsTheirErrorInPlaceOfAnAccuracy) {
  std::string rows = "a,b,target\n";
  for (int i = 0; i < 60; ++i) { // target = 2 a + b + 0.5
    const int a = i % 7, b = i % 5;
    rows += fmt::format("{},{},{}.5\n", a, b, 2 * a + b);
  }
  words run = train("--task regression --lr 0.1 --epochs 200"_w);
  *std::ranges::find(run, MAILGRAD_SMALL_CSV) = folder.write("line.csv", rows).string();
  const spoken said = done(run);
  EXPECT_LT(report()["test_rmse"].get<double>(), 0.02);
  EXPECT_TRUE(report()["test_accuracy"].is_null());
  EXPECT_THAT(said.out, AllOf(HasSubstr("test RMSE     0.0"), Not(HasSubstr("accuracy"))));
  EXPECT_THAT(said.err, HasSubstr("12 to test on, a number to predict\n"));
}

TEST_F(TrainCommand, TakesBlanksInAListOfDevices) {
  EXPECT_EQ(trained("--devices 'cpu:0, cpu:0' --steps 4"_w)["devices"].size(), 2U);
}

// The report: what it says, and where it is written.

TEST_F(TrainCommand, WritesAReportThatBalancesInEveryPolicy) {
  for (const char* policy : {"async", "sync", "hogwild"}) {
    const json r = trained("--devices cpu:0,cpu:0 --epochs 5 --shards 1 --policy"_w + policy);
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
    EXPECT_THAT(files(), ElementsAre("run.json")) << "nothing is left beside the report";
  }
}

TEST_F(TrainCommand, SaysWhatItRanOnAndWhen) {
  const json r = trained("--epochs 2 --devices cpu:0,cpu:0 --policy sync"_w);
  const std::string version = done("--version"_w).out;
  for (const char* field : {"version", "commit", "compiler"})
    EXPECT_THAT(version, HasSubstr(r[field].get<std::string>())) << field;
  EXPECT_THAT(r["date"].get<std::string>(), MatchesRegex("20..-..-..T..:..:..Z"));
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
  EXPECT_THAT(trained("--epochs 2 --keep-weights best"_w)["command"], Contains("--keep-weights=best"));
}

TEST_F(TrainCommand, RefusesAReportThatCannotBeWrittenBeforeItTrains) {
  std::filesystem::create_directory(path("run.json")); // a folder where the file should be
  for (const std::string& to : {std::string("/no/such/folder/run.json"), path("run.json")}) {
    tool t("train --model softmax --data"_w + MAILGRAD_SMALL_CSV + "--report" + to);
    EXPECT_EQ(t.code(), 2);
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr(to)));
    EXPECT_THAT(t.out(), IsEmpty());
  }
}

TEST_F(TrainCommand, WritesIntoADeviceAndDoesNotReplaceIt) {
  EXPECT_THAT(refusal(testing::train("--epochs 1 --report /dev/full"_w), 1),
              HasSubstr("report '/dev/full' cannot be written: No space left"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(TrainCommand, ReplacesTheFileBehindALinkAndNotTheLink) {
  std::filesystem::create_symlink(folder.write("real.json", "old"), path("run.json"));
  EXPECT_EQ(trained("--epochs 1"_w)["ended"], "completed");
  EXPECT_TRUE(std::filesystem::is_symlink(path("run.json")));
}

TEST_F(TrainCommand, SwitchesAndCuresAndTellsInItsReport) {
  EXPECT_THAT(done(train("--policy 'async, sync@6' --cure inverse --devices cpu:0,cpu:0 --epochs 2"_w)).out,
              HasAll("switched      from async to sync", "cure          inverse"));
  const json r = report();
  EXPECT_EQ(r["switches"][0]["to"], "sync");
  EXPECT_EQ(r["cure"]["name"], "inverse");
  EXPECT_GT(r["updates"], 0);
}

TEST_F(TrainCommand, ReplacesAnOldReport) {
  folder.write("run.json", "an old report, longer than it need be\n");
  EXPECT_EQ(trained("--steps 5 --quiet"_w)["steps"], 5);
}

TEST_F(TrainCommand, KeepsAnOldReportOfARunThatDoesNotBegin) {
  folder.write("run.json", "{}");
  expect_refused("train --data /no/such/data --report"_w + path("run.json"), "/no/such/data");
  EXPECT_EQ(report(), json::object());
  EXPECT_THAT(files(), ElementsAre("run.json"));
}

// Runs that a signal ends.

TEST_F(TrainCommand, EndsInGoodOrderOnASignalAndNamesIt) {
  for (const auto& [number, name, code] :
       {std::tuple{SIGINT, "SIGINT", 130}, {SIGTERM, "SIGTERM", 143}, {SIGHUP, "SIGHUP", 129}}) {
    tool t(train("--epochs 1000000000"_w));
    ASSERT_TRUE(t.says("step ")) << t.err();
    t.signal(number);
    EXPECT_EQ(t.code(), code) << name;
    const json r = report();
    EXPECT_EQ(r["ended"], "stopped");
    EXPECT_EQ(r["why"], "stopped by " + std::string(name));
    EXPECT_GT(r["steps"], 0);
    EXPECT_EQ(fates(r["ledger"]), r["ledger"]["produced"]);
  }
}

/// As `timeout` sends them: both have come when the process goes on.
TEST_F(TrainCommand, TakesTwoSignalsAtOnceForOne) {
  tool t(train("--epochs 1000000000"_w));
  ASSERT_TRUE(t.says("step ")) << t.err();
  for (const int number : {SIGSTOP, SIGTERM, SIGINT, SIGCONT}) t.signal(number);
  EXPECT_GT(t.code(), 0) << t.err();
  EXPECT_TRUE(std::filesystem::exists(path("run.json")));
}

/// A run whose training has no end, and whose test takes seconds.
TEST_F(TrainCommand, EndsAtOnceOnASecondSignalOfAnyKind) {
  for (const auto& [first, second] : {std::pair{SIGINT, SIGTERM}, {SIGHUP, SIGINT}}) {
    tool t("train --model mlp:hidden=2000x2000x2000 --batch 1 --epochs 9 --data"_w + many_rows(80'000) +
           "--report"_w + path("run.json"));
    ASSERT_TRUE(t.says("step ")) << t.err();
    t.signal(first);
    ASSERT_TRUE(t.says("testing on 16000 samples")) << t.err();
    while (t.runs()) t.signal(second); // once more if it came so soon that it counts as the first
    EXPECT_EQ(t.code(), -second);
    EXPECT_THAT(t.err(),
                HasSubstr("mailgrad: a second signal ends the run at once: its weights, report and other "
                          "outputs are lost\n"));
    EXPECT_FALSE(std::filesystem::exists(path("run.json")));
  }
}

TEST_F(TrainCommand, GoesOnWhenItsTerminalIsClosedUnderNohup) {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &before); // the tool inherits it
  tool t(train("--epochs 1000000000"_w));
  sigaction(SIGHUP, &before, nullptr);
  ASSERT_TRUE(t.says("step ")) << t.err();
  t.signal(SIGHUP);
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130);
  EXPECT_EQ(report()["why"], "stopped by SIGINT");
}

// The test takes some sixty passes through a wide network, and training one step of one sample.
TEST_F(TrainCommand, EndsTheTestEarlyOnCtrlC) {
  tool t("train --model mlp:hidden=1500x1500 --batch 1 --steps 1 --data"_w + many_rows(80'000) +
         "--report"_w + path("run.json"));
  ASSERT_TRUE(t.says("testing on 16000 samples")) << t.err();
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130) << t.err();
  const json r = report();
  EXPECT_EQ(r["ended"], "completed");
  EXPECT_EQ(r["why"], "the test was ended early by SIGINT");
  EXPECT_TRUE(r["test_accuracy"].is_null());
  EXPECT_THAT(t.err(), HasSubstr("the test was ended early"));
}

/// Runs that go wrong: the report is there, says why, and the shell hears of it.
struct FailedRun : ToolTest {
  /// A short run, by way of a shell, after `before` and with `after` behind its words.
  static int exit_code_of_shell(const std::string& before, const std::string& typed,
                                const std::string& after) {
    const std::string run = before +
                            " '" MAILGRAD_TOOL
                            "' train --model softmax --optimizer sgd --devices cpu:0 --data "
                            "'" MAILGRAD_SMALL_CSV "' --batch 4 " +
                            typed + " >/dev/null " + after;
    const int status = std::system(run.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void make_pipe() const { ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0); }

  const std::string pipe = path("pipe"), recorded = " --record '" + path("run.rec") + "'",
                    reported = " --report '" + path("run.json") + "'";
};

TEST_F(FailedRun, DoesNotTellItsRecordingWhatAClosedStreamWouldHear) {
  EXPECT_EQ(exit_code_of_shell("", "--steps 20" + recorded, "2>&-"), 0);
  done("replay"_w + path("run.rec"));
}

TEST_F(FailedRun, KeepsItsReportWhereItsRecordingMayNotGrow) {
  EXPECT_EQ(exit_code_of_shell("ulimit -f 64;", "--steps 6000" + recorded + reported, "2>/dev/null"), 1);
  EXPECT_EQ(report()["steps"], 6000);
}

TEST_F(FailedRun, GoesOnWhenNobodyReadsItsWords) {
  make_pipe();
  const std::string without_reader = "exec 3<>'" + pipe + "' 4>'" + pipe + "' 3>&-;";
  EXPECT_EQ(exit_code_of_shell(without_reader, "--steps 20" + reported, "2>&4"), 0);
  EXPECT_EQ(exit_code_of_shell(without_reader, "--steps 20", "1>&4 2>&4"), 0);
  EXPECT_EQ(report()["steps"], 20);
}

TEST_F(FailedRun, RefusesAPipeForItsRecording) {
  make_pipe();
  expect_error(train("--record"_w + pipe), "--record: '" + pipe + "' is a pipe");
}

TEST_F(FailedRun, SaysThatItsReportWaitsForAReader) {
  make_pipe();
  tool t(train("--steps 8 --report"_w + pipe));
  ASSERT_TRUE(t.says("waiting until somebody reads it")) << t.err();
  EXPECT_EQ(report("pipe")["steps"], 8);
  EXPECT_EQ(t.code(), 0) << t.err();
}

TEST_F(FailedRun, NamesAFolderInThePlaceOfAModel) {
  EXPECT_EQ(refusal("train --model . --data"_w + MAILGRAD_SMALL_CSV),
            "mailgrad: model '.' is a folder; name a JSON file of layers\n");
}

TEST_F(FailedRun, LeavesAReportThatNamesTheWeightWhichTheLastUpdateSpoiled) {
  EXPECT_THAT(
      refusal(train("--steps 1 --lr 1e30 --l2 1e30 --report"_w + path("run.json"), "mlp:hidden=8"), 5),
      AllOf(HasSubstr("updates by rule 'sgd'"), Not(HasSubstr("testing on"))));
  const json r = report();
  EXPECT_EQ(r["ended"], "diverged");
  EXPECT_THAT(r["why"].get<std::string>(), HasAll("on shard 0 is ", "after 1 updates by rule 'sgd'"));
  EXPECT_TRUE(r["test_accuracy"].is_null());
}

struct SpanningTool : ToolTest {
  void SetUp() override {
    if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  }
  json trained(const words& more, const char* policy = "sync", const char* steps = "10") {
    out = done("train --model mlp:hidden=8x8 --batch 6 --data"_w + MAILGRAD_SMALL_CSV + "--steps" + steps +
               "--report" + path("run.json") + "--policy" + policy + more)
              .out;
    return report();
  }

  std::string out;
};

TEST_F(SpanningTool, TrainsAPipelineToTheLossOfOneDevice) {
  const json one = trained("--devices cpu:0"_w), two = trained("--devices cpu:0,cpu:1 --pipeline"_w);
  EXPECT_EQ(two["workers"], 1);
  EXPECT_EQ(two["model"], "mlp:hidden=8x8");
  EXPECT_EQ(two["span"], "pipeline");
  EXPECT_EQ(two["micro_batches"], 6) << "8 by default, and no more than samples";
  EXPECT_EQ(two["weights"], one["weights"]);
  EXPECT_EQ(one["weights"], 131) << "without the gaps between variables";
  EXPECT_EQ(one["span"], "");
  EXPECT_NEAR(two["final_loss"].get<double>(), one["final_loss"].get<double>(), 1e-4);
  ASSERT_EQ(two["stages"].size(), 2U);
  EXPECT_EQ(two["stages"][1]["device"], "cpu:1");
  EXPECT_GT(two["stages"][1]["busy_seconds"], 0);
  EXPECT_THAT(out, HasAll("worker 0: cpu:0 computed", "cpu:1"));
}

TEST_F(SpanningTool, TrainsReplicasOfASplitBatch) {
  const json r = trained("--devices cpu:0,cpu:1,cpu:0,cpu:1 --replicate --workers 2"_w);
  EXPECT_EQ(r["workers"], 2);
  EXPECT_EQ(r["stages"].size(), 4U);
  EXPECT_EQ(r["ledger"]["produced"], 10);
}

TEST_F(SpanningTool, RepeatsAPipelineBitForBit) {
  const words replay = "replay"_w + path("run.rec");
  const json first =
      trained("--devices cpu:0,cpu:1,cpu:0,cpu:1 --pipeline --workers 2 --record"_w + path("run.rec"),
              "async", "300");
  EXPECT_THAT(done(replay).out, HasSubstr(first["parameters_sha256"].get<std::string>().substr(0, 8)));
  expect_error(replay + "--devices cpu:0"_w, "--devices: the recording has 4, these are 1");
}

TEST_F(SpanningTool, RefusesWhatDoesNotFitTogether) {
  const words two = "--devices cpu:0,cpu:1"_w;
  for (const auto& [more, why] :
       {std::pair{two + "--workers 1"_w, "say --replicate or --pipeline"},
        {"--devices cpu:0,cpu:1,cpu:0 --workers 2 --pipeline"_w,
         "3 devices cannot be shared out to 2 workers"},
        {two + "--replicate --pipeline"_w, "exclude each other"},
        {two + "--micro-batches 4"_w, "each worker has one device"},
        {two + "--replicate --policy hogwild"_w, "under hogwild"},
        {"--devices cpu:0 --pipeline"_w, "--pipeline: each worker has one device"},
        {two + "--workers 3 --pipeline"_w, "2 devices cannot be shared out to 3 workers"},
        {two + "--pipeline=4"_w, "--pipeline takes no value"},
        {two + "--pipeline --micro-batches 7"_w, "--micro-batches 7 of a batch of 6"}})
    expect_error("train --model mlp --batch 6 --data"_w + MAILGRAD_SMALL_CSV + more, why);
  expect_error("train --replicate --batch 1 --data"_w + MAILGRAD_SMALL_CSV + two,
               "leaves some without a sample");
}

TEST_F(SpanningTool, DrawsABoxForEachDevice) {
  const words two = "graph --model mlp --devices cpu:0,cpu:1 --gradients"_w;
  EXPECT_THAT(done(two + "--pipeline").out,
              AllOf(HasSubstr("cluster device cpu:0"), HasSubstr("cluster device cpu:1"),
                    HasSubstr("KiB a step"), Not(HasSubstr("64x784\", fillcolor=\"#dae8fc\""))))
      << "nobody needs the gradient of x";
  refusal("graph --model mlp --pipeline"_w);
  expect_error("graph --model mlp --devices cpu:0 --pipeline"_w, "--pipeline: each worker has one device");
  EXPECT_THAT(tool("graph --model gpt"_w).err(), HasSubstr("by --data"));
  EXPECT_THAT(done(two + "--replicate").out, Not(HasSubstr("concat")))
      << "predictions are joined by evaluations alone";
  done("graph --model mlp --data"_w + MAILGRAD_SMALL_CSV);
}

/// Workers with two processors each, whose models span them.
struct SpanningRemoteTool : RemoteTool {
  void SetUp() override {
    if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  }
  /// The digest of what one process trains.
  json here(const std::string& span) const {
    done("train --policy sync --workers 2 --devices"_w + four + span + "--report" + path("here") + small_run);
    return report("here")["parameters_sha256"];
  }

  static constexpr const char* four = "cpu:0,cpu:1,cpu:0,cpu:1";
};

TEST_F(SpanningRemoteTool, TrainsToTheSameWeightsAndIsReplayed) {
  for (const char* span : {"--pipeline", "--replicate"}) {
    SCOPED_TRACE(span);
    EXPECT_THAT(done("train --policy sync --processes 2 --devices"_w + four + span + "--report" +
                     path("there") + "--record" + path("recording") + small_run)
                    .err,
                HasSubstr("2 workers of other processes, each on 2 devices"));
    EXPECT_EQ(report("there")["parameters_sha256"], here(span));
    EXPECT_EQ(report("there")["stages"].size(), 4U);
    done("replay"_w + path("recording"));
  }
}

TEST_F(SpanningRemoteTool, TakesAsManyDevicesAsAWorkerOfTheRunHas) {
  server_tool server(serve("2") + "--policy sync --pipeline --devices-per-worker 2 --report"_w +
                     path("there"));
  const words join = server.join();
  EXPECT_THAT(server.said(), HasSubstr(" for 2 workers of 2 devices"));
  EXPECT_THAT(refusal(join, 1), HasSubstr("server refuses: devices of a worker: expected 2, found 1\n"));
  EXPECT_EQ(refusal(join + "--devices cpu:0,cpu:1,cpu:0"_w),
            "mailgrad: --devices: expected 2 or a multiple, since each worker of the run at " +
                server.address + " has so many, found 3\n");
  expect_error(join + "--workers 3 --devices"_w + four,
               "--workers 3: expected a multiple of so many --devices, found 4");
  tool both(join + "--devices" + four);
  ASSERT_EQ(server.code(), 0) << server.err();
  EXPECT_EQ(both.code(), 0) << both.err();
  EXPECT_THAT(both.err(), HasSubstr("worker 1 (incarnation 1) has joined"));
  EXPECT_EQ(report("there")["parameters_sha256"], here("--pipeline"));
}

} // namespace
} // namespace mailgrad::testing

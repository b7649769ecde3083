#include <mailgrad/tests/cli/tool.hpp>

#include <chrono>
#include <thread>

// The lab from the command line: experiments, and runs and sweeps in virtual time.

namespace mailgrad::testing {
namespace {

/// A run in virtual time.
struct LabTool : ToolTest {
  static words run(const words& more) {
    return "lab run --model softmax --batch 2 --steps 400 --data"_w + MAILGRAD_SMALL_CSV + more;
  }
  json report_of(const words& more) {
    out = done(run(more) + "--report" + path("run.json")).out;
    return report();
  }

  std::string out;
};

TEST_F(LabTool, TrainsInVirtualTime) {
  const json r = report_of("--workers 100 --delays constant:2"_w);
  EXPECT_THAT(out, AllOf(HasSubstr("completed after 400 steps"), HasSubstr("staleness     mean "),
                         HasSubstr("by worker   means from "), HasSubstr("virtual time  8 s of virtual time"),
                         HasSubstr("50 updates/s"), Not(HasSubstr("worker 17:"))));
  EXPECT_EQ(r["delays"], json::parse(R"({"law": "constant:2", "seed": 1, "virtual_time": true,
                                       "interrupts": false, "latency": null, "bandwidth": null})"));
  EXPECT_EQ(r["workers"], 100);
  EXPECT_EQ(r["wall_seconds"], 8.0);
  EXPECT_EQ(r["staleness"]["max"], 99);
  EXPECT_THAT(r["command"].dump(), HasAll("--workers=100", "--delays=constant:2"));
}

TEST_F(LabTool, LetsGradientsTravel) {
  const json r =
      report_of("--workers 2 --delays constant:1 --latency 0.5 --bandwidth 1e9 --wire top-k:0.1"_w);
  EXPECT_EQ(r["delays"]["latency"], "0.5");
  EXPECT_EQ(r["delays"]["bandwidth"], "1e9");
  EXPECT_EQ(r["wire"], "top-k:0.1");
  EXPECT_NEAR(r["wall_seconds"], 400, 2) << "two workers, each of whose steps takes two seconds";
  EXPECT_NEAR(r["time_split"]["wire"]["mean"], 1, 0.01);
  expect_error(run("--workers 2 --no-feedback"_w), "--no-feedback: nothing is lost without a lossy --wire");
}

TEST_F(LabTool, LetsTheTimeOfAStepDependOnItsSamples) {
  EXPECT_EQ(report_of("--workers 1 --delays by-class:1,1,1"_w)["wall_seconds"], 400.0);
  const json slow = report_of("--workers 1 --delays by-class:1,1,3"_w);
  EXPECT_GT(slow["wall_seconds"], 500.0) << "a third of the samples takes three seconds";
  EXPECT_LT(slow["wall_seconds"], 800.0);
  expect_error(run("--workers 1 --delays by-class:1,2"_w),
               "expected a number for each of 3 classes, found 2");
}

TEST_F(LabTool, DealsEachWorkerSamplesOfItsOwnIfAsked) {
  const json shared = report_of("--workers 3 --delays constant:1"_w);
  const json own = report_of("--workers 3 --delays constant:1 --local-samples"_w);
  EXPECT_EQ(own["staleness"], shared["staleness"]);
  EXPECT_NE(own["parameters_sha256"], shared["parameters_sha256"]);
  EXPECT_THAT(own["command"].dump(), HasSubstr("--local-samples"));
  EXPECT_EQ(report_of("--workers 1 --delays constant:1 --local-samples"_w)["steps"], 400);
  expect_error(run("--workers 1000 --local-samples"_w), "are too few for each of 1000 workers to have some");
}

TEST_F(LabTool, InterruptsWorkersThatAreLateIfAsked) {
  const words same = "--workers 2 --delays list:1,3 --policy backup:1"_w;
  const json r = report_of(same + "--interrupt");
  EXPECT_EQ(r["wall_seconds"], 200.0) << "400 steps, of which each second one is cut off";
  EXPECT_EQ(r["delays"]["interrupts"], true);
  EXPECT_THAT(out, HasSubstr("; late workers are interrupted"));
  EXPECT_GT(report_of(same)["wall_seconds"], 280.0);
  expect_error(run("--workers 2 --interrupt --policy async"_w), "discards no gradient as too stale");
}

/// It gives all samples one answer, so the share of right ones would say nothing.
TEST_F(LabTool, PrintsNoAccuracyOfAQuadratic) {
  EXPECT_THAT(done("lab run --model quadratic:dimension=2 --workers 2 --steps 20 --lr 0.01 --batch 4 "
                   "--wire 1-bit --quiet --data"_w +
                   MAILGRAD_SMALL_CSV)
                  .out,
              Not(AnyOf(HasSubstr("test accuracy"), HasSubstr("disk"))));
}

TEST_F(LabTool, RepeatsARunToTheBit) {
  const words same = "--workers 8 --delays pareto:alpha=1.5 --policy ringmaster:4 --delays-seed 7"_w;
  const json first = report_of(same), again = report_of(same);
  for (const char* field : {"parameters_sha256", "wall_seconds", "staleness"})
    EXPECT_EQ(first[field], again[field]) << field;
}

TEST_F(LabTool, WritesWhatTrainingWrites) {
  report_of("--workers 3 --save"_w + path("w.safetensors") + "--staleness-csv" + path("gaps.csv") +
            "--trace" + path("trace.json"));
  for (const char* name : {"w.safetensors", "gaps.csv", "trace.json"})
    EXPECT_GT(std::filesystem::file_size(path(name)), 0U) << name;
}

TEST_F(LabTool, SaysInOneLineWhatIsWrong) {
  for (const auto& [more, says] :
       {std::pair{words{}, "'--workers' is missing"},
        {"--workers 0"_w, "--workers"},
        {"--workers 2 --delays gama"_w, "delays 'gama' are unknown; did you mean 'gamma'?"},
        {"--workers 2 --delays exp:mean=-1"_w, "mean must be above 0 seconds"},
        {"--workers 2 --delays trace:/nowhere"_w, "/nowhere: cannot be read"},
        {"--workers 2 --policy backup:2"_w, "policy 'backup:2'"},
        {"--workers 2 --record x.rec"_w, "--record"},
        {"--workers 2 --devices cpu:0"_w, "--devices"}})
    expect_refused(run(more), says);
}

TEST_F(LabTool, ListsTheLawsOfDelays) {
  EXPECT_THAT(done("lab run --help"_w).out,
              HasAll("gamma:cv=0.1,mean=1,machines=0", "trace:FILE", "constant:T", "ssp:S"));
}

TEST_F(LabTool, KeepsWhatIsDoneAtASignal) {
  tool t("lab run --model softmax --batch 2 --steps 100000000 --workers 5 --data"_w + MAILGRAD_SMALL_CSV +
         "--report" + path("run.json"));
  ASSERT_TRUE(t.says("simulated workers"));
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130) << t.err();
  EXPECT_EQ(report()["ended"], "stopped");
}

/// A sweep in virtual time.
struct LabSweep : ToolTest {
  /// A sweep of the small data set; `run` and `rest` are more of its JSON.
  std::string file_of(const std::string& grid, const std::string& run = R"("steps": 60)",
                      const std::string& rest = "") const {
    return folder.write("sweep" + std::to_string(files++) + ".json",
                        R"({"run": {"model": "softmax", "batch": 2, "data": ")" +
                            std::string(MAILGRAD_SMALL_CSV) + "\", " + run + "}, \"grid\": {" + grid + "}" +
                            rest + "}");
  }
  words sweep(const std::string& file, const words& more = {}) const {
    return "lab sweep --quiet"_w + file + "--out" + made + more;
  }
  words rows() const { return lines_of(content_of(made / "sweep.csv")); }

  mutable int files = 0;
  const std::filesystem::path made = folder.path() / "made";
};

TEST_F(LabSweep, RunsAGridAndWritesWhatItFound) {
  const std::string file =
      file_of(R"("policy": ["async", "sync"], "workers": [1, 4], "lr": [0.01, 0.2, 3e38], "seed": [1, 2])",
              R"("steps": 60)", R"(, "tune": "lr", "target": {"train_loss": 0.9})");
  EXPECT_THAT(done(sweep(file, "--jobs 2"_w)).out,
              AllOf(StartsWith("method"), HasSubstr("async, workers 4"),
                    HasSubstr("24 of 24 cells have a row in"), HasSubstr(" of them diverged")));
  ASSERT_EQ(rows().size(), 25U);
  EXPECT_THAT(content_of(made / "sweep.csv"),
              AllOf(StartsWith("cell,policy,workers,lr,seed,ended,why,steps,updates,samples,final_loss"),
                    HasSubstr(",diverged,"), HasSubstr(",completed,")));
  EXPECT_THAT(content_of(made / "summary.csv"), HasSubstr("\nasync,1,"));
  EXPECT_THAT(content_of(made / "curves.csv"), StartsWith("cell,time,steps,updates,train_loss,test_loss"));
  if (!std::filesystem::exists(made / "sweep.html")) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_THAT(content_of(made / "sweep.html"),
              AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("<svg"), Not(HasSubstr("<script")),
                    HasSubstr("Made by: mailgrad lab sweep ")));
  for (const char* name : {"lr.png", "workers.png", "loss-time.png"})
    EXPECT_THAT(content_of(made / name), StartsWith("\x89PNG")) << name;
}

/// The command of a row repeats its cell alone.
TEST_F(LabSweep, WritesCommandsThatRepeatACell) {
  done(sweep(file_of(R"("policy": ["ssp:2", "sync", "async, sync@30"], "workers": [3])",
                     R"("steps": 60, "own-samples": true)", R"(, "without": [{"policy": "sync"}])")));
  for (const std::size_t nth : {1U, 2U}) {
    const std::string row = rows().at(nth);
    const std::size_t begin = row.find("mailgrad lab run "),
                      end = row.find(",", row.find("--workers=", begin));
    ASSERT_NE(begin, std::string::npos) << row;
    std::string command = row.substr(begin, end - begin);
    std::erase(command, '"'); // of CSV
    command.replace(0, std::string("mailgrad").size(), MAILGRAD_TOOL);
    ASSERT_EQ(std::system((command + " --quiet --report " + path("run.json") + " > /dev/null").c_str()), 0)
        << command; // NOLINT
    EXPECT_THAT(row, HasSubstr(report()["parameters_sha256"].get<std::string>())) << command;
  }
}

TEST_F(LabSweep, GoesOnWithTheCellsThatAreMissing) {
  const std::string file = file_of(R"("workers": [1, 2], "seed": [1, 2])");
  done(sweep(file));
  const words before = rows();
  ASSERT_EQ(before.size(), 5U);
  std::string kept = before[0] + '\n' + before[2] + '\n' + before[4].substr(0, 20); // killed while it wrote
  std::ofstream(made / "sweep.csv") << kept;
  done(sweep(file));
  const words after = rows();
  ASSERT_EQ(after.size(), 5U);
  EXPECT_EQ(after[1], before[2]) << "as it was, to its date";
  EXPECT_EQ(count_of(content_of(made / "curves.csv"), "\n"), 1U + 4 * 20);
  expect_error(sweep(file_of(R"("workers": [1, 2], "seed": [1, 3])")),
               "has rows of another sweep; --restart sets them aside");
  done(sweep(file, "--restart"_w));
  EXPECT_EQ(lines_of(content_of(made / "sweep.csv.old")), after);
}

TEST_F(LabSweep, ReplacesNoFileThatItReads) {
  std::filesystem::create_directory(made);
  const std::filesystem::path file = made / "sweep.json";
  std::filesystem::copy_file(file_of(R"("workers": [1])"), file);
  expect_error(sweep(file, "--restart"_w), "would replace");
  EXPECT_THAT(content_of(file), HasSubstr("\"grid\""));
  EXPECT_FALSE(std::filesystem::exists(made / "sweep.csv"));
}

/// A sweep of more data sets than it keeps reads each again when its turn comes.
TEST_F(LabSweep, TriesCellsThatFailedAgain) {
  std::string data;
  for (const std::string name : {"a.csv", "b.csv", "c.csv", "d.csv", "e.csv", "f.csv"}) {
    std::filesystem::copy_file(MAILGRAD_SMALL_CSV, path(name));
    data += (data.empty() ? "\"" : ", \"") + path(name) + '"';
  }
  const std::string file = folder.write(
      "sweep.json",
      R"({"run": {"model": "softmax", "batch": 2, "workers": 2, "steps": 4000}, "grid": {"data": [)" + data +
          "]}}");
  tool t(sweep(file, "--jobs 1"_w));
  for (int tries = 0; tries < 10'000 && !std::filesystem::exists(made / "sweep.csv"); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  std::filesystem::rename(path("f.csv"), path("away"));
  EXPECT_EQ(t.code(), 1) << t.err();
  EXPECT_THAT(t.out(), HasAll("6 of 6 cells have a row in", "1 of them failed (",
                              "the same command tries those that failed again"));
  std::filesystem::rename(path("away"), path("f.csv"));
  done(sweep(file));
  ASSERT_EQ(rows().size(), 7U);
  EXPECT_THAT(content_of(made / "sweep.csv"), Not(HasSubstr(",failed,")));
}

TEST_F(LabSweep, RefusesRowsOfOtherDataAndModels) {
  const std::string layers = R"({"layers": [{"dense": {}}]})", data = path("own.csv"),
                    model = folder.write("own.json", layers);
  std::filesystem::copy_file(MAILGRAD_SMALL_CSV, data);
  const std::string file =
      folder.write("sweep.json", R"({"run": {"model": ")" + model + R"(", "data": ")" + data +
                                     R"(", "batch": 2, "steps": 20}, "grid": {"workers": [1, 2]}})");
  done(sweep(file));
  const std::string before = content_of(made / "sweep.csv");
  std::ofstream(model, std::ios::app) << '\n';
  expect_error(sweep(file), "has rows with another model=" + model + " (SHA-256 ");
  folder.write("own.json", layers);
  const std::string sample = lines_of(content_of(data)).back();
  std::ofstream(data, std::ios::app) << sample << '\n';
  expect_error(sweep(file), "has rows with another data=" + data + " (SHA-256 ");
  EXPECT_EQ(content_of(made / "sweep.csv"), before);
}

/// They have one identity only if nothing was changed since the commit.
TEST_F(LabSweep, TellsBuildsWithChangesApart) {
  const std::string file = file_of(R"("workers": [1])"), other = path("mailgrad");
  std::filesystem::copy_file(MAILGRAD_TOOL, other);
  std::filesystem::copy_file(MAILGRAD_TOOL "-lab", other + "-lab");
  std::ofstream(other + "-lab", std::ios::app) << ' ';
  done(sweep(file));
  const std::string told = content_of(made / "sweep.json");
  const bool clean = told.find("-dirty") == std::string::npos && told.find("unknown") == std::string::npos;
  tool t(sweep(file), nullptr, {}, other.c_str());
  EXPECT_EQ(t.code(), clean ? 0 : 2) << t.err();
  EXPECT_EQ(t.err().find("has rows of another program") == std::string::npos, clean) << t.err();
}

TEST_F(LabSweep, KeepsWhatIsDoneAtASignal) {
  tool t(sweep(file_of(R"("workers": [1, 2, 3], "steps": [60, 100000000])", R"("lr": 0.01)"), "--jobs 1"_w));
  while (!std::filesystem::exists(made / "sweep.csv") || rows().size() < 2)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130) << t.err();
  EXPECT_THAT(t.out(), AllOf(StartsWith("This is a part of the grid: 1 of 6 cells have ended"),
                             HasSubstr("1 of 6 cells have a row in"),
                             HasSubstr("the same command goes on with the others")));
  EXPECT_EQ(rows().size(), 2U);
  EXPECT_EQ(lines_of(content_of(made / "summary.csv")).size(), 2U);
}

TEST_F(LabSweep, SaysInOneLineWhatIsWrongBeforeAnythingRuns) {
  for (const auto& [file, says] : {
           std::pair{file_of(R"("workers": [1], "polcy": ["async"])"),
                     "no option '--polcy'; did you mean '--policy'?"},
           {file_of(R"("workers": [1], "lr": [0.1, "fast"])"), "--lr"},
           {file_of(R"("workers": [1], "policy": ["async", "asink"])"),
            "policy=asink: policy 'asink' is unknown"},
           {file_of(R"("workers": [2], "delays": ["gama"])"),
            "delays 'gama' are unknown; did you mean 'gamma'?"},
           {file_of(R"("lr": [0.1])"), "'--workers' is missing"},
           {file_of(""), "'grid' is empty"},
           {file_of(R"("workers": [])"), "grid: 'workers' has no value"},
           {file_of(R"("workers": [1], "model": ["mlp"])"), "'model' is in 'run' and in 'grid'"},
           {file_of(R"("workers": [1], "save": ["w.npz"])"), "'save': a sweep has outputs of its own"},
           {file_of(R"("workers": [1])", R"("data-limit": 0)"), "--data-limit"},
           {folder.write("text", "workers: 1").string(), "line 1 is no JSON"},
           {path("nowhere"), "cannot be read"},
           {std::string("/dev/zero"), "it is too long for a sweep"},
       }) {
    expect_refused(sweep(file), says);
    EXPECT_FALSE(std::filesystem::exists(made)) << says;
  }
  expect_error({"lab", "sweep", file_of(R"("workers": [1], "polcy": ["async"])")}, "--out");
}

/// An experiment.
struct LabExperiments : ToolTest {};

TEST_F(LabExperiments, AreListedALineEach) {
  EXPECT_THAT(done("lab list"_w).out, HasAll("stability-map", "backup-workers"));
}

TEST_F(LabExperiments, PrintTheirClaimsAndWriteWhatTheyFound) {
  const std::filesystem::path made = folder.path() / "made";
  EXPECT_THAT(done("lab stability-map --quick --output"_w + made).out,
              AllOf(StartsWith("stability-map: "), HasSubstr("paper: "), HasSubstr("tolerance"),
                    HasSubstr("largest stable step, delay 1"), HasSubstr("holds"), Not(HasSubstr("FAILS")),
                    HasSubstr("15 of 15 claims hold")));
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

TEST_F(LabExperiments, PrintTheirClaimsAloneIfTheyShallBeQuiet) {
  EXPECT_THAT(done("lab stability-map --quick --quiet"_w).out,
              AllOf(Not(HasSubstr("paper: ")), HasSubstr("tolerance"), HasSubstr("15 of 15 claims hold")));
}

TEST_F(LabExperiments, SayInOneLineWhatIsWrong) {
  for (const auto& [given, says] :
       {std::pair{"lab stabilty-map"_w, "stability-map"},
        {"lab stability-map --seed -1"_w, "--seed"},
        {"lab stability-map --fast"_w, "--fast"},
        {"lab stability-map --output"_w + folder.write("file", "text"), "is no folder"}}) {
    tool t(given);
    EXPECT_EQ(t.code(), 2) << says;
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr(says)));
    EXPECT_EQ(t.out(), "") << "before anything runs";
  }
}

TEST_F(LabExperiments, LeaveTheResultsOfAnEarlierRunAsTheyAreWhenTheyAreStopped) {
  for (const char* name : {"noise-floor.csv", "noise-floor-claims.csv", "noise-floor.html"})
    folder.write(name, "earlier");
  const std::string printed = path("printed");
  tool t("lab noise-floor --output"_w + folder.path(), printed.c_str());
  while (!content_of(printed).starts_with("noise-floor: ")) std::this_thread::yield();
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130) << t.err();
  EXPECT_THAT(content_of(printed), HasSubstr("It was stopped before its other claims."));
  for (const char* name : {"noise-floor.csv", "noise-floor-claims.csv", "noise-floor.html"})
    EXPECT_EQ(content_of(path(name)), "earlier") << name;
}

/// A recorded run under other conditions.
struct LabWhatIf : ToolTest {
  json record(const words& more, const std::string& steps = "200") const {
    done(train("--quiet --devices cpu:0,cpu:0,cpu:0 --steps"_w + steps + "--record" + recording + "--report" +
               path("run.json") + more));
    return report();
  }
  words what_if(const words& more) const { return "lab what-if"_w + recording + more; }
  json report_of(const words& more) {
    out = done(what_if(more) + "--quiet" + "--report" + path("run.json")).out;
    return report();
  }

  const std::string recording = path("run.rec");
  std::string out;
};

TEST_F(LabWhatIf, KeepsTheOrderOfARunWithNothingChanged) {
  const json was = record("--policy ssp:1 --trace"_w + path("t.json")), is = report_of({});
  EXPECT_EQ(is["steps"], was["steps"]);
  EXPECT_EQ(is["policy"], "ssp:1");
  EXPECT_EQ(is["delays"]["law"], "as recorded");
  EXPECT_NEAR(is["staleness"]["mean"], was["staleness"]["mean"], 0.05);
  EXPECT_THAT(out, HasAll("the run             what if", "time [s]", "updates/s",
                          "staleness mean / p99 / max", "waiting for others [s]", "loss of the last steps",
                          "total variation", "Assumed: the durations of steps are as recorded."));
}

TEST_F(LabWhatIf, KeepsItsColumnsApartBehindALongPolicy) {
  const std::string policy = "async, malenia:4@60, ringleader@120";
  record("--policy"_w + policy);
  report_of({});
  EXPECT_THAT(out, HasSubstr("policy                      " + policy + "  " + policy + "\n"));
}

TEST_F(LabWhatIf, ChangesPolicyWorkersAndSpeeds) {
  record("--policy async --stop-when time_s>1000000"_w);
  const json is = report_of("--policy sync --workers 5 --slow 1=3 --slow 4=0.5"_w);
  EXPECT_EQ(is["policy"], "sync");
  EXPECT_EQ(is["workers"], 5);
  EXPECT_EQ(is["staleness"]["max"], 0);
  EXPECT_EQ(is["delays"]["law"], "as recorded, worker 1 times 3, worker 4 times 0.5");
  EXPECT_THAT(out, HasSubstr("Worker 3 and those behind it take the steps of worker 0"));
  EXPECT_EQ(report_of("--delays constant:2 --policy sync"_w)["wall_seconds"], 2 * 67.0)
      << "200 mini-batches of three workers";
}

/// Nobody waits under async, so its steps begin in virtual time when they began in the run.
TEST_F(LabWhatIf, WritesItsDurationsAsATrace) {
  record("--policy async"_w);
  const std::string trace = path("steps.csv");
  const json as_recorded = report_of("--durations"_w + trace);
  const json by_trace = report_of("--delays"_w + ("trace:" + trace));
  EXPECT_EQ(by_trace["delays"]["law"], "trace:" + trace);
  for (const char* field : {"staleness", "wall_seconds", "parameters_sha256"})
    EXPECT_EQ(by_trace[field], as_recorded[field]) << field;
}

TEST_F(LabWhatIf, SaysInOneLineWhatMakesNoSense) {
  record({}, "40");
  for (const auto& [more, why] :
       {std::pair{"--policy asink"_w, "policy 'asink' is unknown"},
        {"--policy backup:3"_w, "policy 'backup:3'"},
        {"--slow 3=2"_w, "there is no worker 3 of 3"},
        {"--slow 1=0"_w, "it must be above 0"},
        {"--slow 1"_w, "write the number of a worker, from 0, and a factor, as 3=10"},
        {"--workers 0"_w, "--workers"},
        {"--delays gama"_w, "did you mean 'gamma'?"},
        {"--data /nowhere"_w, "/nowhere"},
        {"--report"_w + recording, "--report and the recording both name"},
        {"--durations"_w + recording, "is another file of this command"}}) {
    tool t(what_if(more));
    EXPECT_EQ(t.code(), 2) << why;
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr(why)));
    EXPECT_EQ(t.out(), "");
  }
}

TEST_F(LabWhatIf, RefusesTheRecordingOfAKilledRun) {
  tool killed(train("--epochs 1000000000 --record"_w + recording));
  ASSERT_TRUE(killed.says("step ")) << killed.err();
  killed.signal(SIGKILL);
  killed.code();
  expect_refused({"lab", "what-if", recording + ".partial"},
                 "does not tell how long steps took: it was not completed");
}

} // namespace
} // namespace mailgrad::testing

#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <fstream>

// Runs in virtual time, from the command line.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::tool;

class LabTool : public ::testing::Test {
protected:
  std::vector<std::string> words(std::vector<std::string> more) const {
    std::vector<std::string> all{"lab",     "run", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV,
                                 "--batch", "2",   "--steps", "400"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  json report_of(std::vector<std::string> more) {
    more.insert(more.end(), {"--report", report_});
    tool t(words(std::move(more)));
    EXPECT_EQ(t.code(), 0) << t.err();
    out_ = t.out();
    return json::parse(std::ifstream(report_));
  }

  const scratch_folder folder_;
  const std::string report_ = (folder_.path() / "run.json").string();
  std::string out_;
};

TEST_F(LabTool, TrainsInVirtualTime) {
  const json r = report_of({"--workers", "100", "--delays", "constant:2"});
  EXPECT_THAT(out_,
              AllOf(HasSubstr("completed after 400 steps"), HasSubstr("staleness     mean "),
                    HasSubstr("by worker   means from "), HasSubstr("virtual time  8 s of virtual time"),
                    HasSubstr("50 updates/s"), Not(HasSubstr("worker 17:"))));
  EXPECT_EQ(r["delays"], json::parse(R"({"law": "constant:2", "seed": 1, "virtual_time": true,
                                       "interrupts": false, "latency": null, "bandwidth": null})"));
  EXPECT_EQ(r["workers"], 100);
  EXPECT_EQ(r["wall_seconds"], 8.0);
  EXPECT_EQ(r["staleness"]["max"], 99);
  EXPECT_THAT(r["command"].dump(), AllOf(HasSubstr("--workers=100"), HasSubstr("--delays=constant:2")));
}

TEST_F(LabTool, LetsGradientsTravel) {
  const json r = report_of({"--workers", "2", "--delays", "constant:1", "--latency", "0.5", "--bandwidth",
                            "1e9", "--wire", "top-k:0.1"});
  EXPECT_EQ(r["delays"]["latency"], "0.5");
  EXPECT_EQ(r["delays"]["bandwidth"], "1e9");
  EXPECT_EQ(r["wire"], "top-k:0.1");
  EXPECT_NEAR(r["wall_seconds"], 400, 2) << "two workers, each of whose steps takes two seconds";
  EXPECT_NEAR(r["time_split"]["wire"]["mean"], 1, 0.01);
  tool exact(words({"--workers", "2", "--no-feedback"}));
  EXPECT_EQ(exact.code(), 2);
  EXPECT_THAT(exact.err(), HasSubstr("--no-feedback: nothing is lost without a lossy --wire"));
}

TEST_F(LabTool, LetsTheTimeOfAStepDependOnItsSamples) {
  const json r = report_of({"--workers", "1", "--delays", "by-class:1,1,1"});
  EXPECT_EQ(r["wall_seconds"], 400.0);
  const json slow = report_of({"--workers", "1", "--delays", "by-class:1,1,3"});
  EXPECT_GT(slow["wall_seconds"], 500.0) << "a third of the samples takes three seconds";
  EXPECT_LT(slow["wall_seconds"], 800.0);
  tool few(words({"--workers", "1", "--delays", "by-class:1,2"}));
  EXPECT_EQ(few.code(), 2);
  EXPECT_THAT(few.err(), HasSubstr("expected a number for each of 3 classes, found 2"));
}

TEST_F(LabTool, DealsEachWorkerSamplesOfItsOwnIfAsked) {
  const json shared = report_of({"--workers", "3", "--delays", "constant:1"});
  const json own = report_of({"--workers", "3", "--delays", "constant:1", "--local-samples"});
  EXPECT_EQ(own["staleness"], shared["staleness"]);
  EXPECT_NE(own["parameters_sha256"], shared["parameters_sha256"]);
  EXPECT_THAT(own["command"].dump(), HasSubstr("--local-samples"));
  const json alone = report_of({"--workers", "1", "--delays", "constant:1", "--local-samples"});
  EXPECT_EQ(alone["steps"], 400);
  tool few(words({"--workers", "1000", "--local-samples"}));
  EXPECT_EQ(few.code(), 2);
  EXPECT_THAT(few.err(), HasSubstr("are too few for each of 1000 workers to have some"));
}

TEST_F(LabTool, InterruptsWorkersThatAreLateIfAsked) {
  const std::vector<std::string> same{"--workers", "2", "--delays", "list:1,3", "--policy", "backup:1"};
  std::vector<std::string> interrupted = same;
  interrupted.push_back("--interrupt");
  const json r = report_of(interrupted);
  EXPECT_EQ(r["wall_seconds"], 200.0) << "400 steps, of which each second one is cut off";
  EXPECT_EQ(r["delays"]["interrupts"], true);
  EXPECT_THAT(out_, HasSubstr("; late workers are interrupted"));
  EXPECT_GT(report_of(same)["wall_seconds"], 280.0);
  tool async(words({"--workers", "2", "--interrupt", "--policy", "async"}));
  EXPECT_EQ(async.code(), 2);
  EXPECT_THAT(async.err(), HasSubstr("discards no gradient as too stale"));
}

/// It gives all samples one answer, so the share of right ones would say nothing.
TEST_F(LabTool, PrintsNoAccuracyOfAQuadratic) {
  tool t({"lab", "run", "--model", "quadratic:dimension=2", "--data", MAILGRAD_SMALL_CSV, "--workers", "2",
          "--steps", "20", "--lr", "0.01", "--batch", "4", "--wire", "1-bit", "--quiet"});
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(), Not(HasSubstr("test accuracy")));
  EXPECT_THAT(t.out(), Not(HasSubstr("disk"))) << "of simulated workers";
}

TEST_F(LabTool, RepeatsARunToTheBit) {
  const std::vector<std::string> same{
      "--workers", "8", "--delays", "pareto:alpha=1.5", "--policy", "ringmaster:4", "--delays-seed", "7"};
  const json first = report_of(same);
  const json again = report_of(same);
  EXPECT_EQ(first["parameters_sha256"], again["parameters_sha256"]);
  EXPECT_EQ(first["wall_seconds"], again["wall_seconds"]);
  EXPECT_EQ(first["staleness"], again["staleness"]);
}

TEST_F(LabTool, WritesWhatTrainingWrites) {
  const std::string weights = (folder_.path() / "w.safetensors").string();
  const std::string gaps = (folder_.path() / "gaps.csv").string();
  const std::string trace = (folder_.path() / "trace.json").string();
  report_of({"--workers", "3", "--save", weights, "--staleness-csv", gaps, "--trace", trace});
  for (const std::string& file : {weights, gaps, trace})
    EXPECT_GT(std::filesystem::file_size(file), 0U) << file;
}

TEST_F(LabTool, SaysInOneLineWhatIsWrong) {
  const std::pair<std::vector<std::string>, std::string> wrong[] = {
      {{}, "'--workers' is missing"},
      {{"--workers", "0"}, "--workers"},
      {{"--workers", "2", "--delays", "gama"}, "delays 'gama' are unknown; did you mean 'gamma'?"},
      {{"--workers", "2", "--delays", "exp:mean=-1"}, "mean must be above 0 seconds"},
      {{"--workers", "2", "--delays", "trace:/nowhere"}, "/nowhere: cannot be read"},
      {{"--workers", "2", "--policy", "backup:2"}, "policy 'backup:2'"},
      {{"--workers", "2", "--record", "x.rec"}, "--record"},
      {{"--workers", "2", "--devices", "cpu:0"}, "--devices"},
  };
  for (const auto& [more, says] : wrong) {
    tool t(words(more));
    EXPECT_EQ(t.code(), 2) << says;
    EXPECT_THAT(t.err(), HasSubstr(says));
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
  }
}

TEST_F(LabTool, NeedsToKnowWhichExperiment) {
  tool t({"lab"});
  EXPECT_EQ(t.code(), 2);
}

TEST_F(LabTool, ListsTheLawsOfDelays) {
  tool t({"lab", "run", "--help"});
  EXPECT_EQ(t.code(), 0);
  EXPECT_THAT(t.out(), AllOf(HasSubstr("gamma:cv=0.1,mean=1,machines=0"), HasSubstr("trace:FILE"),
                             HasSubstr("constant:T"), HasSubstr("ssp:S")));
}

TEST_F(LabTool, KeepsWhatIsDoneAtASignal) {
  std::vector<std::string> all{"lab",      "run",  "--model", "softmax",   "--data",    MAILGRAD_SMALL_CSV,
                               "--batch",  "2",    "--steps", "100000000", "--workers", "5",
                               "--report", report_};
  tool t(all);
  ASSERT_TRUE(t.says("simulated workers"));
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130) << t.err();
  EXPECT_EQ(json::parse(std::ifstream(report_))["ended"], "stopped");
}

} // namespace
} // namespace mailgrad

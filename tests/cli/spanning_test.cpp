#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/tensor/device.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <fstream>

// Models over several devices, from the command line.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::tool;

class SpanningTool : public ::testing::Test {
protected:
  void SetUp() override {
    if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  }
  json trained(std::vector<std::string> words, const char* policy = "sync", const char* steps = "10") const {
    std::vector<std::string> all{
        "train",   "--model", "mlp:hidden=8x8", "--data", MAILGRAD_SMALL_CSV, "--batch", "6",
        "--steps", steps,     "--report",       report_,  "--policy",         policy};
    all.insert(all.end(), words.begin(), words.end());
    tool t(all);
    EXPECT_EQ(t.code(), 0) << t.err();
    out_ = t.out();
    return json::parse(std::ifstream(report_));
  }

  mutable std::string out_;
  const scratch_folder folder_;
  const std::string report_ = (folder_.path() / "run.json").string();
};

TEST_F(SpanningTool, TrainsAPipelineToTheLossOfOneDevice) {
  const json one = trained({"--devices", "cpu:0"});
  const json two = trained({"--devices", "cpu:0,cpu:1", "--pipeline"});
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
  EXPECT_THAT(out_, AllOf(HasSubstr("worker 0: cpu:0 computed"), HasSubstr("cpu:1")));
}

TEST_F(SpanningTool, TrainsReplicasOfASplitBatch) {
  const json r = trained({"--devices", "cpu:0,cpu:1,cpu:0,cpu:1", "--replicate", "--workers", "2"});
  EXPECT_EQ(r["workers"], 2);
  EXPECT_EQ(r["stages"].size(), 4U);
  EXPECT_EQ(r["ledger"]["produced"], 10);
}

TEST_F(SpanningTool, RepeatsAPipelineBitForBit) {
  const std::string record = (folder_.path() / "run.rec").string();
  const json first =
      trained({"--devices", "cpu:0,cpu:1,cpu:0,cpu:1", "--pipeline", "--workers", "2", "--record", record},
              "async", "300");
  tool again({"replay", record});
  EXPECT_EQ(again.code(), 0) << again.err();
  EXPECT_THAT(again.out(), HasSubstr(first["parameters_sha256"].get<std::string>().substr(0, 8)));
  tool too_few({"replay", record, "--devices", "cpu:0"});
  EXPECT_EQ(too_few.code(), 2);
  EXPECT_THAT(too_few.err(), HasSubstr("--devices: the recording has 4, these are 1"));
}

TEST_F(SpanningTool, RefusesWhatDoesNotFitTogether) {
  const auto refused = [](std::vector<std::string> words, const std::string& why) {
    words.insert(words.begin(), {"train", "--model", "mlp", "--data", MAILGRAD_SMALL_CSV, "--batch", "6"});
    tool t(words);
    EXPECT_EQ(t.code(), 2);
    EXPECT_THAT(t.err(), HasSubstr(why));
  };
  refused({"--devices", "cpu:0,cpu:1", "--workers", "1"}, "say --replicate or --pipeline");
  refused({"--devices", "cpu:0,cpu:1,cpu:0", "--workers", "2", "--pipeline"},
          "3 devices cannot be shared out to 2 workers");
  refused({"--devices", "cpu:0,cpu:1", "--replicate", "--pipeline"}, "exclude each other");
  refused({"--devices", "cpu:0,cpu:1", "--micro-batches", "4"}, "each worker has one device");
  refused({"--devices", "cpu:0,cpu:1", "--replicate", "--policy", "hogwild"}, "under hogwild");
  refused({"--devices", "cpu:0", "--pipeline"}, "--pipeline: each worker has one device");
  refused({"--devices", "cpu:0,cpu:1", "--workers", "3", "--pipeline"},
          "2 devices cannot be shared out to 3 workers");
  refused({"--devices", "cpu:0,cpu:1", "--pipeline=4"}, "--pipeline takes no value");
  refused({"--devices", "cpu:0,cpu:1", "--pipeline", "--micro-batches", "7"},
          "--micro-batches 7 of a batch of 6");
  tool idle(
      {"train", "--data", MAILGRAD_SMALL_CSV, "--devices", "cpu:0,cpu:1", "--replicate", "--batch", "1"});
  EXPECT_EQ(idle.code(), 2);
  EXPECT_THAT(idle.err(), HasSubstr("leaves some without a sample"));
}

TEST_F(SpanningTool, DrawsABoxForEachDevice) {
  tool t({"graph", "--model", "mlp", "--devices", "cpu:0,cpu:1", "--pipeline", "--gradients"});
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(), AllOf(HasSubstr("cluster device cpu:0"), HasSubstr("cluster device cpu:1"),
                             HasSubstr("KiB a step")));
  EXPECT_THAT(t.out(), Not(HasSubstr("64x784\", fillcolor=\"#dae8fc\""))) << "nobody needs the gradient of x";
  tool alone({"graph", "--model", "mlp", "--pipeline"});
  EXPECT_EQ(alone.code(), 2);
  tool one({"graph", "--model", "mlp", "--devices", "cpu:0", "--pipeline"});
  EXPECT_EQ(one.code(), 2);
  EXPECT_THAT(one.err(), HasSubstr("--pipeline: each worker has one device"));
  tool other_data({"graph", "--model", "gpt"});
  EXPECT_THAT(other_data.err(), HasSubstr("by --data"));
  tool joins({"graph", "--model", "mlp", "--devices", "cpu:0,cpu:1", "--replicate", "--gradients"});
  EXPECT_THAT(joins.out(), Not(HasSubstr("concat"))) << "predictions are joined by evaluations alone";
  tool of_data({"graph", "--model", "mlp", "--data", MAILGRAD_SMALL_CSV});
  EXPECT_EQ(of_data.code(), 0) << of_data.err();
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <mailgrad/tensor/device.hpp>

// Models over several devices: of one process, and of each worker where workers are processes of their own.

namespace mailgrad::testing {
namespace {

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
  EXPECT_THAT(out, AllOf(HasSubstr("worker 0: cpu:0 computed"), HasSubstr("cpu:1")));
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
  EXPECT_THAT(refusal(replay + "--devices cpu:0"_w),
              HasSubstr("--devices: the recording has 4, these are 1"));
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
    EXPECT_THAT(refusal("train --model mlp --batch 6 --data"_w + MAILGRAD_SMALL_CSV + more), HasSubstr(why));
  EXPECT_THAT(refusal("train --replicate --batch 1 --data"_w + MAILGRAD_SMALL_CSV + two),
              HasSubstr("leaves some without a sample"));
}

TEST_F(SpanningTool, DrawsABoxForEachDevice) {
  const words two = "graph --model mlp --devices cpu:0,cpu:1 --gradients"_w;
  EXPECT_THAT(done(two + "--pipeline").out,
              AllOf(HasSubstr("cluster device cpu:0"), HasSubstr("cluster device cpu:1"),
                    HasSubstr("KiB a step"), Not(HasSubstr("64x784\", fillcolor=\"#dae8fc\""))))
      << "nobody needs the gradient of x";
  refusal("graph --model mlp --pipeline"_w);
  EXPECT_THAT(refusal("graph --model mlp --devices cpu:0 --pipeline"_w),
              HasSubstr("--pipeline: each worker has one device"));
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
  tool server(serve("2") + "--policy sync --pipeline --devices-per-worker 2 --report"_w + path("there"));
  const std::string address = address_of(server);
  const words join{"join", address};
  EXPECT_THAT(server.said(), HasSubstr(" for 2 workers of 2 devices"));
  EXPECT_THAT(refusal(join, 1), HasSubstr("server refuses: devices of a worker: expected 2, found 1\n"));
  EXPECT_EQ(refusal(join + "--devices cpu:0,cpu:1,cpu:0"_w),
            "mailgrad: --devices: expected 2 or a multiple, since each worker of the run at " + address +
                " has so many, found 3\n");
  EXPECT_THAT(refusal(join + "--workers 3 --devices"_w + four),
              HasSubstr("--workers 3: expected a multiple of so many --devices, found 4"));
  tool both(join + "--devices" + four);
  ASSERT_EQ(server.code(), 0) << server.err();
  EXPECT_EQ(both.code(), 0) << both.err();
  EXPECT_THAT(both.err(), HasSubstr("worker 1 (incarnation 1) has joined"));
  EXPECT_EQ(report("there")["parameters_sha256"], here("--pipeline"));
}

} // namespace
} // namespace mailgrad::testing

#include <mailgrad/tests/cli/tool.hpp>

#include <mailgrad/tensor/device.hpp>

// The tool on the simulated GPU. What a run does there is tested in tests/actors; here it is what the tool
// makes of its options and what it prints.

namespace mailgrad::testing {
namespace {

struct GpuTool : ToolTest {
  /// How the GPU of the next processes is set up.
  static void set_up_gpu(const std::string& how) {
    setenv("MAILGRAD_SIMULATED_GPU", how.c_str(), 1); // NOLINT(concurrency-mt-unsafe)
  }
  void TearDown() override { unsetenv("MAILGRAD_SIMULATED_GPU"); } // NOLINT(concurrency-mt-unsafe)

  /// `mailgrad train` of a small model for twelve steps.
  words training(const words& more) const { return train("--steps 12 --report"_w + path("run.json") + more); }
  words replay(const words& more = {}) const { return "replay"_w + path("run.rec") + more; }
  /// What a command makes of the trained model.
  words by(const char* command, const words& more = {}) const {
    return words{command, "--model-file", path("m.safetensors"), "--data", MAILGRAD_SMALL_CSV} + more;
  }

  /// Of the lines of a table, or all lines without a comma: probabilities may differ in their last bit.
  static words first_column(const std::string& text) {
    words column = lines_of(text);
    for (std::string& line : column) line.resize(std::min(line.find(','), line.size()));
    return column;
  }
};

TEST_F(GpuTool, ListsTheGpusAndWhyOneCannotBeUsed) {
  set_up_gpu("gpus=2");
  EXPECT_THAT(tool("devices"_w).out(), HasAll("cuda:0   simulated GPU, 8.0 GiB, compute capability 9.0",
                                              "streams cuda:1, cuda:1/1, ..."));
  set_up_gpu("capability=7");
  EXPECT_THAT(tool("devices"_w).out(),
              HasSubstr("compute capability 7.0, which is too old: 8.0 is the least"));
  EXPECT_EQ(refusal(training("--devices cuda:0"_w)),
            "mailgrad: device cuda:0 has compute capability 7.0, and at least 8.0 is needed\n");
}

TEST_F(GpuTool, TrainsThereAndSaysHow) {
  set_up_gpu("late");
  done(training("--devices cpu:0"_w));
  const json by_host = report();
  EXPECT_TRUE(by_host.at("cards").is_null());
  for (const words& place : {words{}, "--parameters cuda:0"_w, "--parameters cuda:0 --run-ahead 0"_w}) {
    const spoken gpu = done(training("--devices cuda:0"_w + place));
    EXPECT_THAT(gpu.err + gpu.out, HasSubstr("GPUs          "));
    const json r = report();
    EXPECT_EQ(r.at("cards").at("graph_steps").get<int>() + r.at("cards").at("launched_steps").get<int>(), 12);
    EXPECT_NEAR(r.at("final_loss").get<double>(), by_host.at("final_loss").get<double>(), 1e-5);
  }
}

TEST_F(GpuTool, TrainsThereIfNobodyNamesADevice) {
  set_up_gpu("gpus=2");
  tool gpus(as_typed{training({})});
  ASSERT_EQ(gpus.code(), 0) << gpus.err();
  EXPECT_THAT(gpus.err(), HasSubstr("adam at 0.001 (default), sync (default) on cuda:0,cuda:1\n"));
  EXPECT_EQ(report().at("devices"), json({"cuda:0", "cuda:1"}));

  // No GPU computes its operation.
  const words run = "train --model quadratic:dimension=2 --task regression --steps 8 --batch 1 --data"_w +
                    folder.write("numbers.csv", "x,y\n1,0.5\n2,0.25\n3,1.5\n4,2.5\n5,3.5\n") + "--report" +
                    path("run.json");
  tool cores(as_typed{run});
  ASSERT_EQ(cores.code(), 0) << cores.err();
  EXPECT_THAT(cores.err(), HasAll("on cores, since a GPU does not train this: ",
                                  "has no kernel for a GPU yet", "sync (default) on "));
  EXPECT_EQ(report().at("devices").at(0), "cpu:0");
  tool only_looked(as_typed{run + "--dry-run"});
  EXPECT_EQ(only_looked.code(), 0) << only_looked.err();
  EXPECT_THAT(only_looked.err(), HasSubstr("on cores, since a GPU does not train this: "));

  set_up_gpu("capability=7");
  tool old(as_typed{training({})});
  EXPECT_EQ(old.code(), 0) << old.err();
  EXPECT_EQ(report().at("devices").at(0), "cpu:0");
}

TEST_F(GpuTool, TestsAndPredictsThere) {
  set_up_gpu("");
  done(training("--devices cuda:0 --save"_w + path("m.safetensors")));
  const words there = "--device cuda:0"_w;
  for (const char* command : {"test", "predict"})
    EXPECT_EQ(first_column(done(by(command, there)).out), first_column(tool(by(command)).out())) << command;
  for (const char* stream : {"cuda:0/1", "cuda:0/x"})
    EXPECT_THAT(refusal(by("test", {"--device", stream})),
                EndsWith("no core or stream is chosen; name 'cuda:0'\n"));
  EXPECT_THAT(tool(by("test", "--device cuda:x"_w)).err(),
              AllOf(HasSubstr("write cuda:0;"), Not(HasSubstr("cuda:0/1"))));
  set_up_gpu("fault=1");
  for (const char* command : {"test", "predict"})
    EXPECT_THAT(refusal(by(command, there), 1), HasSubstr("\nmailgrad: cuda:0: "))
        << command << " did not use the GPU";
}

TEST_F(GpuTool, NamesTheGpuThatFailsAndWritesTheReport) {
  set_up_gpu("gpus=2 fault=60");
  EXPECT_THAT(refusal(training("--devices cuda:1"_w), 1),
              AllOf(HasSubstr("worker 0 at its step "), HasSubstr("cuda:1: "), Not(HasSubstr("cuda:0"))));
  EXPECT_EQ(report().at("ended"), "failed");
  set_up_gpu("lost=1");
  EXPECT_THAT(refusal(training("--devices cuda:0"_w), 1),
              AllOf(StartsWith("mailgrad: "), HasSubstr("cuda:0: "), HasSubstr("the GPU is lost")));
}

TEST_F(GpuTool, RunsAheadWhereAWorkerHasAllWeightsOnItsGpu) {
  set_up_gpu("");
  done(training("--devices cuda:0 --parameters cuda:0 --run-ahead 1"_w));
  EXPECT_THAT(refusal(training("--devices cuda:0 --parameters host,cuda:0 --shards 2 --run-ahead 1"_w)),
              StartsWith("mailgrad: --run-ahead"));
}

TEST_F(GpuTool, RepeatsARecordingOnSuchGpusAlone) {
  set_up_gpu("gpus=2");
  done(training("--devices cuda:1 --parameters cuda:1 --record"_w + path("run.rec")));
  done(replay());
  EXPECT_THAT(refusal(replay("--devices cpu:0 --parameters host"_w)),
              EndsWith("; leave --devices and --parameters out\n"));

  set_up_gpu("gpus=1");
  const std::string alone = "; it repeats on such GPUs alone; name such by ";
  EXPECT_THAT(refusal(replay()),
              AllOf(HasSubstr("has its weights on cuda:1"), HasSubstr("this machine has cpu:0"),
                    EndsWith(alone + "--parameters and --devices\n")));
  EXPECT_THAT(refusal(replay("--devices cuda:0"_w)),
              AllOf(HasSubstr("has its weights on cuda:1"), EndsWith(alone + "--parameters\n")));
  EXPECT_THAT(refusal(replay("--parameters cuda:0"_w)),
              AllOf(HasSubstr("has its workers on cuda:1"), EndsWith(alone + "--devices\n")));
  EXPECT_THAT(refusal(replay("--devices cuda:0 --parameters host"_w)),
              EndsWith(" here; replay it with --parameters cuda:0\n"));
  EXPECT_THAT(refusal(replay("--devices cuda:0 --parameters HOST"_w)),
              StartsWith("mailgrad: --parameters takes host and GPUs; device 'HOST'"));
  done(replay("--devices cuda:0 --parameters cuda:0"_w));
}

/// As `train` does.
TEST_F(GpuTool, RefusesPlacesOfWeightsThatMakeNoSense) {
  set_up_gpu("");
  const auto refused = [this](const char* place, const words& more = {}) {
    return refusal(training("--parameters"_w + place + more));
  };
  for (const words& processes : {words{}, "--processes 1"_w}) {
    if (available_devices().size() > 1) {
      EXPECT_THAT(refused("cpu:1", processes), HasSubstr("belong to no core; say host"));
    }
    EXPECT_THAT(refused("host,host", processes), HasSubstr("2 places for 1 shard"));
    EXPECT_THAT(refused("cpu:0/1", processes), EndsWith("and no streams; write cpu:0\n"));
  }
  EXPECT_THAT(refused("cuda:x"), AllOf(HasSubstr("write cuda:0;"), Not(HasSubstr("cuda:0/1"))));
  for (const char* stream : {"cuda:0/1", "cuda:0/x"})
    EXPECT_EQ(refused(stream), "mailgrad: --parameters takes host and GPUs, and no streams; write cuda:0\n");
}

TEST_F(GpuTool, SaysWhichDevicesWouldDoForAReplay) {
  set_up_gpu("gpus=2 names=A100,H100");
  done(training("--devices cuda:1 --record"_w + path("run.rec")));
  for (const char* other : {"cpu:0", "cuda:0"})
    EXPECT_THAT(refusal(replay({"--devices", other})), EndsWith("; leave --devices out\n")) << other;
  done(replay());

  set_up_gpu("gpus=2 names=H100,A100"); // which have changed numbers
  EXPECT_THAT(tool(replay()).err(), EndsWith("; replay it with --devices cuda:0\n"));
  done(replay("--devices cuda:0"_w));
  set_up_gpu("gpus=2 names=A100,A100");
  EXPECT_THAT(tool(replay()).err(), EndsWith("; this machine has no GPU 'H100'\n"));
}

TEST_F(GpuTool, SaysWhatToDoIfMemoryIsLacking) {
  set_up_gpu("memory=65536");
  EXPECT_THAT(refusal(training("--devices cuda:0"_w), 1),
              HasAll("cuda:0: out of memory: ", "of 64.0 KiB", ", for ", "take a smaller --batch"));
  EXPECT_THAT(tool(training("--devices cuda,cuda:0/1"_w)).err(), HasSubstr("fewer streams in --devices"));
}

} // namespace
} // namespace mailgrad::testing

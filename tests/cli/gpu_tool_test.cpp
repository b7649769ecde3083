#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/tensor/device.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

// The tool on the simulated GPU. What a run does there is tested in tests/actors; here it is what the tool
// makes of its options and what it prints.

namespace mailgrad {
namespace {

using json = nlohmann::json;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::tool;

class GpuTool : public ::testing::Test {
protected:
  /// How the GPU of the next processes is set up.
  static void set_up_gpu(const std::string& words) {
    setenv("MAILGRAD_SIMULATED_GPU", words.c_str(), 1); // NOLINT(concurrency-mt-unsafe)
  }
  void TearDown() override { unsetenv("MAILGRAD_SIMULATED_GPU"); } // NOLINT(concurrency-mt-unsafe)

  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  static json json_of(const std::string& file) { return json::parse(std::ifstream(file)); }

  /// `mailgrad train` of a small model for twelve steps.
  std::vector<std::string> training(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"train", "--model", "softmax", "--data",   MAILGRAD_SMALL_CSV, "--batch",
                                   "4",     "--steps", "12",      "--report", path("run.json")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// Of the lines of a table, or all lines without a comma: probabilities may differ in their last bit.
  static std::vector<std::string> first_column(const std::string& text) {
    std::vector<std::string> column;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) column.push_back(line.substr(0, line.find(',')));
    return column;
  }

  const scratch_folder folder_;
};

TEST_F(GpuTool, ListsTheGpusAndWhyOneCannotBeUsed) {
  set_up_gpu("gpus=2");
  tool two({"devices"});
  EXPECT_THAT(two.out(), AllOf(HasSubstr("cuda:0   simulated GPU, 8.0 GiB, compute capability 9.0"),
                               HasSubstr("streams cuda:1, cuda:1/1, ...")));
  set_up_gpu("capability=7");
  tool old({"devices"});
  EXPECT_THAT(old.out(), HasSubstr("compute capability 7.0, which is too old: 8.0 is the least"));
  tool refused(training({"--devices", "cuda:0"}));
  EXPECT_EQ(refused.code(), 2);
  EXPECT_EQ(refused.err(),
            "mailgrad: device cuda:0 has compute capability 7.0, and at least 8.0 is needed\n");
}

TEST_F(GpuTool, TrainsThereAndSaysHow) {
  set_up_gpu("late");
  tool host(training({"--devices", "cpu:0"}));
  ASSERT_EQ(host.code(), 0) << host.err();
  const json by_host = json_of(path("run.json"));
  EXPECT_TRUE(by_host.at("cards").is_null());
  for (const std::vector<std::string>& place : {std::vector<std::string>{},
                                                {"--parameters", "cuda:0"},
                                                {"--parameters", "cuda:0", "--run-ahead", "0"}}) {
    std::vector<std::string> words{"--devices", "cuda:0"};
    words.insert(words.end(), place.begin(), place.end());
    tool gpu(training(words));
    ASSERT_EQ(gpu.code(), 0) << gpu.err();
    EXPECT_THAT(gpu.err() + gpu.out(), HasSubstr("GPUs          "));
    const json r = json_of(path("run.json"));
    EXPECT_EQ(r.at("cards").at("graph_steps").get<int>() + r.at("cards").at("launched_steps").get<int>(), 12);
    EXPECT_NEAR(r.at("final_loss").get<double>(), by_host.at("final_loss").get<double>(), 1e-5);
  }
}

TEST_F(GpuTool, TrainsThereIfNobodyNamesADevice) {
  set_up_gpu("gpus=2");
  tool gpus(testing::as_typed{training({})});
  ASSERT_EQ(gpus.code(), 0) << gpus.err();
  EXPECT_THAT(gpus.err(), HasSubstr("adam at 0.001 (default), sync (default) on cuda:0,cuda:1\n"));
  EXPECT_EQ(json_of(path("run.json")).at("devices"), json({"cuda:0", "cuda:1"}));

  // No GPU computes its operation.
  const std::string numbers =
      folder_.write("numbers.csv", "x,y\n1,0.5\n2,0.25\n3,1.5\n4,2.5\n5,3.5\n").string();
  std::vector<std::string> words{"train",         "--model", "quadratic:dimension=2",
                                 "--data",        numbers,   "--task",
                                 "regression",    "--steps", "8",
                                 "--batch",       "1",       "--report",
                                 path("run.json")};
  tool cores(testing::as_typed{words});
  ASSERT_EQ(cores.code(), 0) << cores.err();
  EXPECT_THAT(cores.err(), AllOf(HasSubstr("on cores, since a GPU does not train this: "),
                                 HasSubstr("has no kernel for a GPU yet"), HasSubstr("sync (default) on ")));
  EXPECT_EQ(json_of(path("run.json")).at("devices").at(0), "cpu:0");
  words.push_back("--dry-run");
  tool only_looked(testing::as_typed{words});
  EXPECT_EQ(only_looked.code(), 0) << only_looked.err();
  EXPECT_THAT(only_looked.err(), HasSubstr("on cores, since a GPU does not train this: "));

  set_up_gpu("capability=7");
  tool old(testing::as_typed{training({})});
  EXPECT_EQ(old.code(), 0) << old.err();
  EXPECT_EQ(json_of(path("run.json")).at("devices").at(0), "cpu:0");
}

TEST_F(GpuTool, TestsAndPredictsThere) {
  set_up_gpu("");
  tool t(training({"--devices", "cuda:0", "--save", path("m.safetensors")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  for (const char* command : {"test", "predict"}) {
    tool host({command, "--model-file", path("m.safetensors"), "--data", MAILGRAD_SMALL_CSV});
    tool gpu(
        {command, "--model-file", path("m.safetensors"), "--data", MAILGRAD_SMALL_CSV, "--device", "cuda:0"});
    EXPECT_EQ(gpu.code(), 0) << gpu.err();
    EXPECT_EQ(first_column(gpu.out()), first_column(host.out())) << command;
  }
  for (const char* stream : {"cuda:0/1", "cuda:0/x"}) {
    tool refused(
        {"test", "--model-file", path("m.safetensors"), "--data", MAILGRAD_SMALL_CSV, "--device", stream});
    EXPECT_EQ(refused.code(), 2);
    EXPECT_THAT(refused.err(), EndsWith("no core or stream is chosen; name 'cuda:0'\n"));
  }
  tool without_index(
      {"test", "--model-file", path("m.safetensors"), "--data", MAILGRAD_SMALL_CSV, "--device", "cuda:x"});
  EXPECT_THAT(without_index.err(), AllOf(HasSubstr("write cuda:0;"), Not(HasSubstr("cuda:0/1"))));
  set_up_gpu("fault=1");
  for (const char* command : {"test", "predict"}) {
    tool gpu(
        {command, "--model-file", path("m.safetensors"), "--data", MAILGRAD_SMALL_CSV, "--device", "cuda:0"});
    EXPECT_EQ(gpu.code(), 1) << command << " did not use the GPU";
    EXPECT_THAT(gpu.err(), HasSubstr("\nmailgrad: cuda:0: "));
  }
}

TEST_F(GpuTool, NamesTheGpuThatFailsAndWritesTheReport) {
  set_up_gpu("gpus=2 fault=60");
  tool t(training({"--devices", "cuda:1"}));
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(),
              AllOf(HasSubstr("worker 0 at its step "), HasSubstr("cuda:1: "), Not(HasSubstr("cuda:0"))));
  EXPECT_EQ(json_of(path("run.json")).at("ended"), "failed");
  set_up_gpu("lost=1");
  tool lost(training({"--devices", "cuda:0"}));
  EXPECT_EQ(lost.code(), 1);
  EXPECT_THAT(lost.err(),
              AllOf(StartsWith("mailgrad: "), HasSubstr("cuda:0: "), HasSubstr("the GPU is lost")));
}

TEST_F(GpuTool, RunsAheadWhereAWorkerHasAllWeightsOnItsGpu) {
  set_up_gpu("");
  tool ahead(training({"--devices", "cuda:0", "--parameters", "cuda:0", "--run-ahead", "1"}));
  EXPECT_EQ(ahead.code(), 0) << ahead.err();
  tool mixed(
      training({"--devices", "cuda:0", "--parameters", "host,cuda:0", "--shards", "2", "--run-ahead", "1"}));
  EXPECT_EQ(mixed.code(), 2);
  EXPECT_THAT(mixed.err(), StartsWith("mailgrad: --run-ahead"));
}

TEST_F(GpuTool, RepeatsARecordingOnSuchGpusAlone) {
  set_up_gpu("gpus=2");
  tool t(training({"--devices", "cuda:1", "--parameters", "cuda:1", "--record", path("run.rec")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  tool same({"replay", path("run.rec")});
  EXPECT_EQ(same.code(), 0) << same.err();
  tool on_core({"replay", path("run.rec"), "--devices", "cpu:0", "--parameters", "host"});
  EXPECT_EQ(on_core.code(), 2);
  EXPECT_THAT(on_core.err(), EndsWith("; leave --devices and --parameters out\n"));

  set_up_gpu("gpus=1");
  const auto refused = [this](const std::vector<std::string>& more) {
    std::vector<std::string> words{"replay", path("run.rec")};
    words.insert(words.end(), more.begin(), more.end());
    tool again(words);
    EXPECT_EQ(again.code(), 2);
    return again.err();
  };
  const std::string alone = "; it repeats on such GPUs alone; name such by ";
  EXPECT_THAT(refused({}), AllOf(HasSubstr("has its weights on cuda:1"), HasSubstr("this machine has cpu:0"),
                                 EndsWith(alone + "--parameters and --devices\n")));
  EXPECT_THAT(refused({"--devices", "cuda:0"}),
              AllOf(HasSubstr("has its weights on cuda:1"), EndsWith(alone + "--parameters\n")));
  EXPECT_THAT(refused({"--parameters", "cuda:0"}),
              AllOf(HasSubstr("has its workers on cuda:1"), EndsWith(alone + "--devices\n")));
  EXPECT_THAT(refused({"--devices", "cuda:0", "--parameters", "host"}),
              EndsWith(" here; replay it with --parameters cuda:0\n"));
  EXPECT_THAT(refused({"--devices", "cuda:0", "--parameters", "HOST"}),
              StartsWith("mailgrad: --parameters takes host and GPUs; device 'HOST'"));
  tool moved({"replay", path("run.rec"), "--devices", "cuda:0", "--parameters", "cuda:0"});
  EXPECT_EQ(moved.code(), 0) << moved.err();
}

/// As `train` does.
TEST_F(GpuTool, RefusesPlacesOfWeightsThatMakeNoSense) {
  set_up_gpu("");
  const auto refused = [this](const char* place, const std::vector<std::string>& more) {
    std::vector<std::string> words = training({"--parameters", place});
    words.insert(words.end(), more.begin(), more.end());
    tool t(words);
    EXPECT_EQ(t.code(), 2) << place;
    return t.err();
  };
  for (const std::vector<std::string>& processes : {std::vector<std::string>{}, {"--processes", "1"}}) {
    if (available_devices().size() > 1) {
      EXPECT_THAT(refused("cpu:1", processes), HasSubstr("belong to no core; say host"));
    }
    EXPECT_THAT(refused("host,host", processes), HasSubstr("2 places for 1 shard"));
    EXPECT_THAT(refused("cpu:0/1", processes), EndsWith("and no streams; write cpu:0\n"));
  }
  EXPECT_THAT(refused("cuda:x", {}), AllOf(HasSubstr("write cuda:0;"), Not(HasSubstr("cuda:0/1"))));
  for (const char* stream : {"cuda:0/1", "cuda:0/x"})
    EXPECT_EQ(refused(stream, {}),
              "mailgrad: --parameters takes host and GPUs, and no streams; write cuda:0\n");
}

TEST_F(GpuTool, SaysWhichDevicesWouldDoForAReplay) {
  set_up_gpu("gpus=2 names=A100,H100");
  tool t(training({"--devices", "cuda:1", "--record", path("run.rec")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  const auto replay = [this](const std::vector<std::string>& devices) {
    std::vector<std::string> words{"replay", path("run.rec")};
    words.insert(words.end(), devices.begin(), devices.end());
    return tool(words);
  };
  for (const char* other : {"cpu:0", "cuda:0"}) {
    tool refused = replay({"--devices", other});
    EXPECT_EQ(refused.code(), 2);
    EXPECT_THAT(refused.err(), EndsWith("; leave --devices out\n")) << other;
  }
  EXPECT_EQ(replay({}).code(), 0);

  set_up_gpu("gpus=2 names=H100,A100"); // which have changed numbers
  EXPECT_THAT(replay({}).err(), EndsWith("; replay it with --devices cuda:0\n"));
  EXPECT_EQ(replay({"--devices", "cuda:0"}).code(), 0);
  set_up_gpu("gpus=2 names=A100,A100");
  EXPECT_THAT(replay({}).err(), EndsWith("; this machine has no GPU 'H100'\n"));
}

TEST_F(GpuTool, SaysWhatToDoIfMemoryIsLacking) {
  set_up_gpu("memory=65536");
  tool t(training({"--devices", "cuda:0"}));
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), AllOf(HasSubstr("cuda:0: out of memory: "), HasSubstr("of 64.0 KiB"),
                             HasSubstr(", for "), HasSubstr("take a smaller --batch")));
  tool twice(training({"--devices", "cuda,cuda:0/1"}));
  EXPECT_THAT(twice.err(), HasSubstr("fewer streams in --devices"));
}

} // namespace
} // namespace mailgrad

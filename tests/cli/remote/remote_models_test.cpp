#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <mailgrad/tensor/device.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <string>

// Models over several devices of each worker, and plug-ins, in runs whose workers are processes of their own.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::operator+;
using testing::RemoteTool;
using testing::small_run;
using testing::tool;
using testing::words;

/// Workers with two processors each, whose models span them.
struct SpanningRemoteTool : RemoteTool {
  void SetUp() override {
    if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  }
  /// What one process trains.
  nlohmann::json here(const std::string& span) const {
    tool t(words{"train", "--policy", "sync", "--devices", four, "--workers", "2", span, "--report",
                 file("here")} +
           small_run);
    EXPECT_EQ(t.code(), 0) << t.err();
    return report("here");
  }

  static constexpr const char* four = "cpu:0,cpu:1,cpu:0,cpu:1";
};

TEST_F(SpanningRemoteTool, TrainsToTheSameWeightsAndIsReplayed) {
  for (const char* span : {"--pipeline", "--replicate"}) {
    SCOPED_TRACE(span);
    tool there(words{"train", "--policy", "sync", "--processes", "2", "--devices", four, span, "--report",
                     file("there"), "--record", file("recording")} +
               small_run);
    ASSERT_EQ(there.code(), 0) << there.err();
    EXPECT_THAT(there.err(), HasSubstr("2 workers of other processes, each on 2 devices"));
    EXPECT_EQ(report("there")["parameters_sha256"], here(span)["parameters_sha256"]);
    EXPECT_EQ(report("there")["stages"].size(), 4U);
    tool again({"replay", file("recording")});
    EXPECT_EQ(again.code(), 0) << again.err();
  }
}

TEST_F(SpanningRemoteTool, TakesAsManyDevicesAsAWorkerOfTheRunHas) {
  tool server(serve("2") + words{"--policy", "sync", "--pipeline", "--devices-per-worker", "2", "--report",
                                 file("there")});
  const std::string address = address_of(server);
  EXPECT_THAT(server.said(), HasSubstr(" for 2 workers of 2 devices"));
  tool one({"join", address});
  EXPECT_EQ(one.code(), 1);
  EXPECT_THAT(one.err(), HasSubstr("server refuses: devices of a worker: expected 2, found 1\n"));
  tool three({"join", address, "--devices", "cpu:0,cpu:1,cpu:0"});
  EXPECT_EQ(three.code(), 2);
  EXPECT_EQ(three.err(), "mailgrad: --devices: expected 2 or a multiple, since each worker of the run at " +
                             address + " has so many, found 3\n");
  tool shared({"join", address, "--devices", four, "--workers", "3"});
  EXPECT_EQ(shared.code(), 2);
  EXPECT_THAT(shared.err(), HasSubstr("--workers 3: expected a multiple of so many --devices, found 4"));
  tool both({"join", address, "--devices", four});
  ASSERT_EQ(server.code(), 0) << server.err();
  EXPECT_EQ(both.code(), 0) << both.err();
  EXPECT_THAT(both.err(), HasSubstr("worker 1 (incarnation 1) has joined"));
  EXPECT_EQ(report("there")["parameters_sha256"], here("--pipeline")["parameters_sha256"]);
}

/// Parameter hosts and workers that need a plug-in of the server's user.
struct PluginRemoteTool : RemoteTool {
  static std::string plugin(const std::string& name) { return MAILGRAD_TEST_PLUGINS "/" + name + ".so"; }
  static words serve(const std::string& workers) {
    return words{"serve", "--listen", "127.0.0.1:0", "--workers", workers} + run;
  }
  /// The same bytes in another place, as on another machine.
  std::string copy_of(const std::string& name) const {
    const std::string copy = file(name + "-elsewhere.so");
    std::filesystem::copy_file(plugin(name), copy);
    return copy;
  }

  inline static const words run{"--model", "mlp:hidden=5", "--data", MAILGRAD_SMALL_CSV, "--batch",
                                "4",       "--seed",       "3"};
};

TEST_F(PluginRemoteTool, HasTheSameRulePolicyAndCureAtAParameterHost) {
  const words own{"--optimizer", plugin("own_sgd"),
                  "--policy",    "async, " + plugin("fair_turns") + ":1@5",
                  "--cure",      plugin("fading"),
                  "--steps",     "20",
                  "--shards",    "2"};
  tool here(words{"train", "--report", file("here")} + run + own);
  ASSERT_EQ(here.code(), 0) << here.err();
  tool server(serve("1") +
              words{"--shard-hosts", "1", "--report", file("there"), "--record", file("recording")} + own);
  const std::string address = address_of(server);
  tool host({"shard", "--join", address, "--plugin", copy_of("own_sgd"), "--plugin", copy_of("fair_turns"),
             "--plugin", copy_of("fading")});
  tool worker({"join", address});
  ASSERT_EQ(server.code(), 0) << server.err() << host.err();
  EXPECT_EQ(host.code(), 0) << host.err();
  EXPECT_EQ(worker.code(), 0) << worker.err();
  EXPECT_EQ(report("there")["parameters_sha256"], report("here")["parameters_sha256"]);
  EXPECT_EQ(report("there")["switches"].size(), 1U);
  tool again({"replay", file("recording")});
  EXPECT_EQ(again.code(), 0) << again.err();
}

TEST_F(PluginRemoteTool, IsRefusedByAHostThatHasOnlyAnotherOfTheSameName) {
  tool server(serve("1") + words{"--shard-hosts", "1", "--optimizer", plugin("factor_2")});
  const std::string address = address_of(server);
  tool host({"shard", "--join", address, "--plugin", plugin("factor_3")});
  tool worker({"join", address});
  EXPECT_EQ(host.code(), 1);
  const auto names_both =
      AllOf(HasSubstr("optimizer 'namesake' of the run: expected a plug-in with it and SHA-256 "),
            HasSubstr("name it by --plugin when this process is started"));
  EXPECT_THAT(host.err(), names_both);
  EXPECT_EQ(server.code(), 1);
  EXPECT_THAT(server.err(), names_both);
  worker.code();
}

TEST_F(PluginRemoteTool, TakesLocalStepsByIt) {
  const words own{"--optimizer", plugin("own_sgd"), "--local-steps", "2", "--policy", "sync"};
  tool here(words{"train", "--devices", "cpu:0,cpu:0", "--report", file("here")} + run + own);
  ASSERT_EQ(here.code(), 0) << here.err();
  tool there(words{"train", "--processes", "2", "--report", file("there")} + run + own);
  ASSERT_EQ(there.code(), 0) << there.err();
  EXPECT_EQ(report("there")["parameters_sha256"], report("here")["parameters_sha256"]);
}

TEST_F(PluginRemoteTool, IsLoadedForNobodyWhoOnlyAsks) {
  tool server(serve("1") + words{"--epochs", "100000"});
  const std::string address = address_of(server);
  tool worker({"join", address});
  ASSERT_TRUE(worker.says("has joined") && server.says("has joined")) << server.err();
  tool asks({"switch", address, plugin("fair_turns") + ":1"});
  EXPECT_EQ(asks.code(), 2);
  EXPECT_THAT(asks.err(), HasSubstr("a plug-in is loaded by the process that names it, and by no other"));
  tool stop({"stop", address});
  EXPECT_EQ(server.code(), 0) << server.err();
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/files/archive.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Runs that are resumed by another command than they began with, or with their workers in other processes.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::operator+;
using testing::RemoteTool;
using testing::small_run;
using testing::tool;
using testing::words;

class ResumedElsewhere : public RemoteTool {
protected:
  words train(const words& more) const {
    return words{"train", "--policy", "sync", "--quiet", "--steps", "60", "--checkpoint", file("kept")} +
           small_run + more;
  }
  words again(const std::string& command, const words& more) const {
    return words{command, "--same-outputs", "--resume", file("kept"), "--steps", "120"} + more;
  }
  static void expect_done(const words& given) {
    tool t(given);
    EXPECT_EQ(t.code(), 0) << t.err();
  }
  /// What `serve` says that it waits for. It listens nowhere else than another server of this machine may.
  void expect_awaited(const std::string& whom, const words& more = {}) const {
    tool server(again("serve", words{"--listen", "127.0.0.1:0"} + more));
    EXPECT_TRUE(server.says(" for " + whom + ";")) << server.err();
  }
  /// Tells other words in the newest checkpoint, as a machine with other devices would have written it.
  void retell(const std::vector<std::pair<std::string, std::string>>& changed) const {
    const auto path = checkpoints_in(file("kept")).front();
    const checkpoint was = checkpoint::read(path);
    checkpoint_parts parts;
    for (const char* name : {"run", "feeder", "worker 0", "worker 1", "shard 0"})
      parts[name] = was.part(name);
    std::string text = was.part("run")->text();
    for (const auto& [from, to] : changed) {
      const std::size_t begin = text.find(from);
      ASSERT_NE(begin, std::string::npos) << from;
      text.replace(begin, from.size(), to);
    }
    parts["run"] = std::make_shared<saved_fields>(text, was.part("run")->arrays());
    write_checkpoint_file(path, parts);
  }
};

TEST_F(ResumedElsewhere, ComeIntoOneProcess) {
  expect_done(train({"--processes", "3", "--record", file("recording")}));
  tool here(again("train", {"--processes", "0"}));
  EXPECT_EQ(here.code(), 0) << here.err();
  EXPECT_THAT(here.err(), HasSubstr(" on cpu:0, cpu:0, cpu:0;"));
  EXPECT_THAT(here.err(), Not(HasSubstr("without a recording")));
  tool replay({"replay", file("recording"), "--quiet"});
  EXPECT_EQ(replay.code(), 0) << replay.err();
  EXPECT_THAT(replay.out(), HasSubstr("the same parameters as recorded"));
}

/// Their models span as many devices there.
TEST_F(ResumedElsewhere, ComeIntoOneProcessWithAllDevices) {
  expect_done(train({"--processes", "2", "--replicate", "--devices", "cpu:0,cpu:1,cpu:0,cpu:1"}));
  expect_awaited("2 workers of 2 devices");
  tool here(again("train", {"--processes", "0", "--report", file("report")}));
  EXPECT_EQ(here.code(), 0) << here.err();
  EXPECT_EQ(report("report")["workers"], 2);
  EXPECT_EQ(report("report")["devices"].size(), 4);
}

TEST_F(ResumedElsewhere, WaitForNobodyIfNothingIsLeft) {
  expect_done(train({"--processes", "2"}));
  for (const words& how : {words{"serve", "--slots", "3", "--listen", "127.0.0.1:0"}, words{"train"}}) {
    tool t(how + words{"--same-outputs", "--resume", file("kept"), "--save", file("weights")});
    EXPECT_EQ(t.code(), 0) << t.err();
    EXPECT_THAT(t.err(), HasSubstr("nothing is left to train: 60 steps are done"));
    EXPECT_THAT(t.err(), Not(HasSubstr("listening"))) << how[0];
    EXPECT_THAT(t.err(), Not(HasSubstr("joined"))) << how[0];
    EXPECT_THAT(t.out(), HasSubstr("completed after 60 steps"));
    EXPECT_TRUE(std::filesystem::remove(file("weights")));
    tool quiet(how + words{"--same-outputs", "--resume", file("kept"), "--quiet"});
    EXPECT_EQ(quiet.err(), "resuming from " + checkpoints_in(file("kept")).front().string() + '\n');
  }
}

TEST_F(ResumedElsewhere, LeaveTheirServer) {
  tool server(serve("2") + words{"--steps", "60", "--checkpoint", file("kept")});
  const std::string address = address_of(server);
  tool one({"join", address, "--quiet"});
  tool two({"join", address, "--quiet"});
  ASSERT_EQ(server.code(), 0) << server.err();
  tool here(again("train", {"--processes", "0"}));
  EXPECT_EQ(here.code(), 0) << here.err();
  EXPECT_THAT(here.err(), HasSubstr(" on cpu:0, cpu:0;"));
}

TEST_F(ResumedElsewhere, AreReplayedWithoutAWordOfProcesses) {
  expect_done(train({"--processes", "0", "--record", file("recording")}));
  tool replay({"replay", file("recording"), "--quiet"});
  EXPECT_EQ(replay.code(), 0) << replay.err();
}

/// Nobody can take these options back where workers are in other processes.
TEST_F(ResumedElsewhere, HaveNoDelaysInOtherProcesses) {
  expect_done(train({"--devices", "cpu:0,cpu:0", "--delays", "exp:mean=0.0001", "--delays-seed", "2"}));
  expect_awaited("2 workers");
  expect_done(again("train", {"--processes", "2", "--checkpoint", file("other")}));
}

/// They leave on the GPU the weights alone. What their workers compute on is asked for again.
TEST_F(ResumedElsewhere, KeepTheGpusOfTheirWorkers) {
  expect_done(train(
      {"--devices", "cpu:0,cpu:1", "--parameters", "host", "--run-ahead", "0", "--precision", "float32"}));
  retell({{"--devices=cpu:0,cpu:1", "--devices=cuda:99,cuda:99/1"},
          {"--parameters=host", "--parameters=cuda:99"},
          {"--precision=float32", "--precision=tf32"}});
  expect_awaited("2 workers");
  tool without(again("train", {"--processes", "2", "--checkpoint", file("other")}));
  EXPECT_EQ(without.code(), 2);
  EXPECT_THAT(without.err(), HasSubstr("cuda:99 is not available"));
  tool on_cores(again("train", {"--processes", "2", "--devices", "cpu:0", "--checkpoint", file("other")}));
  EXPECT_EQ(on_cores.code(), 2);
  EXPECT_THAT(on_cores.err(), HasSubstr("--precision: tf32: cpu:0 computes in float32 alone"));
  expect_done(again("train", {"--processes", "2", "--devices", "cpu:0", "--precision", "float32",
                              "--checkpoint", file("other")}));
}

/// It is the checkpoint that asks for them, and not who resumes it.
TEST_F(ResumedElsewhere, SayThatGpusAreTheirsAndWhatWouldDo) {
  expect_done(train(
      {"--devices", "cpu:0,cpu:1", "--parameters", "host", "--run-ahead", "0", "--precision", "float32"}));
  const std::string kept = "checkpoint '" + checkpoints_in(file("kept")).front().string() + "' has its ";
  const auto expect_line = [&](const words& more, const std::string& asked, const std::string& remedy) {
    tool t(again("train", more + words{"--checkpoint", file("other")}));
    EXPECT_EQ(t.code(), 2);
    EXPECT_THAT(t.err(), HasSubstr(kept + asked + " is not available; this machine has cpu:0"));
    EXPECT_THAT(t.err(), ::testing::EndsWith("; on cores it goes on with --devices " + remedy + "\n"));
  };
  retell({{"--parameters=host", "--parameters=cuda:99"}});
  expect_line({}, "weights on cuda:99: device cuda:99", "cpu:0,cpu:1");
  expect_done(again("train", {"--devices", "cpu:0,cpu:1", "--checkpoint", file("other")}));
  retell({{"--devices=cpu:0,cpu:1", "--devices=cuda:99,cuda:99/1"},
          {"--precision=float32", "--precision=tf32"}});
  expect_line({"--parameters", "host"}, "workers on cuda:99,cuda:99/1: device cuda:99",
              "cpu:0,cpu:0 --precision float32");
  tool mine(again("train", {"--devices", "cuda:98,cuda:98", "--parameters", "host"}));
  EXPECT_THAT(mine.err(), Not(HasSubstr("checkpoint"))) << "the user named it";
  tool cores(again("train", {"--devices", "cpu:0,cpu:0", "--checkpoint", file("other")}));
  EXPECT_THAT(cores.err(), HasSubstr("or take --precision float32"));
  expect_done(
      again("train", {"--devices", "cpu:0,cpu:0", "--precision", "float32", "--checkpoint", file("third")}));
}

/// A model needs different cores, and workers may share them.
TEST_F(ResumedElsewhere, NameCoresForModelsThatSpannedGpus) {
  expect_done(train({"--replicate", "--workers", "2", "--devices", "cpu:0,cpu:1,cpu:0,cpu:1"}));
  retell({{"--devices=cpu:0,cpu:1,cpu:0,cpu:1", "--devices=cuda:99,cuda:99/1,cuda:98,cuda:98/1"}});
  tool t(again("train", {"--checkpoint", file("other")}));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), ::testing::EndsWith("; on cores it goes on with --devices cpu:0,cpu:1,cpu:0,cpu:1\n"));
}

TEST_F(ResumedElsewhere, NameOtherCoresThanTheModelHasBesideItsGpu) {
  expect_done(train({"--pipeline", "--workers", "2", "--devices", "cpu:0,cpu:1,cpu:0,cpu:1"}));
  retell({{"--devices=cpu:0,cpu:1,cpu:0,cpu:1", "--devices=cuda:99,cpu,cpu:1, cuda:99"}});
  tool t(again("train", {"--checkpoint", file("other")}));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), ::testing::EndsWith("; on cores it goes on with --devices cpu:1,cpu:0,cpu:1,cpu:0\n"));
  expect_done(again("train", {"--devices", "cpu:1,cpu:0,cpu:1,cpu:0", "--checkpoint", file("other")}));
}

/// Each process has its share of the devices, whatever --workers says.
TEST_F(ResumedElsewhere, NameCoresForEachProcessWhoseModelSpannedGpus) {
  expect_done(train({"--replicate", "--processes", "2", "--devices", "cpu:0,cpu:1,cpu:0,cpu:1"}));
  retell({{"--devices=cpu:0,cpu:1,cpu:0,cpu:1", "--devices=cuda:99,cuda:99/1,cuda:98,cuda:98/1"}});
  tool t(again("train", {"--checkpoint", file("other")}));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), ::testing::EndsWith("; on cores it goes on with --devices cpu:0,cpu:1,cpu:0,cpu:1\n"));
}

TEST_F(ResumedElsewhere, SendTheirGradientsAsTheyAreTold) {
  expect_done(train({"--processes", "2"}));
  expect_done(again("train", {"--wire", "float16", "--send-batches", "--checkpoint", file("other"),
                              "--report", file("report")}));
  EXPECT_EQ(report("report")["wire"], "float16");
  const auto refused = [&](const words& given, const std::string& why) {
    tool t(again("train", words{"--processes", "0"} + given));
    EXPECT_EQ(t.code(), 2) << t.out();
    EXPECT_THAT(t.err(), HasSubstr(why));
  };
  refused({"--wire", "float16"}, "--wire: gradients of one process do not travel");
  refused({"--send-batches"}, "--send-batches: workers of this process have them");
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

// Runs of several processes of which some are killed, stopped or ended.

namespace mailgrad {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::operator+;
using testing::RemoteTool;
using testing::small_run;
using testing::tool;
using testing::words;

/// The same by each way to meet on one machine.
struct RemoteToolBy : RemoteTool, ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Ways, RemoteToolBy, ::testing::Values("127.0.0.1:0", "memory:"),
                         [](const auto& way) {
                           return way.param == std::string("memory:") ? "Memory" : "Tcp";
                         });

TEST_P(RemoteToolBy, GoesOnWithoutAKilledWorkerAndEndsWhenAsked) {
  tool server(serve("2", GetParam()) + words{"--epochs", "100000", "--quiet", "--report", file("report")});
  const std::string address = address_of(server);
  tool stays({"join", address});
  tool dies({"join", address});
  ASSERT_TRUE(stays.says("has joined")) << stays.err();
  ASSERT_TRUE(dies.says("has joined")) << dies.err();
  dies.signal(SIGKILL);
  EXPECT_EQ(dies.code(), -SIGKILL);
  tool comes({"join", address});
  ASSERT_TRUE(comes.says("(incarnation 2) has joined")) << comes.err();
  tool status({"status", address});
  EXPECT_EQ(status.code(), 0) << status.err();
  EXPECT_THAT(status.out(), HasSubstr(" produced = ")) << "what is under way stands apart";
  tool stop({"stop", address, "seen enough"});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  EXPECT_EQ(server.code(), 0) << server.err();
  EXPECT_EQ(stays.code(), 0) << stays.err();
  EXPECT_EQ(comes.code(), 0) << comes.err();
  const nlohmann::json r = report("report"), members = r["members"];
  EXPECT_EQ(r["why"], "seen enough");
  EXPECT_EQ(members["counts"]["worker"],
            nlohmann::json::parse(R"({"joined": 0, "done": 2, "left": 0, "lost": 0})"));
  const bool was_first = members["listed"][0]["losses"] == 1;
  EXPECT_EQ(members["listed"][was_first ? 1 : 0]["losses"], 0);
  const nlohmann::json back = members["listed"][was_first ? 0 : 1];
  EXPECT_EQ(back["losses"], 1);
  EXPECT_EQ(back["incarnation"], 2);
  EXPECT_NE(back["why"], "") << "of the incarnation that was killed";
  EXPECT_THAT(
      server.out(),
      ContainsRegex("\nmembers       2 workers done\n.*\n(.*\n)?  worker [01]  done  .* was lost: worker "));
}

/// Under sync nobody goes on without its gradient, so it has a batch in hand when it is lost.
TEST_F(RemoteTool, SaysWhichBatchesWereSentToALostWorkerInVain) {
  tool server(serve("2") + words{"--policy", "sync", "--epochs", "100000", "--report", file("report")});
  const std::string address = address_of(server);
  tool stays({"join", address, "--number", "0"}), sleeps({"join", address, "--number", "1"});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  sleeps.signal(SIGSTOP);
  ASSERT_TRUE(server.says("lost worker 1 (incarnation 1)")) << server.err();
  tool stop({"stop", address});
  EXPECT_EQ(server.code(), 0) << server.err();
  const nlohmann::json r = report("report"), batches = r["batches"];
  const nlohmann::json of = batches["per_worker"];
  EXPECT_EQ(of[0]["lost"], 0);
  EXPECT_GE(of[1]["lost"], 1);
  EXPECT_EQ(batches["lost"], of[1]["lost"]);
  EXPECT_EQ(of[0]["sent"].get<std::uint64_t>() + of[1]["sent"].get<std::uint64_t>(), r["steps"]);
  EXPECT_THAT(server.out(),
              HasSubstr("; " + to_string(of[1]["lost"]) + " sent to worker 1 and lost with it\n"));
}

TEST_F(RemoteTool, EndsInOrderWithoutAKilledParameterHost) {
  tool server(serve("1") + words{"--epochs", "100000", "--shard-hosts", "1", "--report", file("report")});
  const std::string address = address_of(server);
  tool host({"shard", "--join", address});
  tool worker({"join", address});
  std::string status;
  while (status.find("gradients") == status.npos) {
    tool asks({"status", address});
    ASSERT_EQ(asks.code(), 0) << asks.err();
    status = asks.out();
  }
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  host.signal(SIGKILL);
  EXPECT_EQ(server.code(), 1);
  EXPECT_THAT(server.err(), HasSubstr("lost parameter host 0 (incarnation 1)"));
  EXPECT_THAT(server.err(), Not(HasSubstr("testing on"))) << "its weights are gone";
  EXPECT_EQ(worker.code(), 1) << worker.err();
  EXPECT_THAT(worker.err(), AllOf(HasSubstr("server says: the run has failed: shard 0 is lost"),
                                  Not(HasSubstr("mailgrad: "))))
      << "the worker has not failed";
  const nlohmann::json r = report("report");
  EXPECT_EQ(r["ended"], "failed");
  EXPECT_TRUE(r["final_loss"].is_number());
  EXPECT_EQ(r["lost_shards"], nlohmann::json::array({0}));
  EXPECT_GT(r["steps"], 0);
  EXPECT_GT(r["samples"], 0);
  EXPECT_EQ(r["ledger"]["produced"], r["steps"]) << "the worker has told its books";
  EXPECT_EQ(r["ledger"]["lost"], r["ledger"]["produced"]);
  EXPECT_THAT(server.out(), HasSubstr("failed after " + to_string(r["steps"]) + " steps"));
  EXPECT_THAT(server.out(), HasSubstr("staleness     unknown, since shard 0 had the figures and is lost"));
  EXPECT_THAT(server.err(), HasSubstr("; lost with shard 0: its weights, and what it had made of " +
                                      to_string(r["steps"]) + " gradients\n"));
}

TEST_F(RemoteTool, KeepsTheBooksOfACheckpointAlthoughAParameterHostIsKilled) {
  const words kept{"--epochs",     "100000",     "--shard-hosts", "1",
                   "--checkpoint", file("kept"), "--report",      file("report")};
  std::uint64_t before = 0;
  for (const words& how :
       {serve("2") + kept + words{"--checkpoint-every", "20"},
        words{"serve", "--same-outputs", "--resume", file("kept"), "--listen", "127.0.0.1:0"}}) {
    tool server(how);
    ASSERT_TRUE(server.says(" for 2 workers")) << server.err(); // behind the line that names the checkpoint
    const std::string address = address_of(server);
    tool host({"shard", "--join", address});
    tool first({"join", address});
    tool second({"join", address});
    ASSERT_TRUE(server.says(", loss ")) << server.err() << first.err() << second.err();
    std::string status;
    while (status.find(" written in ") == status.npos) {
      tool asks({"status", address});
      ASSERT_EQ(asks.code(), 0) << asks.err();
      status = asks.out();
    }
    host.signal(SIGKILL);
    EXPECT_EQ(server.code(), 1);
    EXPECT_EQ(first.code(), 1) << first.err();
    EXPECT_EQ(second.code(), 1) << second.err();
    EXPECT_THAT(server.out(),
                HasSubstr("\ngoes on by    mailgrad serve --resume " + file("kept") + " --same-outputs\n"));
    const nlohmann::json r = report("report");
    EXPECT_GE(r["steps"], r["checkpoints"]["last_steps"]);
    EXPECT_GT(r["steps"], before) << "the steps before the resume count";
    EXPECT_EQ(r["ledger"]["produced"], r["steps"]);
    before = r["steps"];
  }
}

TEST_F(RemoteTool, ComesBackByItselfAfterItStoodStill) {
  tool server(serve("2") + words{"--epochs", "100000", "--report", file("report")});
  const std::string address = address_of(server);
  tool stays({"join", address, "--number", "0"});
  tool sleeps({"join", address, "--number", "1"});
  ASSERT_TRUE(server.says("worker 0 has joined") && server.says("worker 1 has joined")) << server.err();
  ASSERT_TRUE(sleeps.says("has joined")) << sleeps.err();
  sleeps.signal(SIGSTOP);
  ASSERT_TRUE(server.says("lost worker 1 (incarnation 1): expected a sign of life")) << server.err();
  sleeps.signal(SIGCONT);
  EXPECT_TRUE(sleeps.says("worker 1 (incarnation 1) is cut off: ")) << sleeps.err();
  EXPECT_TRUE(sleeps.says("worker 1 is back as incarnation 2\n")) << sleeps.err();
  tool stop({"stop", address, "seen enough"});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  EXPECT_EQ(server.code(), 0) << server.err();
  EXPECT_EQ(stays.code(), 0) << stays.err();
  EXPECT_EQ(sleeps.code(), 0) << sleeps.err();
  EXPECT_EQ(report("report")["why"], "seen enough");
}

TEST_F(RemoteTool, StaysOutWhenToldSo) {
  tool server(serve("2") + words{"--epochs", "100000"});
  const std::string address = address_of(server);
  tool stays({"join", address, "--number", "0"});
  tool first({"join", address, "--number", "1", "--rejoin", "no"});
  ASSERT_TRUE(first.says("has joined")) << first.err();
  first.signal(SIGSTOP);
  ASSERT_TRUE(server.says("lost worker 1 (incarnation 1)")) << server.err();
  first.signal(SIGCONT);
  EXPECT_EQ(first.code(), 1);
  EXPECT_THAT(first.err(), HasSubstr("expected a sign of life each 250 ms"));
}

TEST_F(RemoteTool, SaysWhoIsRefusedOrLostEvenIfItIsQuiet) {
  tool server(serve("2") + words{"--epochs", "100000", "--quiet"});
  const std::string address = address_of(server);
  tool dies({"join", address, "--number", "0"});
  ASSERT_TRUE(dies.says("has joined")) << dies.err();
  tool stays({"join", address, "--number", "1"});
  ASSERT_TRUE(stays.says("has joined")) << stays.err();
  EXPECT_EQ(tool({"join", address, "--number", "0"}).code(), 1);
  dies.signal(SIGKILL);
  EXPECT_TRUE(server.says("lost worker 0 (incarnation 1)")) << server.err();
  tool stop({"stop", address});
  EXPECT_EQ(server.code(), 0);
  EXPECT_THAT(server.err(),
              ContainsRegex("\nrefused 127\\.0\\.0\\.1:[0-9]+: place: expected worker 0 to be gone"));
  EXPECT_THAT(server.err(), Not(AnyOf(HasSubstr("has joined"), HasSubstr("has left"))));
}

TEST_P(RemoteToolBy, EndsAllProcessesByOneSignal) {
  tool server(serve("1", GetParam()) + words{"--epochs", "100000", "--report", file("report")});
  tool worker({"join", address_of(server)});
  ASSERT_TRUE(server.says("worker 0 has joined") && worker.says("has joined")) << server.err();
  server.signal(SIGINT);
  EXPECT_EQ(server.code(), 128 + SIGINT) << server.err();
  EXPECT_EQ(worker.code(), 0) << worker.err();
  EXPECT_EQ(report("report")["ended"], "stopped");
}

TEST_P(RemoteToolBy, EndsAWorkerWhoseServerDies) {
  tool server(serve("1", GetParam()) + words{"--epochs", "100000"});
  tool worker({"join", address_of(server)});
  ASSERT_TRUE(server.says("worker 0 has joined") && worker.says("has joined")) << server.err();
  server.signal(SIGKILL);
  EXPECT_EQ(worker.code(), 1);
  EXPECT_THAT(worker.err(), HasSubstr("without a goodbye"));
  EXPECT_THAT(worker.err(), HasSubstr("the server is gone: nobody listens there any more"));
}

TEST_F(RemoteTool, LeavesNoWorkerOfItsOwnBehindWhenItIsKilled) {
  tool train(words{"train", "--processes", "2", "--epochs", "100000"} + small_run);
  ASSERT_TRUE(train.says("worker 0 has joined") && train.says("worker 1 has joined")) << train.err();
  train.signal(SIGKILL);
  EXPECT_EQ(train.code(), -SIGKILL); // and its standard error ends, which the workers share
  EXPECT_THAT(train.err(), Not(HasSubstr("cannot come back"))) << "they try no server that is gone";
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

// Runs whose workers are processes of their own: real ones, on this machine.

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

TEST_F(RemoteTool, TrainsInProcessesOfItsOwnToTheSameWeights) {
  tool here(words{"train", "--policy", "sync", "--devices", "cpu:0,cpu:0", "--report", file("here")} +
            small_run);
  ASSERT_EQ(here.code(), 0) << here.err();
  tool there(words{"train", "--policy", "sync", "--processes", "2", "--report", file("there")} + small_run);
  ASSERT_EQ(there.code(), 0) << there.err();
  EXPECT_THAT(there.err(), HasSubstr("worker 1 has joined"));
  EXPECT_EQ(report("there")["parameters_sha256"], report("here")["parameters_sha256"]);
}

TEST_F(RemoteTool, ReadsTheDataInEachProcessUnlessToldToSendBatches) {
  tool own(words{"train", "--policy", "sync", "--processes", "2", "--report", file("own")} + small_run);
  ASSERT_EQ(own.code(), 0) << own.err();
  EXPECT_THAT(own.out(),
              HasSubstr(to_string(report("own")["steps"]) + " batches from the own disk of workers 0, 1, "));
  EXPECT_THAT(own.out(), Not(HasSubstr("sent to")));
  tool sent(
      words{"train", "--policy", "sync", "--processes", "2", "--send-batches", "--report", file("sent")} +
      small_run);
  ASSERT_EQ(sent.code(), 0) << sent.err();
  EXPECT_THAT(sent.out(), HasSubstr(to_string(report("sent")["steps"]) + " batches sent to workers 0, 1\n"));
  EXPECT_EQ(report("own")["parameters_sha256"], report("sent")["parameters_sha256"]);
  EXPECT_EQ(report("own")["batches"]["sent"], 0);
  EXPECT_GT(report("own")["batches"]["spared_bytes"], 0);
  EXPECT_EQ(report("sent")["batches"]["own"], 0);
}

TEST_F(RemoteTool, NamesTheDataOfAWorkerThatAreNotThoseOfTheServer) {
  const std::string other = folder.write("other.csv", "1,2,a\n3,4,b\n5,6,a\n7,8,b\n9,10,a\n").string();
  tool server(serve("2") + words{"--policy", "sync", "--report", file("report")});
  const std::string address = address_of(server);
  tool same({"join", address, "--number", "0", "--data", MAILGRAD_SMALL_CSV});
  tool differs({"join", address, "--number", "1", "--data", other});
  ASSERT_EQ(server.code(), 0) << server.err();
  EXPECT_EQ(same.code(), 0);
  EXPECT_THAT(same.err(), Not(HasSubstr("data '")));
  EXPECT_EQ(differs.code(), 0);
  EXPECT_THAT(differs.err(), HasSubstr("data '" + other + "': expected the "));
  EXPECT_THAT(differs.err(), HasSubstr("; the server sends the batches\n"));
  const auto batches = report("report")["batches"]["per_worker"];
  EXPECT_GT(batches[0]["own"], 0);
  EXPECT_EQ(batches[0]["sent"], 0);
  EXPECT_EQ(batches[1]["own"], 0);
  EXPECT_GT(batches[1]["sent"], 0);
}

TEST_F(RemoteTool, ReplaysInOneProcessWhatProcessesDid) {
  tool there(words{"train", "--policy", "async", "--processes", "2", "--record", file("recording")} +
             small_run);
  ASSERT_EQ(there.code(), 0) << there.err();
  tool again({"replay", file("recording")});
  EXPECT_EQ(again.code(), 0) << again.err();
}

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
  EXPECT_EQ(report("report")["why"], "seen enough");
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

TEST_F(RemoteTool, LeavesItsShardsToParameterHosts) {
  tool here(words{"train", "--policy", "sync", "--devices", "cpu:0,cpu:0", "--shards", "3", "--report",
                  file("here")} +
            small_run);
  ASSERT_EQ(here.code(), 0) << here.err();
  tool server(serve("2") +
              words{"--policy", "sync", "--shards", "3", "--shard-hosts", "2", "--report", file("there")});
  const std::string address = address_of(server);
  tool one({"shard", "--join", address});
  tool two({"shard", "--join", address});
  tool first({"join", address, "--number", "0"});
  tool second({"join", address, "--number", "1"});
  ASSERT_EQ(server.code(), 0) << server.err();
  for (tool* each : {&one, &two, &first, &second}) EXPECT_EQ(each->code(), 0) << each->err();
  EXPECT_THAT(one.err() + two.err(), HasSubstr("holds shards 0, 2 for workers that come to 127.0.0.1:"));
  EXPECT_EQ(report("there")["parameters_sha256"], report("here")["parameters_sha256"]);
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
  EXPECT_EQ(worker.code(), 0) << worker.err();
  EXPECT_THAT(worker.err(), Not(HasSubstr("mailgrad: "))) << "the run has ended, and the server said so";
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
  for (const words& how : {serve("2") + kept + words{"--checkpoint-every", "20"},
                           words{"serve", "--resume", file("kept"), "--listen", "127.0.0.1:0"}}) {
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
    EXPECT_EQ(first.code(), 0) << first.err();
    EXPECT_EQ(second.code(), 0) << second.err();
    EXPECT_THAT(server.out(), HasSubstr("\ngoes on by    --resume " + file("kept") + "\n"));
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

TEST_F(RemoteTool, TakesNoNumberOfAWorkerThatIsThere) {
  tool server(serve("1") + words{"--epochs", "100000"});
  const std::string address = address_of(server);
  tool first({"join", address, "--number", "0"});
  ASSERT_TRUE(first.says("has joined")) << first.err();
  tool twin({"join", address, "--number", "0"});
  EXPECT_EQ(twin.code(), 1);
  EXPECT_THAT(twin.err(), HasSubstr("place: expected worker 0 to be gone, found its incarnation 1, heard "));
  EXPECT_TRUE(server.says(": place: expected worker 0 to be gone")) << server.err();
  EXPECT_THAT(server.said(), ContainsRegex("worker 0 has joined from 127\\.0\\.0\\.1:[1-9][0-9]*\n"));
  EXPECT_THAT(server.said(), ContainsRegex("refused 127\\.0\\.0\\.1:[1-9][0-9]*: place: "));
  tool stop({"stop", address});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  EXPECT_EQ(first.code(), 0) << first.err() << ": nobody took its place";
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

TEST_F(RemoteTool, IsStoppedWhileItWaitsForWorkers) {
  tool server(serve("3"));
  const std::string address = address_of(server);
  tool status({"status", address});
  EXPECT_EQ(status.out(), "waiting: 0 of 3 workers have joined\n");
  tool another({"switch", address, "ssp:2"});
  EXPECT_EQ(another.code(), 2);
  EXPECT_THAT(another.err(), HasSubstr("the run has not begun: it waits for 3 workers"));
  tool stop({"stop", address});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  EXPECT_EQ(server.code(), 0);
  EXPECT_THAT(server.err(), HasSubstr("\nended before the run had begun, as another process asked: 0 "
                                      "of 3 workers had joined\n"));
}

TEST_F(RemoteTool, IsEndedByASignalWhileItWaitsForWorkers) {
  tool server(serve("2"));
  tool one({"join", address_of(server)});
  ASSERT_TRUE(server.says("has joined")) << server.err();
  server.signal(SIGTERM);
  EXPECT_EQ(server.code(), 128 + SIGTERM) << server.err();
  EXPECT_THAT(server.err(),
              HasSubstr("given up by SIGTERM before the run had begun: 1 of 2 workers had joined"));
  one.code();
}

TEST_F(RemoteTool, GivesUpWhenWorkersDoNotComeInTime) {
  tool server(serve("3") + words{"--wait-for-workers", "1"});
  tool one({"join", address_of(server)});
  ASSERT_TRUE(one.says("has joined")) << one.err();
  EXPECT_EQ(server.code(), 1);
  EXPECT_THAT(server.err(), HasSubstr("given up: 1 of 3 workers had joined within 1 s"));
  one.code();
}

TEST_F(RemoteTool, WaitsForAnotherWorkerWhenAllAreGone) {
  tool server(serve("1") + words{"--when-alone", "wait", "--epochs", "100000", "--report", file("report")});
  const std::string address = address_of(server);
  tool dies({"join", address});
  ASSERT_TRUE(dies.says("has joined") && server.says("has joined")) << server.err();
  dies.signal(SIGKILL);
  ASSERT_TRUE(server.says("lost worker 0 (incarnation 1)")) << server.err();
  std::string status;
  while (status.find("the run waits for a worker to train the ") == status.npos) {
    tool asks({"status", address});
    ASSERT_EQ(asks.code(), 0) << asks.err();
    status = asks.out();
  }
  tool comes({"join", address});
  ASSERT_TRUE(comes.says("worker 0 (incarnation 2) has joined")) << comes.err();
  comes.signal(SIGINT);
  EXPECT_EQ(comes.code(), 128 + SIGINT) << "it leaves, and the run waits again";
  EXPECT_THAT(comes.err(), HasSubstr("its owner ended it before the end of the run\n"));
  tool stop({"stop", address, "seen enough"});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  EXPECT_EQ(server.code(), 0) << server.err();
  EXPECT_EQ(report("report")["why"], "seen enough");
  EXPECT_EQ(report("report")["ended"], "stopped");
}

TEST_F(RemoteTool, EndsWhenNobodyCameInTheTimeThatItWaitsAlone) {
  tool server(serve("1") + words{"--when-alone", "1", "--epochs", "100000", "--report", file("report")});
  tool dies({"join", address_of(server)});
  ASSERT_TRUE(dies.says("has joined") && server.says("has joined")) << server.err();
  dies.signal(SIGKILL);
  EXPECT_EQ(server.code(), 1);
  EXPECT_THAT(server.err(), HasSubstr("no worker has come to train the "));
  EXPECT_EQ(report("report")["ended"], "failed");
}

/// Server and workers are processes of one machine, so their clocks are the same.
TEST_F(RemoteTool, DrawsTheTimelineOfWorkersInOtherProcesses) {
  tool run(words{"train", "--processes", "2", "--policy", "sync", "--epochs", "50", "--trace", file("trace"),
                 "--report", file("report")} +
           small_run);
  ASSERT_EQ(run.code(), 0) << run.err();
  EXPECT_THAT(run.err(), Not(HasSubstr("trace:"))) << "nothing is missing";
  const nlohmann::json trace = report("trace");
  std::map<std::string, int> track_of;
  std::map<int, std::uint64_t> steps;
  for (const auto& e : trace["traceEvents"]) {
    if (e["name"] == "thread_name") track_of[e["args"]["name"]] = e["tid"];
    if (e["name"] == "compute") ++steps[e["tid"]];
  }
  EXPECT_EQ(steps[track_of.at("worker 0 on cpu:0")] + steps[track_of.at("worker 1 on cpu:0")],
            report("report")["steps"]);
  for (const auto& clock : trace["otherData"]["clocks"]) {
    EXPECT_EQ(clock["offset_us"], 0.0);
    EXPECT_LT(clock["uncertainty_us"], 1e6);
  }
}

TEST_F(RemoteTool, LetsMoreWorkersInThanItBeganWith) {
  tool server(serve("1") + words{"--seats", "2", "--policy", "sync", "--epochs", "100000"});
  const std::string address = address_of(server);
  tool first({"join", address});
  ASSERT_TRUE(first.says("has joined")) << first.err();
  tool later({"join", address});
  ASSERT_TRUE(later.says("has joined")) << later.err();
  tool third({"join", address});
  EXPECT_EQ(third.code(), 1);
  EXPECT_THAT(third.err(), HasSubstr("expected a free place of 2 for workers, found all taken"));
  tool stop({"stop", address});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  EXPECT_EQ(first.code(), 0) << first.err();
  EXPECT_EQ(later.code(), 0) << later.err();
}

TEST_F(RemoteTool, TakesTheFreePlaceAndSaysWhichDevicesHaveNone) {
  tool server(serve("1") + words{"--epochs", "100000", "--report", file("report")});
  const std::string address = address_of(server);
  tool workers({"join", address, "--devices", "cpu:0,cpu:0,cpu:0"});
  ASSERT_TRUE(server.says(", loss ")) << server.err() << workers.err();
  ASSERT_TRUE(
      workers.says("mailgrad: cpu:0, cpu:0 take no part: the run at " + address +
                   " has no place for them: server refuses: place: expected a free place of 1 for workers, "
                   "found all taken\n"))
      << workers.err();
  tool stop({"stop", address, "seen enough"});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  EXPECT_EQ(server.code(), 0) << server.err();
  EXPECT_EQ(workers.code(), 0) << workers.err();
  EXPECT_EQ(report("report")["why"], "seen enough");
}

TEST_F(RemoteTool, EncryptsByKeysAndRefusesWhoHasNone) {
  ASSERT_EQ(tool({"keys", "new", file("keys")}).code(), 0);
  tool server(serve("1") + words{"--keys", file("keys"), "--epochs", "2"});
  const std::string address = address_of(server);
  tool plain({"join", address});
  EXPECT_EQ(plain.code(), 1);
  EXPECT_THAT(plain.err(), HasSubstr("keys: expected"));
  tool worker({"join", address, "--keys", file("keys")});
  EXPECT_EQ(worker.code(), 0) << worker.err();
  EXPECT_EQ(server.code(), 0) << server.err();
}

TEST_F(RemoteTool, RefusesInOneLineWhatOtherProcessesCannotDo) {
  const auto refused = [](const words& given, const std::string& why) {
    tool t(given);
    EXPECT_EQ(t.code(), 2);
    EXPECT_THAT(t.err(), HasSubstr(why));
  };
  refused(serve("1") + words{"--policy", "hogwild"}, "--policy hogwild: workers of other processes");
  refused(serve("1") + words{"--devices", "cpu:0,cpu:0"}, "--devices: workers bring them");
  refused(words{"serve", "--listen", "10.1.2.3.4:7"} + small_run, "10.1.2.3.4");
  refused(words{"serve", "--listen", "0.0.0.0:0"} + small_run, "without keys");
  refused(serve("2") + words{"--seats", "1"}, "--seats 1: fewer than the 2 of --workers");
  refused(serve("1") + words{"--seats", "0"}, "--seats: must be a whole number from 1 to 256");
  refused(serve("1") + words{"--wait-for-workers", "0"}, "--wait-for-workers: must be a whole number from 1");
  refused(serve("1") + words{"--wait-for-workers", "soon"}, "not 'soon'");
  refused(serve("1") + words{"--when-alone", "0"}, "--when-alone: must be end, wait or a number of seconds");
  refused(serve("1") + words{"--when-alone", "cry"}, "not 'cry'");
  refused(serve("1") + words{"--when-alone", "604801"}, "from 1 to 604800, not '604801'");
  refused(words{"train", "--processes", "2", "--when-alone", "wait"} + small_run, "--when-alone");
  refused(words{"join", "127.0.0.1:1", "--rejoin", "0"}, "--rejoin: must be no, yes or a number of seconds");
  refused(words{"join", "127.0.0.1:1", "--rejoin", "perhaps"}, "not 'perhaps'");
  refused(words{"join", "127.0.0.1:1", "--rejoin", "-1"}, "not '-1'");
  refused(words{"serve", "--listen", "memory:a b"} + small_run, "expected memory:NAME with 1 to 64");
  refused(words{"serve", "--listen", "memory:run", "--keys", "here"} + small_run,
          "--keys: expected none for memory:run");
  refused(words{"train", "--processes", "2", "--pipeline"} + small_run,
          "--processes 2: 1 devices cannot be shared out to so many workers");
  refused(words{"train", "--processes", "1", "--pipeline"} + small_run,
          "--pipeline: each worker has one device; name more by --devices");
  refused(serve("1") + words{"--replicate"},
          "--replicate: each worker has one device; name more by --devices-per-worker");
  refused(serve("1") + words{"--devices-per-worker", "2"},
          "--devices-per-worker 2: say --replicate or --pipeline");
  refused(serve("1") + words{"--devices-per-worker", "2", "--pipeline", "--micro-batches", "5"},
          "--micro-batches 5 of a batch of 4");
}

} // namespace
} // namespace mailgrad

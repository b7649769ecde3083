#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>

// Runs whose workers are processes of their own: real ones, on this machine.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::operator+;
using testing::RemoteTool;
using testing::small_run;
using testing::tool;
using testing::words;

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
  refused(serve("2") + words{"--slots", "1"}, "--slots 1: fewer than the 2 of --workers");
  refused(serve("1") + words{"--slots", "0"}, "--slots: must be a whole number from 1 to 256");
  refused(serve("1") + words{"--wait-for-workers", "0"}, "--wait-for-workers: must be a whole number from 1");
  refused(serve("1") + words{"--wait-for-workers", "soon"}, "not 'soon'");
  refused(serve("1") + words{"--when-alone", "0"}, "--when-alone: must be end, wait or a number of seconds");
  refused(serve("1") + words{"--when-alone", "cry"}, "not 'cry'");
  refused(serve("1") + words{"--when-alone", "604801"}, "from 1 to 604800, not '604801'");
  refused(words{"train", "--when-alone", "wait"} + small_run,
          "--when-alone makes sense only with --processes");
  refused(serve("1") + words{"--heartbeat", "49"},
          "--heartbeat: must be a whole number from 50 to 60000, not '49'");
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

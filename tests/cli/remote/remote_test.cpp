#include <mailgrad/tests/cli/remote/remote_tool.hpp>
#include <mailgrad/tests/engine/account/event_reader.hpp>

#include <cstdint>
#include <map>

// Runs whose workers are processes of their own: real ones, on this machine. lost_processes_test.cpp has runs
// of which some processes end early.

namespace mailgrad::testing {
namespace {

TEST_F(RemoteTool, TrainsInProcessesOfItsOwnToTheSameWeights) {
  done("train --policy sync --devices cpu:0,cpu:0 --report"_w + path("here") + small_run);
  EXPECT_THAT(done("train --policy sync --processes 2 --report"_w + path("there") + small_run).err,
              HasSubstr("worker 1 has joined"));
  EXPECT_EQ(report("there")["parameters_sha256"], report("here")["parameters_sha256"]);
}

TEST_F(RemoteTool, ReadsTheDataInEachProcessUnlessToldToSendBatches) {
  const words run = "train --policy sync --processes 2"_w + small_run + "--report";
  const std::string own = done(run + path("own")).out, sent = done(run + path("sent") + "--send-batches").out;
  EXPECT_THAT(own, AllOf(HasSubstr(to_string(report("own")["steps"]) +
                                   " batches from the own disk of workers 0, 1, "),
                         Not(HasSubstr("sent to"))));
  EXPECT_THAT(sent, HasSubstr(to_string(report("sent")["steps"]) + " batches sent to workers 0, 1\n"));
  EXPECT_EQ(report("own")["parameters_sha256"], report("sent")["parameters_sha256"]);
  EXPECT_EQ(report("own")["batches"]["sent"], 0);
  EXPECT_GT(report("own")["batches"]["spared_bytes"], 0);
  EXPECT_EQ(report("sent")["batches"]["own"], 0);
}

TEST_F(RemoteTool, NamesTheDataOfAWorkerThatAreNotThoseOfTheServer) {
  const std::string other = folder.write("other.csv", "1,2,a\n3,4,b\n5,6,a\n7,8,b\n9,10,a\n");
  tool server(serve("2") + "--policy sync --report"_w + path("report"));
  const std::string address = address_of(server);
  tool same({"join", address, "--number", "0", "--data", MAILGRAD_SMALL_CSV}),
      differs({"join", address, "--number", "1", "--data", other});
  expect_ended({&server, &same, &differs});
  EXPECT_THAT(same.err(), Not(HasSubstr("data '")));
  EXPECT_THAT(differs.err(), AllOf(HasSubstr("data '" + other + "': expected the "),
                                   HasSubstr("; the server sends the batches\n")));
  const json batches = report("report")["batches"]["per_worker"];
  EXPECT_GT(batches[0]["own"], 0);
  EXPECT_EQ(batches[0]["sent"], 0);
  EXPECT_EQ(batches[1]["own"], 0);
  EXPECT_GT(batches[1]["sent"], 0);
}

TEST_F(RemoteTool, ReplaysInOneProcessWhatProcessesDid) {
  done("train --policy async --processes 2 --record"_w + path("recording") + small_run);
  done({"replay", path("recording")});
}

TEST_F(RemoteTool, LeavesItsShardsToParameterHosts) {
  done("train --policy sync --devices cpu:0,cpu:0 --shards 3 --report"_w + path("here") + small_run);
  tool server(serve("2") + "--policy sync --shards 3 --shard-hosts 2 --report"_w + path("there"));
  const std::string address = address_of(server);
  tool one({"shard", "--join", address}), two({"shard", "--join", address});
  tool first({"join", address, "--number", "0"}), second({"join", address, "--number", "1"});
  expect_ended({&server, &one, &two, &first, &second});
  EXPECT_THAT(one.err() + two.err(), HasSubstr("holds shards 0, 2 for workers that come to 127.0.0.1:"));
  EXPECT_EQ(report("there")["parameters_sha256"], report("here")["parameters_sha256"]);
}

/// Server and workers are processes of one machine, so their clocks are the same.
TEST_F(RemoteTool, DrawsTheTimelineOfWorkersInOtherProcesses) {
  EXPECT_THAT(done("train --processes 2 --policy sync --epochs 50 --trace"_w + path("trace") + "--report" +
                   path("report") + small_run)
                  .err,
              Not(HasSubstr("trace:")))
      << "nothing is missing";
  const json trace = report("trace");
  std::map<std::string, int> track_of;
  std::map<int, std::uint64_t> steps;
  for (const json& e : trace["traceEvents"]) {
    if (e["name"] == "thread_name") track_of[e["args"]["name"]] = e["tid"];
    if (e["name"] == "compute") ++steps[e["tid"]];
  }
  EXPECT_EQ(steps[track_of.at("worker 0 on cpu:0")] + steps[track_of.at("worker 1 on cpu:0")],
            report("report")["steps"]);
  for (const json& clock : trace["otherData"]["clocks"]) {
    EXPECT_EQ(clock["offset_us"], 0.0);
    EXPECT_LT(clock["uncertainty_us"], 1e6);
  }
}

TEST_F(RemoteTool, EncryptsByKeysAndRefusesWhoHasNone) {
  done({"keys", "new", path("keys")});
  tool server(serve("1") + "--epochs 2 --keys"_w + path("keys"));
  const std::string address = address_of(server);
  EXPECT_THAT(refusal({"join", address}, 1), HasSubstr("keys: expected"));
  done({"join", address, "--keys", path("keys")});
  expect_ended({&server});
}

TEST_F(RemoteTool, RefusesInOneLineWhatOtherProcessesCannotDo) {
  const words own = "train"_w + small_run, by_address = "serve"_w + small_run + "--listen", one = serve("1");
  const words rejoin = "join 127.0.0.1:1 --rejoin"_w, per_worker = one + "--devices-per-worker 2"_w;
  for (const auto& [given, why] :
       {std::pair{one + "--policy hogwild"_w, "--policy hogwild: workers of other processes"},
        {one + "--devices cpu:0,cpu:0"_w, "--devices: workers bring them"},
        {by_address + "10.1.2.3.4:7", "10.1.2.3.4"},
        {by_address + "0.0.0.0:0", "without keys"},
        {serve("2") + "--slots 1"_w, "--slots 1: fewer than the 2 of --workers"},
        {one + "--slots 0"_w, "--slots: must be a whole number from 1 to 256"},
        {one + "--wait-for-workers 0"_w, "--wait-for-workers: must be a whole number from 1"},
        {one + "--wait-for-workers soon"_w, "not 'soon'"},
        {one + "--when-alone 0"_w, "--when-alone: must be end, wait or a number of seconds"},
        {one + "--when-alone cry"_w, "not 'cry'"},
        {one + "--when-alone 604801"_w, "from 1 to 604800, not '604801'"},
        {own + "--when-alone wait"_w, "--when-alone makes sense only with --processes"},
        {one + "--heartbeat 49"_w, "--heartbeat: must be a whole number from 50 to 60000, not '49'"},
        {rejoin + "0", "--rejoin: must be no, yes or a number of seconds"},
        {rejoin + "perhaps", "not 'perhaps'"},
        {rejoin + "-1", "not '-1'"},
        {by_address + "memory:a b", "expected memory:NAME with 1 to 64"},
        {by_address + "memory:run --keys here"_w, "--keys: expected none for memory:run"},
        {own + "--processes 2 --pipeline"_w,
         "--processes 2: 1 devices cannot be shared out to so many workers"},
        {own + "--processes 1 --pipeline"_w,
         "--pipeline: each worker has one device; name more by --devices"},
        {one + "--replicate", "--replicate: each worker has one device; name more by --devices-per-worker"},
        {per_worker, "--devices-per-worker 2: say --replicate or --pipeline"},
        {per_worker + "--pipeline --micro-batches 5"_w, "--micro-batches 5 of a batch of 4"}})
    EXPECT_THAT(refusal(given), HasSubstr(why));
}

// Servers that wait for workers, and who gets which place.

TEST_F(RemoteTool, TakesNoNumberOfAWorkerThatIsThere) {
  tool server(serve("1") + "--epochs 100000"_w);
  const std::string address = address_of(server);
  tool first({"join", address, "--number", "0"});
  ASSERT_TRUE(first.says("has joined")) << first.err();
  EXPECT_THAT(refusal({"join", address, "--number", "0"}, 1),
              HasSubstr("place: expected worker 0 to be gone, found its incarnation 1, heard "));
  EXPECT_TRUE(server.says(": place: expected worker 0 to be gone")) << server.err();
  EXPECT_THAT(server.said(), AllOf(ContainsRegex("worker 0 has joined from 127\\.0\\.0\\.1:[1-9][0-9]*\n"),
                                   ContainsRegex("refused 127\\.0\\.0\\.1:[1-9][0-9]*: place: ")));
  done({"stop", address});
  EXPECT_EQ(first.code(), 0) << first.err() << ": nobody took its place";
}

TEST_F(RemoteTool, IsStoppedWhileItWaitsForWorkers) {
  tool server(serve("3"));
  const std::string address = address_of(server);
  EXPECT_EQ(done({"status", address}).out, "waiting: 0 of 3 workers have joined\n");
  EXPECT_THAT(refusal({"switch", address, "ssp:2"}),
              HasSubstr("the run has not begun: it waits for 3 workers"));
  done({"stop", address});
  expect_ended({&server});
  EXPECT_THAT(server.err(), HasSubstr("\nended before the run had begun, as another process asked: 0 "
                                      "of 3 workers had joined\n"));
}

TEST_F(RemoteTool, IsEndedByASignalWhileItWaitsForWorkers) {
  tool server(serve("2"));
  tool one({"join", address_of(server)});
  ASSERT_TRUE(server.says("has joined")) << server.err();
  server.signal(SIGTERM);
  expect_ended({&server}, 128 + SIGTERM);
  EXPECT_THAT(server.err(),
              HasSubstr("given up by SIGTERM before the run had begun: 1 of 2 workers had joined"));
  one.code();
}

TEST_F(RemoteTool, GivesUpWhenWorkersDoNotComeInTime) {
  tool server(serve("3") + "--wait-for-workers 1"_w);
  tool one({"join", address_of(server)});
  ASSERT_TRUE(one.says("has joined")) << one.err();
  expect_ended({&server}, 1);
  EXPECT_THAT(server.err(), HasSubstr("given up: 1 of 3 workers had joined within 1 s"));
  one.code();
}

TEST_F(RemoteTool, WaitsForAnotherWorkerWhenAllAreGone) {
  tool server(serve("1") + "--when-alone wait --epochs 100000 --report"_w + path("report"));
  const std::string address = address_of(server);
  tool dies({"join", address});
  ASSERT_TRUE(dies.says("has joined") && server.says("has joined")) << server.err();
  dies.signal(SIGKILL);
  ASSERT_TRUE(server.says("lost worker 0 (incarnation 1)")) << server.err();
  await_status(address, "the run waits for a worker to train the ");
  tool comes({"join", address});
  ASSERT_TRUE(comes.says("worker 0 (incarnation 2) has joined")) << comes.err();
  comes.signal(SIGINT);
  EXPECT_EQ(comes.code(), 128 + SIGINT) << "it leaves, and the run waits again";
  EXPECT_THAT(comes.err(), HasSubstr("its owner ended it before the end of the run\n"));
  done({"stop", address, "seen enough"});
  expect_ended({&server});
  EXPECT_EQ(report("report")["why"], "seen enough");
  EXPECT_EQ(report("report")["ended"], "stopped");
}

TEST_F(RemoteTool, EndsWhenNobodyCameInTheTimeThatItWaitsAlone) {
  tool server(serve("1") + "--when-alone 1 --epochs 100000 --report"_w + path("report"));
  tool dies({"join", address_of(server)});
  ASSERT_TRUE(dies.says("has joined") && server.says("has joined")) << server.err();
  dies.signal(SIGKILL);
  expect_ended({&server}, 1);
  EXPECT_THAT(server.err(), HasSubstr("no worker has come to train the "));
  EXPECT_EQ(report("report")["ended"], "failed");
}

TEST_F(RemoteTool, LetsMoreWorkersInThanItBeganWith) {
  tool server(serve("1") + "--slots 2 --policy sync --epochs 100000"_w);
  const std::string address = address_of(server);
  tool first({"join", address});
  ASSERT_TRUE(first.says("has joined")) << first.err();
  tool later({"join", address});
  ASSERT_TRUE(later.says("has joined")) << later.err();
  EXPECT_THAT(refusal({"join", address}, 1),
              HasSubstr("expected a free place of 2 for workers, found all taken: the run is full; "
                        "'mailgrad serve --slots N' takes more workers"));
  done({"stop", address});
  expect_ended({&first, &later});
}

/// Also where the first shard leads the others, and before the begin.
TEST_F(RemoteTool, TakesAnyNumberOfItsSlotsInARecordedRun) {
  tool server(serve("2") + "--slots 6 --epochs 100000 --shards 2 --policy k-async:2 --record"_w +
              path("recording"));
  const std::string address = address_of(server);
  tool five({"join", address, "--number", "5"});
  ASSERT_TRUE(five.says("worker 5 (incarnation 1) has joined")) << five.err();
  tool one({"join", address, "--number", "1"});
  ASSERT_TRUE(one.says("worker 1 (incarnation 1) has joined")) << one.err();
  tool three({"join", address, "--number", "3"});
  ASSERT_TRUE(three.says("worker 3 (incarnation 1) has joined")) << three.err();
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  done({"stop", address});
  expect_ended({&server, &five, &one, &three});
  done("replay --quiet"_w + path("recording"));
}

TEST_F(RemoteTool, SwitchesAndReplaysByItsSlotsAndNotByTheWorkersThatItBeganWith) {
  tool server(serve("1") + "--slots 2 --policy backup:1 --epochs 100000 --record"_w + path("recording"));
  const std::string address = address_of(server);
  tool worker({"join", address});
  ASSERT_TRUE(worker.says("has joined")) << worker.err();
  ASSERT_TRUE(server.says("step ")) << server.err();
  for (const char* policy : {"async", "backup:1"}) done({"switch", address, policy});
  done({"stop", address});
  expect_ended({&server});
  done({"replay", path("recording")});
}

TEST_F(RemoteTool, TakesTheFreePlaceAndSaysWhichDevicesHaveNone) {
  tool server(serve("1") + "--epochs 100000 --report"_w + path("report"));
  const std::string address = address_of(server);
  tool workers({"join", address, "--devices", "cpu:0,cpu:0,cpu:0"});
  ASSERT_TRUE(server.says(", loss ")) << server.err() << workers.err();
  ASSERT_TRUE(
      workers.says("mailgrad: cpu:0, cpu:0 take no part: the run at " + address +
                   " has no place for them: server refuses: place: expected a free place of 1 for workers, "
                   "found all taken: the run is full; 'mailgrad serve --slots N' takes more workers\n"))
      << workers.err();
  done({"stop", address, "seen enough"});
  expect_ended({&server, &workers});
  EXPECT_EQ(report("report")["why"], "seen enough");
}

// What status, switch and stop say, and options that make sense only with other processes.

using RemoteWatch = RemoteTool;

TEST_F(RemoteWatch, ShowsWorkersThatCameLaterAndTheDevicesThatTheyHave) {
  tool server(serve("2") + "--slots 4 --epochs 100000 --report"_w + path("report"));
  const std::string address = address_of(server);
  tool first({"join", address, "--devices", "cpu:0"}), second({"join", address, "--devices", "cpu:0"});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  tool later({"join", address, "--number", "2", "--devices", "cpu:0"});
  ASSERT_TRUE(later.says("has joined")) << later.err();
  const std::string status = await_status(address, "  worker 2    mean");
  EXPECT_THAT(status, HasSubstr(" (cpu:0)\n"));
  EXPECT_THAT(status, Not(HasSubstr("cpu:1"))) << "nobody has that";
  EXPECT_THAT(status, AllOf(HasSubstr("\nloss so far   "), Not(HasSubstr("final loss"))));
  done({"stop", address});
  expect_ended({&server});
  EXPECT_THAT(server.out(), AllOf(HasSubstr("  worker 2    "), HasSubstr("\nfinal loss    ")));
  EXPECT_EQ(report("report")["devices"], json({"cpu:0", "cpu:0", "cpu:0"}));
  EXPECT_EQ(report("report")["workers"], 3);
  EXPECT_THAT(tool({"report", path("report"), "--out", path("page.html")}).err(),
              Not(HasSubstr("a rank below")))
      << "the page knows the one that came later";
}

TEST_F(RemoteWatch, ShowsWhoIsThereAndWhoIsGone) {
  tool server(serve("3") + "--epochs 100000"_w);
  const std::string address = address_of(server);
  tool stays({"join", address, "--number", "0"});
  ASSERT_TRUE(stays.says("has joined")) << stays.err();
  EXPECT_THAT(await_status(address, "members "),
              StartsWith("waiting: 1 of 3 workers have joined\nmembers       1 worker joined\n"));
  tool leaves({"join", address, "--number", "1"}), dies({"join", address, "--number", "2"});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  leaves.signal(SIGINT);
  dies.signal(SIGKILL);
  ASSERT_TRUE(server.says("worker 1 has left") && server.says("lost worker 2")) << server.err();
  const std::string status = await_status(address, "members ");
  EXPECT_THAT(status, HasSubstr("\nmembers       1 worker joined, 1 left, 1 lost\n")) << status;
  EXPECT_THAT(
      status,
      ContainsRegex("\n  worker 0  joined  [0-9.]+ s ago  [01]\\.[0-9] s ago  127\\.0\\.0\\.1:[0-9]+  1 "
                    "           cpu:0\n"));
  EXPECT_THAT(status, ContainsRegex("\n  worker 1  left    .* cpu:0    .*its owner ended it before the end"));
  EXPECT_THAT(status, ContainsRegex("\n  worker 2  lost    .* cpu:0    worker 2 \\(incarnation 1\\): "));
  const auto members = nlohmann::json::parse(done({"status", address, "--json"}).out)["members"];
  EXPECT_EQ(members["counts"]["worker"],
            nlohmann::json::parse(R"({"joined": 1, "done": 0, "left": 1, "lost": 1})"));
  ASSERT_EQ(members["listed"].size(), 3);
  EXPECT_EQ(members["listed"][2]["state"], "lost");
  EXPECT_EQ(members["listed"][0]["devices"], nlohmann::json::array({"cpu:0"}));
  EXPECT_LT(members["listed"][0]["heard_seconds"], 2.0);
  done({"stop", address});
  expect_ended({&server});
}

TEST_F(RemoteWatch, TellsTensorBoardWhoComesAndGoes) {
  tool server(serve("2") + "--epochs 100000 --tensorboard"_w + path("board"));
  const std::string address = address_of(server);
  tool stays({"join", address, "--number", "0"}), dies({"join", address, "--number", "1"});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  dies.signal(SIGKILL);
  ASSERT_TRUE(server.says("lost worker 1")) << server.err();
  done({"stop", address});
  expect_ended({&server});
  words texts;
  std::vector<float> workers;
  for (const read_event& e : events_in(event_files(path("board")).at(0))) {
    if (e.texts.contains("members")) texts.push_back(e.texts.at("members"));
    if (e.scalars.contains("members/workers")) workers.push_back(e.scalars.at("members/workers"));
  }
  EXPECT_THAT(texts, ElementsAre("the run begins", StartsWith("lost worker 1 (incarnation 1): ")))
      << "that the run ends is no news of its members";
  EXPECT_THAT(workers, ElementsAre(2, 1));
}

TEST_F(RemoteWatch, SaysAtOnceThatNobodyListens) {
  for (const std::string address : {"127.0.0.1:1", "memory:nobody-is-here"})
    for (const words& ask : {words{"status", address}, {"switch", address, "ssp:2"}, {"stop", address}})
      EXPECT_THAT(refusal(ask, 1),
                  HasSubstr("cannot connect to " + address + ": nobody listens there: start"));
}

TEST_F(RemoteWatch, SaysWhatASwitchMayBe) {
  tool server(serve("1") + "--epochs 100000"_w);
  const std::string address = address_of(server);
  tool worker({"join", address});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  EXPECT_THAT(refusal({"switch", address, "async, sync@1000"}),
              HasSubstr("mailgrad: policy 'async, sync@1000': a switch takes one policy, such as ssp:2, "));
  EXPECT_THAT(refusal({"switch", address, "hogwild"}),
              AllOf(HasSubstr("mailgrad: policy 'hogwild': workers of other processes share no block of "
                              "memory, so a run over processes cannot switch to it"),
                    Not(HasSubstr("name hogwild"))))
      << "that advice cannot be followed here";
  done({"stop", address});
  expect_ended({&server});
}

TEST_F(RemoteWatch, TakesNoOptionThatWouldDoNothing) {
  const words own = "train"_w + small_run;
  EXPECT_THAT(refusal(own + "--send-batches"),
              HasSubstr("--send-batches makes sense only with --processes: add it"));
  EXPECT_THAT(refusal(own + "--wire int8"_w), HasSubstr("--wire makes sense only with --processes: add it"));
  EXPECT_THAT(refusal(own + "--shard-hosts 2"_w),
              HasSubstr("mailgrad train has no option '--shard-hosts'; 'mailgrad serve' has it"));
  EXPECT_THAT(refusal(serve("1") + "--delays exp:mean=0.1"_w),
              HasSubstr("mailgrad serve has no option '--delays'; 'mailgrad train' has it"));
  EXPECT_THAT(done("serve --help"_w).out, Not(HasSubstr("--delays")));
}

/// Runs whose processes know each other by keys.
struct RemoteKeys : RemoteTool {
  RemoteKeys() { done({"keys", "new", keys}); }

  /// A run with a server, a parameter host and a worker to its end.
  void expect_run(const std::string& by) {
    tool server(serve("1") + "--shards 2 --shard-hosts 1 --keys"_w + by);
    const std::string address = address_of(server);
    tool host({"shard", "--join", address, "--keys", by}), worker({"join", address, "--keys", by});
    expect_ended({&server, &host, &worker});
    EXPECT_THAT(server.out(), HasSubstr("completed after "));
  }

  const std::string keys = path("keys");
};

TEST_F(RemoteKeys, LetParameterHostsJoinAndBeJoinedByCertificates) { expect_run(keys); }

TEST_F(RemoteKeys, LetParameterHostsJoinAndBeJoinedByAToken) { expect_run(keys + "/token"); }

TEST_F(RemoteKeys, OfAnOlderToolHaveNoneForAParameterHost) {
  for (const char* file : {"/shard.pem", "/shard.key"}) std::filesystem::remove(keys + file);
  EXPECT_THAT(refusal("shard --join 127.0.0.1:1 --keys"_w + keys),
              AllOf(HasSubstr("--keys " + keys + ": expected shard.pem for a parameter host, found none"),
                    HasSubstr("--keys " + keys + "/token\n")));
}

TEST_F(RemoteKeys, OfAnotherKindSayWhatToGive) {
  tool server(serve("1") + "--keys" + keys);
  const std::string address = address_of(server);
  const auto refused = [&](const words& given, const std::string& why) {
    tool worker(words{"join", address} + given);
    EXPECT_NE(worker.code(), 0);
    EXPECT_THAT(worker.err(), HasSubstr(why));
  };
  refused({}, "found a peer without keys: give --keys with the keys of the server\n");
  refused({"--keys", keys + "/token"}, ": give both sides the folder, or both its token\n");
  refused({"--keys", keys + "/ca.pem"}, "ca.pem: expected a token, found a certificate or its key: give the "
                                        "folder that it lies in\n");
}

TEST_F(RemoteKeys, AreMissedByNameInAFolderWithoutThem) {
  EXPECT_THAT(refusal("join 127.0.0.1:1 --keys"_w + folder.path()),
              HasSubstr(": expected worker.pem or token, which 'mailgrad keys new' makes, found neither\n"));
}

} // namespace
} // namespace mailgrad::testing

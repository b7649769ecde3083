#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/tests/cli/remote/remote_tool.hpp>
#include <mailgrad/tests/engine/account/event_reader.hpp>

#include <thread>

// Runs whose workers are processes of their own: real ones, on this machine. Some are killed, stopped or
// ended.

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
  server_tool server(serve("2") + "--policy sync --report"_w + path("report"));
  tool same({"join", server.address, "--number", "0", "--data", MAILGRAD_SMALL_CSV}),
      differs({"join", server.address, "--number", "1", "--data", other});
  expect_ended({&server, &same, &differs});
  EXPECT_THAT(same.err(), Not(HasSubstr("data '")));
  EXPECT_THAT(differs.err(),
              HasAll("data '" + other + "': expected the ", "; the server sends the batches\n"));
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
  server_tool server(serve("2") + "--policy sync --shards 3 --shard-hosts 2 --report"_w + path("there"));
  tool one(server.host()), two(server.host());
  tool first(server.join("0")), second(server.join("1"));
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
  server_tool server(serve("1") + "--epochs 2 --keys"_w + path("keys"));
  EXPECT_THAT(refusal(server.join(), 1), HasSubstr("keys: expected"));
  done({"join", server.address, "--keys", path("keys")});
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
    expect_error(given, why);
}

// Servers that wait for workers, and who gets which place.

TEST_F(RemoteTool, TakesNoNumberOfAWorkerThatIsThere) {
  server_tool server(serve("1") + "--epochs 100000"_w);
  joined_tool first(server.join("0"));
  EXPECT_THAT(refusal(server.join("0"), 1),
              HasSubstr("place: expected worker 0 to be gone, found its incarnation 1, heard "));
  EXPECT_TRUE(server.says(": place: expected worker 0 to be gone")) << server.err();
  EXPECT_THAT(server.said(), AllOf(ContainsRegex("worker 0 has joined from 127\\.0\\.0\\.1:[1-9][0-9]*\n"),
                                   ContainsRegex("refused 127\\.0\\.0\\.1:[1-9][0-9]*: place: ")));
  server.stop();
  EXPECT_EQ(first.code(), 0) << first.err() << ": nobody took its place";
}

TEST_F(RemoteTool, IsStoppedWhileItWaitsForWorkers) {
  server_tool server(serve("3"));
  EXPECT_EQ(done({"status", server.address}).out, "waiting: 0 of 3 workers have joined\n");
  expect_error({"switch", server.address, "ssp:2"}, "the run has not begun: it waits for 3 workers");
  server.stop();
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
  joined_tool one({"join", address_of(server)});
  expect_ended({&server}, 1);
  EXPECT_THAT(server.err(), HasSubstr("given up: 1 of 3 workers had joined within 1 s"));
  one.code();
}

TEST_F(RemoteTool, WaitsForAnotherWorkerWhenAllAreGone) {
  server_tool server(serve("1") + "--when-alone wait --epochs 100000 --report"_w + path("report"));
  tool dies(server.join());
  ASSERT_TRUE(dies.says("has joined") && server.says("has joined")) << server.err();
  dies.signal(SIGKILL);
  ASSERT_TRUE(server.says("lost worker 0 (incarnation 1)")) << server.err();
  await_status(server.address, "the run waits for a worker to train the ");
  joined_tool comes(server.join(), "worker 0 (incarnation 2) has joined");
  comes.signal(SIGINT);
  EXPECT_EQ(comes.code(), 128 + SIGINT) << "it leaves, and the run waits again";
  EXPECT_THAT(comes.err(), HasSubstr("its owner ended it before the end of the run\n"));
  server.stop();
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
  server_tool server(serve("1") + "--slots 2 --policy sync --epochs 100000"_w);
  joined_tool first(server.join());
  joined_tool later(server.join());
  EXPECT_THAT(refusal(server.join(), 1),
              HasSubstr("expected a free place of 2 for workers, found all taken: the run is full; "
                        "'mailgrad serve --slots N' takes more workers"));
  server.stop();
  expect_ended({&first, &later});
}

/// Also where the first shard leads the others, and before the begin.
TEST_F(RemoteTool, TakesAnyNumberOfItsSlotsInARecordedRun) {
  server_tool server(serve("2") + "--slots 6 --epochs 100000 --shards 2 --policy k-async:2 --record"_w +
                     path("recording"));
  joined_tool five(server.join("5"), "worker 5 (incarnation 1) has joined");
  joined_tool one(server.join("1"), "worker 1 (incarnation 1) has joined");
  joined_tool three(server.join("3"), "worker 3 (incarnation 1) has joined");
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  server.stop();
  expect_ended({&server, &five, &one, &three});
  done("replay --quiet"_w + path("recording"));
}

TEST_F(RemoteTool, SwitchesAndReplaysByItsSlotsAndNotByTheWorkersThatItBeganWith) {
  server_tool server(serve("1") + "--slots 2 --policy backup:1 --epochs 100000 --record"_w +
                     path("recording"));
  joined_tool worker(server.join());
  ASSERT_TRUE(server.says("step ")) << server.err();
  for (const char* policy : {"async", "backup:1"}) done({"switch", server.address, policy});
  server.stop();
  expect_ended({&server});
  done({"replay", path("recording")});
}

TEST_F(RemoteTool, TakesTheFreePlaceAndSaysWhichDevicesHaveNone) {
  server_tool server(serve("1") + "--epochs 100000 --report"_w + path("report"));
  tool workers({"join", server.address, "--devices", "cpu:0,cpu:0,cpu:0"});
  ASSERT_TRUE(server.says(", loss ")) << server.err() << workers.err();
  ASSERT_TRUE(
      workers.says("mailgrad: cpu:0, cpu:0 take no part: the run at " + server.address +
                   " has no place for them: server refuses: place: expected a free place of 1 for workers, "
                   "found all taken: the run is full; 'mailgrad serve --slots N' takes more workers\n"))
      << workers.err();
  server.stop();
  expect_ended({&server, &workers});
  EXPECT_EQ(report("report")["why"], "seen enough");
}

// What status, switch and stop say, and options that make sense only with other processes.

using RemoteWatch = RemoteTool;

TEST_F(RemoteWatch, ShowsWorkersThatCameLaterAndTheDevicesThatTheyHave) {
  server_tool server(serve("2") + "--slots 4 --epochs 100000 --report"_w + path("report"));
  tool first({"join", server.address, "--devices", "cpu:0"}),
      second({"join", server.address, "--devices", "cpu:0"});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  joined_tool later({"join", server.address, "--number", "2", "--devices", "cpu:0"});
  const std::string status = await_status(server.address, "  worker 2    mean");
  EXPECT_THAT(status, HasSubstr(" (cpu:0)\n"));
  EXPECT_THAT(status, Not(HasSubstr("cpu:1"))) << "nobody has that";
  EXPECT_THAT(status, AllOf(HasSubstr("\nloss so far   "), Not(HasSubstr("final loss"))));
  server.stop();
  expect_ended({&server});
  EXPECT_THAT(server.out(), HasAll("  worker 2    ", "\nfinal loss    "));
  EXPECT_EQ(report("report")["devices"], json({"cpu:0", "cpu:0", "cpu:0"}));
  EXPECT_EQ(report("report")["workers"], 3);
  EXPECT_THAT(tool({"report", path("report"), "--out", path("page.html")}).err(),
              Not(HasSubstr("a rank below")))
      << "the page knows the one that came later";
}

TEST_F(RemoteWatch, ShowsWhoIsThereAndWhoIsGone) {
  server_tool server(serve("3") + "--epochs 100000"_w);
  joined_tool stays(server.join("0"));
  EXPECT_THAT(await_status(server.address, "members "),
              StartsWith("waiting: 1 of 3 workers have joined\nmembers       1 worker joined\n"));
  tool leaves(server.join("1")), dies(server.join("2"));
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  leaves.signal(SIGINT);
  dies.signal(SIGKILL);
  ASSERT_TRUE(server.says("worker 1 has left") && server.says("lost worker 2")) << server.err();
  const std::string status = await_status(server.address, "members ");
  EXPECT_THAT(status, HasSubstr("\nmembers       1 worker joined, 1 left, 1 lost\n")) << status;
  EXPECT_THAT(
      status,
      ContainsRegex("\n  worker 0  joined  [0-9.]+ s ago  [01]\\.[0-9] s ago  127\\.0\\.0\\.1:[0-9]+  1 "
                    "           cpu:0\n"));
  EXPECT_THAT(status, ContainsRegex("\n  worker 1  left    .* cpu:0    .*its owner ended it before the end"));
  EXPECT_THAT(status, ContainsRegex("\n  worker 2  lost    .* cpu:0    worker 2 \\(incarnation 1\\): "));
  const auto members = nlohmann::json::parse(done({"status", server.address, "--json"}).out)["members"];
  EXPECT_EQ(members["counts"]["worker"],
            nlohmann::json::parse(R"({"joined": 1, "done": 0, "left": 1, "lost": 1})"));
  ASSERT_EQ(members["listed"].size(), 3);
  EXPECT_EQ(members["listed"][2]["state"], "lost");
  EXPECT_EQ(members["listed"][0]["devices"], nlohmann::json::array({"cpu:0"}));
  EXPECT_LT(members["listed"][0]["heard_seconds"], 2.0);
  server.stop();
  expect_ended({&server});
}

TEST_F(RemoteWatch, TellsTensorBoardWhoComesAndGoes) {
  server_tool server(serve("2") + "--epochs 100000 --tensorboard"_w + path("board"));
  tool stays(server.join("0")), dies(server.join("1"));
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  dies.signal(SIGKILL);
  ASSERT_TRUE(server.says("lost worker 1")) << server.err();
  server.stop();
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
  server_tool server(serve("1") + "--epochs 100000"_w);
  tool worker(server.join());
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  expect_error({"switch", server.address, "async, sync@1000"},
               "mailgrad: policy 'async, sync@1000': a switch takes one policy, such as ssp:2, ");
  EXPECT_THAT(refusal({"switch", server.address, "hogwild"}),
              AllOf(HasSubstr("mailgrad: policy 'hogwild': workers of other processes share no block of "
                              "memory, so a run over processes cannot switch to it"),
                    Not(HasSubstr("name hogwild"))))
      << "that advice cannot be followed here";
  server.stop();
  expect_ended({&server});
}

TEST_F(RemoteWatch, TakesNoOptionThatWouldDoNothing) {
  const words own = "train"_w + small_run;
  expect_error(own + "--send-batches", "--send-batches makes sense only with --processes: add it");
  expect_error(own + "--wire int8"_w, "--wire makes sense only with --processes: add it");
  expect_error(own + "--shard-hosts 2"_w,
               "mailgrad train has no option '--shard-hosts'; 'mailgrad serve' has it");
  expect_error(serve("1") + "--delays exp:mean=0.1"_w,
               "mailgrad serve has no option '--delays'; 'mailgrad train' has it");
  EXPECT_THAT(done("serve --help"_w).out, Not(HasSubstr("--delays")));
}

/// Runs whose processes know each other by keys.
struct RemoteKeys : RemoteTool {
  RemoteKeys() { done({"keys", "new", keys}); }

  /// A run with a server, a parameter host and a worker to its end.
  void expect_run(const std::string& by) {
    server_tool server(serve("1") + "--shards 2 --shard-hosts 1 --keys"_w + by);
    tool host({"shard", "--join", server.address, "--keys", by}),
        worker({"join", server.address, "--keys", by});
    expect_ended({&server, &host, &worker});
    EXPECT_THAT(server.out(), HasSubstr("completed after "));
  }

  const std::string keys = path("keys");
};

TEST_F(RemoteKeys, LetParameterHostsJoinAndBeJoinedByCertificates) { expect_run(keys); }

TEST_F(RemoteKeys, LetParameterHostsJoinAndBeJoinedByAToken) { expect_run(keys + "/token"); }

TEST_F(RemoteKeys, OfAnOlderToolHaveNoneForAParameterHost) {
  for (const char* file : {"/shard.pem", "/shard.key"}) std::filesystem::remove(keys + file);
  expect_error("shard --join 127.0.0.1:1 --keys"_w + keys,
               "--keys " + keys + ": expected shard.pem for a parameter host, found none",
               "--keys " + keys + "/token\n");
}

TEST_F(RemoteKeys, OfAnotherKindSayWhatToGive) {
  server_tool server(serve("1") + "--keys" + keys);
  const auto refused = [&](const words& given, const std::string& why) {
    tool worker(server.join() + given);
    EXPECT_NE(worker.code(), 0);
    EXPECT_THAT(worker.err(), HasSubstr(why));
  };
  refused({}, "found a peer without keys: give --keys with the keys of the server\n");
  refused({"--keys", keys + "/token"}, ": give both sides the folder, or both its token\n");
  refused({"--keys", keys + "/ca.pem"}, "ca.pem: expected a token, found a certificate or its key: give the "
                                        "folder that it lies in\n");
}

TEST_F(RemoteKeys, AreMissedByNameInAFolderWithoutThem) {
  expect_error("join 127.0.0.1:1 --keys"_w + folder.path(),
               ": expected worker.pem or token, which 'mailgrad keys new' makes, found neither\n");
}

/// The same by each way to meet on one machine.
struct RemoteToolBy : RemoteTool, WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Ways, RemoteToolBy, Values("127.0.0.1:0", "memory:"), [](const auto& way) {
  return way.param == std::string("memory:") ? "Memory" : "Tcp";
});

TEST_P(RemoteToolBy, GoesOnWithoutAKilledWorkerAndEndsWhenAsked) {
  server_tool server(serve("2", GetParam()) + "--epochs 100000 --quiet --report"_w + path("report"));
  joined_tool stays(server.join()), dies(server.join());
  dies.signal(SIGKILL);
  EXPECT_EQ(dies.code(), -SIGKILL);
  joined_tool comes(server.join(), "(incarnation 2) has joined");
  EXPECT_THAT(done({"status", server.address}).out, HasSubstr(" produced = "))
      << "what is under way stands apart";
  server.stop();
  expect_ended({&server, &stays, &comes});
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
  server_tool server(serve("2") + "--policy sync --epochs 100000 --report"_w + path("report"));
  tool stays(server.join("0")), sleeps(server.join("1"));
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  sleeps.signal(SIGSTOP);
  ASSERT_TRUE(server.says("lost worker 1 (incarnation 1)")) << server.err();
  server.stop();
  expect_ended({&server});
  const json r = report("report"), of = r["batches"]["per_worker"];
  EXPECT_EQ(of[0]["lost"], 0);
  EXPECT_GE(of[1]["lost"], 1);
  EXPECT_EQ(r["batches"]["lost"], of[1]["lost"]);
  EXPECT_EQ(of[0]["sent"].get<std::uint64_t>() + of[1]["sent"].get<std::uint64_t>(), r["steps"]);
  EXPECT_THAT(server.out(),
              HasSubstr("; " + to_string(of[1]["lost"]) + " sent to worker 1 and lost with it\n"));
}

TEST_F(RemoteTool, EndsInOrderWithoutAKilledParameterHost) {
  server_tool server(serve("1") + "--epochs 100000 --shard-hosts 1 --report"_w + path("report"));
  tool host(server.host()), worker(server.join());
  await_status(server.address, "gradients");
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  host.signal(SIGKILL);
  expect_ended({&server, &worker}, 1);
  EXPECT_THAT(worker.err(), AllOf(HasSubstr("server says: the run has failed: shard 0 is lost"),
                                  Not(HasSubstr("mailgrad: "))))
      << "the worker has not failed";
  const json r = report("report");
  const std::string steps = to_string(r["steps"]);
  EXPECT_EQ(r["ended"], "failed");
  EXPECT_TRUE(r["final_loss"].is_number());
  EXPECT_EQ(r["lost_shards"], json::array({0}));
  EXPECT_GT(r["steps"], 0);
  EXPECT_GT(r["samples"], 0);
  EXPECT_EQ(r["ledger"]["produced"], r["steps"]) << "the worker has told its books";
  EXPECT_EQ(r["ledger"]["lost"], r["ledger"]["produced"]);
  EXPECT_THAT(server.out(), HasAll("failed after " + steps + " steps",
                                   "staleness     unknown, since shard 0 had the figures and is lost"));
  EXPECT_THAT(server.err(), AllOf(HasSubstr("lost parameter host 0 (incarnation 1)"),
                                  HasSubstr("; lost with shard 0: its weights, and what it had made of " +
                                            steps + " gradients\n"),
                                  Not(HasSubstr("testing on")))); // since its weights are gone
}

TEST_F(RemoteTool, KeepsTheBooksOfACheckpointAlthoughAParameterHostIsKilled) {
  std::uint64_t before = 0;
  for (const words& how :
       {serve("2") + "--epochs 100000 --shard-hosts 1 --checkpoint-every 20 --checkpoint"_w + path("kept") +
            "--report" + path("report"),
        "serve --same-outputs --listen 127.0.0.1:0 --resume"_w + path("kept")}) {
    server_tool server(how);
    ASSERT_TRUE(server.says(" for 2 workers")) << server.err(); // behind the line that names the checkpoint
    tool host(server.host()), first(server.join()), second(server.join());
    ASSERT_TRUE(server.says(", loss ")) << server.err() << first.err() << second.err();
    await_status(server.address, " written in ");
    host.signal(SIGKILL);
    expect_ended({&server, &first, &second}, 1);
    EXPECT_THAT(server.out(),
                HasSubstr("\ngoes on by    mailgrad serve --resume " + path("kept") + " --same-outputs\n"));
    const json r = report("report");
    EXPECT_GE(r["steps"], r["checkpoints"]["last_steps"]);
    EXPECT_GT(r["steps"], before) << "the steps before the resume count";
    EXPECT_EQ(r["ledger"]["produced"], r["steps"]);
    before = r["steps"];
  }
}

TEST_F(RemoteTool, ComesBackByItselfAfterItStoodStill) {
  server_tool server(serve("2") + "--epochs 100000 --report"_w + path("report"));
  tool stays(server.join("0")), sleeps(server.join("1"));
  ASSERT_TRUE(server.says("worker 0 has joined") && server.says("worker 1 has joined")) << server.err();
  ASSERT_TRUE(sleeps.says("has joined")) << sleeps.err();
  sleeps.signal(SIGSTOP);
  ASSERT_TRUE(server.says("lost worker 1 (incarnation 1): expected a sign of life")) << server.err();
  sleeps.signal(SIGCONT);
  EXPECT_TRUE(sleeps.says("worker 1 (incarnation 1) is cut off: ")) << sleeps.err();
  EXPECT_TRUE(sleeps.says("worker 1 is back as incarnation 2\n")) << sleeps.err();
  server.stop();
  expect_ended({&server, &stays, &sleeps});
  EXPECT_EQ(report("report")["why"], "seen enough");
}

TEST_F(RemoteTool, StaysOutWhenToldSo) {
  server_tool server(serve("2") + "--epochs 100000"_w);
  tool stays(server.join("0")), first({"join", server.address, "--number", "1", "--rejoin", "no"});
  ASSERT_TRUE(first.says("has joined")) << first.err();
  first.signal(SIGSTOP);
  ASSERT_TRUE(server.says("lost worker 1 (incarnation 1)")) << server.err();
  first.signal(SIGCONT);
  expect_ended({&first}, 1);
  EXPECT_THAT(first.err(), HasSubstr("expected a sign of life each 250 ms"));
}

TEST_F(RemoteTool, SaysWhoIsRefusedOrLostEvenIfItIsQuiet) {
  server_tool server(serve("2") + "--epochs 100000 --quiet"_w);
  joined_tool dies(server.join("0"));
  joined_tool stays(server.join("1"));
  refusal(server.join("0"), 1);
  dies.signal(SIGKILL);
  EXPECT_TRUE(server.says("lost worker 0 (incarnation 1)")) << server.err();
  server.stop();
  expect_ended({&server});
  EXPECT_THAT(server.err(),
              AllOf(ContainsRegex("\nrefused 127\\.0\\.0\\.1:[0-9]+: place: expected worker 0 to be gone"),
                    Not(AnyOf(HasSubstr("has joined"), HasSubstr("has left")))));
}

TEST_P(RemoteToolBy, EndsAllProcessesByOneSignal) {
  tool server(serve("1", GetParam()) + "--epochs 100000 --report"_w + path("report"));
  tool worker({"join", address_of(server)});
  ASSERT_TRUE(server.says("worker 0 has joined") && worker.says("has joined")) << server.err();
  server.signal(SIGINT);
  expect_ended({&server}, 128 + SIGINT);
  expect_ended({&worker});
  EXPECT_EQ(report("report")["ended"], "stopped");
}

TEST_P(RemoteToolBy, EndsAWorkerWhoseServerDies) {
  tool server(serve("1", GetParam()) + "--epochs 100000"_w);
  tool worker({"join", address_of(server)});
  ASSERT_TRUE(server.says("worker 0 has joined") && worker.says("has joined")) << server.err();
  server.signal(SIGKILL);
  expect_ended({&worker}, 1);
  EXPECT_THAT(worker.err(), HasAll("without a goodbye", "the server is gone: nobody listens there any more"));
}

TEST_F(RemoteTool, LeavesNoWorkerOfItsOwnBehindWhenItIsKilled) {
  tool train("train --processes 2 --epochs 100000"_w + small_run);
  ASSERT_TRUE(train.says("worker 0 has joined") && train.says("worker 1 has joined")) << train.err();
  train.signal(SIGKILL);
  EXPECT_EQ(train.code(), -SIGKILL); // and its standard error ends, which the workers share
  EXPECT_THAT(train.err(), Not(HasSubstr("cannot come back"))) << "they try no server that is gone";
}

// How runs end: what is printed, and the exit status.

using RemoteEnds = RemoteTool;

TEST_F(RemoteEnds, AsFailedWhenAllWorkersHaveLeft) {
  server_tool server(serve("1") + "--epochs 100000 --when-alone end --shard-hosts 1 --report"_w +
                     path("report") + "--record" + path("recording"));
  tool host(server.host()), leaves(server.join());
  ASSERT_TRUE(leaves.says("has joined") && server.says(", loss ")) << server.err();
  leaves.signal(SIGINT);
  expect_ended({&leaves}, 128 + SIGINT);
  expect_ended({&server, &host}, 1);
  EXPECT_THAT(host.err(), HasSubstr("the run has failed: nobody was left to train the "));
  EXPECT_THAT(server.out(), StartsWith("failed after "));
  EXPECT_THAT(server.err(), HasSubstr("mailgrad: nobody was left to train the "));
  EXPECT_EQ(report("report")["ended"], "failed");
  EXPECT_TRUE(report("report")["test_loss"].is_number()) << "its weights are whole";
  EXPECT_THAT(done({"replay", path("recording")}).out, HasSubstr("the same parameters as recorded"));
}

TEST_F(RemoteEnds, SayInPlainLinesThatAllIsWell) {
  server_tool server(serve("1") + "--shard-hosts 1 --epochs 100000"_w);
  tool host(server.host()), worker(server.join());
  ASSERT_TRUE(worker.says("has joined") && server.says(", loss ")) << server.err();
  server.stop();
  expect_ended({&server, &host, &worker});
  for (tool* each : std::initializer_list<tool*>{&server, &host, &worker})
    EXPECT_THAT(each->err(), Not(HasSubstr("mailgrad: "))) << "this is how failures begin";
  EXPECT_THAT(server.err(), HasSubstr("\nended: seen enough\n"));
  EXPECT_THAT(worker.err(), HasSubstr("\nworker 0 (incarnation 1): server says: "));
  EXPECT_THAT(host.err(), HasSubstr("\nparameter host 0 (incarnation 1): server says: "));
}

/// What the lost host had counted nobody knows, and what the other has counted is told apart.
TEST_F(RemoteEnds, WithTheBooksOfTheParameterHostThatIsLeft) {
  server_tool server(serve("1") +
                     "--epochs 100000 --shards 2 --shard-hosts 2 --metrics-every 20 --metrics"_w +
                     path("m.jsonl") + "--report" + path("report"));
  const joined_tool first(server.host());
  tool second(server.host()), worker(server.join());
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  const auto metrics = [this] {
    std::vector<json> all;
    for (const std::string& line : lines_of(content_of(path("m.jsonl")))) all.push_back(json::parse(line));
    return all;
  };
  while (metrics().size() < 3 && server.runs()) std::this_thread::yield();
  ASSERT_TRUE(server.runs()) << server.err();
  second.signal(SIGKILL);
  expect_ended({&server}, 1);
  const json r = report("report"), kept = r["kept_ledger"];
  EXPECT_EQ(r["lost_shards"], json::array({1}));
  EXPECT_EQ(r["ledger"]["lost"], r["ledger"]["produced"]);
  EXPECT_EQ(kept["shard"], 0);
  EXPECT_GT(kept["applied"], 0);
  EXPECT_THAT(server.out(),
              HasSubstr(" lost, as of the lost shard 1\n  shard 0     " + to_string(kept["produced"]) +
                        " produced = " + to_string(kept["applied"]) + " applied + "));
  EXPECT_THAT(server.out(), ContainsRegex("staleness     mean [^\n]*, without those of the lost shard 1\n"));
  const std::vector<json> lines = metrics();
  for (std::size_t i = 1; i < lines.size(); ++i)
    for (const char* count : {"computed", "applied", "merged", "discarded"})
      EXPECT_GE(lines[i][count], lines[i - 1][count]) << count << " of line " << i;
}

TEST_F(RemoteEnds, WithTheWayOnFromAnEarlierCheckpoint) {
  std::string remedy, until_then;
  for (const words& how :
       {serve("1") + "--epochs 100000 --shard-hosts 1 --checkpoint-every 20 --checkpoint"_w + path("kept"),
        "serve --same-outputs --checkpoint-every 1h --listen 127.0.0.1:0 --resume"_w + path("kept") +
            "--report" + path("report")}) {
    server_tool server(how);
    ASSERT_TRUE(server.says(" for 1 worker")) << server.err();
    tool host(server.host()), worker(server.join());
    ASSERT_TRUE(server.says(", loss ")) << server.err();
    while (checkpoints_in(path("kept")).empty() && server.runs()) std::this_thread::yield();
    ASSERT_TRUE(server.runs()) << server.err();
    host.signal(SIGKILL);
    expect_ended({&server}, 1);
    remedy = server.out();
    until_then = server.err();
  }
  const std::string steps = to_string(report("report")["resumed"]["steps"]);
  EXPECT_THAT(remedy, HasSubstr("checkpoints   0 written\ngoes on by    mailgrad serve --resume " +
                                path("kept") + " --same-outputs  # after step " + steps + "\n"));
  EXPECT_THAT(until_then, HasSubstr(" gradients; the checkpoint after step " + steps +
                                    " has what was made until then\n"));
}

} // namespace
} // namespace mailgrad::testing

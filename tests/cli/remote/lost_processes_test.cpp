#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <cstdint>
#include <thread>

// Runs of several processes of which some are killed, stopped or ended, and how such runs end.

namespace mailgrad::testing {
namespace {

/// The same by each way to meet on one machine.
struct RemoteToolBy : RemoteTool, WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Ways, RemoteToolBy, Values("127.0.0.1:0", "memory:"), [](const auto& way) {
  return way.param == std::string("memory:") ? "Memory" : "Tcp";
});

TEST_P(RemoteToolBy, GoesOnWithoutAKilledWorkerAndEndsWhenAsked) {
  tool server(serve("2", GetParam()) + "--epochs 100000 --quiet --report"_w + path("report"));
  const std::string address = address_of(server);
  tool stays({"join", address}), dies({"join", address});
  ASSERT_TRUE(stays.says("has joined")) << stays.err();
  ASSERT_TRUE(dies.says("has joined")) << dies.err();
  dies.signal(SIGKILL);
  EXPECT_EQ(dies.code(), -SIGKILL);
  tool comes({"join", address});
  ASSERT_TRUE(comes.says("(incarnation 2) has joined")) << comes.err();
  EXPECT_THAT(done({"status", address}).out, HasSubstr(" produced = ")) << "what is under way stands apart";
  done({"stop", address, "seen enough"});
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
  tool server(serve("2") + "--policy sync --epochs 100000 --report"_w + path("report"));
  const std::string address = address_of(server);
  tool stays({"join", address, "--number", "0"}), sleeps({"join", address, "--number", "1"});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  sleeps.signal(SIGSTOP);
  ASSERT_TRUE(server.says("lost worker 1 (incarnation 1)")) << server.err();
  done({"stop", address});
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
  tool server(serve("1") + "--epochs 100000 --shard-hosts 1 --report"_w + path("report"));
  const std::string address = address_of(server);
  tool host({"shard", "--join", address}), worker({"join", address});
  await_status(address, "gradients");
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
  EXPECT_THAT(server.out(),
              AllOf(HasSubstr("failed after " + steps + " steps"),
                    HasSubstr("staleness     unknown, since shard 0 had the figures and is lost")));
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
    tool server(how);
    ASSERT_TRUE(server.says(" for 2 workers")) << server.err(); // behind the line that names the checkpoint
    const std::string address = address_of(server);
    tool host({"shard", "--join", address}), first({"join", address}), second({"join", address});
    ASSERT_TRUE(server.says(", loss ")) << server.err() << first.err() << second.err();
    await_status(address, " written in ");
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
  tool server(serve("2") + "--epochs 100000 --report"_w + path("report"));
  const std::string address = address_of(server);
  tool stays({"join", address, "--number", "0"}), sleeps({"join", address, "--number", "1"});
  ASSERT_TRUE(server.says("worker 0 has joined") && server.says("worker 1 has joined")) << server.err();
  ASSERT_TRUE(sleeps.says("has joined")) << sleeps.err();
  sleeps.signal(SIGSTOP);
  ASSERT_TRUE(server.says("lost worker 1 (incarnation 1): expected a sign of life")) << server.err();
  sleeps.signal(SIGCONT);
  EXPECT_TRUE(sleeps.says("worker 1 (incarnation 1) is cut off: ")) << sleeps.err();
  EXPECT_TRUE(sleeps.says("worker 1 is back as incarnation 2\n")) << sleeps.err();
  done({"stop", address, "seen enough"});
  expect_ended({&server, &stays, &sleeps});
  EXPECT_EQ(report("report")["why"], "seen enough");
}

TEST_F(RemoteTool, StaysOutWhenToldSo) {
  tool server(serve("2") + "--epochs 100000"_w);
  const std::string address = address_of(server);
  tool stays({"join", address, "--number", "0"}), first({"join", address, "--number", "1", "--rejoin", "no"});
  ASSERT_TRUE(first.says("has joined")) << first.err();
  first.signal(SIGSTOP);
  ASSERT_TRUE(server.says("lost worker 1 (incarnation 1)")) << server.err();
  first.signal(SIGCONT);
  expect_ended({&first}, 1);
  EXPECT_THAT(first.err(), HasSubstr("expected a sign of life each 250 ms"));
}

TEST_F(RemoteTool, SaysWhoIsRefusedOrLostEvenIfItIsQuiet) {
  tool server(serve("2") + "--epochs 100000 --quiet"_w);
  const std::string address = address_of(server);
  tool dies({"join", address, "--number", "0"});
  ASSERT_TRUE(dies.says("has joined")) << dies.err();
  tool stays({"join", address, "--number", "1"});
  ASSERT_TRUE(stays.says("has joined")) << stays.err();
  refusal({"join", address, "--number", "0"}, 1);
  dies.signal(SIGKILL);
  EXPECT_TRUE(server.says("lost worker 0 (incarnation 1)")) << server.err();
  done({"stop", address});
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
  EXPECT_THAT(worker.err(), AllOf(HasSubstr("without a goodbye"),
                                  HasSubstr("the server is gone: nobody listens there any more")));
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
  tool server(serve("1") + "--epochs 100000 --when-alone end --shard-hosts 1 --report"_w + path("report") +
              "--record" + path("recording"));
  const std::string address = address_of(server);
  tool host({"shard", "--join", address}), leaves({"join", address});
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
  tool server(serve("1") + "--shard-hosts 1 --epochs 100000"_w);
  const std::string address = address_of(server);
  tool host({"shard", "--join", address}), worker({"join", address});
  ASSERT_TRUE(worker.says("has joined") && server.says(", loss ")) << server.err();
  done({"stop", address, "seen enough"});
  expect_ended({&server, &host, &worker});
  for (tool* each : {&server, &host, &worker})
    EXPECT_THAT(each->err(), Not(HasSubstr("mailgrad: "))) << "this is how failures begin";
  EXPECT_THAT(server.err(), HasSubstr("\nended: seen enough\n"));
  EXPECT_THAT(worker.err(), HasSubstr("\nworker 0 (incarnation 1): server says: "));
  EXPECT_THAT(host.err(), HasSubstr("\nparameter host 0 (incarnation 1): server says: "));
}

/// What the lost host had counted nobody knows, and what the other has counted is told apart.
TEST_F(RemoteEnds, WithTheBooksOfTheParameterHostThatIsLeft) {
  tool server(serve("1") + "--epochs 100000 --shards 2 --shard-hosts 2 --metrics-every 20 --metrics"_w +
              path("m.jsonl") + "--report" + path("report"));
  const std::string address = address_of(server);
  tool first({"shard", "--join", address});
  ASSERT_TRUE(first.says("has joined")) << first.err();
  tool second({"shard", "--join", address}), worker({"join", address});
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
    tool server(how);
    ASSERT_TRUE(server.says(" for 1 worker")) << server.err();
    const std::string address = address_of(server);
    tool host({"shard", "--join", address}), worker({"join", address});
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

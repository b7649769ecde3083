#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/files/archive.hpp>

#include <chrono>
#include <thread>

// Runs over processes that are killed and resumed, also by another command than they began with, or with
// their workers in other processes.

namespace mailgrad::testing {
namespace {

struct ResumedProcesses : RemoteTool {
  std::filesystem::path newest() const {
    if (!std::filesystem::is_directory(kept)) return {};
    const auto all = checkpoints_in(kept);
    return all.empty() ? std::filesystem::path() : all.front();
  }
  /// Leaves the processors to the processes that it waits for.
  void await_newer(const tool& t, const std::filesystem::path& than = {}) const {
    while (newest() == than && t.runs()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    EXPECT_NE(newest(), than) << "the run has ended";
  }
  /// The run must not have ended before.
  static void kill_run(tool& t) {
    t.signal(SIGKILL);
    EXPECT_EQ(t.code(), -SIGKILL) << t.err();
  }
  /// Kills a server with two workers when it has kept a checkpoint.
  void kill_server(const words& more) const {
    tool server(serve("2") + keeping("200000") + more);
    const words join = joining(address_of(server));
    tool one(join), two(join);
    await_newer(server);
    kill_run(server);
  }
  words keeping(const std::string& steps) const {
    return "--checkpoint-every 100 --keep 100 --steps"_w + steps + "--checkpoint" + kept;
  }
  words again(const std::string& command, const words& more) const {
    return words{command, "--same-outputs", "--resume", kept} + more;
  }
  static words joining(const std::string& address) { return {"join", address, "--quiet"}; }

  const std::string kept = path("kept");
};

/// The recording goes on as well, which it can only with the same workers.
TEST_F(ResumedProcesses, AreAsManyAgain) {
  tool first("train --processes 3 --send-batches --record"_w + path("recording") + small_run +
             keeping("200000"));
  await_newer(first);
  kill_run(first);
  EXPECT_THAT(done(again("train", "--steps 12000 --report"_w + path("report"))).err,
              AllOf(HasSubstr("on 3 workers of other processes"), HasSubstr("worker 2 has joined"),
                    Not(HasSubstr("without a recording"))));
  const json r = report("report");
  EXPECT_EQ(r["batches"]["own"], 0) << "they are sent";
  EXPECT_EQ(r["ledger"]["produced"], r["steps"]);
  EXPECT_THAT(done("replay --quiet"_w + path("recording")).out, HasSubstr("the same parameters as recorded"));
  EXPECT_THAT(done(again("train", "--steps 12100 --processes 0 --devices cpu:0"_w)).err,
              HasSubstr(" on cpu:0;"));
}

TEST_F(ResumedProcesses, SendGradientsAsBefore) {
  done("train --processes 2 --wire float16"_w + small_run + keeping("200"));
  done(again("train", "--steps 300 --report"_w + path("report")));
  EXPECT_EQ(report("report")["wire"], "float16");
  done(again("train", "--steps 400 --processes 0"_w));
  tool serves(again("serve", "--steps 500 --listen 127.0.0.1:0"_w));
  ASSERT_TRUE(serves.says(" for 2 workers;")) << serves.err();
  const words join = joining(address_of(serves));
  tool one(join), two(join);
  expect_ended({&serves});
}

TEST_F(ResumedProcesses, AreWaitedForByTheirServer) {
  kill_server("--slots 3"_w);
  tool server(again("serve", "--steps 12000"_w));
  ASSERT_TRUE(server.says(" for 2 workers;")) << server.err();
  const words join = joining(address_of(server));
  tool one(join), two(join);
  expect_ended({&server});
  EXPECT_THAT(done(again("train", "--steps 12100"_w)).err, HasSubstr(" on cpu:0, cpu:0;"))
      << "its workers are here";
}

/// The recording is of a run that began with two workers, and the checkpoint has a place for a third.
TEST_F(ResumedProcesses, GoOnWithoutARecordingWhereASlotIsTakenFromTheBeginning) {
  kill_server("--slots 3 --record"_w + path("run.rec"));
  tool server(again("serve", "--workers 3 --steps 12000"_w));
  ASSERT_TRUE(server.says(" for 3 workers;")) << server.err();
  const words join = joining(address_of(server));
  tool one(join), two(join), three(join);
  expect_ended({&server});
  EXPECT_THAT(server.err(),
              HasAll("this run goes on without a recording: ", "is of a run with other workers"));
}

/// A run that has been at home comes back to the server that it left, as far as nothing else is said.
TEST_F(ResumedProcesses, ComeBackToTheirServer) {
  tool server(serve("2", "memory:") + keeping("200") + "--slots 3 --when-alone 600 --wire float16"_w);
  const words join = joining(address_of(server));
  tool one(join), two(join);
  ASSERT_EQ(server.code(), 0) << server.err();
  for (const char* steps : {"300", "400"}) // also when it is at home twice
    EXPECT_THAT(done(again("train", "--steps"_w + steps + "--report" + path("report"))).err,
                HasSubstr(" on cpu:0, cpu:0;"));
  server_tool back(again("serve", "--steps 500"_w));
  ASSERT_TRUE(back.says(" for 2 workers;")) << back.err();
  EXPECT_THAT(back.address, StartsWith("memory:"));
  tool three(joining(back.address)), four(joining(back.address));
  ASSERT_EQ(back.code(), 0) << back.err();
  EXPECT_EQ(report("report")["wire"], "float16");
  checkpoint_card card;
  checkpoint::read(newest()).part("run")->field("card", card);
  EXPECT_THAT(card.words, IsSupersetOf({"--slots=3", "--when-alone=600"}));
}

/// By the command that the run prints.
TEST_F(ResumedProcesses, GoOnWithSlotsAndLocalSteps) {
  words command =
      serve("1", "memory:") + "--epochs 100000000 --slots 3 --local-steps 2 --quiet --checkpoint"_w + kept;
  for (int round = 0; round < 2; ++round) {
    server_tool server(command);
    ASSERT_TRUE(server.says(" for 1 worker;")) << server.err();
    tool one(server.join()), two(server.join());
    EXPECT_TRUE(one.says("has joined") && two.says("has joined")) << one.err() << two.err();
    server.stop();
    expect_ended({&server});
    EXPECT_THAT(server.out(), HasSubstr("\ngoes on by    mailgrad serve --resume " + kept + "\n"));
    command = "serve --quiet --resume"_w + kept;
  }
}

TEST_F(ResumedProcesses, AreKeptWhenTheRunIsStopped) {
  server_tool server(serve("1") + "--epochs 100000 --quiet --checkpoint"_w + kept);
  joined_tool one(server.join());
  server.stop();
  expect_ended({&server});
  EXPECT_THAT(server.out(), HasSubstr("1 written"));
  EXPECT_THAT(newest(), Not(std::filesystem::path()));
}

/// The newest checkpoint is the last one also after a worker was lost that nobody replaced.
TEST_F(ResumedProcesses, CountWhatALostWorkerTrained) {
  tool server(serve("2") + keeping("30000"));
  const words join = joining(address_of(server));
  tool stays(join), dies(join);
  await_newer(server);
  kill_run(dies);
  ASSERT_EQ(server.code(), 0) << server.err();
  EXPECT_THAT(server.err(), HasSubstr("lost worker"));
  EXPECT_THAT(server.out(), HasAll("completed after 30000 steps", "the last after step 30000: "));
  EXPECT_EQ(newest().filename(), checkpoint_name(30000));
  for (const auto& later : checkpoints_in(kept)) {
    if (later.filename() == checkpoint_name(30000)) continue;
    EXPECT_THAT(done("train --same-outputs --quiet --resume"_w + later + "--checkpoint" + path("other")).out,
                HasSubstr("completed after 30000 steps"));
    break;
  }
}

struct ResumedElsewhere : RemoteTool {
  words train(const words& more) const {
    return "train --policy sync --quiet --steps 60 --checkpoint"_w + kept + small_run + more;
  }
  words again(const std::string& command, const words& more = {}) const {
    return words{command, "--same-outputs", "--resume", kept, "--steps", "120"} + more;
  }
  /// The same with other places for its files.
  words aside(const words& more) const { return again("train", "--checkpoint"_w + path("other") + more); }
  /// What `serve` says that it waits for. It listens nowhere else than another server of this machine may.
  void expect_awaited(const std::string& whom) const {
    tool server(again("serve", "--listen 127.0.0.1:0"_w));
    EXPECT_TRUE(server.says(" for " + whom + ";")) << server.err();
  }
  /// Tells other words in the newest checkpoint, as a machine with other devices would have written it.
  void retell(const std::vector<std::pair<std::string, std::string>>& changed) const {
    const auto file = checkpoints_in(kept).front();
    const checkpoint was = checkpoint::read(file);
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
    write_checkpoint_file(file, parts);
  }
  /// A run has models over cpu:0 and cpu:1, and its checkpoint tells other devices; a resume names these
  /// cores.
  void expect_cores(const words& how, const std::string& told, const std::string& cores) const {
    done(train(how + "--devices cpu:0,cpu:1,cpu:0,cpu:1"_w));
    retell({{"--devices=cpu:0,cpu:1,cpu:0,cpu:1", "--devices=" + told}});
    EXPECT_THAT(refusal(aside({})), EndsWith("; on cores it goes on with --devices " + cores + "\n"));
  }

  const std::string kept = path("kept");
};

TEST_F(ResumedElsewhere, ComeIntoOneProcess) {
  done(train("--processes 3 --record"_w + path("recording")));
  EXPECT_THAT(done(again("train", "--processes 0"_w)).err,
              AllOf(HasSubstr(" on cpu:0, cpu:0, cpu:0;"), Not(HasSubstr("without a recording"))));
  EXPECT_THAT(done("replay --quiet"_w + path("recording")).out, HasSubstr("the same parameters as recorded"));
}

/// Their models span as many devices there.
TEST_F(ResumedElsewhere, ComeIntoOneProcessWithAllDevices) {
  done(train("--processes 2 --replicate --devices cpu:0,cpu:1,cpu:0,cpu:1"_w));
  expect_awaited("2 workers of 2 devices");
  done(again("train", "--processes 0 --report"_w + path("report")));
  EXPECT_EQ(report("report")["workers"], 2);
  EXPECT_EQ(report("report")["devices"].size(), 4);
}

TEST_F(ResumedElsewhere, WaitForNobodyIfNothingIsLeft) {
  done(train("--processes 2"_w));
  for (const words& how : {"serve --slots 3 --listen 127.0.0.1:0"_w, "train"_w}) {
    const words resume = how + "--same-outputs --resume"_w + kept;
    const spoken said = done(resume + "--save" + path("weights"));
    EXPECT_THAT(said.err, AllOf(HasSubstr("nothing is left to train: 60 steps are done"),
                                Not(HasSubstr("listening")), Not(HasSubstr("joined"))))
        << how[0];
    EXPECT_THAT(said.out, HasSubstr("completed after 60 steps"));
    EXPECT_TRUE(std::filesystem::remove(path("weights")));
    EXPECT_EQ(tool(resume + "--quiet").err(),
              "resuming from " + checkpoints_in(kept).front().string() + '\n');
  }
}

TEST_F(ResumedElsewhere, LeaveTheirServer) {
  tool server(serve("2") + "--steps 60 --checkpoint"_w + kept);
  const words join{"join", address_of(server), "--quiet"};
  tool one(join), two(join);
  ASSERT_EQ(server.code(), 0) << server.err();
  EXPECT_THAT(done(again("train", "--processes 0"_w)).err, HasSubstr(" on cpu:0, cpu:0;"));
}

TEST_F(ResumedElsewhere, AreReplayedWithoutAWordOfProcesses) {
  done(train("--processes 0 --record"_w + path("recording")));
  done("replay --quiet"_w + path("recording"));
}

/// Nobody can take these options back where workers are in other processes.
TEST_F(ResumedElsewhere, HaveNoDelaysInOtherProcesses) {
  done(train("--devices cpu:0,cpu:0 --delays exp:mean=0.0001 --delays-seed 2"_w));
  expect_awaited("2 workers");
  done(aside("--processes 2"_w));
}

const words on_two_cores = "--devices cpu:0,cpu:1 --parameters host --run-ahead 0 --precision float32"_w;

/// They leave on the GPU the weights alone. What their workers compute on is asked for again.
TEST_F(ResumedElsewhere, KeepTheGpusOfTheirWorkers) {
  done(train(on_two_cores));
  retell({{"--devices=cpu:0,cpu:1", "--devices=cuda:99,cuda:99/1"},
          {"--parameters=host", "--parameters=cuda:99"},
          {"--precision=float32", "--precision=tf32"}});
  expect_awaited("2 workers");
  expect_error(aside("--processes 2"_w), "cuda:99 is not available");
  expect_error(aside("--processes 2 --devices cpu:0"_w),
               "--precision: tf32: cpu:0 computes in float32 alone");
  done(aside("--processes 2 --devices cpu:0 --precision float32"_w));
}

/// It is the checkpoint that asks for them, and not who resumes it.
TEST_F(ResumedElsewhere, SayThatGpusAreTheirsAndWhatWouldDo) {
  done(train(on_two_cores));
  const std::string has = "checkpoint '" + checkpoints_in(kept).front().string() + "' has its ";
  const auto expect_line = [&](const words& more, const std::string& asked, const std::string& remedy) {
    EXPECT_THAT(refusal(aside(more)),
                AllOf(HasSubstr(has + asked + " is not available; this machine has cpu:0"),
                      EndsWith("; on cores it goes on with --devices " + remedy + "\n")));
  };
  retell({{"--parameters=host", "--parameters=cuda:99"}});
  expect_line({}, "weights on cuda:99: device cuda:99", "cpu:0,cpu:1");
  done(aside("--devices cpu:0,cpu:1"_w));
  retell({{"--devices=cpu:0,cpu:1", "--devices=cuda:99,cuda:99/1"},
          {"--precision=float32", "--precision=tf32"}});
  expect_line("--parameters host"_w, "workers on cuda:99,cuda:99/1: device cuda:99",
              "cpu:0,cpu:0 --precision float32");
  EXPECT_THAT(tool(again("train", "--devices cuda:98,cuda:98 --parameters host"_w)).err(),
              Not(HasSubstr("checkpoint")))
      << "the user named it";
  EXPECT_THAT(tool(aside("--devices cpu:0,cpu:0"_w)).err(), HasSubstr("or take --precision float32"));
  done(again("train", "--devices cpu:0,cpu:0 --precision float32 --checkpoint"_w + path("third")));
}

/// A model needs different cores, and workers may share them.
TEST_F(ResumedElsewhere, NameCoresForModelsThatSpannedGpus) {
  expect_cores("--replicate --workers 2"_w, "cuda:99,cuda:99/1,cuda:98,cuda:98/1", "cpu:0,cpu:1,cpu:0,cpu:1");
}

TEST_F(ResumedElsewhere, NameOtherCoresThanTheModelHasBesideItsGpu) {
  expect_cores("--pipeline --workers 2"_w, "cuda:99,cpu,cpu:1, cuda:99", "cpu:1,cpu:0,cpu:1,cpu:0");
  done(aside("--devices cpu:1,cpu:0,cpu:1,cpu:0"_w));
}

/// Each process has its share of the devices, whatever --workers says.
TEST_F(ResumedElsewhere, NameCoresForEachProcessWhoseModelSpannedGpus) {
  expect_cores("--replicate --processes 2"_w, "cuda:99,cuda:99/1,cuda:98,cuda:98/1",
               "cpu:0,cpu:1,cpu:0,cpu:1");
}

TEST_F(ResumedElsewhere, SendTheirGradientsAsTheyAreTold) {
  done(train("--processes 2"_w));
  done(aside("--wire float16 --send-batches --report"_w + path("report")));
  EXPECT_EQ(report("report")["wire"], "float16");
  expect_error(again("train", "--processes 0 --wire float16"_w),
               "--wire: gradients of one process do not travel");
  expect_error(again("train", "--processes 0 --send-batches"_w),
               "--send-batches: workers of this process have them");
}

} // namespace
} // namespace mailgrad::testing

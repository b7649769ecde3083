#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

// Runs over processes that are killed and resumed.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::operator+;
using testing::RemoteTool;
using testing::small_run;
using testing::tool;
using testing::words;

class ResumedProcesses : public RemoteTool {
protected:
  std::filesystem::path newest() const {
    if (!std::filesystem::is_directory(file("kept"))) return {};
    const auto kept = checkpoints_in(file("kept"));
    return kept.empty() ? std::filesystem::path() : kept.front();
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
  words keeping(const std::string& steps) const {
    return words{"--steps", steps,    "--checkpoint", file("kept"), "--checkpoint-every",
                 "100",     "--keep", "100"};
  }
};

/// The recording goes on as well, which it can only with the same workers.
TEST_F(ResumedProcesses, AreAsManyAgain) {
  tool first(words{"train", "--processes", "3", "--send-batches", "--record", file("recording")} + small_run +
             keeping("200000"));
  await_newer(first);
  kill_run(first);
  tool again(
      {"train", "--same-outputs", "--resume", file("kept"), "--steps", "12000", "--report", file("report")});
  ASSERT_EQ(again.code(), 0) << again.err();
  EXPECT_THAT(again.err(), HasSubstr("on 3 workers of other processes"));
  EXPECT_THAT(again.err(), HasSubstr("worker 2 has joined"));
  EXPECT_THAT(again.err(), Not(HasSubstr("without a recording")));
  const auto r = report("report");
  EXPECT_EQ(r["batches"]["own"], 0) << "they are sent";
  EXPECT_EQ(r["ledger"]["produced"], r["steps"]);
  tool replay({"replay", file("recording"), "--quiet"});
  EXPECT_EQ(replay.code(), 0) << replay.err();
  EXPECT_THAT(replay.out(), HasSubstr("the same parameters as recorded"));
  tool none({"train", "--same-outputs", "--resume", file("kept"), "--steps", "12100", "--processes", "0",
             "--devices", "cpu:0"});
  EXPECT_EQ(none.code(), 0) << none.err();
  EXPECT_THAT(none.err(), HasSubstr(" on cpu:0;"));
}

TEST_F(ResumedProcesses, SendGradientsAsBefore) {
  tool first(words{"train", "--processes", "2", "--wire", "float16"} + small_run + keeping("200"));
  ASSERT_EQ(first.code(), 0) << first.err();
  tool again(
      {"train", "--same-outputs", "--resume", file("kept"), "--steps", "300", "--report", file("report")});
  ASSERT_EQ(again.code(), 0) << again.err();
  EXPECT_EQ(report("report")["wire"], "float16");
  tool here({"train", "--same-outputs", "--resume", file("kept"), "--steps", "400", "--processes", "0"});
  EXPECT_EQ(here.code(), 0) << here.err();
  tool serves(
      {"serve", "--same-outputs", "--resume", file("kept"), "--steps", "500", "--listen", "127.0.0.1:0"});
  ASSERT_TRUE(serves.says(" for 2 workers;")) << serves.err();
  const std::string address = address_of(serves);
  tool one({"join", address, "--quiet"});
  tool two({"join", address, "--quiet"});
  EXPECT_EQ(serves.code(), 0) << serves.err();
}

TEST_F(ResumedProcesses, AreWaitedForByTheirServer) {
  const auto kill_first = [&] {
    tool server(serve("2") + keeping("200000") + words{"--slots", "3"});
    const std::string address = address_of(server);
    tool one({"join", address, "--quiet"});
    tool two({"join", address, "--quiet"});
    await_newer(server);
    kill_run(server);
  };
  kill_first();
  tool server({"serve", "--same-outputs", "--resume", file("kept"), "--steps", "12000"});
  ASSERT_TRUE(server.says(" for 2 workers;")) << server.err();
  const std::string address = address_of(server);
  tool one({"join", address, "--quiet"});
  tool two({"join", address, "--quiet"});
  EXPECT_EQ(server.code(), 0) << server.err();
  tool here({"train", "--same-outputs", "--resume", file("kept"), "--steps", "12100"});
  EXPECT_EQ(here.code(), 0) << here.err();
  EXPECT_THAT(here.err(), HasSubstr(" on cpu:0, cpu:0;")) << "its workers are here";
}

/// The recording is of a run that began with two workers, and the checkpoint has a place for a third.
TEST_F(ResumedProcesses, GoOnWithoutARecordingWhereASlotIsTakenFromTheBeginning) {
  {
    tool server(serve("2") + keeping("200000") + words{"--slots", "3", "--record", file("run.rec")});
    const std::string address = address_of(server);
    tool one({"join", address, "--quiet"});
    tool two({"join", address, "--quiet"});
    await_newer(server);
    kill_run(server);
  }
  tool server({"serve", "--same-outputs", "--resume", file("kept"), "--workers", "3", "--steps", "12000"});
  ASSERT_TRUE(server.says(" for 3 workers;")) << server.err();
  const std::string address = address_of(server);
  tool one({"join", address, "--quiet"}), two({"join", address, "--quiet"}),
      three({"join", address, "--quiet"});
  EXPECT_EQ(server.code(), 0) << server.err();
  EXPECT_THAT(server.err(), HasSubstr("this run goes on without a recording: "));
  EXPECT_THAT(server.err(), HasSubstr("is of a run with other workers"));
}

/// A run that has been at home comes back to the server that it left, as far as nothing else is said.
TEST_F(ResumedProcesses, ComeBackToTheirServer) {
  tool server(serve("2", "memory:") + keeping("200") +
              words{"--slots", "3", "--when-alone", "600", "--wire", "float16"});
  const std::string address = address_of(server);
  tool one({"join", address, "--quiet"});
  tool two({"join", address, "--quiet"});
  ASSERT_EQ(server.code(), 0) << server.err();
  for (const char* steps : {"300", "400"}) { // also when it is at home twice
    tool here(
        {"train", "--same-outputs", "--resume", file("kept"), "--steps", steps, "--report", file("report")});
    ASSERT_EQ(here.code(), 0) << here.err();
    EXPECT_THAT(here.err(), HasSubstr(" on cpu:0, cpu:0;"));
  }
  tool back({"serve", "--same-outputs", "--resume", file("kept"), "--steps", "500"});
  ASSERT_TRUE(back.says(" for 2 workers;")) << back.err();
  const std::string again = address_of(back);
  EXPECT_THAT(again, ::testing::StartsWith("memory:"));
  tool three({"join", again, "--quiet"});
  tool four({"join", again, "--quiet"});
  ASSERT_EQ(back.code(), 0) << back.err();
  EXPECT_EQ(report("report")["wire"], "float16");
  checkpoint_card card;
  checkpoint::read(newest()).part("run")->field("card", card);
  EXPECT_THAT(card.words, ::testing::IsSupersetOf({"--slots=3", "--when-alone=600"}));
}

/// By the command that the run prints.
TEST_F(ResumedProcesses, GoOnWithSlotsAndLocalSteps) {
  words command = serve("1", "memory:") + words{"--epochs",      "100000000", "--checkpoint",
                                                file("kept"),    "--slots",   "3",
                                                "--local-steps", "2",         "--quiet"};
  for (int round = 0; round < 2; ++round) {
    tool server(command);
    ASSERT_TRUE(server.says(" for 1 worker;")) << server.err();
    const std::string address = address_of(server);
    tool one({"join", address}), two({"join", address});
    EXPECT_TRUE(one.says("has joined") && two.says("has joined")) << one.err() << two.err();
    EXPECT_EQ(tool({"stop", address}).code(), 0);
    EXPECT_EQ(server.code(), 0) << server.err();
    EXPECT_THAT(server.out(), HasSubstr("\ngoes on by    mailgrad serve --resume " + file("kept") + "\n"));
    command = {"serve", "--resume", file("kept"), "--quiet"};
  }
}

TEST_F(ResumedProcesses, AreKeptWhenTheRunIsStopped) {
  tool server(serve("1") + words{"--epochs", "100000", "--checkpoint", file("kept"), "--quiet"});
  const std::string address = address_of(server);
  tool one({"join", address});
  ASSERT_TRUE(one.says("has joined")) << one.err();
  tool stop({"stop", address, "seen enough"});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  EXPECT_EQ(server.code(), 0) << server.err();
  EXPECT_THAT(server.out(), HasSubstr("1 written"));
  EXPECT_THAT(newest(), Not(std::filesystem::path()));
}

/// The newest checkpoint is the last one also after a worker was lost that nobody replaced.
TEST_F(ResumedProcesses, CountWhatALostWorkerTrained) {
  tool server(serve("2") + keeping("30000"));
  const std::string address = address_of(server);
  tool stays({"join", address, "--quiet"});
  auto dies = std::make_unique<tool>(words{"join", address, "--quiet"});
  await_newer(server);
  kill_run(*dies);
  ASSERT_EQ(server.code(), 0) << server.err();
  EXPECT_THAT(server.err(), HasSubstr("lost worker"));
  EXPECT_THAT(server.out(), HasSubstr("completed after 30000 steps"));
  EXPECT_THAT(server.out(), HasSubstr("the last after step 30000: "));
  EXPECT_EQ(newest().filename(), checkpoint_name(30000));
  for (const auto& later : checkpoints_in(file("kept"))) {
    if (later.filename() == checkpoint_name(30000)) continue;
    tool again(
        {"train", "--same-outputs", "--resume", later.string(), "--checkpoint", file("other"), "--quiet"});
    EXPECT_EQ(again.code(), 0) << again.err();
    EXPECT_THAT(again.out(), HasSubstr("completed after 30000 steps"));
    break;
  }
}

} // namespace
} // namespace mailgrad

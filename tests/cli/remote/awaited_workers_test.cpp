#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <string>

// Servers that wait for workers, and who gets which place.

namespace mailgrad {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::operator+;
using testing::RemoteTool;
using testing::tool;
using testing::words;

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

TEST_F(RemoteTool, LetsMoreWorkersInThanItBeganWith) {
  tool server(serve("1") + words{"--slots", "2", "--policy", "sync", "--epochs", "100000"});
  const std::string address = address_of(server);
  tool first({"join", address});
  ASSERT_TRUE(first.says("has joined")) << first.err();
  tool later({"join", address});
  ASSERT_TRUE(later.says("has joined")) << later.err();
  tool third({"join", address});
  EXPECT_EQ(third.code(), 1);
  EXPECT_THAT(third.err(),
              HasSubstr("expected a free place of 2 for workers, found all taken: the run is full; "
                        "'mailgrad serve --slots N' takes more workers"));
  tool stop({"stop", address});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  EXPECT_EQ(first.code(), 0) << first.err();
  EXPECT_EQ(later.code(), 0) << later.err();
}

/// Also where the first shard leads the others, and before the begin.
TEST_F(RemoteTool, TakesAnyNumberOfItsSlotsInARecordedRun) {
  tool server(serve("2") + words{"--slots", "6", "--epochs", "100000", "--shards", "2", "--policy",
                                 "k-async:2", "--record", file("recording")});
  const std::string address = address_of(server);
  tool five({"join", address, "--number", "5"});
  ASSERT_TRUE(five.says("worker 5 (incarnation 1) has joined")) << five.err();
  tool one({"join", address, "--number", "1"});
  ASSERT_TRUE(one.says("worker 1 (incarnation 1) has joined")) << one.err();
  tool three({"join", address, "--number", "3"});
  ASSERT_TRUE(three.says("worker 3 (incarnation 1) has joined")) << three.err();
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  tool stop({"stop", address});
  for (tool* each : {&stop, &server, &five, &one, &three}) EXPECT_EQ(each->code(), 0) << each->err();
  tool again({"replay", file("recording"), "--quiet"});
  EXPECT_EQ(again.code(), 0) << again.err();
}

TEST_F(RemoteTool, SwitchesAndReplaysByItsSlotsAndNotByTheWorkersThatItBeganWith) {
  tool server(serve("1") + words{"--slots", "2", "--policy", "backup:1", "--epochs", "100000", "--record",
                                 file("recording")});
  const std::string address = address_of(server);
  tool worker({"join", address});
  ASSERT_TRUE(worker.says("has joined")) << worker.err();
  ASSERT_TRUE(server.says("step ")) << server.err();
  for (const char* policy : {"async", "backup:1"}) {
    tool asks({"switch", address, policy});
    EXPECT_EQ(asks.code(), 0) << asks.err();
  }
  tool stop({"stop", address});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  EXPECT_EQ(server.code(), 0) << server.err();
  tool again({"replay", file("recording")});
  EXPECT_EQ(again.code(), 0) << again.err();
}

TEST_F(RemoteTool, TakesTheFreePlaceAndSaysWhichDevicesHaveNone) {
  tool server(serve("1") + words{"--epochs", "100000", "--report", file("report")});
  const std::string address = address_of(server);
  tool workers({"join", address, "--devices", "cpu:0,cpu:0,cpu:0"});
  ASSERT_TRUE(server.says(", loss ")) << server.err() << workers.err();
  ASSERT_TRUE(
      workers.says("mailgrad: cpu:0, cpu:0 take no part: the run at " + address +
                   " has no place for them: server refuses: place: expected a free place of 1 for workers, "
                   "found all taken: the run is full; 'mailgrad serve --slots N' takes more workers\n"))
      << workers.err();
  tool stop({"stop", address, "seen enough"});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  EXPECT_EQ(server.code(), 0) << server.err();
  EXPECT_EQ(workers.code(), 0) << workers.err();
  EXPECT_EQ(report("report")["why"], "seen enough");
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <gmock/gmock.h>

#include <csignal>
#include <string>

// How runs over processes end: what is printed, and the exit status.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::small_run;
using ::testing::StartsWith;
using testing::tool;
using testing::words;
using testing::operator+;

using RemoteEnds = testing::RemoteTool;

TEST_F(RemoteEnds, AsFailedWhenAllWorkersHaveLeft) {
  tool server(serve("1") +
              words{"--epochs", "100000", "--report", file("report"), "--record", file("recording")});
  tool leaves({"join", address_of(server)});
  ASSERT_TRUE(leaves.says("has joined") && server.says(", loss ")) << server.err();
  leaves.signal(SIGINT);
  EXPECT_EQ(leaves.code(), 128 + SIGINT) << leaves.err();
  EXPECT_EQ(server.code(), 1) << server.err();
  EXPECT_THAT(server.out(), StartsWith("failed after "));
  EXPECT_THAT(server.err(), HasSubstr("mailgrad: nobody was left to train the "));
  EXPECT_EQ(report("report")["ended"], "failed");
  EXPECT_TRUE(report("report")["test_loss"].is_number()) << "its weights are whole";
  tool again({"replay", file("recording")});
  EXPECT_EQ(again.code(), 0) << again.err();
  EXPECT_THAT(again.out(), HasSubstr("the same parameters as recorded"));
}

TEST_F(RemoteEnds, SayInPlainLinesThatAllIsWell) {
  tool server(serve("1") + words{"--shard-hosts", "1", "--epochs", "100000"});
  const std::string address = address_of(server);
  tool host({"shard", "--join", address});
  tool worker({"join", address});
  ASSERT_TRUE(worker.says("has joined") && server.says(", loss ")) << server.err();
  tool stop({"stop", address, "seen enough"});
  EXPECT_EQ(stop.code(), 0) << stop.err();
  for (tool* each : {&server, &host, &worker}) {
    EXPECT_EQ(each->code(), 0) << each->err();
    EXPECT_THAT(each->err(), Not(HasSubstr("mailgrad: "))) << "this is how failures begin";
  }
  EXPECT_THAT(server.err(), HasSubstr("\nended: seen enough\n"));
  EXPECT_THAT(worker.err(), HasSubstr("\nworker 0 (incarnation 1): server says: "));
  EXPECT_THAT(host.err(), HasSubstr("\nparameter host 0 (incarnation 1): server says: "));
}

} // namespace
} // namespace mailgrad

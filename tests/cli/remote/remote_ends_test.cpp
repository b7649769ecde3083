#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <gmock/gmock.h>

#include <csignal>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

// How runs over processes end: what is printed, and the exit status.

namespace mailgrad {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::small_run;
using ::testing::StartsWith;
using testing::tool;
using testing::words;
using testing::operator+;

using RemoteEnds = testing::RemoteTool;

TEST_F(RemoteEnds, AsFailedWhenAllWorkersHaveLeft) {
  tool server(serve("1") + words{"--epochs", "100000", "--report", file("report"), "--record",
                                 file("recording"), "--when-alone", "end", "--shard-hosts", "1"});
  const std::string address = address_of(server);
  tool host({"shard", "--join", address});
  tool leaves({"join", address});
  ASSERT_TRUE(leaves.says("has joined") && server.says(", loss ")) << server.err();
  leaves.signal(SIGINT);
  EXPECT_EQ(leaves.code(), 128 + SIGINT) << leaves.err();
  EXPECT_EQ(server.code(), 1) << server.err();
  EXPECT_EQ(host.code(), 1) << host.err();
  EXPECT_THAT(host.err(), HasSubstr("the run has failed: nobody was left to train the "));
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

/// The lines of a file of metrics.
std::vector<nlohmann::json> json_lines_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

/// What the lost host had counted nobody knows, and what the other has counted is told apart.
TEST_F(RemoteEnds, WithTheBooksOfTheParameterHostThatIsLeft) {
  tool server(serve("1") + words{"--epochs", "100000", "--shards", "2", "--shard-hosts", "2", "--metrics",
                                 file("m.jsonl"), "--metrics-every", "20", "--report", file("report")});
  const std::string address = address_of(server);
  tool first({"shard", "--join", address});
  ASSERT_TRUE(first.says("has joined")) << first.err();
  tool second({"shard", "--join", address});
  tool worker({"join", address});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  while (json_lines_of(file("m.jsonl")).size() < 3 && server.runs()) std::this_thread::yield();
  ASSERT_TRUE(server.runs()) << server.err();
  second.signal(SIGKILL);
  EXPECT_EQ(server.code(), 1);
  const nlohmann::json r = report("report"), kept = r["kept_ledger"];
  EXPECT_EQ(r["lost_shards"], nlohmann::json::array({1}));
  EXPECT_EQ(r["ledger"]["lost"], r["ledger"]["produced"]);
  EXPECT_EQ(kept["shard"], 0);
  EXPECT_GT(kept["applied"], 0);
  EXPECT_THAT(server.out(),
              HasSubstr(" lost, as of the lost shard 1\n  shard 0     " + to_string(kept["produced"]) +
                        " produced = " + to_string(kept["applied"]) + " applied + "));
  EXPECT_THAT(server.out(), ContainsRegex("staleness     mean [^\n]*, without those of the lost shard 1\n"));
  const std::vector<nlohmann::json> lines = json_lines_of(file("m.jsonl"));
  for (std::size_t i = 1; i < lines.size(); ++i)
    for (const char* count : {"computed", "applied", "merged", "discarded"})
      EXPECT_GE(lines[i][count], lines[i - 1][count]) << count << " of line " << i;
}

TEST_F(RemoteEnds, WithTheWayOnFromAnEarlierCheckpoint) {
  const words kept{"--epochs", "100000", "--shard-hosts", "1", "--checkpoint", file("kept")};
  std::string remedy, until_then;
  for (const words& how : {serve("1") + kept + words{"--checkpoint-every", "20"},
                           words{"serve", "--same-outputs", "--resume", file("kept"), "--checkpoint-every",
                                 "1h", "--listen", "127.0.0.1:0", "--report", file("report")}}) {
    tool server(how);
    ASSERT_TRUE(server.says(" for 1 worker")) << server.err();
    const std::string address = address_of(server);
    tool host({"shard", "--join", address});
    tool worker({"join", address});
    ASSERT_TRUE(server.says(", loss ")) << server.err();
    while (checkpoints_in(file("kept")).empty() && server.runs()) std::this_thread::yield();
    ASSERT_TRUE(server.runs()) << server.err();
    host.signal(SIGKILL);
    EXPECT_EQ(server.code(), 1);
    remedy = server.out();
    until_then = server.err();
  }
  EXPECT_THAT(remedy, HasSubstr("checkpoints   0 written\ngoes on by    mailgrad serve --resume " +
                                file("kept") + " --same-outputs  # after step " +
                                to_string(report("report")["resumed"]["steps"]) + "\n"));
  EXPECT_THAT(until_then,
              HasSubstr(" gradients; the checkpoint after step " +
                        to_string(report("report")["resumed"]["steps"]) + " has what was made until then\n"));
}

} // namespace
} // namespace mailgrad

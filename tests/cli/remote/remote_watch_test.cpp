#include <mailgrad/tests/cli/remote/remote_tool.hpp>
#include <mailgrad/tests/engine/account/event_reader.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <string>
#include <vector>

// What status, switch and stop say of a run of other processes, and options that make sense only there.

namespace mailgrad {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::small_run;
using ::testing::StartsWith;
using testing::tool;
using testing::words;
using testing::operator+;

struct RemoteWatch : testing::RemoteTool {
  /// Asks until the answer has this text.
  std::string status_with(const std::string& address, const std::string& text) {
    for (std::string said;;) {
      tool asks({"status", address});
      said = asks.out();
      if (asks.code() != 0 || said.find(text) != said.npos) return said + asks.err();
    }
  }
};

TEST_F(RemoteWatch, ShowsWorkersThatCameLaterAndTheDevicesThatTheyHave) {
  tool server(serve("2") + words{"--slots", "4", "--epochs", "100000", "--report", file("report")});
  const std::string address = address_of(server);
  tool first({"join", address, "--devices", "cpu:0"}), second({"join", address, "--devices", "cpu:0"});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  tool later({"join", address, "--number", "2", "--devices", "cpu:0"});
  ASSERT_TRUE(later.says("has joined")) << later.err();
  const std::string status = status_with(address, "  worker 2    mean");
  EXPECT_THAT(status, HasSubstr(" (cpu:0)\n"));
  EXPECT_THAT(status, Not(HasSubstr("cpu:1"))) << "nobody has that";
  EXPECT_THAT(status, HasSubstr("\nloss so far   "));
  EXPECT_THAT(status, Not(HasSubstr("final loss")));
  tool stop({"stop", address});
  EXPECT_EQ(server.code(), 0) << server.err();
  EXPECT_THAT(server.out(), HasSubstr("  worker 2    "));
  EXPECT_THAT(server.out(), HasSubstr("\nfinal loss    "));
  EXPECT_EQ(report("report")["devices"], nlohmann::json({"cpu:0", "cpu:0", "cpu:0"}));
  EXPECT_EQ(report("report")["workers"], 3);
  tool page({"report", file("report"), "--out", file("page.html")});
  EXPECT_THAT(page.err(), Not(HasSubstr("a rank below"))) << "the page knows the one that came later";
}

TEST_F(RemoteWatch, ShowsWhoIsThereAndWhoIsGone) {
  tool server(serve("3") + words{"--epochs", "100000"});
  const std::string address = address_of(server);
  tool stays({"join", address, "--number", "0"});
  ASSERT_TRUE(stays.says("has joined")) << stays.err();
  const std::string waiting = status_with(address, "members ");
  EXPECT_THAT(waiting, StartsWith("waiting: 1 of 3 workers have joined\nmembers       1 worker joined\n"));
  tool leaves({"join", address, "--number", "1"}), dies({"join", address, "--number", "2"});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  leaves.signal(SIGINT);
  dies.signal(SIGKILL);
  ASSERT_TRUE(server.says("worker 1 has left") && server.says("lost worker 2")) << server.err();
  const std::string status = status_with(address, "members ");
  EXPECT_THAT(status, HasSubstr("\nmembers       1 worker joined, 1 left, 1 lost\n")) << status;
  EXPECT_THAT(
      status,
      ContainsRegex("\n  worker 0  joined  [0-9.]+ s ago  [01]\\.[0-9] s ago  127\\.0\\.0\\.1:[0-9]+  1 "
                    "           cpu:0\n"));
  EXPECT_THAT(status, ContainsRegex("\n  worker 1  left    .* cpu:0    .*its owner ended it before the end"));
  EXPECT_THAT(status, ContainsRegex("\n  worker 2  lost    .* cpu:0    worker 2 \\(incarnation 1\\): "));
  tool json({"status", address, "--json"});
  const auto members = nlohmann::json::parse(json.out())["members"];
  EXPECT_EQ(members["counts"]["worker"],
            nlohmann::json::parse(R"({"joined": 1, "done": 0, "left": 1, "lost": 1})"));
  ASSERT_EQ(members["listed"].size(), 3);
  EXPECT_EQ(members["listed"][2]["state"], "lost");
  EXPECT_EQ(members["listed"][0]["devices"], nlohmann::json::array({"cpu:0"}));
  EXPECT_LT(members["listed"][0]["heard_seconds"], 2.0);
  tool stop({"stop", address});
  EXPECT_EQ(server.code(), 0) << server.err();
}

TEST_F(RemoteWatch, TellsTensorBoardWhoComesAndGoes) {
  tool server(serve("2") + words{"--epochs", "100000", "--tensorboard", file("board")});
  const std::string address = address_of(server);
  tool stays({"join", address, "--number", "0"}), dies({"join", address, "--number", "1"});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  dies.signal(SIGKILL);
  ASSERT_TRUE(server.says("lost worker 1")) << server.err();
  tool stop({"stop", address});
  EXPECT_EQ(server.code(), 0) << server.err();
  std::vector<std::string> texts;
  std::vector<float> workers;
  for (const testing::read_event& e : testing::events_in(testing::event_files(file("board")).at(0))) {
    if (e.texts.contains("members")) texts.push_back(e.texts.at("members"));
    if (e.scalars.contains("members/workers")) workers.push_back(e.scalars.at("members/workers"));
  }
  EXPECT_THAT(texts, ElementsAre("the run begins", StartsWith("lost worker 1 (incarnation 1): ")))
      << "that the run ends is no news of its members";
  EXPECT_THAT(workers, ElementsAre(2, 1));
}

TEST_F(RemoteWatch, SaysAtOnceThatNobodyListens) {
  const std::vector<words> asked{{"status"}, {"switch"}, {"stop"}};
  for (const char* address : {"127.0.0.1:1", "memory:nobody-is-here"})
    for (words ask : asked) {
      ask.emplace_back(address);
      if (ask[0] == "switch") ask.emplace_back("ssp:2");
      tool t(ask);
      EXPECT_EQ(t.code(), 1);
      EXPECT_THAT(t.err(),
                  HasSubstr(std::string("cannot connect to ") + address + ": nobody listens there: start"));
    }
}

TEST_F(RemoteWatch, SaysWhatASwitchMayBe) {
  tool server(serve("1") + words{"--epochs", "100000"});
  const std::string address = address_of(server);
  tool worker({"join", address});
  ASSERT_TRUE(server.says(", loss ")) << server.err();
  tool asks({"switch", address, "async, sync@1000"});
  EXPECT_EQ(asks.code(), 2);
  EXPECT_THAT(asks.err(),
              HasSubstr("mailgrad: policy 'async, sync@1000': a switch takes one policy, such as ssp:2, "));
  tool shares({"switch", address, "hogwild"});
  EXPECT_EQ(shares.code(), 2);
  EXPECT_THAT(shares.err(),
              HasSubstr("mailgrad: policy 'hogwild': workers of other processes share no block of "
                        "memory, so a run over processes cannot switch to it"));
  EXPECT_THAT(shares.err(), Not(HasSubstr("name hogwild"))) << "that advice cannot be followed here";
  tool stop({"stop", address});
  EXPECT_EQ(server.code(), 0) << server.err();
}

TEST_F(RemoteWatch, TakesNoOptionThatWouldDoNothing) {
  const auto refused = [](const words& given, const std::string& why) {
    tool t(given);
    EXPECT_EQ(t.code(), 2);
    EXPECT_THAT(t.err(), HasSubstr(why));
  };
  refused(words{"train", "--send-batches"} + small_run,
          "--send-batches makes sense only with --processes: add it");
  refused(words{"train", "--wire", "int8"} + small_run, "--wire makes sense only with --processes: add it");
  refused(serve("1") + words{"--delays", "exp:mean=0.1"},
          "mailgrad serve has no option '--delays'; 'mailgrad train' has it");
  refused(words{"train", "--shard-hosts", "2"} + small_run,
          "mailgrad train has no option '--shard-hosts'; 'mailgrad serve' has it");
  tool help({"serve", "--help"});
  EXPECT_THAT(help.out(), Not(HasSubstr("--delays")));
}

} // namespace
} // namespace mailgrad

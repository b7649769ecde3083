#include <mailgrad/tests/cli/one_line.hpp>
#include <mailgrad/tests/cli/tool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

// What the tool answers about itself: its help, its version and the devices that it finds.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOneLine;
using ::testing::StartsWith;
using testing::tool;

TEST(Tool, SaysHowGpusAreNamedWhereDevicesAreTaken) {
  for (const char* command : {"train", "serve", "launch", "join", "replay", "graph"}) {
    tool t({command, "--help"});
    std::istringstream words(t.out());
    std::string text;
    for (std::string word; words >> word;) text += word + ' ';
    EXPECT_THAT(text, HasSubstr("streams of a GPU, cuda:0,cuda:0/1")) << command;
  }
}

TEST(Tool, SaysWithoutACommandWhatToTypeFirst) {
  tool t(std::vector<std::string>{});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(StartsWith("mailgrad: a command is missing."), HasSubstr("\n  mailgrad train "),
                             HasSubstr("\n  mailgrad --help ")));
  EXPECT_THAT(t.out(), IsEmpty());
}

TEST(Tool, WantsACommandOfTheLab) {
  tool t({"lab"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("a command is missing")));
}

TEST(Tool, HelpsWithEachCommand) {
  const std::vector<std::vector<std::string>> commands{
      {"--help", "train", "export", "report", "devices", "graph", "keys"},
      {"train",     "--model",        "--data",
       "--devices", "--policy",       "--optimizer",
       "--lr",      "--batch",        "--epochs",
       "--steps",   "--shards",       "--seed",
       "--report",  "async",          "hogwild",
       "Example",   "{\"layers\": [", "graph/models/model_file.hpp",
       "sgd 0.001", "adagrad 0.01",   "delayed-nesterov 0.7"},
      {"export", "--model-file", "--onnx", "version 17"},
      {"report", "--out", "--svg", "--png", "gnuplot"},
      {"devices", "mailgrad devices"},
      {"graph", "--model", "Graphviz", "file FILE", "--out FILE"},
      {"serve", "--listen HOST:PORT", "--workers", "--keys", "mailgrad join"},
      {"launch", "--listen HOST:PORT", "--rendezvous DIR", "--meet-within", "--keys", "mpirun -n 4"},
      {"join", "ADDRESS", "--devices", "--keys"},
      {"status", "ADDRESS", "--json"},
      {"switch", "ADDRESS", "POLICY"},
      {"stop", "ADDRESS", "WHY"},
      {"keys", "new", "mailgrad keys new run-keys"}};
  for (const auto& command : commands) {
    tool t(command[0] == "--help" ? std::vector<std::string>{"--help"}
                                  : std::vector<std::string>{command[0], "--help"});
    EXPECT_EQ(t.code(), 0);
    for (std::size_t i = 1; i < command.size(); ++i) EXPECT_THAT(t.out(), HasSubstr(command[i]));
    std::istringstream lines(t.out());
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
    EXPECT_THAT(t.err(), IsEmpty());
  }
}

/// Help of train lists models, policies and rates; that of the others says so.
TEST(Tool, SaysWhereHelpListsWhatAnOptionTakes) {
  for (const char* command : {"serve", "launch"}) {
    tool t({command, "--help"});
    EXPECT_THAT(t.out(), AllOf(Not(HasSubstr("listed below")), HasSubstr("'mailgrad help train'")))
        << command;
  }
  tool train({"train", "--help"});
  EXPECT_THAT(train.out(), AllOf(HasSubstr("listed below"), Not(HasSubstr("--policy WORD=async"))));
}

TEST(Tool, HelpsAlsoByTheWordHelp) {
  EXPECT_EQ(tool({"help"}).out(), tool({"--help"}).out());
  EXPECT_EQ(tool({"help", "keys", "new"}).out(), tool({"keys", "new", "--help"}).out());
  tool unknown({"help", "jion"});
  EXPECT_EQ(unknown.code(), 2);
  EXPECT_THAT(unknown.err(), HasSubstr("did you mean 'join'?"));
}

TEST(Tool, SaysWhyHelpCannotBeWritten) {
  tool t({"train", "--help"}, "/dev/full");
  EXPECT_EQ(t.code(), 1);
  EXPECT_EQ(t.err(), "mailgrad: standard output cannot be written: No space left on device\n");
}

TEST(Tool, ShowsTheWordsThatAnOptionTakes) {
  tool t({"train", "--help"});
  EXPECT_THAT(t.out(), AllOf(HasSubstr("--load-strict yes|no=yes "), HasSubstr("--keep-weights last|best ")));
}

TEST(Tool, TellsItsVersion) {
  tool t({"--version"});
  EXPECT_EQ(t.code(), 0);
  const std::regex lines(
      R"(mailgrad \d+\.\d+\.\d+\ncommit   (unknown|[0-9a-f]{12,40}(-dirty)?)\ncompiler \w+ [\d.]+\n)"
      R"(kernels  for (AVX-512|AVX2 with FMA|AVX|SSE2|any processor)\n)");
  EXPECT_TRUE(std::regex_match(t.out(), lines)) << t.out();
}

TEST(Tool, ListsTheDevicesThatTrain) {
  tool t({"devices"});
  EXPECT_EQ(t.code(), 0);
  EXPECT_THAT(t.out(), StartsWith("cpu:0\n"));
  const std::string last = t.out().substr(t.out().find_last_of('\n', t.out().size() - 2) + 1);
  EXPECT_THAT(last, AnyOf(StartsWith("no GPU: "), StartsWith("cuda:")))
      << "one line says which GPU, or why none";
}

TEST(Tool, ListsTheDevicesThereAreWhenOneIsNot) {
  tool t({"train", "--devices", "cpu:0,cuda:99"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("cuda:99"), HasSubstr("cpu:0")));
}

} // namespace
} // namespace mailgrad

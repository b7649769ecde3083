#include <mailgrad/tests/cli/one_line.hpp>
#include <mailgrad/tests/cli/tool.hpp>

#include <mailgrad/tensor/device.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

// How the tool takes the words of its command line, and what it says of wrong ones.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOneLine;
using ::testing::Not;
using ::testing::StartsWith;
using testing::tool;

TEST(Tool, NamesTheNearestRightOption) {
  tool t({"train", "--devises", "cpu:0"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("--devises"), HasSubstr("'--devices'")));
}

TEST(Tool, NamesTheNearestRightOptionWrittenWithAnEqualsSign) {
  tool t({"train", "--polcy=sync"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("'--polcy'"), HasSubstr("'--policy'")));
}

TEST(Tool, NamesTheNearestRightCommand) {
  tool t({"trian"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("'trian'"), HasSubstr("'train'")));
}

TEST(Tool, NamesTheNearestRightValue) {
  const std::vector<std::vector<std::string>> wrong{{"--policy", "asinc", "'async'"},
                                                    {"--optimizer", "adan", "adam"},
                                                    {"--model", "lenett", "'lenet'"},
                                                    {"--schedule", "cosin", "cosine"}};
  for (const auto& w : wrong) {
    tool t({"train", w[0], w[1], "--data", "/nowhere"});
    EXPECT_EQ(t.code(), 2) << w[1];
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr(w[1]), HasSubstr(w[2])));
  }
}

TEST(Tool, RefusesValuesOutOfRangeInOneLine) {
  const std::vector<std::vector<std::string>> wrong{
      {"--batch", "0"},  {"--batch", "-3"},    {"--batch", "many"},   {"--lr", "-1"},
      {"--lr", "nan"},   {"--shards", "0"},    {"--clip-norm", "-1"}, {"--devices", "tpu:0"},
      {"--epochs", "0"}, {"--run-ahead", "2"}, {"--seed", "x"},       {"--task", "guessing"}};
  for (const auto& w : wrong) {
    tool t({"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, w[0], w[1]});
    EXPECT_EQ(t.code(), 2) << w[0] << ' ' << w[1];
    EXPECT_THAT(t.err(), IsOneLine());
    EXPECT_THAT(t.out(), IsEmpty());
  }
}

TEST(Tool, RefusesAnotherPrecisionOnCores) {
  for (const char* precision : {"tf32", "bfloat16"}) {
    tool t({"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--precision", precision});
    EXPECT_EQ(t.code(), 2) << precision;
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr(precision), HasSubstr("cpu:0 computes in float32")));
  }
  tool nothing({"train", "--precision", "half"});
  EXPECT_THAT(nothing.err(), AllOf(IsOneLine(), HasSubstr("float32, tf32 or bfloat16")));
  tool elsewhere({"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--precision", "tf32",
                  "--processes", "2"});
  EXPECT_THAT(elsewhere.err(), AllOf(IsOneLine(), HasSubstr("--precision")));
}

/// Their workers are other processes, so their weights are on the host.
TEST(Tool, OffersNoPlaceForWeightsToServers) {
  EXPECT_THAT(tool({"train", "--help"}).out(), AllOf(HasSubstr("--parameters"), HasSubstr("--run-ahead")));
  for (const char* command : {"serve", "launch"}) {
    EXPECT_THAT(tool({command, "--help"}).out(),
                Not(AnyOf(HasSubstr("--parameters"), HasSubstr("--run-ahead"))));
    tool t({command, "--parameters", "cuda:0"});
    EXPECT_EQ(t.code(), 2);
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("no option '--parameters'; 'mailgrad train' has it")));
  }
}

TEST(Tool, TakesHostAndCpuForTheHost) {
  const auto train = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{"train",   "--model", "softmax", "--data", MAILGRAD_SMALL_CSV,
                                   "--batch", "4",       "--steps", "2",      "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return tool(words);
  };
  for (const char* list : {"host", "cpu", "cpu:0", "host,cpu", "cpu, host"})
    EXPECT_EQ(train({"--parameters", list, "--shards", "2"}).code(), 0) << list;
  EXPECT_EQ(train({"--parameters", "cpu", "--processes", "1"}).code(), 0);
  EXPECT_THAT(train({"--parameters", "cpu,host"}).err(),
              HasSubstr("--parameters: host,host: 2 places for 1 shard; give"));
  if (available_devices().size() > 1) {
    EXPECT_THAT(train({"--parameters", "cpu:1"}).err(), HasSubstr("belong to no core; say host"));
  }
  EXPECT_THAT(train({"--parameters", "HOST"}).err(),
              AllOf(IsOneLine(), HasSubstr("--parameters takes host and GPUs; device 'HOST': expected")));
  EXPECT_THAT(train({"--parameters", "cpu,cuda:0", "--processes", "1"}).err(),
              HasSubstr("the weights lie on the host; leave it out"));
}

TEST(Tool, RefusesToRunAheadWhereNoWorkerCan) {
  const auto refused = [](const std::vector<std::string>& more, const std::string& why) {
    std::vector<std::string> words{"train",   "--data", MAILGRAD_SMALL_CSV, "--model", "softmax",
                                   "--steps", "2",      "--parameters",     "host",    "--run-ahead",
                                   "1"};
    words.insert(words.end(), more.begin(), more.end());
    tool t(words);
    EXPECT_EQ(t.code(), 2) << why;
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("--run-ahead 1: workers do not run ahead " + why)));
  };
  refused({}, "unless all weights are on their GPU; take --run-ahead 0");
  refused({"--clip-norm", "1"}, "with --clip-norm");
  refused({"--sample-gap", "1"}, "with --sample-gap");
  refused({"--policy", "async, hogwild@1"}, "in a run under hogwild");
  if (available_devices().size() > 1)
    refused({"--pipeline", "--devices", "cpu:0,cpu:1"}, "if a model spans devices");
}

TEST(Tool, TakesEitherStepsOrEpochs) {
  tool t({"train", "--steps", "5", "--epochs", "2"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("--steps"), HasSubstr("--epochs")));
}

TEST(Tool, TakesOneListOfDevices) {
  tool t({"train", "--devices", "cpu:0", "--devices", "cpu:0"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("--devices")));
  tool empty({"train", "--devices", "cpu:0,,cpu:0"});
  EXPECT_EQ(empty.code(), 2);
  EXPECT_THAT(empty.err(), IsOneLine());
}

TEST(Tool, ListsWhatThereIsWhereNothingIsNear) {
  const std::vector<std::vector<std::string>> wrong{{"--optimizer", "conjugate", "known are: sgd, momentum"},
                                                    {"--policy", "federated", "known are: async, sync"},
                                                    {"--cure", "vaccine", "known are: none, inverse"},
                                                    {"--model", "transformer", "known are: "}};
  for (const auto& w : wrong) {
    tool t({"train", w[0], w[1], "--data", MAILGRAD_SMALL_CSV});
    EXPECT_EQ(t.code(), 2) << w[1];
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr(w[2])));
  }
  tool option({"train", "--quantum", "1"});
  EXPECT_THAT(option.err(), AllOf(IsOneLine(), HasSubstr("'mailgrad train --help' lists")));
  tool command({"bake"});
  EXPECT_THAT(command.err(), AllOf(IsOneLine(), HasSubstr("known are: train, serve")));
  tool dash({"train", "-"});
  EXPECT_EQ(dash.code(), 2);
  EXPECT_THAT(dash.err(), IsOneLine());
}

/// Ranks of a launcher share standard error, where parts of a line would mix with those of another.
TEST(Tool, WritesALineOfFailureAtOnce) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_DIRECT), 0); // each read gives what one write has left
  const int before = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  EXPECT_NE(std::system((MAILGRAD_TOOL + std::string(" trian")).c_str()), 0);
  dup2(before, STDERR_FILENO);
  for (const int open : {before, ends[1]}) close(open);
  std::string line(4096, '\0');
  const ssize_t length = read(ends[0], line.data(), line.size());
  close(ends[0]);
  ASSERT_GT(length, 0);
  line.resize(static_cast<std::size_t>(length));
  EXPECT_THAT(line, AllOf(StartsWith("mailgrad: "), IsOneLine()));
}

TEST(Tool, SaysSoWhenItsOutputIsLost) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"graph", "--model", "mlp"}, {"devices"}}) {
    tool t(words, "/dev/full");
    EXPECT_EQ(t.code(), 1) << words[0];
    EXPECT_THAT(t.err(), HasSubstr("standard output cannot be written: No space left")) << words[0];
  }
}

TEST(Tool, RefusesWhatIsNoWholeNumberInOneShortLine) {
  for (const char* word : {"-1", "0", "x", "1.5"}) {
    tool t({"train", "--batch", word});
    EXPECT_EQ(t.code(), 2) << word;
    EXPECT_THAT(t.err(), HasSubstr("must be a whole number from 1 on, not '" + std::string(word) + "'"));
    EXPECT_LT(t.err().size(), 140U);
  }
  EXPECT_EQ(tool({"train", "--steps", "0"}).code(), 2);
}

} // namespace
} // namespace mailgrad

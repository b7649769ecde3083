#include <mailgrad/tests/cli/tool.hpp>

#include <mailgrad/tensor/device.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

// What the tool answers without training anything.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using testing::tool;

MATCHER(IsOneLine, "is one line that names the tool") {
  return arg.starts_with("mailgrad: ") && std::ranges::count(arg, '\n') == 1 && arg.back() == '\n';
}

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

TEST(Tool, SaysHowCardsAreNamedWhereDevicesAreTaken) {
  for (const char* command : {"train", "serve", "launch", "join", "replay", "graph"}) {
    tool t({command, "--help"});
    std::istringstream words(t.out());
    std::string text;
    for (std::string word; words >> word;) text += word + ' ';
    EXPECT_THAT(text, HasSubstr("lanes of a card, cuda:0,cuda:0/1")) << command;
  }
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
              HasSubstr("--parameters: cpu,host: 2 places for 1 shard; give"));
  if (available_devices().size() > 1) {
    EXPECT_THAT(train({"--parameters", "cpu:1"}).err(), HasSubstr("belong to no core; say host"));
  }
  EXPECT_THAT(train({"--parameters", "HOST"}).err(),
              AllOf(IsOneLine(), HasSubstr("--parameters takes host and cards; device 'HOST': expected")));
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
  refused({}, "unless all weights are on their card; leave it out");
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

TEST(Tool, WantsACommand) {
  tool t({});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), IsOneLine());
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

TEST(Tool, HelpsAlsoByTheWordHelp) {
  EXPECT_EQ(tool({"help"}).out(), tool({"--help"}).out());
  EXPECT_EQ(tool({"help", "keys", "new"}).out(), tool({"keys", "new", "--help"}).out());
  tool unknown({"help", "jion"});
  EXPECT_EQ(unknown.code(), 2);
  EXPECT_THAT(unknown.err(), HasSubstr("did you mean 'join'?"));
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
  EXPECT_THAT(last, AnyOf(StartsWith("no card: "), StartsWith("cuda:")))
      << "one line says which card, or why none";
}

TEST(Tool, ListsTheDevicesThereAreWhenOneIsNot) {
  tool t({"train", "--devices", "cpu:0,cuda:99"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("cuda:99"), HasSubstr("cpu:0")));
}

/// Names that a line of Graphviz declares or connects.
std::vector<std::string> found(const std::string& text, const std::regex& pattern, std::size_t group) {
  std::vector<std::string> names;
  for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i)
    names.push_back((*i)[group].str());
  return names;
}

class GraphOfModel : public ::testing::TestWithParam<const char*> {};

TEST_P(GraphOfModel, IsAPictureInTheLanguageOfGraphviz) {
  for (const bool with_gradients : {false, true}) {
    std::vector<std::string> words{"graph", "--model", GetParam()};
    if (with_gradients) words.emplace_back("--gradients");
    tool t(words);
    ASSERT_EQ(t.code(), 0) << t.err();
    const std::string picture = t.out();
    EXPECT_THAT(picture, StartsWith("digraph"));
    EXPECT_EQ(std::ranges::count(picture, '{'), std::ranges::count(picture, '}'));
    EXPECT_EQ(std::ranges::count(picture, '"') % 2, 0);
    const auto declared = found(picture, std::regex(R"re(\n\s*"?(\w+)"?\s*\[)re"), 1);
    const std::set<std::string> nodes(declared.begin(), declared.end());
    EXPECT_GT(nodes.size(), 3U) << picture;
    const std::regex edge(R"re("?(\w+)"?(:\w+)?\s*->\s*"?(\w+)"?)re");
    const auto sources = found(picture, edge, 1);
    EXPECT_GT(sources.size(), 3U) << picture;
    for (const std::size_t end : {1U, 3U})
      for (const std::string& name : found(picture, edge, end)) EXPECT_TRUE(nodes.contains(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, GraphOfModel, ::testing::Values("softmax", "mlp", "lenet"),
                         [](const auto& model) { return std::string(model.param); });

TEST(Tool, GrowsThePictureByTheBackwardPass) {
  tool forward({"graph", "--model", "mlp"});
  tool both({"graph", "--model", "mlp", "--gradients"});
  EXPECT_GT(std::ranges::count(both.out(), '\n'), std::ranges::count(forward.out(), '\n'));
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
  for (const char* word : {"-1", "0", "x", "1.5", "99999999999999999999"}) {
    tool t({"train", "--batch", word});
    EXPECT_EQ(t.code(), 2) << word;
    EXPECT_THAT(t.err(), HasSubstr("must be a whole number from 1 on, not '" + std::string(word) + "'"));
    EXPECT_LT(t.err().size(), 140U);
  }
  EXPECT_EQ(tool({"train", "--steps", "0"}).code(), 2);
}

TEST(Tool, RefusesAPictureThatCannotBeWritten) {
  tool t({"graph", "--model", "mlp", "--output", "/no/such/folder/mlp.dot"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("/no/such/folder/mlp.dot")));
}

/// A wrong command line, and a word that its message has to have.
struct wrong_line {
  std::vector<std::string> words;
  const char* says;
};

std::ostream& operator<<(std::ostream& out, const wrong_line& line) {
  out << "mailgrad";
  for (const std::string& word : line.words) out << ' ' << word;
  return out;
}

class WrongLine : public ::testing::TestWithParam<wrong_line> {};

TEST_P(WrongLine, IsRefusedInALineOfOurOwnThatSaysWhatToDo) {
  tool t(GetParam().words);
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.out(), IsEmpty());
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr(GetParam().says)));
  for (const char* parsers_own :
       {"required", "requires", "excludes", "At Most", "At least", "Could not convert", "UINT", "FLOAT",
        "TEXT", "not in range", "not in {", "ubcommand", "not expected", "flag override", "Validat"})
    EXPECT_THAT(t.err(), ::testing::Not(HasSubstr(parsers_own)));
  EXPECT_THAT(t.err(),
              ::testing::ContainsRegex("lists what it takes|did you mean|known are|must be|give |write "));
}

/// `words` behind a model and data that are there.
std::vector<std::string> train_with(std::vector<std::string> words) {
  std::vector<std::string> all{"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--batch", "4"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Commands, WrongLine,
    ::testing::Values(
        wrong_line{{}, "a command is missing; known are: train"},
        wrong_line{{"trian", "--batch", "3"}, "no argument 'trian'; did you mean 'train'?"},
        wrong_line{{"-"}, "no option '-'"},
        wrong_line{{"--batch", "3", "train"}, "write 'mailgrad train --batch ...'"},
        wrong_line{{"--model=mlp", "train"}, "write 'mailgrad train --model ...'"},
        wrong_line{{"--quantum", "train"}, "no option '--quantum'"},
        wrong_line{{"devices", "cpu:0"}, "mailgrad devices has no argument 'cpu:0'"},
        wrong_line{{"replay"}, "'recording' is missing: The file that 'mailgrad train --record' wrote"},
        wrong_line{{"replay", "a", "b"}, "mailgrad replay has no argument 'b'"},
        wrong_line{{"graph", "--replicate"}, "--replicate makes sense only with --devices"},
        wrong_line{{"graph", "--input", "3", "--data", "x"}, "--input and --data exclude each other"},
        wrong_line{{"graph", "--input", "3,x"}, "must be a whole number from 1 on, not 'x'"},
        wrong_line{{"graph", "--classes", ""}, "--classes"}));

INSTANTIATE_TEST_SUITE_P(
    Values, WrongLine,
    ::testing::Values(
        wrong_line{{"train", "--batch"}, "--batch needs a value"},
        wrong_line{{"train", "--report"}, "--report needs a value"},
        wrong_line{{"train", "--report="}, "--report needs a value"},
        wrong_line{{"train", "--report", ""}, "--report: a file name is missing"},
        wrong_line{{"train", "--model", "--lr", "1"}, "--model needs a value before '--lr'"},
        wrong_line{{"train", "--batch", "--lr", "1"}, "--batch"},
        wrong_line{{"train", "--batch", "3", "--batch", "4"}, "--batch is given 2 times: give it once"},
        wrong_line{{"train", "--quiet=3"}, "--quiet takes no value"},
        wrong_line{{"train", "--quiet", "3"}, "no argument '3'"},
        wrong_line{{"train", "--steps", "5", "--epochs", "5"}, "exclude each other: give one"},
        wrong_line{{"train", "--run-ahead", "0"}, "--run-ahead makes sense only with --parameters"},
        wrong_line{{"train", "--outer-lr", "1"}, "--outer-lr makes sense only with --local-steps"},
        wrong_line{{"train", "--lr", "abc"}, "--lr: must be a finite number, such as 0.01, not 'abc'"},
        wrong_line{{"train", "--lr", "1e999"}, "--lr: must be a finite number"},
        wrong_line{{"train", "--lr", ""}, "--lr: must be a finite number"},
        wrong_line{{"train", "--l2", "0,1"}, "--l2: must be a finite number"},
        wrong_line{{"train", "--shards", "5000000000"}, "a whole number from 1 to 4294967295"},
        wrong_line{{"train", "--seed", "-1"}, "a whole number from 0 on"},
        wrong_line{{"train", "--temperature", "hot"}, "a number from 0 to 1000, not 'hot'"},
        wrong_line{{"train", "--task", "guess"}, "automatic, classification or regression, not 'guess'"},
        wrong_line{{"train", "--keep-weights", "worst"}, "--keep-weights: must be last or best, not 'worst'"},
        wrong_line{{"train", "--load", "m", "--load-strict", "2"},
                   "--load-strict: must be yes or no, not '2'"},
        wrong_line{{"train", "--split", "even"}, "random or time, not 'even'"}));

INSTANTIATE_TEST_SUITE_P(
    Names, WrongLine,
    ::testing::Values(wrong_line{{"train", "--batchsize", "3"}, "'--batchsize'; did you mean '--batch'?"},
                      wrong_line{{"train", "--batch-size=3"}, "'--batch-size'; did you mean '--batch'?"},
                      wrong_line{{"train", "--learning-rate", "1"}, "did you mean '--lr'?"},
                      wrong_line{{"train", "--optim", "sgd"}, "did you mean '--optimizer'?"},
                      wrong_line{{"train", "--device", "cuda:0"}, "'--device'; did you mean '--devices'?"},
                      wrong_line{{"test", "--devices", "cuda:0"}, "'--devices'; did you mean '--device'?"},
                      wrong_line{{"train", "-s"}, "no option '-s'"},
                      wrong_line{{"train", "-x"}, "no option '-x'"},
                      wrong_line{train_with({"--optimizer", "adam:lr=3"}), "give the learning rate by --lr"},
                      wrong_line{train_with({"--optimizer", "adam:beta1=0.5,"}),
                                 "a setting is missing at a comma; write"},
                      wrong_line{train_with({"--policy", "federated"}), "ringmaster, auto"},
                      wrong_line{train_with({"--policy", "aut"}), "did you mean 'auto'?"},
                      wrong_line{{"train", "--model", "mlp:hidden=512x", "--data", MAILGRAD_SMALL_CSV},
                                 "hidden must be widths such as 512x256, not '512x'"},
                      wrong_line{{"train", "--model", "mlp:hidden=512,", "--data", MAILGRAD_SMALL_CSV},
                                 "a setting is missing at a comma; write"}));

} // namespace
} // namespace mailgrad

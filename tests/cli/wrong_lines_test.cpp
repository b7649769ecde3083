#include <mailgrad/tests/cli/one_line.hpp>
#include <mailgrad/tests/cli/tool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

// Command lines that the tool refuses, in a line of its own.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOneLine;
using testing::tool;

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
  tool t(testing::as_typed{GetParam().words});
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
        wrong_line{{"lab"}, "a command is missing; known are: run"},
        wrong_line{{"trian", "--batch", "3"}, "no command 'trian'; did you mean 'train'?"},
        wrong_line{{"watch"}, "mailgrad has no command 'watch'; did you mean"},
        wrong_line{{"help", "train", "nope"}, "help: 'train' has no command 'nope'"},
        wrong_line{{"lab", "staleness-laws", "--out", "x"}, "no option '--out'; did you mean '--output'?"},
        wrong_line{{"test"}, "the option '--model-file' is missing: The trained model; 'mailgrad test"},
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
        wrong_line{{"train", "--seed", "99999999999999999999"},
                   "--seed: must be a whole number below 2^64, not '99999999999999999999'"},
        wrong_line{{"train", "--lr", "-1"}, "--lr: must be a number from 0 to 3.40282e+38, not '-1'"},
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

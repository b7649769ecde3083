#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/tests/cli/tool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::tool;

TEST(OptionArgs, KnowAnOptionByItsWholeName) {
  const option_args words({"--keep-weights=best", "--quiet"});
  EXPECT_TRUE(words.has("--quiet"));
  EXPECT_TRUE(words.has("--keep-weights"));
  EXPECT_FALSE(words.has("--keep"));
  EXPECT_FALSE(words.has("--keep-weights=best"));
}

TEST(OptionArgs, HaveOneWordOfEachOption) {
  option_args words({"--steps=1", "--quiet", "--steps=2"});
  words.set("--steps=3");
  EXPECT_THAT(words.all(), ElementsAre("--quiet", "--steps=3"));
  words.set(option_args({"--quiet", "--steps=4", "--data=x=y"}));
  EXPECT_THAT(words.all(), ElementsAre("--quiet", "--steps=4", "--data=x=y"));
  words.set("--data=z");
  EXPECT_THAT(words.take(), ElementsAre("--quiet", "--steps=4", "--data=z"));
}

TEST(OptionArgs, DropWhatIsNotKept) {
  option_args words({"--steps=1", "--step=2", "--data=x", "--quiet"});
  words.drop("--step");
  words.drop({"--quiet", "--absent"});
  EXPECT_THAT(words.all(), ElementsAre("--steps=1", "--data=x"));
  words.drop_unless(option_args({"--data=other"}), {"--data", "--steps"});
  EXPECT_THAT(words.all(), ElementsAre("--data=x"));
}

TEST(OptionArgs, DropThoseOfWhichItIsSaid) {
  option_args words({"--steps=1", "--listen=here", "--wire=int8"});
  words.drop_if([](std::string_view option) { return is_of(option, of_processes); });
  EXPECT_THAT(words.all(), ElementsAre("--steps=1"));
}

const std::vector<std::string> some_options{
    "--batch",     "--checkpoint",    "--data",       "--delays",     "--devices", "--evaluate-every",
    "--keep",      "--keep-weights",  "--keys",       "--label",      "--listen",  "--live",
    "--lr",        "--metrics-every", "--none",       "--parameters", "--plugin",  "--quiet",
    "--report",    "--resume",        "--sample-gap", "--save",       "--slots",   "--seed",
    "--transport", "--wire"};

std::vector<std::string> options_of(unsigned kinds) {
  std::vector<std::string> all;
  for (const std::string& option : some_options)
    if (is_of(option, kinds)) all.push_back(option);
  return all;
}

TEST(OptionKinds, AreWhatCommandsAskForInPlaceOfListsOfNames) {
  EXPECT_THAT(options_of(of_display), ElementsAre("--live", "--quiet"));
  EXPECT_THAT(options_of(of_resuming), ElementsAre("--plugin", "--resume"));
  EXPECT_THAT(options_of(of_checkpoints), ElementsAre("--checkpoint", "--keep"));
  EXPECT_THAT(options_of(of_pace | of_choice),
              ElementsAre("--evaluate-every", "--keep-weights", "--metrics-every"));
  EXPECT_THAT(options_of(of_looks), ElementsAre("--metrics-every", "--report", "--sample-gap"));
  EXPECT_THAT(options_of(of_server), ElementsAre("--keys", "--listen", "--slots"));
  EXPECT_THAT(options_of(of_processes),
              ElementsAre("--keys", "--listen", "--slots", "--transport", "--wire"));
  EXPECT_THAT(options_of(of_one_process), ElementsAre("--delays", "--parameters"));
  EXPECT_THAT(options_of(of_places), ElementsAre("--data", "--devices", "--parameters"));
  EXPECT_THAT(options_of(of_data), ElementsAre("--data", "--label", "--seed"));
}

// Options that have another name now: the old one works, and a line says the new one.

TEST(RenamedOptions, GetTheirNewNameWithOrWithoutAValue) {
  EXPECT_THAT(with_present_names({"--seats=4", "--seats", "--own-samples", "--seats-of=4", "seats=4"}),
              ElementsAre("--slots=4", "--slots", "--local-samples", "--seats-of=4", "seats=4"));
}

TEST(RenamedOptions, EndWhereTheWordsOfAnotherProgramBegin) {
  const std::vector<std::string> typed{"launch", "--seats", "4", "--", "--own-samples"};
  EXPECT_THAT(with_present_names(typed), ElementsAre("launch", "--slots", "4", "--", "--own-samples"));
  ::testing::internal::CaptureStderr();
  warn_of_old_names(typed);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "mailgrad: warning: --seats is called --slots now; the old name ends with the next release\n");
}

/// The refusal is that of the new name, behind the line that says it.
TEST(RenamedOptions, WorkInTheTool) {
  tool t(testing::as_typed{{"serve", "--listen", "127.0.0.1:0", "--workers", "2", "--seats", "1"}});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(StartsWith("mailgrad: warning: --seats is called --slots now; "),
                             HasSubstr("--slots 1: fewer than the 2 of --workers")));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/cli/commands/train_options.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;

TEST(OptionWords, KnowAnOptionByItsWholeName) {
  const option_words words({"--keep-weights=best", "--quiet"});
  EXPECT_TRUE(words.has("--quiet"));
  EXPECT_TRUE(words.has("--keep-weights"));
  EXPECT_FALSE(words.has("--keep"));
  EXPECT_FALSE(words.has("--keep-weights=best"));
}

TEST(OptionWords, HaveOneWordOfEachOption) {
  option_words words({"--steps=1", "--quiet", "--steps=2"});
  words.set("--steps=3");
  EXPECT_THAT(words.all(), ElementsAre("--quiet", "--steps=3"));
  words.set(option_words({"--quiet", "--steps=4", "--data=x=y"}));
  EXPECT_THAT(words.all(), ElementsAre("--quiet", "--steps=4", "--data=x=y"));
  words.set("--data=z");
  EXPECT_THAT(words.take(), ElementsAre("--quiet", "--steps=4", "--data=z"));
}

TEST(OptionWords, DropWhatIsNotKept) {
  option_words words({"--steps=1", "--step=2", "--data=x", "--quiet"});
  words.drop("--step");
  words.drop({"--quiet", "--absent"});
  EXPECT_THAT(words.all(), ElementsAre("--steps=1", "--data=x"));
  words.drop_unless(option_words({"--data=other"}), {"--data", "--steps"});
  EXPECT_THAT(words.all(), ElementsAre("--data=x"));
}

TEST(OptionWords, DropThoseOfWhichItIsSaid) {
  option_words words({"--steps=1", "--listen=here", "--wire=int8"});
  words.drop_if([](std::string_view option) { return is_of(option, of_processes); });
  EXPECT_THAT(words.all(), ElementsAre("--steps=1"));
}

const std::vector<std::string> some_options{
    "--batch",     "--checkpoint",    "--data",       "--delays",     "--devices", "--evaluate-every",
    "--keep",      "--keep-weights",  "--keys",       "--label",      "--listen",  "--live",
    "--lr",        "--metrics-every", "--none",       "--parameters", "--plugin",  "--quiet",
    "--report",    "--resume",        "--sample-gap", "--save",       "--seats",   "--seed",
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
  EXPECT_THAT(options_of(of_server), ElementsAre("--keys", "--listen", "--seats"));
  EXPECT_THAT(options_of(of_processes),
              ElementsAre("--keys", "--listen", "--seats", "--transport", "--wire"));
  EXPECT_THAT(options_of(of_one_process), ElementsAre("--delays", "--parameters"));
  EXPECT_THAT(options_of(of_places), ElementsAre("--data", "--devices", "--parameters"));
  EXPECT_THAT(options_of(of_data), ElementsAre("--data", "--label", "--seed"));
}

} // namespace
} // namespace mailgrad

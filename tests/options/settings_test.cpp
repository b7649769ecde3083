#include <mailgrad/options/settings.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <stdexcept>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Settings, HasANameAndNothingElse) {
  const settings s("optimizer", "adam");
  EXPECT_EQ(s.name(), "adam");
  EXPECT_NO_THROW(s.require_nothing_left());
}

TEST(Settings, GivesWhatTheTextNamesAndElseTheDefault) {
  settings s("optimizer", "adam:beta1=0.5,steps=12");
  EXPECT_EQ(s.take_number("beta1", 0.9, 0, 1), 0.5);
  EXPECT_EQ(s.take_number("beta2", 0.999, 0, 1), 0.999);
  EXPECT_EQ(s.take_whole("steps", 0), 12U);
  EXPECT_NO_THROW(s.require_nothing_left());
}

TEST(Settings, NamesTheNearestKeyOfThoseItKnows) {
  settings s("optimizer", "adam:btea1=0.5");
  s.take_number("epsilon", 0, 0, 1);
  s.take_number("beta1", 0, 0, 1);
  EXPECT_THAT([&] { s.require_nothing_left(); },
              ThrowsMessage<std::invalid_argument>(
                  "optimizer 'adam:btea1=0.5': there is no setting 'btea1'; did you mean 'beta1'?"));
}

TEST(Settings, SaysThatANameTakesNoSettings) {
  const settings s("optimizer", "sgd:speed=1");
  EXPECT_THAT([&] { s.require_nothing_left(); },
              ThrowsMessage<std::invalid_argument>("optimizer 'sgd:speed=1': 'sgd' has no settings"));
}

TEST(Settings, RefusesWhatIsNoSettingAndWhatComesTwice) {
  EXPECT_THAT([] { settings("optimizer", "adam:0.5"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("write key=value")));
  EXPECT_THAT([] { settings("optimizer", "adam:beta1=0.5,beta1=0.6"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'beta1' comes twice")));
  for (const char* text : {"adam:beta1=0.5,", "adam:,beta1=0.5", "adam:beta1=0.5,,beta2=0.9"})
    EXPECT_THAT([&] { settings("optimizer", text); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("a setting is missing at a comma")))
        << text;
}

TEST(Settings, RefusesANumberOutOfItsRange) {
  for (const char* text :
       {"m:beta=1", "m:beta=-0.1", "m:beta=nan", "m:beta=", "m:beta=0.5x", "m:beta=1e999"}) {
    settings s("optimizer", text);
    EXPECT_THAT([&] { s.take_number("beta", 0, 0, 1); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("beta must be at least 0 and less than 1")))
        << text;
  }
  for (const char* text : {"m:steps=-1", "m:steps=1.5", "m:steps=99999999999999999999"}) {
    settings s("optimizer", text);
    EXPECT_THAT([&] { s.take_whole("steps", 0); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("steps must be a whole number")))
        << text;
  }
}

constexpr std::array<std::string_view, 2> colours{"red", "green"};

void expect_refused(std::string_view text, const std::function<void(settings&)>& take, std::string_view why) {
  EXPECT_THAT(([&] {
                settings s("model", text);
                take(s);
                s.require_nothing_left();
              }),
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("model '" + std::string(text) + "': " + std::string(why))));
}

TEST(SettingsOfAModel, GivesWhatTheTextHas) {
  settings s("model", "net:depth=3,drop=0.25,colour=green,tied=no,hidden=5x6");
  EXPECT_EQ(s.name(), "net");
  EXPECT_EQ(s.take_whole("depth", 1, 1, 3), 3U);
  EXPECT_EQ(s.take_rate("drop", 0), 0.25F);
  EXPECT_EQ(s.take_word("colour", 0, colours), 1U);
  EXPECT_FALSE(s.take_yes("tied", true));
  EXPECT_THAT(s.take_widths("hidden", {}, 6), ElementsAre(5, 6));
  EXPECT_NO_THROW(s.require_nothing_left());
}

TEST(SettingsOfAModel, GivesDefaultsForTheRest) {
  for (const std::string_view text : {"net", "net:"}) {
    settings s("model", text);
    EXPECT_EQ(s.name(), "net");
    EXPECT_EQ(s.take_whole("depth", 7, 1, 3), 7U);
    EXPECT_EQ(s.take_rate("drop", 0.5F), 0.5F);
    EXPECT_EQ(s.take_word("colour", 1, colours), 1U);
    EXPECT_TRUE(s.take_yes("tied", true));
    EXPECT_THAT(s.take_widths("hidden", {4}, 6), ElementsAre(4));
    EXPECT_NO_THROW(s.require_nothing_left());
  }
}

TEST(SettingsOfAModel, SaysWhatAValueMustBe) {
  const auto depth = [](settings& s) { s.take_whole("depth", 1, 2, 9); };
  for (const std::string_view value : {"1", "10", "-2", "2.5", "two", ""})
    expect_refused("net:depth=" + std::string(value), depth,
                   "depth must be a whole number from 2 to 9, not '" + std::string(value) + "'");
  const auto drop = [](settings& s) { s.take_rate("drop", 0); };
  for (const std::string_view value : {"-0.1", "1", "0.99999999", "nan", ""})
    expect_refused("net:drop=" + std::string(value), drop, "drop must be at least 0 and less than 1, not ");
  expect_refused(
      "net:tied=true", [](settings& s) { s.take_yes("tied", false); }, "tied must be yes or no, not 'true'");
  expect_refused(
      "net:colour=greem", [](settings& s) { s.take_word("colour", 0, colours); },
      "there is no colour 'greem'; did you mean 'green'?");
  for (const std::string_view value : {"7", "0", "x5", "5xx6", "5y6"})
    expect_refused(
        "net:hidden=" + std::string(value), [](settings& s) { s.take_widths("hidden", {}, 6); },
        "hidden must be widths such as 512x256, not '" + std::string(value) + "'");
}

TEST(SettingsOfAModel, LeavesNothingOver) {
  const auto none = [](settings&) {};
  const auto depth = [](settings& s) { s.take_whole("depth", 1, 1, 9); };
  expect_refused("net:dept=3", depth, "there is no setting 'dept'; did you mean 'depth'?");
  expect_refused("net:depth=3", none, "'net' has no settings");
  expect_refused("net:depth", depth, "'depth' is no setting; write key=value");
  expect_refused("net:depth=3,depth=4", depth, "'depth' comes twice");
}

} // namespace
} // namespace mailgrad

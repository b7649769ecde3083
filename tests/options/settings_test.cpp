#include <mailgrad/options/interval.hpp>
#include <mailgrad/options/settings.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <chrono>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;
using namespace std::chrono_literals;

constexpr std::array<std::string_view, 2> colours{"red", "green"};

TEST(Settings, GivesWhatTheTextNamesAndElseTheDefault) {
  settings s("optimizer", "adam:beta1=0.5,steps=12");
  EXPECT_EQ(s.name(), "adam");
  EXPECT_EQ(s.take_number("beta1", 0.9, 0, 1), 0.5);
  EXPECT_EQ(s.take_number("beta2", 0.999, 0, 1), 0.999);
  EXPECT_EQ(s.take_whole("steps", 0), 12U);
  EXPECT_NO_THROW(s.require_nothing_left());
}

TEST(SettingsOfAModel, GivesWhatTheTextHas) {
  settings s("model", "net:depth=3,drop=0.25,colour=green,tied=no,hidden=5x6");
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
    EXPECT_NO_THROW(s.require_nothing_left());
    EXPECT_EQ(s.take_whole("depth", 7, 1, 3), 7U);
    EXPECT_EQ(s.take_rate("drop", 0.5F), 0.5F);
    EXPECT_EQ(s.take_word("colour", 1, colours), 1U);
    EXPECT_TRUE(s.take_yes("tied", true));
    EXPECT_THAT(s.take_widths("hidden", {4}, 6), ElementsAre(4));
    EXPECT_NO_THROW(s.require_nothing_left());
  }
}

/// Reads settings of each kind, unless the name is one that has none.
void read_each_kind(const std::string& text) {
  settings s("model", text);
  if (s.name() == "net") {
    s.take_number("epsilon", 0, 0, 1);
    s.take_number("beta", 0, 0, 1);
    s.take_whole("depth", 2, 2, 9);
    s.take_whole("steps", 0);
    s.take_rate("drop", 0);
    s.take_yes("tied", false);
    s.take_word("colour", 0, colours);
    s.take_widths("hidden", {}, 6);
  }
  s.require_nothing_left();
}

TEST(SettingsOfAModel, SaysWhatAValueMustBe) {
  struct kind {
    const char *key, *must_be;
    std::vector<const char*> wrong;
  };
  const kind kinds[] = {{"depth", "a whole number from 2 to 9", {"1", "10", "-2", "2.5", "two", ""}},
                        {"steps", "a whole number", {"-1", "1.5", "99999999999999999999"}},
                        {"beta", "at least 0 and less than 1", {"1", "-0.1", "nan", "", "0.5x", "1e999"}},
                        {"drop", "at least 0 and less than 1", {"-0.1", "1", "0.99999999", "nan", ""}},
                        {"tied", "yes or no", {"true"}},
                        {"hidden", "widths such as 512x256", {"7", "0", "x5", "5xx6", "5y6"}}};
  for (const auto& [key, must_be, wrong] : kinds)
    for (const char* value : wrong) {
      const std::string text = fmt::format("net:{}={}", key, value);
      EXPECT_THAT([&] { read_each_kind(text); },
                  ThrowsMessage<std::invalid_argument>(
                      fmt::format("model '{}': {} must be {}, not '{}'", text, key, must_be, value)));
    }
}

TEST(SettingsOfAModel, LeavesNothingOver) {
  const std::pair<std::string, const char*> wrong[] = {
      {"net:colour=greem", "there is no colour 'greem'; did you mean 'green'?"},
      {"net:btea=0.5", "there is no setting 'btea'; did you mean 'beta'?"},
      {"sgd:speed=1", "'sgd' has no settings"},
      {"net:0.5", "'0.5' is no setting; write key=value"},
      {"net:depth=3,depth=4", "'depth' comes twice"},
      {"net:beta=0.5,", "a setting is missing at a comma; write key=value"},
      {"net:,beta=0.5", "a setting is missing at a comma; write key=value"},
      {"net:beta=0.5,,drop=0.5", "a setting is missing at a comma; write key=value"}};
  for (const auto& [text, why] : wrong)
    EXPECT_THAT([&text = text] { read_each_kind(text); },
                ThrowsMessage<std::invalid_argument>("model '" + text + "': " + why));
}

TEST(Interval, IsANumberOfStepsATimeOrAnEpoch) {
  const std::pair<const char*, interval> all[] = {
      {"500", {500, {}, 0}},    {"epoch", {0, {}, 1}},    {"1s", {0, 1s, 0}}, {"0.5s", {0, 500ms, 0}},
      {"250ms", {0, 250ms, 0}}, {"10min", {0, 10min, 0}}, {"2h", {0, 2h, 0}}};
  for (const auto& [text, expected] : all) EXPECT_EQ(parse_interval(text), expected) << text;
  EXPECT_TRUE(interval{}.never());
  EXPECT_FALSE(parse_interval("epoch").never());
}

TEST(Interval, IsRefusedWhereItWouldBeNoneOrTooLong) {
  for (const char* text : {"", "0", "-1", "1.5", "s", "0s", "-1s", "nans", "infs", "1e300h", "0.1ms", "1d",
                           "epochs", "1 s", "99999999999999999999"})
    EXPECT_THROW(parse_interval(text), std::invalid_argument) << text;
}

} // namespace
} // namespace mailgrad

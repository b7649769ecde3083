#include <mailgrad/options/model_settings.hpp>

#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <stdexcept>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::array<std::string_view, 2> colours{"red", "green"};

void expect_refused(std::string_view text, const std::function<void(model_settings&)>& take,
                    std::string_view why) {
  EXPECT_THAT(([&] {
                model_settings s(text);
                take(s);
                s.require_nothing_left();
              }),
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("model '" + std::string(text) + "': " + std::string(why))));
}

TEST(ModelSettings, GivesWhatTheTextHas) {
  model_settings s("net:depth=3,drop=0.25,colour=green,tied=no,hidden=5x6");
  EXPECT_EQ(s.name(), "net");
  EXPECT_EQ(s.take_number("depth", 1, 1, 3), 3U);
  EXPECT_EQ(s.take_rate("drop", 0), 0.25F);
  EXPECT_EQ(s.take_word("colour", 0, colours), 1U);
  EXPECT_FALSE(s.take_yes("tied", true));
  EXPECT_THAT(s.take_widths("hidden", {}, 6), ElementsAre(5, 6));
  EXPECT_NO_THROW(s.require_nothing_left());
}

TEST(ModelSettings, GivesDefaultsForTheRest) {
  for (const std::string_view text : {"net", "net:"}) {
    model_settings s(text);
    EXPECT_EQ(s.name(), "net");
    EXPECT_EQ(s.take_number("depth", 7, 1, 3), 7U);
    EXPECT_EQ(s.take_rate("drop", 0.5F), 0.5F);
    EXPECT_EQ(s.take_word("colour", 1, colours), 1U);
    EXPECT_TRUE(s.take_yes("tied", true));
    EXPECT_THAT(s.take_widths("hidden", {4}, 6), ElementsAre(4));
    EXPECT_NO_THROW(s.require_nothing_left());
  }
}

TEST(ModelSettings, SaysWhatAValueMustBe) {
  const auto depth = [](model_settings& s) { s.take_number("depth", 1, 2, 9); };
  for (const std::string_view value : {"1", "10", "-2", "2.5", "two", ""})
    expect_refused("net:depth=" + std::string(value), depth,
                   "depth must be a whole number from 2 to 9, not '" + std::string(value) + "'");
  const auto drop = [](model_settings& s) { s.take_rate("drop", 0); };
  for (const std::string_view value : {"-0.1", "1", "nan", ""})
    expect_refused("net:drop=" + std::string(value), drop, "drop must be at least 0 and below 1, not ");
  expect_refused(
      "net:tied=true", [](model_settings& s) { s.take_yes("tied", false); },
      "tied must be yes or no, not 'true'");
  expect_refused(
      "net:colour=greem", [](model_settings& s) { s.take_word("colour", 0, colours); },
      "there is no colour 'greem'; did you mean 'green'?");
  for (const std::string_view value : {"7", "0", "x5", "5xx6", "5y6"})
    expect_refused(
        "net:hidden=" + std::string(value), [](model_settings& s) { s.take_widths("hidden", {}, 6); },
        "hidden must be widths such as 512x256, not '");
}

TEST(ModelSettings, LeavesNothingOver) {
  const auto none = [](model_settings&) {};
  const auto depth = [](model_settings& s) { s.take_number("depth", 1, 1, 9); };
  expect_refused("net:dept=3", depth, "there is no setting 'dept'; did you mean 'depth'?");
  expect_refused("net:depth=3", none, "this model has no settings");
  expect_refused("net:depth", depth, "'depth' is no setting; write key=value");
  expect_refused("net:depth=3,depth=4", depth, "'depth' comes twice");
}

} // namespace
} // namespace mailgrad

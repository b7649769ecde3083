#include <mailgrad/options/interval.hpp>
#include <mailgrad/options/settings.hpp>
#include <mailgrad/options/spelling.hpp>

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

TEST(NamedChoice, HasANameAndItsArguments) {
  struct row {
    const char *text, *name;
    std::vector<std::string_view> arguments;
  };
  const row all[] = {{"dssp:1,4", "dssp", {"1", "4"}},
                     {"sync", "sync", {}},
                     {"", "", {}},
                     {"ssp:", "ssp", {""}}, // empty ones are for its reader to refuse
                     {"dssp:1,", "dssp", {"1", ""}},
                     {"dssp:,4", "dssp", {"", "4"}},
                     {"./lib.so:a:b", "./lib.so", {"a:b"}}}; // the first colon alone is its own
  for (const auto& [text, name, arguments] : all) {
    const named_choice c(text);
    EXPECT_EQ(c.text, text);
    EXPECT_EQ(c.name, name);
    EXPECT_EQ(c.arguments, arguments) << text;
  }
}

TEST(EditDistance, CountsLettersThatAreMissingMoreOrWrong) {
  const std::tuple<const char*, const char*, std::size_t> all[] = {
      {"", "", 0},          {"", "adam", 4},     {"adam", "", 4},
      {"adam", "adamw", 1}, {"adem", "adam", 1}, {"kitten", "sitting", 3}};
  for (const auto& [a, b, edits] : all) EXPECT_EQ(edit_distance(a, b), edits) << a << ' ' << b;
}

TEST(EditDistance, CountsTwoSwappedNeighboursOnce) {
  EXPECT_EQ(edit_distance("adma", "adam"), 1U);
  EXPECT_EQ(edit_distance("dama", "adam"), 2U);
}

TEST(NearestName, IsTheOneFewestEditsAway) {
  constexpr std::array<std::string_view, 4> names{"sgd", "momentum", "adam", "adamw"};
  EXPECT_EQ(nearest_name("adma", names), "adam");
  EXPECT_EQ(nearest_name("momemtun", names), "momentum");
  EXPECT_EQ(nearest_name("adamw", names), "adamw");
  EXPECT_EQ(nearest_name("", names), "sgd");
  EXPECT_EQ(nearest_name("rat", std::array<std::string_view, 2>{"cat", "bat"}), "cat")
      << "the first of equals";
  EXPECT_EQ(nearest_name("adam", {}), "");
}

TEST(NearestName, IsSuggestedWhereItIsNear) {
  constexpr std::array<std::string_view, 3> names{"sgd", "momentum", "adam"};
  const std::pair<const char*, const char*> near[] = {
      {"adma", "adam"}, {"dama", "adam"}, {"sdg", "sgd"}, {"moment", "momentum"}};
  for (const auto& [word, name] : near)
    EXPECT_EQ(suggestion(word, names), "did you mean '" + std::string(name) + "'?");
  for (const char* far : {"lamb", "xyz", "conjugate-gradient", ""})
    EXPECT_EQ(suggestion(far, names), "known are: sgd, momentum, adam") << far;
  EXPECT_EQ(suggestion("adam", {}), "");
}

TEST(NearestName, IsNearByAThirdOfTheWord) {
  for (const auto& [word, edits] : {std::pair{"abc", 1U}, {"abcd", 2U}, {"abcdefghi", 3U}})
    EXPECT_TRUE(is_near(word, edits)) << word;
  for (const auto& [word, edits] : {std::pair{"abc", 2U}, {"abcdefgh", 3U}, {"abcdefghi", 4U}})
    EXPECT_FALSE(is_near(word, edits)) << word;
}

TEST(NearestName, IsMeantByAWordThatBeginsItOrThatItBegins) {
  constexpr std::array<std::string_view, 4> names{"batch", "lr", "optimizer", "outer-optimizer"};
  EXPECT_EQ(meant_name("batchsize", names), "batch");
  EXPECT_EQ(meant_name("lrate", names), "lr");
  EXPECT_EQ(meant_name("opt", names), "optimizer");
  EXPECT_EQ(meant_name("op", names), "") << "two letters say too little";
  EXPECT_EQ(meant_name("quantum", names), "");
  EXPECT_EQ(meant_name("batch", {}), "");
}

TEST(WholeName, IsReplacedWhereverItStandsWhole) {
  EXPECT_EQ(with_name_replaced("a.so", "a.so", "/x/a.so"), "/x/a.so");
  EXPECT_EQ(with_name_replaced("async, ./a.so:2@100, ./a.so", "./a.so", "/x/a.so"),
            "async, /x/a.so:2@100, /x/a.so");
}

TEST(WholeName, StaysWithinALongerOne) {
  for (const char* text : {"lib/a.so", "a.so.1", "ba.so:2", "async"})
    EXPECT_EQ(with_name_replaced(text, "a.so", "/x/a.so"), text);
  EXPECT_EQ(with_name_replaced("lib/a.so, a.so", "a.so", "b"), "lib/a.so, b");
  EXPECT_EQ(with_name_replaced("a.so", "", "b"), "a.so");
}

/// As a fact of a run has it.
TEST(WholeName, MayStandInParentheses) {
  EXPECT_EQ(with_name_replaced("mine (./a.so) 0.9", "./a.so", "/x/a.so"), "mine (/x/a.so) 0.9");
}

TEST(ShellWord, IsQuotedWhereAShellWouldReadItOtherwise) {
  EXPECT_EQ(shell_word("runs/lenet-2.safetensors"), "runs/lenet-2.safetensors");
  for (const std::string word : {"run c", "~/a", "$HOME", ""}) EXPECT_EQ(shell_word(word), "'" + word + "'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
}

} // namespace
} // namespace mailgrad

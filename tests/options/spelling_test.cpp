#include <mailgrad/options/spelling.hpp>

#include <gtest/gtest.h>

#include <array>

namespace mailgrad {
namespace {

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

#include <mailgrad/tests/cli/one_line.hpp>
#include <mailgrad/tests/cli/tool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <regex>
#include <set>
#include <string>
#include <vector>

// The picture of a model that the tool draws.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOneLine;
using ::testing::StartsWith;
using testing::tool;

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

TEST(Tool, RefusesAPictureThatCannotBeWritten) {
  tool t({"graph", "--model", "mlp", "--output", "/no/such/folder/mlp.dot"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("/no/such/folder/mlp.dot")));
}

} // namespace
} // namespace mailgrad

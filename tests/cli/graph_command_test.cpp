#include <mailgrad/tests/cli/tool.hpp>

#include <regex>
#include <set>

// The picture of a model that the tool draws, and graphs that it writes as they are and reads again.

namespace mailgrad::testing {
namespace {

/// Names that a line of Graphviz declares or connects.
words found(const std::string& text, const std::regex& pattern, std::size_t group) {
  words names;
  for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i)
    names.push_back((*i)[group].str());
  return names;
}

class GraphOfModel : public TestWithParam<const char*> {};

TEST_P(GraphOfModel, IsAPictureInTheLanguageOfGraphviz) {
  for (const words& more : {words{}, "--gradients"_w}) {
    const std::string picture = done("graph --model"_w + GetParam() + more).out;
    EXPECT_THAT(picture, StartsWith("digraph"));
    EXPECT_EQ(std::ranges::count(picture, '{'), std::ranges::count(picture, '}'));
    EXPECT_EQ(std::ranges::count(picture, '"') % 2, 0);
    const words declared = found(picture, std::regex(R"re(\n\s*"?(\w+)"?\s*\[)re"), 1);
    const std::set<std::string> nodes(declared.begin(), declared.end());
    EXPECT_GT(nodes.size(), 3U) << picture;
    const std::regex edge(R"re("?(\w+)"?(:\w+)?\s*->\s*"?(\w+)"?)re");
    EXPECT_GT(found(picture, edge, 1).size(), 3U) << picture;
    for (const std::size_t end : {1U, 3U})
      for (const std::string& name : found(picture, edge, end)) EXPECT_TRUE(nodes.contains(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, GraphOfModel, Values("softmax", "mlp", "lenet"),
                         [](const auto& model) { return std::string(model.param); });

TEST(Tool, GrowsThePictureByTheBackwardPass) {
  const std::string forward = done("graph --model mlp"_w).out,
                    both = done("graph --model mlp --gradients"_w).out;
  EXPECT_GT(std::ranges::count(both, '\n'), std::ranges::count(forward, '\n'));
}

TEST(Tool, RefusesAPictureThatCannotBeWritten) {
  expect_refused("graph --model mlp --output /no/such/folder/mlp.dot"_w, "/no/such/folder/mlp.dot");
}

struct GraphFile : ToolTest {
  static std::string shown(const words& options) { return done("graph"_w + options).out; }
  static void expect_none(const words& options, const std::string& why) {
    tool t("graph"_w + options);
    EXPECT_EQ(t.code(), 2) << why;
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr(why)));
    EXPECT_EQ(t.out(), "");
  }

  const std::string file = path("g.graph");
};

TEST_F(GraphFile, IsDrawnAsTheModelIs) {
  for (const char* model : {"softmax", "mlp", "lenet"})
    for (const words& more : {words{}, "--gradients"_w}) {
      const words options = "--model"_w + model + more;
      EXPECT_EQ(shown(options + "--out"_w + file), "") << "the picture gives way to the graph";
      EXPECT_EQ(shown(words{file} + more), shown(options)) << model;
    }
}

TEST_F(GraphFile, GetsItsGradientsFromTheReaderIfItHasNone) {
  shown("--model mlp --out"_w + file);
  EXPECT_EQ(shown({file, "--gradients"}), shown("--model mlp --gradients"_w));
}

TEST_F(GraphFile, KeepsThePlacesOfAPipeline) {
  const words placed = "--gradients --devices cpu:0,cpu:1"_w, options = "--model mlp --pipeline"_w + placed;
  shown(options + "--out"_w + file);
  EXPECT_EQ(shown(words{file} + placed), shown(options));
}

TEST_F(GraphFile, IsWrittenToStandardOutputToo) {
  shown("--model softmax --out"_w + file);
  EXPECT_EQ(shown("--model softmax --out -"_w), content_of(file));
}

TEST_F(GraphFile, IsRefusedInOneLineIfItIsNone) {
  shown("--model softmax --out"_w + file);
  const std::string whole = content_of(file);
  std::string damaged = whole;
  damaged.back() ^= 1;
  for (const auto& [content, why] :
       {std::pair{whole.substr(0, whole.size() / 2), "bad: graph: byte 12: expected "},
        {"digraph {}", "bad: graph: byte 10: expected a header of 24 bytes, found 10"},
        {std::string(100, 'x'), "bad: graph: byte 0: expected 'mgradgrf', found 'xxxxxxxx'"},
        {damaged, "bad: graph: "}})
    expect_none({folder.write("bad", content).string()}, why);
  expect_none({path("none")}, "none: cannot be read: No such file");
  expect_none({folder.path().string()}, "cannot be read: Is a directory");
}

TEST_F(GraphFile, IsNotMixedUpWithAModel) {
  shown("--model softmax --out"_w + file);
  expect_none({file, "--model", "mlp"}, "exclude each other");
  expect_none(words{file} + "--pipeline --devices cpu:0,cpu:1"_w, "exclude each other");
  expect_none("--model mlp --out"_w + file + "--output x"_w, "--output and --out exclude each other");
  const std::string before = content_of(file);
  expect_none({file, "--out", file}, "both name");
  EXPECT_EQ(content_of(file), before);
}

} // namespace
} // namespace mailgrad::testing

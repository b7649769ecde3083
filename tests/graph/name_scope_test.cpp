#include <mailgrad/graph/graph.hpp>

#include <mailgrad/graph/layers.hpp>

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> variables_of(const graph& g) {
  std::vector<std::string> names;
  for (const value& v : g.variables()) names.push_back(g.of(v).name);
  return names;
}

value make(graph& g, const char* name, const shape& dims = {2}) {
  return g.variable(name, dims, initialiser::zeros());
}

TEST(NameScope, StandsBeforeTheNamesOfVariablesMadeInside) {
  graph g;
  make(g, "before");
  {
    const name_scope tower(g, "tower");
    make(g, "w");
    {
      const name_scope layer(g, "layer");
      make(g, "w");
    }
    make(g, "b");
  }
  make(g, "after");
  EXPECT_THAT(variables_of(g), ElementsAre("before", "tower/w", "tower/layer/w", "tower/b", "after"));
}

TEST(NameScope, NamesTheVariablesOfLayers) {
  graph g;
  const value x = g.input("x", {1, 3});
  const name_scope s(g, "tower");
  dense(x, 2, "out");
  EXPECT_THAT(variables_of(g), ElementsAre("tower/out/weights", "tower/out/bias"));
}

TEST(NameScope, LeavesInputsAlone) {
  graph g;
  const name_scope s(g, "tower");
  EXPECT_EQ(g.of(g.input("features", {1})).name, "features");
}

TEST(NameScope, EndsWithAnException) {
  graph g;
  EXPECT_THROW(
      {
        const name_scope s(g, "tower");
        make(g, "w", {2});
        make(g, "w", {3});
      },
      graph_error);
  make(g, "w", {3});
  EXPECT_THAT(variables_of(g), ElementsAre("tower/w", "w"));
}

TEST(NameScope, SharesWhatIsAskedForInAScopeOfTheSameName) {
  graph g;
  const auto tower = [&g] {
    const name_scope s(g, "tower");
    return make(g, "w");
  };
  const value first = tower();
  EXPECT_EQ(tower(), first);
  EXPECT_EQ(make(g, "tower/w"), first) << "a name is a name, however it came about";
}

TEST(NameScope, RefusesAMissingVariableWhereOneMustExist) {
  graph g;
  make(g, "tower/weights");
  const auto opened = std::to_string(__LINE__ + 1);
  const name_scope s(g, "tower", sharing::required);
  EXPECT_EQ(make(g, "weights"), g.variables().front());
  const auto asked = std::to_string(__LINE__ + 1);
  const auto ask = [&] { g.variable("wieghts", {2}, initialiser::zeros()); };
  EXPECT_THAT(
      ask, ThrowsMessage<graph_error>(AllOf(
               HasSubstr("name_scope_test.cpp:" + asked + ": there is no variable 'tower/wieghts' to share"),
               HasSubstr("name scope 'tower', opened at name_scope_test.cpp:" + opened),
               HasSubstr("the nearest there is 'tower/weights'"), HasSubstr("sharing::allowed"))));
  EXPECT_EQ(g.nodes().size(), 1U);
}

TEST(NameScope, RefusesAVariableThatIsThereWhereItMustBeNew) {
  graph g;
  const auto made = std::to_string(__LINE__ + 1);
  g.variable("tower/w", {2}, initialiser::zeros());
  const auto opened = std::to_string(__LINE__ + 1);
  const name_scope s(g, "tower", sharing::refused);
  make(g, "b");
  const auto asked = std::to_string(__LINE__ + 1);
  const auto ask = [&] { g.variable("w", {2}, initialiser::zeros()); };
  EXPECT_THAT(ask, ThrowsMessage<graph_error>(AllOf(
                       HasSubstr("name_scope_test.cpp:" + asked + ": variable 'tower/w' is already there"),
                       HasSubstr("made at name_scope_test.cpp:" + made),
                       HasSubstr("name scope 'tower', opened at name_scope_test.cpp:" + opened),
                       HasSubstr("take another name"))));
  EXPECT_THAT([&] { make(g, "b"); }, ThrowsMessage<graph_error>(HasSubstr("'tower/b' is already there")))
      << "one made in the scope itself, too";
}

TEST(NameScope, HandsItsSharingDownUntilAnInnerOneSaysOtherwise) {
  graph g;
  const name_scope outer(g, "a", sharing::required);
  {
    const name_scope inner(g, "b");
    EXPECT_THAT([&] { make(g, "w"); },
                ThrowsMessage<graph_error>(AllOf(HasSubstr("'a/b/w'"), HasSubstr("name scope 'a', opened"))));
    const name_scope innermost(g, "c", sharing::allowed);
    make(g, "w");
  }
  EXPECT_THROW(make(g, "w"), graph_error);
  EXPECT_THAT(variables_of(g), ElementsAre("a/b/c/w"));
}

TEST(NameScope, RefusesNamesThatAreNone) {
  graph g;
  for (const char* name : {"", "/", "/tower", "tower/"})
    EXPECT_THAT(
        ([&] { const name_scope s(g, name); }),
        ThrowsMessage<graph_error>(AllOf(HasSubstr("name_scope_test.cpp:"), HasSubstr("such as 'tower'"))))
        << name;
  make(g, "w");
  EXPECT_THAT(variables_of(g), ElementsAre("w"));
}

} // namespace
} // namespace mailgrad

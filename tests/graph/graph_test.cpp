#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <array>

namespace mailgrad {
namespace {

using test::is_refused, test::is_refused_here, test::names_of;
using testing::Each, testing::ElementsAre;

using Graph = test::operation_test;

TEST_F(Graph, GivesTheSameVariableToAllWhoAskForItsName) {
  const value w = g.variable("w", {2, 3}, initialiser::zeros());
  EXPECT_EQ(g.variable("w", {2, 3}, initialiser::constant(1)), w);
  EXPECT_EQ(g.nodes().size(), 1U);
}

TEST_F(Graph, RefusesAnotherShapeUnderAName) {
  const auto first = std::to_string(__LINE__ + 1);
  g.variable("w", {2, 3}, {});
  EXPECT_THAT(
      [&] {
        g.variable("w", {3, 2}, {});
      },
      is_refused_here("'w' of shape 3x2", "already there with shape 2x3", "made at graph_test.cpp:" + first));
}

TEST_F(Graph, RefusesASecondInputOfAName) {
  g.input("x", {1});
  EXPECT_THAT([&] { g.input("x", {1}); }, is_refused("'x'"));
  EXPECT_THAT([&] { g.variable("x", {1}, {}); }, is_refused("already an input"));
}

TEST_F(Graph, HasNotChangedAfterAnError) {
  const value a = g.input("a", {2}), b = g.input("b", {3});
  EXPECT_THROW(a + b, graph_error);
  EXPECT_EQ(g.nodes().size(), 2U);
}

TEST_F(Graph, RefusesValuesOfAnotherGraph) {
  graph other;
  const value a = g.input("a", {2}), b = other.input("b", {2});
  EXPECT_THAT([&] { a + b; }, is_refused("mixes values of two graphs"));
}

TEST_F(Graph, ListsInputsAndVariablesInTheirOrder) {
  const value x = g.input("x", {2}), w = g.variable("w", {2}, {});
  const value labels = g.input("labels", {2}, dtype::int32), b = g.variable("b", {2}, {});
  relu(x + w);
  EXPECT_THAT(g.inputs(), ElementsAre(x, labels));
  EXPECT_THAT(g.variables(), ElementsAre(w, b));
}

TEST_F(Graph, KeepsTheLineThatMadeANode) {
  const value x = g.input("x", {2});
  const auto line = __LINE__ + 1;
  const value y = relu(x);
  EXPECT_EQ(static_cast<int>(g.of(y).where.line()), line);
}

TEST(ValueType, ReadsAsTypeAndShape) {
  EXPECT_EQ(to_string(value_type{{64, 784}, dtype::float32}), "float32 64x784");
  EXPECT_EQ(to_string(value_type{{}, dtype::int32}), "int32 scalar");
}

value make(graph& g, const char* name, const shape& dims = {2}) {
  return g.variable(name, dims, initialiser::zeros());
}

using NameScope = test::operation_test;

TEST_F(NameScope, StandsBeforeTheNamesOfVariablesMadeInside) {
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
  EXPECT_THAT(names_of(g.variables()), ElementsAre("before", "tower/w", "tower/layer/w", "tower/b", "after"));
}

TEST_F(NameScope, NamesTheVariablesOfLayers) {
  const value x = g.input("x", {1, 3});
  const name_scope s(g, "tower");
  dense(x, 2, "out");
  EXPECT_THAT(names_of(g.variables()), ElementsAre("tower/out/weights", "tower/out/bias"));
}

TEST_F(NameScope, LeavesInputsAlone) {
  const name_scope s(g, "tower");
  EXPECT_EQ(g.of(g.input("features", {1})).name, "features");
}

TEST_F(NameScope, EndsWithAnException) {
  const auto fails = [&] {
    const name_scope s(g, "tower");
    make(g, "w", {2});
    make(g, "w", {3});
  };
  EXPECT_THROW(fails(), graph_error);
  make(g, "w", {3});
  EXPECT_THAT(names_of(g.variables()), ElementsAre("tower/w", "w"));
}

TEST_F(NameScope, SharesWhatIsAskedForInAScopeOfTheSameName) {
  const auto tower = [&] {
    const name_scope s(g, "tower");
    return make(g, "w");
  };
  const value first = tower();
  EXPECT_EQ(tower(), first);
  EXPECT_EQ(make(g, "tower/w"), first) << "a name is a name, however it came about";
}

TEST_F(NameScope, RefusesAMissingVariableWhereOneMustExist) {
  make(g, "tower/weights");
  const auto opened = std::to_string(__LINE__ + 1);
  const name_scope s(g, "tower", sharing::required);
  EXPECT_EQ(make(g, "weights"), g.variables().front());
  EXPECT_THAT([&] { g.variable("wieghts", {2}, {}); },
              is_refused_here("there is no variable 'tower/wieghts' to share",
                              "name scope 'tower', opened at graph_test.cpp:" + opened,
                              "the nearest there is 'tower/weights'", "sharing::allowed"));
  EXPECT_EQ(g.nodes().size(), 1U);
}

TEST_F(NameScope, RefusesAVariableThatIsThereWhereItMustBeNew) {
  const auto made = std::to_string(__LINE__ + 1);
  g.variable("tower/w", {2}, {});
  const auto opened = std::to_string(__LINE__ + 1);
  const name_scope s(g, "tower", sharing::refused);
  make(g, "b");
  EXPECT_THAT([&] { g.variable("w", {2}, {}); },
              is_refused_here("variable 'tower/w' is already there", "made at graph_test.cpp:" + made,
                              "name scope 'tower', opened at graph_test.cpp:" + opened, "take another name"));
  EXPECT_THAT([&] { make(g, "b"); }, is_refused("'tower/b' is already there"))
      << "one made in the scope itself, too";
}

TEST_F(NameScope, HandsItsSharingDownUntilAnInnerOneSaysOtherwise) {
  const name_scope outer(g, "a", sharing::required);
  {
    const name_scope inner(g, "b");
    EXPECT_THAT([&] { make(g, "w"); }, is_refused("'a/b/w'", "name scope 'a', opened"));
    const name_scope innermost(g, "c", sharing::allowed);
    make(g, "w");
  }
  EXPECT_THROW(make(g, "w"), graph_error);
  EXPECT_THAT(names_of(g.variables()), ElementsAre("a/b/c/w"));
}

TEST_F(NameScope, RefusesNamesThatAreNone) {
  for (const char* name : {"", "/", "/tower", "tower/"})
    EXPECT_THAT(([&] { const name_scope s(g, name); }), is_refused("graph_test.cpp:", "such as 'tower'"))
        << name;
  make(g, "w");
  EXPECT_THAT(names_of(g.variables()), ElementsAre("w"));
}

class Needed : public ::testing::Test {
protected:
  graph g_;
  const value x_ = g_.input("x", {2}), w_ = g_.variable("w", {2}, initialiser::zeros());
  const value left_ = relu(x_), right_ = x_ * w_;
  const value sum_ = left_ + right_;
};

TEST_F(Needed, IsAllThatIsReadOnTheWay) {
  EXPECT_THAT(needed_for(g_, std::array{sum_}), Each(1));
  EXPECT_THAT(needed_for(g_, std::array{left_}), ElementsAre(1, 0, 1, 0, 0));
  EXPECT_THAT(needed_for(g_, std::array{left_, right_}), ElementsAre(1, 1, 1, 1, 0));
}

TEST_F(Needed, IsNothingForNothing) { EXPECT_THAT(needed_for(g_, {}), Each(0)); }

TEST_F(Needed, EndsAtWhatIsGiven) {
  EXPECT_THAT(needed_for(g_, std::array{sum_}, std::array{right_}), ElementsAre(1, 0, 1, 0, 1));
  EXPECT_THAT(needed_for(g_, std::array{sum_}, std::array{sum_}), Each(0));
}

} // namespace
} // namespace mailgrad

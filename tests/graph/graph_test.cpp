#include <mailgrad/graph/graph.hpp>

#include <mailgrad/graph/operations.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Graph, GivesTheSameVariableToAllWhoAskForItsName) {
  graph g;
  const value w = g.variable("w", {2, 3}, initialiser::zeros());
  EXPECT_EQ(g.variable("w", {2, 3}, initialiser::constant(1)), w);
  EXPECT_EQ(g.nodes().size(), 1U);
}

TEST(Graph, RefusesAnotherShapeUnderAName) {
  graph g;
  const auto first = std::to_string(__LINE__ + 1);
  g.variable("w", {2, 3}, initialiser::zeros());
  const auto second = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { g.variable("w", {3, 2}, initialiser::zeros()); };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(AllOf(HasSubstr("graph_test.cpp:" + second),
                                                      HasSubstr("'w' of shape 3x2"),
                                                      HasSubstr("already there with shape 2x3"),
                                                      HasSubstr("made at graph_test.cpp:" + first))));
}

TEST(Graph, RefusesASecondInputOfAName) {
  graph g;
  g.input("x", {1});
  EXPECT_THAT([&] { g.input("x", {1}); }, ThrowsMessage<graph_error>(HasSubstr("'x'")));
  EXPECT_THAT([&] { g.variable("x", {1}, {}); }, ThrowsMessage<graph_error>(HasSubstr("already an input")));
}

TEST(Graph, HasNotChangedAfterAnError) {
  graph g;
  const value a = g.input("a", {2}), b = g.input("b", {3});
  EXPECT_THROW(a + b, graph_error);
  EXPECT_EQ(g.nodes().size(), 2U);
}

TEST(Graph, RefusesValuesOfAnotherGraph) {
  graph g, other;
  const value a = g.input("a", {2}), b = other.input("b", {2});
  EXPECT_THAT([&] { a + b; }, ThrowsMessage<graph_error>(HasSubstr("mixes values of two graphs")));
}

TEST(Graph, ListsInputsAndVariablesInTheirOrder) {
  graph g;
  const value x = g.input("x", {2});
  const value w = g.variable("w", {2}, {});
  const value labels = g.input("labels", {2}, dtype::int32);
  const value b = g.variable("b", {2}, {});
  relu(x + w);
  EXPECT_THAT(g.inputs(), ElementsAre(x, labels));
  EXPECT_THAT(g.variables(), ElementsAre(w, b));
}

TEST(Graph, KeepsTheLineThatMadeANode) {
  graph g;
  const value x = g.input("x", {2});
  const auto line = __LINE__ + 1;
  const value y = relu(x);
  EXPECT_EQ(static_cast<int>(g.of(y).where.line()), line);
}

TEST(ValueType, ReadsAsTypeAndShape) {
  EXPECT_EQ(to_string(value_type{{64, 784}, dtype::float32}), "float32 64x784");
  EXPECT_EQ(to_string(value_type{{}, dtype::int32}), "int32 scalar");
}

} // namespace
} // namespace mailgrad

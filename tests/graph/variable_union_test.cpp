#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/variable_union.hpp>
#include <mailgrad/tests/support/refusal.hpp>

namespace mailgrad {
namespace {

using testing::ElementsAre, testing::throws;

class VariableUnion : public ::testing::Test {
protected:
  /// Adds the graph of the next worker; `build` returns its loss.
  void add(const std::function<value(graph&)>& build) {
    graph g;
    const value loss = build(g);
    const std::vector<value> variables = g.variables();
    const std::vector<adjoint> adjoints = gradients(loss, variables);
    const std::uint32_t worker = workers_++;
    all_.add(g, adjoints, worker);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    const parameter_layout layout = all_.lay_out(1);
    for (const placed_variable& v : layout.variables()) found.push_back(v.name);
    return found;
  }

  variable_union all_;
  std::uint32_t workers_ = 0;
};

value whole(graph& g, const char* name, const shape& dims = {2}) {
  return reduce_sum(g.variable(name, dims, initialiser::constant(2)));
}
value rows(graph& g, const char* name) {
  const value which = g.constant(tensor({1}, dtype::int32));
  return reduce_sum(gather(g.variable(name, {4, 2}, initialiser::zeros()), which));
}

TEST_F(VariableUnion, IsTheLayoutOfAnyOfTheGraphsIfAllAreAlike) {
  const auto build = [](graph& g) { return whole(g, "a") + rows(g, "table") + whole(g, "b", {3, 5}); };
  for (int worker = 0; worker < 3; ++worker) add(build);
  graph g;
  build(g);
  EXPECT_EQ(all_.lay_out(2), parameter_layout(g, {false, true, false}, 2));
}

TEST_F(VariableUnion, KeepsTheOrderInWhichVariablesAreFirstMet) {
  const auto two = [](graph& g, const char* first, const char* second) {
    const value of_first = whole(g, first);
    return of_first + whole(g, second);
  };
  add([&](graph& g) { return two(g, "trunk", "tower_0"); });
  add([&](graph& g) { return two(g, "tower_1", "trunk"); });
  EXPECT_THAT(names(), ElementsAre("trunk", "tower_0", "tower_1"));
}

TEST_F(VariableUnion, TakesTheFirstValuesOfTheFirstWorkerThatHasAVariable) {
  add([](graph& g) { return reduce_sum(g.variable("w", {2}, initialiser::constant(5))); });
  add([](graph& g) { return reduce_sum(g.variable("w", {2}, initialiser::constant(7))); });
  std::vector<float> values(16);
  all_.lay_out(1).initialise_shard(0, 1, values);
  EXPECT_EQ(values[0], 5.0F);
}

TEST_F(VariableUnion, LearnsWhetherAVariableIsATableFromAWorkerThatTrainsIt) {
  const auto only_named = [](graph& g) {
    g.variable("table", {4, 2}, initialiser::zeros());
    return whole(g, "w");
  };
  add(only_named);
  add([](graph& g) { return rows(g, "table") + whole(g, "w"); });
  add(only_named);
  const parameter_layout layout = all_.lay_out(1);
  EXPECT_THAT(names(), ElementsAre("w", "table"));
  EXPECT_TRUE(layout.variables()[1].sparse);
}

TEST_F(VariableUnion, RefusesAnotherShapeUnderANameAndNamesBoth) {
  const auto first = std::to_string(__LINE__ + 1);
  add([](graph& g) { return reduce_sum(g.variable("w", {2, 3}, initialiser::zeros())); });
  add([](graph& g) { return whole(g, "b"); });
  const auto second = std::to_string(__LINE__ + 1);
  const auto build = [](graph& g) { return whole(g, "c") + reduce_sum(g.variable("w", {3, 2}, {})); };
  EXPECT_THAT([&] { add(build); },
              throws<graph_error>(
                  "variable 'w' is float32 3x2 in the graph of worker 2 (variable_union_test.cpp:" + second,
                  "float32 2x3 in the graph of worker 0 (variable_union_test.cpp:" + first, "two names"));
  EXPECT_THAT(names(), ElementsAre("w", "b")) << "nothing of what was refused";
}

TEST_F(VariableUnion, RefusesATableThatAnotherWorkerReadsWhole) {
  add([](graph& g) { return rows(g, "table"); });
  EXPECT_THAT([&] { add([](graph& g) {
                      return whole(g, "table", {4, 2});
                    }); },
              throws<graph_error>("gradient of variable 'table' is whole in the graph of worker 1",
                                  "comes in rows in the graph of worker 0"));
}

} // namespace
} // namespace mailgrad

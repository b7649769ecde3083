#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/graphviz.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/operations.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::AllOf, testing::ContainsRegex, testing::HasSubstr, testing::Not;

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

/// Lines from the one that has `first` to the bracket that closes its box.
std::string box(const std::string& picture, const std::string& first) {
  const auto begin = picture.find(first);
  if (begin == std::string::npos) return {};
  int depth = 0;
  auto end = picture.find('{', begin);
  do {
    depth += picture[end] == '{' ? 1 : picture[end] == '}' ? -1 : 0;
    ++end;
  } while (depth > 0 && end < picture.size());
  return picture.substr(begin, end - begin);
}

TEST(Graphviz, DrawsAnEmptyGraph) {
  EXPECT_THAT(graphviz(graph{}), AllOf(HasSubstr("digraph model {"), testing::EndsWith("}\n")));
}

TEST(Graphviz, ShowsNamesAndShapes) {
  graph g;
  dense(g.input("features", {64, 784}), 10, "dense1");
  const std::string picture = graphviz(g);
  EXPECT_THAT(picture, HasSubstr("label=\"features\\nfloat32 64x784\""));
  EXPECT_THAT(picture, HasSubstr("label=\"weights\\n784x10\""));
  EXPECT_THAT(picture, HasSubstr("label=\"matmul\\n64x10\""));
  EXPECT_THAT(picture, HasSubstr("n0 -> n2"));
  EXPECT_THAT(picture, HasSubstr("n1 -> n2"));
}

TEST(Graphviz, PutsALayerIntoABox) {
  graph g;
  const value x = dense(g.input("x", {2, 3}), 4, "dense1");
  dense(x, 5, "block/inner");
  const std::string picture = graphviz(g);
  EXPECT_THAT(box(picture, "subgraph \"cluster dense1\""),
              AllOf(HasSubstr("weights\\n3x4"), HasSubstr("matmul"), Not(HasSubstr("4x5"))));
  EXPECT_THAT(box(picture, "subgraph \"cluster block\""),
              AllOf(HasSubstr("subgraph \"cluster block/inner\""), HasSubstr("label=\"inner\""),
                    HasSubstr("weights\\n4x5")));
}

TEST(Graphviz, ShowsAttributesOfOperations) {
  graph g;
  max_pool(g.input("x", {1, 4, 4, 1}));
  EXPECT_THAT(graphviz(g), HasSubstr("label=\"max_pool\\nwindow 2x2, stride 2x2, padding valid\\n1x2x2x1\""));
}

TEST(Graphviz, DashesTheBackwardPass) {
  graph g;
  const value loss = reduce_sum(max_pool(g.variable("x", {1, 4, 4, 1}, initialiser::zeros())));
  EXPECT_THAT(graphviz(g, {.loss = loss}), Not(HasSubstr("dashed")));
  gradients(loss, g.variables());
  const std::string picture = graphviz(g, {.loss = loss});
  EXPECT_THAT(picture, ContainsRegex("max_pool_gradient.*dashed"));
  EXPECT_THAT(picture, HasSubstr("label=\"int32 1x2x2x1\""));
  EXPECT_THAT(graphviz(g), Not(HasSubstr("dashed")));
}

/// "n3 -> n7" of the operations of these names; none may be used twice.
std::string edge(const graph& g, std::string_view from, std::string_view to) {
  const auto id_of = [&](std::string_view name) {
    for (std::size_t id = 0; id < g.nodes().size(); ++id)
      if (const auto* op = std::get_if<operation_node>(&g.nodes()[id].what); op && (*op)->name() == name)
        return id;
    ADD_FAILURE() << "no " << name;
    return std::size_t{0};
  };
  std::ostringstream text;
  text << 'n' << id_of(from) << " -> n" << id_of(to);
  return text.str();
}

TEST(Graphviz, DrawsTheBackwardPassBesideAndUpwards) {
  graph g;
  const value x = g.variable("x", {1, 4, 4, 1}, initialiser::zeros()), loss = reduce_sum(tanh(max_pool(x)));
  gradients(loss, g.variables());
  const std::string picture = graphviz(g, {.loss = loss});
  EXPECT_THAT(picture, HasSubstr("newrank=true")) << "else a box may pull its operations upwards";
  EXPECT_THAT(picture, HasSubstr(edge(g, "max_pool", "tanh") + "\n"));
  EXPECT_THAT(picture, HasSubstr(edge(g, "max_pool", "max_pool_gradient") + " [minlen=0"));
  EXPECT_THAT(picture, HasSubstr(edge(g, "max_pool_gradient", "tanh_gradient") + " [dir=back"));
}

TEST(Graphviz, PutsAnOperationWithoutVariablesIntoItsNameScope) {
  graph g;
  {
    const name_scope outer(g, "block");
    const name_scope inner(g, "attention");
    tanh(g.input("x", {3}));
  }
  tanh(g.input("y", {4}));
  const std::string picture = graphviz(g);
  EXPECT_THAT(box(picture, "cluster block/attention"), HasSubstr("tanh\\n3"));
  EXPECT_THAT(box(picture, "cluster block"), Not(HasSubstr("tanh\\n4")));
}

TEST(Graphviz, NamesTheUsersLine) {
  graph g;
  g.input("x", {1});
  EXPECT_THAT(graphviz(g), HasSubstr("tooltip=\"graphviz_test.cpp:" + std::to_string(__LINE__ - 1)));
}

TEST(Graphviz, EscapesNames) {
  graph g;
  g.input("a \"quoted\" \\ name", {1});
  EXPECT_THAT(graphviz(g), HasSubstr("label=\"a \\\"quoted\\\" \\\\ name\\n"));
}

TEST(Graphviz, WritesSmallConstantsOut) {
  graph g;
  g.constant(0.25F);
  g.constant(3.0F);
  g.constant(tensor({2, 3}));
  EXPECT_THAT(graphviz(g), AllOf(HasSubstr("label=\"0.25\""), HasSubstr("label=\"3\""),
                                 HasSubstr("label=\"constant\\n2x3\"")));
}

TEST(Graphviz, DrawsEveryNodeOnce) {
  graph g;
  const model_outputs out = find_model("lenet")(g, {.sample_dims = {28, 28, 1}, .classes = 10, .batch = 4});
  gradients(out.loss, g.variables());
  std::istringstream lines(graphviz(g, {.loss = out.loss}));
  std::vector<int> seen(g.nodes().size(), 0);
  std::size_t edges = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" -> ") != std::string::npos) ++edges;
    const auto at = line.find_first_not_of(' ');
    if (at != std::string::npos && line[at] == 'n' && line.find(" [label=") != std::string::npos &&
        line.find(" -> ") == std::string::npos)
      ++seen[std::stoul(line.substr(at + 1))];
  }
  EXPECT_THAT(seen, testing::Each(1));
  std::size_t inputs = 0;
  for (const node& n : g.nodes()) inputs += n.inputs.size();
  EXPECT_EQ(edges, inputs);
}

TEST(Graphviz, DrawsABoxForEachDeviceAndTheBytesBetweenThem) {
  graph g;
  const device first{device_kind::cpu, 0}, second{device_kind::cpu, 1};
  g.set_place(first);
  const value hidden = dense(g.input("x", {64, 32}), 16, "layer1", activation::tanh);
  g.set_place(second);
  const value y = dense(hidden, 8, "layer2");
  const value loss = reduce_mean(y + reduce_mean(hidden)); // read twice there, sent once
  g.set_place({});
  const placement places(g, first);
  const std::string picture = graphviz(g, {.loss = loss, .places = &places});
  const std::string one = box(picture, "cluster device cpu:0"), two = box(picture, "cluster device cpu:1");
  EXPECT_THAT(
      one, AllOf(HasSubstr("cpu:0, gets 0 B a step"), HasSubstr("cluster cpu:0 layer1"), HasSubstr("tanh")));
  EXPECT_THAT(two, AllOf(HasSubstr("cpu:1, gets 4.0 KiB a step"), HasSubstr("cluster cpu:1 layer2")));
  EXPECT_THAT(one, Not(HasSubstr("layer2")));
  EXPECT_THAT(picture, HasSubstr("label=\"4.0 KiB\", fontcolor=\"#b85450\", penwidth=2"));
  EXPECT_EQ(count(picture, "4.0 KiB"), 2U) << "in the title and at the first of two edges";
  EXPECT_EQ(count(picture, "penwidth=2"), 2U);
}

TEST(Graphviz, DrawsAndCountsOnlyWhatIsWanted) {
  graph g;
  const device first{device_kind::cpu, 0}, second{device_kind::cpu, 1};
  g.set_place(first);
  const value hidden = dense(g.input("x", {64, 32}), 16, "layer1", activation::tanh);
  g.set_place(second);
  const value loss = reduce_mean(hidden);
  concat(std::array{dense(hidden, 4, "layer2"), hidden}, 1); // as evaluations want it
  g.set_place({});
  const std::vector<value> of_weights = {*gradients(loss, g.variables())[0].dense};
  const placement places(g, first);
  const std::string all = graphviz(g, {.loss = loss, .places = &places});
  EXPECT_THAT(all, AllOf(HasSubstr("concat"), HasSubstr("layer2")));
  const std::string wanted = graphviz(g, {.loss = loss, .places = &places, .wanted = {loss, of_weights[0]}});
  EXPECT_THAT(wanted, AllOf(Not(HasSubstr("concat")), Not(HasSubstr("layer2")), HasSubstr("layer1"),
                            HasSubstr("cpu:1, gets 4.0 KiB a step")));
  EXPECT_THAT(wanted, Not(HasSubstr("64x32\", fillcolor=\"#dae8fc\""))) << "nobody wants the gradient of x";
}

TEST(Graphviz, LeavesWhatSeveralDevicesReadOutsideTheirBoxes) {
  graph g;
  const value x = g.input("x", {4, 3}), w = g.variable("w", {3, 3}, initialiser::zeros());
  for (const std::uint32_t index : {0U, 1U}) {
    g.set_place(device{device_kind::cpu, index});
    matmul(x, w);
  }
  const placement places(g, {device_kind::cpu, 0});
  const std::string picture = graphviz(g, {.loss = {}, .places = &places});
  for (const char* name : {"cluster device cpu:0", "cluster device cpu:1"})
    EXPECT_THAT(box(picture, name), AllOf(HasSubstr("matmul"), Not(HasSubstr("cylinder")))) << name;
  EXPECT_THAT(picture, HasSubstr("cylinder"));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/program/trial_run.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>
#include <mailgrad/tests/graph/serial/sample_graphs.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <bit>
#include <filesystem>
#include <fstream>
#include <regex>

namespace mailgrad {
namespace {

using test::every_operation, test::expect_serialised, test::is_refused, test::random_graph, test::written;

std::set<std::string> kinds_in(const graph& g) {
  std::set<std::string> found;
  for (const node& n : g.nodes())
    if (const auto* op = std::get_if<operation_node>(&n.what))
      if (const auto* form = dynamic_cast<const serial_form*>(op->get())) found.emplace(form->kind());
  return found;
}

/// The bits of all values in the list, one after the other.
std::vector<std::int32_t> bits_of(const std::vector<named_value>& wanted) {
  std::vector<value> fetches;
  for (const named_value& v : wanted) fetches.push_back(v.what);
  trial_run run(fetches, {});
  run.run(3);
  std::vector<std::int32_t> bits;
  for (std::size_t i = 0; i < fetches.size(); ++i)
    for (const std::int32_t word : run.fetched<std::int32_t>(i)) bits.push_back(word);
  return bits;
}

TEST(GraphBytes, CarryEveryOperationThereIs) {
  every_operation all;
  all.differentiate();
  const operation_registry known;
  const auto registered = known.kinds();
  EXPECT_EQ(kinds_in(all.g), (std::set<std::string>(registered.begin(), registered.end())));
  expect_serialised(all.g, known, all.named());
}

/// What older programs have written stays readable, so these bytes never change under the number of a format.
TEST(GraphBytes, AreThoseOfThePage) {
  graph g;
  g.set_line("m.cpp:1");
  const auto there = written(g, relu(g.input("x", {2})));
  std::ifstream page(std::filesystem::path(MAILGRAD_SOURCE_DIR) / "docs" / "graph_format.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const std::size_t begin = text.find("```\n6d 67") + 4;
  std::istringstream block(text.substr(begin, text.find("```", begin) - begin));
  std::vector<std::byte> on_page;
  for (std::string line; std::getline(block, line);) {
    std::istringstream pairs(line.substr(0, 46));
    for (std::string pair; pairs >> pair;)
      on_page.push_back(static_cast<std::byte>(std::stoi(pair, nullptr, 16)));
  }
  EXPECT_EQ(there, on_page);
}

/// A kind that is not registered is not read.
TEST(GraphBytes, LeaveNoOperationOfTheSourcesBehind) {
  const std::filesystem::path folder = std::filesystem::path(MAILGRAD_SOURCE_DIR) / "graph" / "operations";
  const std::regex named(R"re(string_view name = "(\w+)")re");
  const operation_registry known;
  std::set<std::string> found;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(file.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (std::sregex_iterator m(text.begin(), text.end(), named), end; m != end; ++m) found.insert((*m)[1]);
  }
  EXPECT_THAT(known.kinds(), ::testing::IsSupersetOf(found));
  EXPECT_GT(found.size(), 30U);
}

TEST(GraphBytes, ComputeTheSameBitsAndTheSameGradients) {
  every_operation all;
  const auto there = write_graph(all.g, all.named());
  all.differentiate();

  graph copy; // differentiated where it arrives
  const value loss = read_graph(copy, there, {}).at("loss");
  const std::vector<value> variables = copy.variables();
  std::vector<named_value> outputs{{"loss", loss}};
  for (const adjoint& a : gradients(loss, variables)) {
    if (a.dense) outputs.push_back({"", *a.dense});
    for (const sparse_rows& part : a.sparse)
      outputs.insert(outputs.end(), {{"", part.rows}, {"", part.values}});
  }
  EXPECT_EQ(bits_of(outputs), bits_of(all.named()));

  graph with_gradients; // differentiated before it leaves
  const auto read = read_graph(with_gradients, write_graph(all.g, all.named()), {});
  EXPECT_EQ(bits_of(read.all()), bits_of(all.named()));
}

TEST(GraphBytes, CarryRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    random_graph drawn(seed);
    expect_serialised(drawn.g, {}, drawn.named());
    graph copy;
    const auto read = read_graph(copy, write_graph(drawn.g, drawn.named()), {});
    ASSERT_EQ(bits_of(read.all()), bits_of(drawn.named()));
  }
}

TEST(GraphBytes, NameTheLineOfTheUserOnAnotherMachine) {
  graph g;
  const value x = g.input("x", {2, 3});
  const std::string line = "graph_bytes_test.cpp:" + std::to_string(__LINE__ + 1);
  const value y = softmax(x), labels = g.input("labels", {2}, dtype::int32);
  cross_entropy(y, labels);
  graph copy;
  const value read = read_graph(copy, written(g, y), {}).at("y");
  EXPECT_EQ(line_of(copy.of(read)), line);
  EXPECT_THAT([&] { gradients(read, std::array{read}); }, is_refused(line));
  const value loss = reduce_sum(read);
  gradients(loss, copy.inputs());
  EXPECT_EQ(line_of(copy.nodes().back()), line) << "a gradient names the line of its operation";
}

TEST(GraphBytes, CarryScopesPlacesAndFirstValues) {
  graph g;
  value y;
  {
    const name_scope outer(g, "tower"), inner(g, "layer/one");
    const place_scope here(g, device{device_kind::cpu, 5});
    y = dense(g.input("x", {2, 3}), 4, "out", activation::relu);
  }
  gradients(reduce_sum(y), g.variables());
  graph copy;
  const value read = read_graph(copy, written(g, y), {}).at("y");
  EXPECT_EQ(copy.of(read).scope, "tower/layer/one");
  EXPECT_EQ(std::get<device>(copy.of(read).place), (device{device_kind::cpu, 5}));
  const node& w = copy.of(copy.variables().at(0));
  EXPECT_EQ(w.name, "tower/layer/one/out/weights");
  const auto& first = std::get<variable_node>(w.what).first_values;
  const auto& was = std::get<variable_node>(g.of(g.variables().at(0)).what).first_values;
  EXPECT_EQ(first.distribution, was.distribution);
  EXPECT_EQ(std::bit_cast<int>(first.a), std::bit_cast<int>(was.a));
  ASSERT_EQ(copy.nodes().size(), g.nodes().size());
  for (std::size_t i = 0; i < g.nodes().size(); ++i) {
    ASSERT_EQ(copy.nodes()[i].place.index(), g.nodes()[i].place.index()) << i;
    if (const auto* b = std::get_if<beside>(&g.nodes()[i].place)) {
      EXPECT_EQ(std::get<beside>(copy.nodes()[i].place).node, b->node);
    }
  }
}

TEST(GraphBytes, PutOperationsOnOtherDevicesIfTheReaderSaysSo) {
  graph g;
  const place_scope here(g, device{device_kind::cpu, 0});
  const value y = relu(g.input("x", {2}));
  graph copy;
  const value read = read_graph(copy, written(g, y), {}, {}, [](device d) {
                       return device{d.kind, d.index + 3};
                     }).at("y");
  EXPECT_EQ(std::get<device>(copy.of(read).place).index, 3U);
}

TEST(GraphBytes, KeepEveryBitOfConstants) {
  graph g;
  tensor odd({3});
  odd.values()[0] = std::bit_cast<float>(0x7fc12345);
  odd.values()[1] = -0.0F;
  odd.values()[2] = std::numeric_limits<float>::denorm_min();
  tensor whole({2}, dtype::int32);
  whole.values<std::int32_t>()[0] = -1;
  const value a = g.constant(std::move(odd)), b = g.constant(std::move(whole)),
              c = g.constant(tensor({0, 4}));
  graph copy;
  const auto read = read_graph(
      copy, write_graph(g, std::array{named_value{"a", a}, named_value{"b", b}, named_value{"c", c}}), {});
  const auto bits = [](const value& v) {
    const auto words = std::get<constant_node>(v.owner().of(v).what).values->values<std::int32_t>();
    return std::vector<std::int32_t>(words.begin(), words.end());
  };
  EXPECT_EQ(bits(read.at("a")), bits(a));
  EXPECT_EQ(bits(read.at("b")), bits(b));
  EXPECT_EQ(read.at("b").type(), b.type());
  EXPECT_EQ(read.at("c").dims(), (shape{0, 4}));
}

TEST(GraphBytes, ReadIntoAGraphFollowItsScopesAndSources) {
  graph g;
  const value y = dense(g.input("x", {2, 3}), 4, "out");
  const auto there = written(g, y);
  graph into;
  const value x = into.constant(tensor({2, 3}));
  into.exchange_input_source([&](const std::string&, const value_type&, std::source_location) { return x; });
  const name_scope tower(into, "tower");
  const value first = read_graph(into, there, {}).at("y"), second = read_graph(into, there, {}).at("y");
  EXPECT_EQ(into.variables().size(), 2U) << "the second reading shares them";
  EXPECT_EQ(into.of(into.variables()[0]).name, "tower/out/weights");
  EXPECT_NE(first.node(), second.node());
  EXPECT_TRUE(into.inputs().empty());
  into.exchange_input_source(
      [&](const std::string&, const value_type&, std::source_location) { return first; });
  EXPECT_THAT([&] { read_graph(into, there, {}); },
              is_refused("node 0, 'x'", "is float32 2x4 here, and was float32 2x3"));
}

TEST(GraphBytes, RefuseOutputsOfAnotherGraph) {
  graph g, other;
  EXPECT_THAT([&] { written(g, other.input("x", {2})); },
              is_refused("output 'y' is a value of another graph"));
  EXPECT_THROW(written(g, value()), graph_error);
}

TEST(GraphBytes, RefuseNamesThatDoNotStandInOneLine) {
  graph g;
  const value x = g.input("two\nlines", {2});
  EXPECT_THAT([&] { written(g, x); }, is_refused("control characters"));
}

} // namespace
} // namespace mailgrad

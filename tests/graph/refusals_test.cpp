#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/graphviz.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/layer_stack.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/graph/placement/partition.hpp>
#include <mailgrad/graph/placement/pipeline.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/placement/replicate.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/graph/program/program_plan.hpp>
#include <mailgrad/graph/variable_union.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <array>
#include <optional>

namespace mailgrad {
namespace {

using testing::expect_refused;

constexpr const char* here = "refusals_test.cpp:";
constexpr std::size_t huge = std::size_t{1} << 40, endless = ~std::size_t{0};

/// Expects a call to be refused with a line of this file.
void expect_refused_here(const char* what, const std::function<void()>& call) {
  expect_refused(what, here, call);
}

std::array<value, 2> twice(const value& x) { return {x, x}; }
value first_of(const named_values& inputs) { return inputs.at("x"); }

TEST(Refusals, OfAValueThatNoGraphMadeNameTheLine) {
  const auto refused = [](const char* what, void (*use)(const value&)) {
    expect_refused_here(what, [use] { use(value()); });
  };
  refused("add", [](const value& x) { x + x; });
  refused("add a number", [](const value& x) { x + 1; });
  refused("subtract", [](const value& x) { x - x; });
  refused("multiply by a number", [](const value& x) { 2 * x; });
  refused("divide", [](const value& x) { x / x; });
  refused("negate", [](const value& x) { -x; });
  refused("add_bias", [](const value& x) { add_bias(x, x); });
  refused("bias_relu", [](const value& x) { bias_relu(x, x); });
  refused("bias_gelu", [](const value& x) { bias_gelu(x, x); });
  refused("relu", [](const value& x) { relu(x); });
  refused("gelu", [](const value& x) { gelu(x); });
  refused("tanh", [](const value& x) { tanh(x); });
  refused("sigmoid", [](const value& x) { sigmoid(x); });
  refused("exp", [](const value& x) { exp(x); });
  refused("log", [](const value& x) { log(x); });
  refused("square", [](const value& x) { square(x); });
  refused("sqrt", [](const value& x) { sqrt(x); });
  refused("activate", [](const value& x) { activate(x, activation::relu); });
  refused("causal_attention", [](const value& x) { causal_attention(x, 1); });
  refused("conv2d", [](const value& x) { conv2d(x, x); });
  refused("cross_entropy", [](const value& x) { cross_entropy(x, x); });
  refused("dropout", [](const value& x) { dropout(x, 0.5F, 1); });
  refused("gather", [](const value& x) { gather(x, x); });
  refused("scatter_rows", [](const value& x) { scatter_rows(x, x, {2, 2}); });
  refused("gather_tables", [](const value& x) { gather_tables(std::array{x}, x); });
  refused("layer_norm", [](const value& x) { layer_norm(x, x, x); });
  refused("matmul", [](const value& x) { matmul(x, x); });
  refused("reshape", [](const value& x) { reshape(x, {1}); });
  refused("squeeze", [](const value& x) { squeeze(x, 0); });
  refused("transpose", [](const value& x) { transpose(x); });
  refused("transpose axes", [](const value& x) { transpose(x, {0}); });
  refused("pairwise_dots", [](const value& x) { pairwise_dots(x); });
  refused("max_pool", [](const value& x) { max_pool(x); });
  refused("average_pool", [](const value& x) { average_pool(x); });
  refused("reduce_sum", [](const value& x) { reduce_sum(x); });
  refused("reduce_mean", [](const value& x) { reduce_mean(x, {0}); });
  refused("broadcast_to", [](const value& x) { broadcast_to(x, {2}); });
  refused("sum_to", [](const value& x) { sum_to(x, {2}); });
  refused("mean_squared_error", [](const value& x) { mean_squared_error(x, x); });
  refused("slice", [](const value& x) { slice(x, 0, 0, 1); });
  refused("split", [](const value& x) { split(x, 0, {1}); });
  refused("concat", [](const value& x) { concat(twice(x), 0); });
  refused("stack", [](const value& x) { stack(twice(x), 0); });
  refused("softmax", [](const value& x) { softmax(x); });
  refused("sparse_matmul", [](const value& x) { sparse_matmul(x, x, x, x); });
  refused("dense", [](const value& x) { dense(x, 2, "d"); });
  refused("sparse_dense", [](const value& x) { sparse_dense(x, x, x, 2, 2, "s"); });
  refused("conv", [](const value& x) { conv(x, 2, "c"); });
  refused("embedding", [](const value& x) { embedding(x, 2, 2, "e"); });
  refused("layer layer_norm", [](const value& x) { layer_norm(x, "n"); });
  refused("flatten", [](const value& x) { flatten(x); });
  refused("gradients", [](const value& x) { gradients(x, std::array{x}); });
  refused("replicate", [](const value& x) { replicate(first_of, std::array{device{}}, {{"x", x}}); });
}

TEST(Refusals, OfValuesOfTwoGraphsNameTheLine) {
  graph g, other;
  const value a = g.input("a", {2, 2}), b = other.input("b", {2, 2}), nothing;
  const std::array both{a, b}, one_of_none{a, nothing};
  expect_refused_here("add", [&] { a + b; });
  expect_refused_here("add nothing", [&] { a + nothing; });
  expect_refused_here("matmul", [&] { matmul(a, b); });
  expect_refused_here("matmul nothing", [&] { matmul(a, nothing); });
  expect_refused_here("concat", [&] { concat(both, 0); });
  expect_refused_here("concat nothing", [&] { concat(one_of_none, 0); });
  expect_refused_here("gather_tables nothing", [&] { gather_tables(std::array{nothing}, a); });
  expect_refused_here("gradients", [&] { gradients(reduce_sum(a), std::array{b}); });
  expect_refused_here("gradients of a matrix", [&] { gradients(a, std::array{a}); });
}

/// A graph in which a handle of another one, or of a node that is not there, would be read.
TEST(Refusals, OfHandlesThatPointNowhere) {
  graph g, other;
  const value a = g.input("a", {2});
  for (int i = 0; i < 3; ++i) other.constant(1.0F);
  const value nowhere(g, 99, 0), no_output(g, 0, 7), foreign(other, 2, 0);
  for (const value& bad : {nowhere, no_output, foreign, value()}) {
    const std::vector<value> one{bad};
    expect_refused("type", "value", [&] { g.of(bad); });
    expect_refused("program", "compile", [&] { program(g, one); });
    expect_refused("given", "compile", [&] { program(g, std::array{a}, one); });
    expect_refused("needed", "value", [&] { needed_for(g, one); });
    const std::array wanted{wanted_value{bad}};
    expect_refused("partition", "value", [&] { cut_into_segments(g, placement(g, {}), wanted); });
    expect_refused("stages", "value", [&] { stages_of(g, bad, 1); });
    expect_refused("graphviz", "value", [&] { graphviz(g, {{}, nullptr, one}); });
    program p(g, std::array{a});
    if (!bad.is_of(g)) expect_refused("bind", "another graph", [&] { p.bind(bad, nullptr); });
    EXPECT_FALSE(p.needs(bad));
  }
  using stages = std::vector<std::optional<std::uint32_t>>;
  const std::array devices{device{}};
  expect_refused("place a node", "no node 99", [&] { g.place_node(99, {}); });
  expect_refused("place of a node", "no node 99", [&] { static_cast<void>(placement(g, {}).of(99)); });
  expect_refused("stages of other nodes", "9 nodes", [&] { place_in_stages(g, stages(9), devices); });
  expect_refused("more stages than devices", "stage 3", [&] { place_in_stages(g, stages(1, 3), devices); });
  expect_refused("fused runs", "0 nodes", [&] { find_fused_runs(g, {}, {}); });
}

TEST(Refusals, OfExtentsThatHoldNothingOrTooMuch) {
  graph g;
  const value x = g.input("x", {4, 3}), tokens = g.input("tokens", {4}, dtype::int32);
  const value image = g.input("image", {1, 4, 4, 1});
  const value tall = g.input("tall", {huge, 1}), wide = g.input("wide", {1, huge});
  expect_refused_here("dense of no units", [&] { dense(x, 0, "none"); });
  expect_refused_here("conv of no filters", [&] { conv(image, 0, "none"); });
  expect_refused_here("conv of no window", [&] { conv(image, 1, "none", {.window = {0, 3}}); });
  expect_refused_here("conv of no stride", [&] { conv(image, 1, "strideless", {.stride = {0, 0}}); });
  expect_refused_here("conv of too long a stride", [&] {
    conv(image, 1, "c", {.stride = {endless, endless}});
  });
  const pooling_options beyond{.window = {endless, 1}, .stride = {1, 1}, .pad = padding::same()};
  expect_refused_here("pool of a window beyond counting", [&] { max_pool(image, beyond); });
  expect_refused_here("embedding of no rows", [&] { embedding(tokens, 0, 4, "none"); });
  expect_refused_here("embedding of no width", [&] { embedding(tokens, 4, 0, "none"); });
  expect_refused_here("variable", [&] { g.variable("none", {3, 0}, {}); });
  expect_refused_here("sum too large to be counted", [&] { tall + wide; });
  expect_refused_here("product too large to be counted", [&] { matmul(tall, wide); });
  expect_refused("shape", "more elements than memory can hold", [] { shape{huge, huge}; });
  tensor moved({3});
  const tensor taken = std::move(moved);
  const value gone = g.constant(std::move(moved)); // NOLINT(bugprone-use-after-move): shape 0, by contract
  expect_refused_here("a constant that was moved away", [&] { gone + x; });
  expect_refused_here("concat of nothing", [] { concat(std::vector<value>{}, 0); });
  expect_refused_here("stack of nothing", [] { stack(std::vector<value>{}, 0); });
  expect_refused_here("gather_tables of no tables", [&] { gather_tables({}, tokens); });
  const value c = g.input("c", {2}, dtype::int32), v = g.input("v", {2}), o = g.input("o", {3}, dtype::int32);
  expect_refused_here("sparse_dense of no features", [&] { sparse_dense(c, v, o, 0, 2, "none"); });
  const std::array devices{device{}};
  expect_refused_here("replicate without devices", [&] { replicate(first_of, {}, {{"x", x}}); });
  expect_refused_here("replicate without a function", [&] { replicate({}, devices, {{"x", x}}); });
  expect_refused_here("replicate of nothing",
                      [&] { replicate([&](const named_values&) { return x; }, devices, {}); });
}

/// An operation that somebody else wrote, with one thing wrong.
class custom_operation : public test::idle_operation {
public:
  std::vector<value_type> makes{{{2}, dtype::float32}};
  std::vector<shape> gradients_of{{2}};
  bool view = false;

  std::string_view name() const noexcept override { return "own"; }
  std::vector<value_type> infer(std::span<const value_type>) const override { return makes; }
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value>,
                                std::span<const std::optional<value>>) const override {
    std::vector<adjoint> parts;
    for (const shape& dims : gradients_of) parts.emplace_back(inputs[0].owner().constant(tensor(dims)));
    return parts;
  }
  bool is_view() const noexcept override { return view; }
};

TEST(Refusals, OfOperationsThatDoNotKeepTheirPromises) {
  graph g;
  const value x = g.variable("x", {2}, {});
  const auto with = [&](const operation_node& op, std::vector<value> operands) {
    return g.apply_one(op, std::move(operands), std::source_location::current());
  };
  const auto own = [&](auto change) {
    const auto op = std::make_shared<custom_operation>();
    change(*op);
    return with(op, {x});
  };
  const auto large_view = [](custom_operation& o) {
    o.view = true;
    o.makes = {{{9}, dtype::float32}};
  };
  const auto gradient_of = [&](const value& y) { gradients(reduce_sum(y), std::array{x}); };
  const auto compiled = [&](const value& y) { program(g, std::array{y}); };
  const auto sum = made(elementwise_kind{"f", elementwise_function::add});
  expect_refused_here("none", [&] { with(nullptr, {x}); });
  expect_refused_here("no result", [&] { own([](auto& o) { o.makes.clear(); }); });
  expect_refused_here("too few gradients",
                      [&] { gradient_of(own([](auto& o) { o.gradients_of.clear(); })); });
  expect_refused_here("too many gradients",
                      [&] { gradient_of(own([](auto& o) { o.gradients_of.push_back({2}); })); });
  expect_refused_here("gradient of another shape",
                      [&] { gradient_of(own([](auto& o) { o.gradients_of = {{3}}; })); });
  expect_refused_here("nothing to run", [&] { compiled(own([](auto&) {})); });
  expect_refused_here("view of another size", [&] { compiled(own(large_view)); });
  expect_refused_here("elementwise of no operand", [&] { with(sum, {}); });
  expect_refused_here("elementwise of three operands", [&] { with(sum, {x, x, x}); });
}

TEST(Refusals, OfProgramsBoundToNothing) {
  graph g;
  const value x = g.input("x", {2});
  program p(g, std::array{x + 1});
  std::array<float, 2> memory{};
  const auto run = [&] { p.run(host_stream{}, 0, [] {}); };
  expect_refused("nothing bound", "nothing is bound to 'x'", run);
  p.bind(x, nullptr);
  expect_refused("bound to null", "nothing is bound to 'x'", run);
  expect_refused("no such fetch", "no fetch 1", [&] { p.bind_fetch(1, memory.data()); });
  expect_refused("no such result", "no fetch 1", [&] { static_cast<void>(p.fetched(1)); });
  expect_refused("fetch into null", "no memory", [&] { p.bind_fetch(0, nullptr); });
  p.bind(x, memory.data());
  p.bind(g.input("later", {2}), memory.data()); // was not there when the program was compiled
  p.run(host_stream{}, 0, {});
}

TEST(Refusals, InARunNameTheLineOfTheOperation) {
  graph g;
  const value table = g.constant(tensor({2, 3})), logits = g.constant(tensor({1, 3}));
  const value rows = g.input("rows", {1}, dtype::int32);
  const std::string gathered = here + std::to_string(__LINE__ + 1);
  const value y = gather(table, rows);
  const std::string judged = here + std::to_string(__LINE__ + 1);
  const value loss = cross_entropy(logits, rows);
  for (const std::int32_t row : {-1, 3, 2147483647}) {
    const auto run = [&](const value& v) {
      program p(g, std::array{v});
      p.bind(rows, &row);
      p.run(host_stream{}, 0, [] {});
    };
    const std::string number = std::to_string(row);
    expect_refused("gather", gathered + ": gather: row " + number, [&] { run(y); });
    expect_refused("cross_entropy",
                   judged + ": cross_entropy: label " + number + ", but the logits have 3 classes",
                   [&] { run(loss); });
  }
}

TEST(Refusals, OfLayoutsThatDoNotFit) {
  graph g;
  g.variable("w", {4, 4}, {});
  const parameter_layout layout(g, {false}, 1);
  std::vector<float> memory(layout.size());
  const std::vector<placed_variable> none, scalar_table{{"s", {}, {}, 0, true}};
  variable_union all;
  expect_refused("no shards", "0 shards", [&] { parameter_layout(g, {false}, 0); });
  expect_refused("too many shards", "99 shards", [&] { parameter_layout(g, {false}, 99); });
  expect_refused("no words on gradients", "0 words", [&] { parameter_layout(g, {}, 1); });
  expect_refused("no variables", "no variables", [&] { parameter_layout(none, 1); });
  expect_refused("a scalar in rows", "is a scalar", [&] { parameter_layout(scalar_table, 1); });
  expect_refused("initialise no shard", "shard 1 of 1", [&] { layout.initialise_shard(1, 0, memory); });
  const auto little = std::span(memory).first(3);
  expect_refused("room for 3", [&] { layout.initialise_shard(0, 0, little); });
  expect_refused("no such shard", "shard 1 of 1", [&] { static_cast<void>(layout.shard(1)); });
  expect_refused("no such variable", "variable 1 of 1", [&] { static_cast<void>(layout.pieces(1)); });
  expect_refused("union without gradients", "0 gradients", [&] { all.add(g, {}, 0); });
}

const model_request small_request{.sample_dims = {4}, .classes = 3, .batch = 2};

/// Logits of `width` and their loss.
model_outputs answers(graph& g, const model_request& r, std::size_t width) {
  const value y = dense(g.input("features", {r.batch, 4}), width, "d");
  return {y, cross_entropy(y, g.input("labels", {r.batch}, dtype::int32))};
}

TEST(Refusals, OfModelsThatDoNotAnswer) {
  const auto built = [](const model_function& model) {
    return [model] {
      graph g;
      build_model(model, g, small_request);
    };
  };
  /// A model whose right answers are changed.
  const auto changed = [](auto change) {
    return [change](graph& g, const model_request& r) {
      model_outputs y = answers(g, r, 3);
      change(y, g);
      return y;
    };
  };
  const auto no_loss = changed([](auto& y, graph&) { y.loss = {}; });
  const auto no_logits = changed([](auto& y, graph&) { y.logits = {}; });
  const auto not_scalar = changed([](auto& y, graph&) { y.loss = y.logits; });
  const auto integer_loss =
      changed([](auto& y, graph& g) { y.loss = reshape(g.input("one", {1}, dtype::int32), {}); });
  graph other;
  const value elsewhere = other.constant(1.0F);
  const auto foreign_loss = changed([&](auto& y, graph&) { y.loss = elsewhere; });
  const auto five = [](graph& g, const model_request& r) { return answers(g, r, 5); };
  expect_refused("no function", "no function", built({}));
  expect_refused("no loss", "no loss", built(no_loss));
  expect_refused("no logits", "no logits", built(no_logits));
  expect_refused("five logits", "3 classes in a batch of 2 need logits of float32 2x3, not float32 2x5",
                 built(five));
  expect_refused_here("five logits", built(five));
  expect_refused_here("a loss that is no scalar", built(not_scalar));
  expect_refused_here("a loss of integers", built(integer_loss));
  expect_refused("a loss of another graph", "no loss of its graph", built(foreign_loss));
  expect_refused("replicated nothing", "no function", built(replicated({})));
  expect_refused("pipelined nothing", "no function", built(pipelined({})));
  for (const auto& span : {replicated, pipelined}) {
    graph g;
    model_request r = small_request;
    expect_refused("spanning no loss", "no loss", [&] { span(no_loss)(g, r); });
    r.devices.clear();
    expect_refused("spanning no devices", "no device", [&] { span(five)(g, r); });
  }
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/graphviz.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/layer_stack.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/graph/placement/partition.hpp>
#include <mailgrad/graph/placement/pipeline.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/placement/replicate.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/graph/program/program_plan.hpp>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::expect_refused;

constexpr const char* here = "refusals_test.cpp:";
constexpr std::size_t huge = std::size_t{1} << 40;

/// What adds something of `x` to a graph.
struct entry {
  std::string name;
  std::function<void(const value& x)> use;
};

std::vector<entry> entries() {
  return {
      {"add", [](const value& x) { x + x; }},
      {"add a number", [](const value& x) { x + 1; }},
      {"subtract", [](const value& x) { x - x; }},
      {"multiply by a number", [](const value& x) { 2 * x; }},
      {"divide", [](const value& x) { x / x; }},
      {"negate", [](const value& x) { -x; }},
      {"add_bias", [](const value& x) { add_bias(x, x); }},
      {"bias_relu", [](const value& x) { bias_relu(x, x); }},
      {"bias_gelu", [](const value& x) { bias_gelu(x, x); }},
      {"relu", [](const value& x) { relu(x); }},
      {"gelu", [](const value& x) { gelu(x); }},
      {"tanh", [](const value& x) { tanh(x); }},
      {"sigmoid", [](const value& x) { sigmoid(x); }},
      {"exp", [](const value& x) { exp(x); }},
      {"log", [](const value& x) { log(x); }},
      {"square", [](const value& x) { square(x); }},
      {"sqrt", [](const value& x) { sqrt(x); }},
      {"activate", [](const value& x) { activate(x, activation::relu); }},
      {"causal_attention", [](const value& x) { causal_attention(x, 1); }},
      {"conv2d", [](const value& x) { conv2d(x, x); }},
      {"cross_entropy", [](const value& x) { cross_entropy(x, x); }},
      {"dropout", [](const value& x) { dropout(x, 0.5F, 1); }},
      {"gather", [](const value& x) { gather(x, x); }},
      {"scatter_rows",
       [](const value& x) {
         scatter_rows(x, x, {2, 2});
       }},
      {"gather_tables", [](const value& x) { gather_tables(std::array{x}, x); }},
      {"layer_norm", [](const value& x) { layer_norm(x, x, x); }},
      {"matmul", [](const value& x) { matmul(x, x); }},
      {"reshape", [](const value& x) { reshape(x, {1}); }},
      {"squeeze", [](const value& x) { squeeze(x, 0); }},
      {"transpose", [](const value& x) { transpose(x); }},
      {"transpose axes", [](const value& x) { transpose(x, {0}); }},
      {"pairwise_dots", [](const value& x) { pairwise_dots(x); }},
      {"max_pool", [](const value& x) { max_pool(x); }},
      {"average_pool", [](const value& x) { average_pool(x); }},
      {"reduce_sum", [](const value& x) { reduce_sum(x); }},
      {"reduce_mean", [](const value& x) { reduce_mean(x, {0}); }},
      {"broadcast_to", [](const value& x) { broadcast_to(x, {2}); }},
      {"sum_to", [](const value& x) { sum_to(x, {2}); }},
      {"mean_squared_error", [](const value& x) { mean_squared_error(x, x); }},
      {"slice", [](const value& x) { slice(x, 0, 0, 1); }},
      {"split", [](const value& x) { split(x, 0, {1}); }},
      {"concat",
       [](const value& x) {
         concat(std::array{x, x}, 0);
       }},
      {"stack",
       [](const value& x) {
         stack(std::array{x, x}, 0);
       }},
      {"softmax", [](const value& x) { softmax(x); }},
      {"sparse_matmul", [](const value& x) { sparse_matmul(x, x, x, x); }},
      {"dense", [](const value& x) { dense(x, 2, "d"); }},
      {"sparse_dense", [](const value& x) { sparse_dense(x, x, x, 2, 2, "s"); }},
      {"conv", [](const value& x) { conv(x, 2, "c"); }},
      {"embedding", [](const value& x) { embedding(x, 2, 2, "e"); }},
      {"layer layer_norm", [](const value& x) { layer_norm(x, "n"); }},
      {"flatten", [](const value& x) { flatten(x); }},
      {"gradients", [](const value& x) { gradients(x, std::array{x}); }},
      {"replicate",
       [](const value& x) {
         replicate([](const named_values& v) { return v.at("x"); }, std::array{device{}}, {{"x", x}});
       }},
  };
}

TEST(Refusals, OfAValueThatNoGraphMadeNameTheLine) {
  for (const entry& e : entries()) expect_refused({e.name, [&] { e.use(value()); }, here});
}

TEST(Refusals, OfValuesOfTwoGraphsNameTheLine) {
  graph g;
  graph other;
  const value a = g.input("a", {2, 2});
  const value b = other.input("b", {2, 2});
  const value nothing;
  expect_refused({
      {"add", [&] { a + b; }, here},
      {"add nothing", [&] { a + nothing; }, here},
      {"matmul", [&] { matmul(a, b); }, here},
      {"matmul nothing", [&] { matmul(a, nothing); }, here},
      {"concat",
       [&] {
         concat(std::array{a, b}, 0);
       },
       here},
      {"concat nothing",
       [&] {
         concat(std::array{a, nothing}, 0);
       },
       here},
      {"gather_tables nothing", [&] { gather_tables(std::array{nothing}, a); }, here},
      {"gradients", [&] { gradients(reduce_sum(a), std::array{b}); }, here},
      {"gradients of a matrix", [&] { gradients(a, std::array{a}); }, here},
  });
}

/// A graph in which a handle of another one, or of a node that is not there, would be read.
TEST(Refusals, OfHandlesThatPointNowhere) {
  graph g;
  graph other;
  const value a = g.input("a", {2});
  for (int i = 0; i < 3; ++i) other.constant(1.0F);
  const value nowhere(g, 99, 0);
  const value no_output(g, 0, 7);
  const value foreign(other, 2, 0);
  for (const value& bad : {nowhere, no_output, foreign, value()}) {
    const std::vector<value> one{bad};
    expect_refused({
        {"type", [&] { g.of(bad); }, "value"},
        {"program", [&] { program(g, one); }, "compile"},
        {"given", [&] { program(g, std::array{a}, one); }, "compile"},
        {"needed", [&] { needed_for(g, one); }, "value"},
        {"partition", [&] { cut_into_segments(g, placement(g, {}), std::array{wanted_value{bad}}); },
         "value"},
        {"stages", [&] { stages_of(g, bad, 1); }, "value"},
        {"graphviz",
         [&] {
           graphviz(g, {{}, nullptr, one});
         },
         "value"},
    });
    program p(g, std::array{a});
    if (!bad.is_of(g)) expect_refused({"bind", [&] { p.bind(bad, nullptr); }, "another graph"});
    EXPECT_FALSE(p.needs(bad));
  }
  expect_refused({
      {"place a node", [&] { g.place_node(99, {}); }, "no node 99"},
      {"place of a node", [&] { static_cast<void>(placement(g, {}).of(99)); }, "no node 99"},
      {"stages of other nodes",
       [&] { place_in_stages(g, std::vector<std::optional<std::uint32_t>>(9), std::array{device{}}); },
       "9 nodes"},
      {"more stages than devices",
       [&] { place_in_stages(g, std::vector<std::optional<std::uint32_t>>(1, 3), std::array{device{}}); },
       "stage 3"},
      {"fused runs", [&] { find_fused_runs(g, {}, {}); }, "0 nodes"},
  });
}

TEST(Refusals, OfExtentsThatHoldNothingOrTooMuch) {
  graph g;
  const value x = g.input("x", {4, 3});
  const value tokens = g.input("tokens", {4}, dtype::int32);
  const value image = g.input("image", {1, 4, 4, 1});
  const value tall = g.input("tall", {huge, 1});
  const value wide = g.input("wide", {1, huge});
  expect_refused({
      {"dense of no units", [&] { dense(x, 0, "none"); }, here},
      {"conv of no filters", [&] { conv(image, 0, "none"); }, here},
      {"conv of no window",
       [&] {
         conv(image, 1, "none", {.window = {0, 3}});
       },
       here},
      {"conv of no stride",
       [&] {
         conv(image, 1, "strideless", {.stride = {0, 0}});
       },
       here},
      {"conv of a stride beyond counting",
       [&] {
         conv(image, 1, "leaping", {.stride = {~std::size_t{0}, ~std::size_t{0}}});
       },
       here},
      {"pool of a window beyond counting",
       [&] {
         max_pool(image, {.window = {~std::size_t{0}, 1}, .stride = {1, 1}, .pad = padding::same()});
       },
       here},
      {"embedding of no rows", [&] { embedding(tokens, 0, 4, "none"); }, here},
      {"embedding of no width", [&] { embedding(tokens, 4, 0, "none"); }, here},
      {"variable",
       [&] {
         g.variable("none", {3, 0}, {});
       },
       here},
      {"sum too large to be counted", [&] { tall + wide; }, here},
      {"product too large to be counted", [&] { matmul(tall, wide); }, here},
      {"shape",
       [&] {
         shape{huge, huge};
       },
       "more elements than memory can hold"},
      {"a constant that was moved away",
       [&] {
         tensor t({3});
         const tensor taken = std::move(t);
         const value c = g.constant(std::move(t)); // NOLINT(bugprone-use-after-move): shape 0, by contract
         c + x;
       },
       here},
      {"concat of nothing", [&] { concat(std::vector<value>{}, 0); }, here},
      {"stack of nothing", [&] { stack(std::vector<value>{}, 0); }, here},
      {"gather_tables of no tables", [&] { gather_tables({}, tokens); }, here},
      {"sparse_dense of no features",
       [&] {
         sparse_dense(g.input("c", {2}, dtype::int32), g.input("v", {2}), g.input("o", {3}, dtype::int32), 0,
                      2, "none");
       },
       here},
      {"replicate without devices",
       [&] {
         replicate([](const named_values& v) { return v.at("x"); }, {}, {{"x", x}});
       },
       here},
      {"replicate without a function",
       [&] {
         replicate({}, std::array{device{}}, {{"x", x}});
       },
       here},
      {"replicate of nothing",
       [&] { replicate([&](const named_values&) { return x; }, std::array{device{}}, {}); }, here},
  });
}

} // namespace
} // namespace mailgrad

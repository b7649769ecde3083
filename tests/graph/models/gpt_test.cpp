#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/models/gpt.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>
#include <mailgrad/tests/support/refusal.hpp>

namespace mailgrad {
namespace {

using test::expect_gradients, test::feed, test::feeds, test::is_refused, test::random_tensor, test::run_once,
    test::tensor_of;
using testing::AllOf, testing::Contains, testing::HasSubstr, testing::IsSupersetOf, testing::Key,
    testing::Not, testing::Pair, testing::ThrowsMessage, testing::throws;

constexpr std::size_t window = 6, symbols = 5;
const model_request text{
    .sample_dims = {window}, .features = feature_kind::tokens, .classes = symbols, .batch = 2};

gpt_options options_of(std::string_view choice) {
  settings s("model", choice);
  return read_gpt_options(s);
}

/// Tokens 0, 1, 2, ... in turns, and the same one later as labels.
feeds some_text(graph& g, const model_request& r = text) {
  feeds fed;
  for (const value& v : g.inputs()) {
    std::vector<std::int32_t> tokens(v.dims().size());
    const std::int32_t first = g.of(v).name == "labels" ? 1 : 0;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = (static_cast<std::int32_t>(i) + first) % static_cast<std::int32_t>(r.classes);
    fed.emplace_back(v, tensor_of(v.dims(), tokens));
  }
  return fed;
}

/// First values so large that every part of the model shows in the result.
feeds with_large_weights(graph& g) {
  feeds fed = some_text(g);
  std::uint64_t seed = 0;
  for (const value& v : g.variables()) fed.emplace_back(v, random_tensor(v.dims(), ++seed, -0.7F, 0.7F));
  return fed;
}

std::map<std::string, shape> variables_of(const gpt_options& o) {
  graph g;
  build_gpt(g, o, text);
  std::map<std::string, shape> found;
  for (const value& v : g.variables()) found.emplace(g.of(v).name, v.dims());
  return found;
}

using Gpt = test::operation_test;

TEST_F(Gpt, HasTheVariablesOfGpt2) {
  const auto found = variables_of({.layers = 2, .width = 12, .heads = 3});
  EXPECT_THAT(
      found,
      IsSupersetOf(
          {Pair("tokens/table", shape{symbols, 12}), Pair("positions/table", shape{window, 12}),
           Pair("block1/norm1/gamma", shape{12}), Pair("block1/attention/qkv/weights", shape{12, 36}),
           Pair("block1/attention/projection/weights", shape{12, 12}), Pair("block2/norm2/beta", shape{12}),
           Pair("block2/mlp/up/weights", shape{12, 48}), Pair("block2/mlp/down/weights", shape{48, 12}),
           Pair("block2/mlp/down/bias", shape{12}), Pair("norm/gamma", shape{12})}));
  EXPECT_THAT(found, Not(Contains(Key("logits/weights"))));
  EXPECT_EQ(found.size(), 2U + 2 * 12 + 2);
  EXPECT_THAT(variables_of({.width = 12, .heads = 3, .tied = false}),
              Contains(Pair("logits/weights", shape{12, symbols})));
}

TEST_F(Gpt, BeginsKnowingNothing) {
  const model_outputs outputs = build_gpt(g, {}, text);
  EXPECT_EQ(outputs.logits.dims(), (shape{2, window, symbols}));
  EXPECT_NEAR(run_once(outputs.loss, some_text(g))[0], std::log(static_cast<float>(symbols)), 0.3F);
}

TEST_F(Gpt, HasAGradientForEachVariable) {
  for (const bool tied : {true, false}) {
    graph fresh;
    const model_outputs outputs = build_gpt(fresh, {.layers = 2, .width = 4, .heads = 2, .tied = tied}, text);
    expect_gradients(outputs.logits, fresh.variables(), with_large_weights(fresh));
  }
}

TEST_F(Gpt, GivesEveryGradientWhole) {
  const model_outputs outputs = build_gpt(g, {.layers = 1, .width = 4, .heads = 2, .tied = false}, text);
  for (const adjoint& a : gradients(outputs.loss, g.variables())) {
    EXPECT_TRUE(a.dense);
    EXPECT_TRUE(a.sparse.empty());
  }
}

TEST_F(Gpt, DoesNotReadWhatComesLater) {
  const model_outputs outputs = build_gpt(g, {.width = 8, .heads = 2}, text);
  feeds fed = with_large_weights(g);
  const auto before = run_once(outputs.logits, fed);
  const auto features =
      std::ranges::find_if(fed, [&](const feed& f) { return g.of(f.source).name == "features"; });
  tensor other = test::copy_of(*features->values);
  other.values<std::int32_t>()[3] = 4; // was 3
  *features = feed(features->source, std::move(other));
  const auto after = run_once(outputs.logits, fed);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 3 * symbols, after.begin()));
  EXPECT_NE(before[3 * symbols], after[3 * symbols]);
  EXPECT_NE(before[5 * symbols], after[5 * symbols]);
}

TEST_F(Gpt, DropsWhileTrainingOnly) {
  const auto logits = [](phase purpose, std::uint64_t step) {
    graph fresh;
    model_request request = text;
    request.purpose = purpose;
    const model_outputs outputs = build_gpt(fresh, {.width = 8, .heads = 2, .dropout = 0.5F}, request);
    return run_once(outputs.logits, with_large_weights(fresh), step);
  };
  EXPECT_NE(logits(phase::training, 1), logits(phase::training, 2));
  EXPECT_EQ(logits(phase::evaluation, 1), logits(phase::evaluation, 2));
}

TEST_F(Gpt, ReadsItsSettings) {
  const gpt_options o = options_of("gpt:layers=3,width=48,heads=6,dropout=0.1,tied=no");
  EXPECT_EQ(o.layers, 3U);
  EXPECT_EQ(o.width, 48U);
  EXPECT_EQ(o.heads, 6U);
  EXPECT_EQ(o.dropout, 0.1F);
  EXPECT_FALSE(o.tied);
}

TEST_F(Gpt, RefusesAWidthThatHeadsDoNotDivide) {
  EXPECT_THAT([] { find_model("gpt:width=100,heads=3"); },
              ThrowsMessage<std::invalid_argument>(AllOf(
                  HasSubstr("model 'gpt:width=100,heads=3': a width of 100 cannot be shared by 3 heads"),
                  Not(HasSubstr("\n")))));
  EXPECT_THAT([] { find_model("gpt:head=3"); }, throws<std::invalid_argument>("did you mean 'heads'?"));
}

TEST_F(Gpt, WantsTokens) {
  EXPECT_THAT(
      [&] {
        build_gpt(g, {}, {.sample_dims = {28, 28, 1}});
      },
      is_refused("gpt reads windows of tokens"));
}

} // namespace
} // namespace mailgrad

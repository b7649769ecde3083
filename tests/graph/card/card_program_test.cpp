#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/operations/arithmetic.hpp>
#include <mailgrad/graph/operations/attention.hpp>
#include <mailgrad/graph/operations/matmul.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/graph/program/program_plan.hpp>
#include <mailgrad/tests/support/card_array.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>
#include <mailgrad/tests/support/needs_card.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>

// Whole models on the card, beside the same programs on the host. The simulated card runs the very kernels.

namespace mailgrad {
namespace {

using testing::card_array;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A model of a batch with the gradients of all its variables, and values for what it reads.
class trained_model {
public:
  trained_model(const char* name, model_request request) : request_(std::move(request)) {
    const model_outputs made = build_model(find_model(name), graph_, request_);
    fetches_ = {made.loss, made.logits};
    for (const adjoint& a : gradients(made.loss, graph_.variables())) {
      if (a.dense) fetches_.push_back(*a.dense);
      for (const sparse_rows& rows : a.sparse) {
        fetches_.push_back(rows.rows); // whole numbers, which are compared as if they were none
        fetches_.push_back(rows.values);
      }
    }
    for (const value& v : graph_.variables()) draw_variable(v);
    for (const value& v : graph_.inputs()) draw_input(v);
  }

  void set_labels(std::int32_t label) {
    for (auto& [source, values] : fed_)
      if (source.type().type == dtype::int32)
        std::fill_n(reinterpret_cast<std::int32_t*>(values.data()), values.size(), label);
  }

  std::vector<std::vector<float>> on_host(std::uint64_t step) {
    program p(graph_, fetches_);
    for (const auto& [source, values] : fed_) p.bind(source, values.data());
    p.run(host_stream{}, step, {});
    std::vector<std::vector<float>> results;
    for (std::size_t i = 0; i < fetches_.size(); ++i) {
      const auto* first = static_cast<const float*>(p.fetched(i));
      results.emplace_back(first, first + fetches_[i].dims().size());
    }
    return results;
  }

  std::vector<std::vector<float>> on_card(cuda::card_lane& lane, std::uint64_t step) {
    program_on_card p(*this, lane);
    p.code.run(lane.where(), step, {});
    return p.read();
  }

  /// A program of this model with its memory on a card.
  struct program_on_card {
    program_on_card(const trained_model& model, cuda::card_lane& on)
        : lane(on), code(model.graph_, model.fetches_, {}, on) {
      for (const auto& [source, values] : model.fed_) {
        const auto* first = reinterpret_cast<const float*>(values.data());
        sources.emplace_back(lane, std::vector<float>(first, first + values.size()));
        code.bind(source, sources.back().data());
      }
      for (std::size_t i = 0; i < model.fetches_.size(); ++i) {
        results.emplace_back(lane, model.fetches_[i].dims().size());
        code.bind_fetch(i, results.back().data());
      }
    }
    std::vector<std::vector<float>> read() {
      if (const auto fault = lane.take_fault()) code.raise(*fault);
      std::vector<std::vector<float>> values;
      for (const auto& r : results) values.push_back(r.read());
      return values;
    }

    cuda::card_lane& lane;
    program code;
    std::vector<card_array<float>> sources, results;
  };

  /// The arena of the values alone, without scratch memory.
  std::size_t value_bytes() const { return plan_program(graph_, fetches_, {}).arena_bytes; }
  std::size_t kernels_on_host() const { return program(graph_, fetches_).kernel_count(); }

private:
  void draw_variable(const value& v) {
    const node& n = graph_.of(v);
    tensor values(n.outputs[0].dims);
    initialise(std::get<variable_node>(n.what).first_values, 1, n.name, values.values());
    for (float& w : values.values()) w += .01F; // biases begin at 0, which would hide theirs
    fed_.emplace_back(v, std::move(values));
  }
  void draw_input(const value& v) {
    if (v.type().type == dtype::float32) {
      fed_.emplace_back(v, test::random_tensor(v.dims(), 5));
      return;
    }
    tensor drawn(v.dims(), dtype::int32);
    std::minstd_rand random(3);
    auto* const first = reinterpret_cast<std::int32_t*>(drawn.data());
    std::size_t at = 0;
    const std::vector<std::size_t>& rows = request_.categories;
    std::generate_n(first, drawn.size(), [&] {
      const bool of_table = graph_.of(v).name == "categories";
      return static_cast<std::int32_t>(random() % (of_table ? rows[at++ % rows.size()] : request_.classes));
    });
    if (graph_.of(v).name == "offsets")
      for (std::size_t i = 0; i < drawn.size(); ++i)
        first[i] = static_cast<std::int32_t>(i * request_.nonzeros / (drawn.size() - 1));
    fed_.emplace_back(v, std::move(drawn));
  }

  graph graph_;
  model_request request_;
  std::vector<value> fetches_;
  std::vector<std::pair<value, tensor>> fed_;
};

/// The largest difference as a share of the largest value, since a gradient's small values are sums of large
/// ones.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::isnan(b[i]) ? 1e30
                                           : std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
  }
  return most / largest;
}

struct model_case {
  const char* model;
  shape sample;
  answer wanted = answer::a_class;
  feature_kind features = feature_kind::numbers;
  std::vector<std::size_t> categories{};
  std::size_t nonzeros = 0;

  model_request request() const {
    model_request made{.sample_dims = sample,
                       .features = features,
                       .categories = categories,
                       .wanted = wanted,
                       .classes = wanted == answer::a_number ? 0U : 10U,
                       .batch = 12,
                       .nonzeros = nonzeros};
    return made;
  }
  friend std::ostream& operator<<(std::ostream& to, const model_case& c) { return to << c.model; }
};

class CardProgram : public ::testing::TestWithParam<model_case> {};

TEST_P(CardProgram, GivesTheLossTheLogitsAndTheGradientsOfTheHost) {
  MAILGRAD_NEEDS_CARD();
  trained_model model(GetParam().model, GetParam().request());
  cuda::card_lane lane(0);
  for (const std::uint64_t step : {0, 7}) {
    const auto expected = model.on_host(step), found = model.on_card(lane, step);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(difference(expected[i], found[i]), 1e-5) << "fetch " << i << " in step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, CardProgram,
    ::testing::Values(
        model_case{"gpt:layers=2,width=32,heads=2", {37}, answer::a_class, feature_kind::tokens},
        model_case{
            "gpt:layers=1,width=66,heads=3,dropout=0.2,tied=no", {70}, answer::a_class, feature_kind::tokens},
        model_case{"gpt:layers=1,width=5,heads=1", {1}, answer::a_class, feature_kind::tokens}));
INSTANTIATE_TEST_SUITE_P(
    Tables, CardProgram,
    ::testing::Values(
        model_case{
            "dlrm:width=8,bottom=12x6,top=10", {5}, answer::a_class, feature_kind::numbers, {10, 40, 17}},
        model_case{
            "dlrm:width=5,top=7,interaction=concat", {0}, answer::a_number, feature_kind::numbers, {1, 30}},
        model_case{"softmax", {40}, answer::a_class, feature_kind::numbers, {}, 96}));
INSTANTIATE_TEST_SUITE_P(Models, CardProgram,
                         ::testing::Values(model_case{"softmax", {28, 28, 1}},
                                           model_case{"mlp:hidden=48x20", {28, 28, 1}},
                                           model_case{"mlp:hidden=33,activation=tanh,dropout=0.3", {17}},
                                           model_case{"mlp:hidden=16", {9}, answer::a_number},
                                           model_case{"lenet", {28, 28, 1}}));

/// The largest share by which a value of a program may differ from that of the host. The operands of each
/// product are rounded, by 2^-11 or 2^-8 each, and errors add up through the layers and in sums of many.
struct precision_case {
  product_precision products;
  double bound;
};

class CardPrecision : public ::testing::TestWithParam<precision_case> {};

TEST_P(CardPrecision, GivesNearlyTheLossTheLogitsAndTheGradientsOfTheHost) {
  MAILGRAD_NEEDS_CARD();
  const std::pair<const char*, model_request> models[]{
      {"mlp:hidden=48x20", {.sample_dims = {28, 28, 1}, .classes = 10, .batch = 12}},
      {"gpt:layers=2,width=32,heads=2",
       {.sample_dims = {37}, .features = feature_kind::tokens, .classes = 10, .batch = 3}}};
  for (const auto& [name, request] : models) {
    trained_model model(name, request);
    cuda::card_lane lane(0, GetParam().products);
    const auto expected = model.on_host(1), found = model.on_card(lane, 1);
    double most = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double differs = difference(expected[i], found[i]);
      EXPECT_LT(differs, GetParam().bound) << name << ", fetch " << i;
      most = std::max(most, differs);
    }
    if (GetParam().products == product_precision::bfloat16) {
      EXPECT_GT(most, 1e-4) << "nothing was rounded";
    }
    EXPECT_EQ(model.on_card(lane, 1), found) << "other bits in the second run";
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, CardPrecision,
                         ::testing::Values(precision_case{product_precision::tf32, 0.01},
                                           precision_case{product_precision::bfloat16, 0.05}),
                         [](const auto& of) { return std::string(name(of.param.products)); });

TEST(CardPrograms, RoundEachValueOnceHoweverManyProductsReadIt) {
  MAILGRAD_NEEDS_CARD();
  graph g;
  const value x = g.input("x", {4, 8}), w = g.input("w", {8, 8});
  const std::vector<value> fetches{matmul(matmul(x, w), w), matmul(x, w, {.b = operand_order::transposed})};
  cuda::card_lane exact(0), rounding(0, product_precision::bfloat16);
  EXPECT_EQ(program(g, fetches, {}, exact).kernel_count(), 3U);
  EXPECT_EQ(program(g, fetches, {}, rounding).kernel_count(), 5U)
      << "x and w have a copy, and the first product is rounded where it is made";
}

TEST(CardPrograms, GiveTheSameBitsTwice) {
  MAILGRAD_NEEDS_CARD();
  trained_model model("lenet", {.sample_dims = {28, 28, 1}, .classes = 10, .batch = 8});
  cuda::card_lane lane(0);
  EXPECT_EQ(model.on_card(lane, 1), model.on_card(lane, 1));
}

TEST(CardPrograms, ReserveNoMemoryForTheKernelsOfTheHost) {
  MAILGRAD_NEEDS_CARD();
  for (const char* name : {"mlp:hidden=64", "lenet"}) {
    trained_model model(name, {.sample_dims = {28, 28, 1}, .classes = 10, .batch = 8});
    cuda::card_lane lane(0);
    const trained_model::program_on_card p(model, lane);
    EXPECT_LE(p.code.arena_bytes(), model.value_bytes()) << name;
  }
}

TEST(CardPrograms, KeepOneNumberOfAttentionForARow) {
  MAILGRAD_NEEDS_CARD();
  trained_model model("gpt:layers=2,width=8,heads=4",
                      {.sample_dims = {64}, .features = feature_kind::tokens, .classes = 10, .batch = 2});
  cuda::card_lane lane(0);
  const trained_model::program_on_card p(model, lane);
  constexpr std::size_t probabilities = 2 * 4 * 64 * 64 * sizeof(float); // of a layer
  EXPECT_LT(p.code.arena_bytes() + 2 * probabilities, model.value_bytes() + probabilities / 8);
}

TEST(CardPrograms, GiveWhatACardKeepsToNobodyElse) {
  MAILGRAD_NEEDS_CARD();
  graph g;
  const value y = causal_attention(g.input("qkv", {2, 5, 12}), 2);
  const value probabilities(g, y.node(), 1);
  cuda::card_lane lane(0);
  const auto on_card = [&](const value& fetch) { program(g, std::vector{fetch}, {}, lane); };
  for (const value& fetch : {probabilities, probabilities * 2})
    EXPECT_NO_THROW(program(g, std::vector{fetch})) << "the host has them";
  EXPECT_NO_THROW(on_card(y));
  EXPECT_THAT([&] { on_card(probabilities); },
              ThrowsMessage<graph_error>(HasSubstr("causal_attention: a card does not make this value")));
  EXPECT_THAT([&] { on_card(probabilities * 2); },
              ThrowsMessage<graph_error>(HasSubstr("operand 0 is what a kernel keeps for its gradient")));
}

TEST(CardPrograms, JoinProductsAndTheirBias) {
  MAILGRAD_NEEDS_CARD();
  trained_model model("mlp:hidden=8x6", {.sample_dims = {5}, .classes = 3, .batch = 4});
  cuda::card_lane lane(0);
  const trained_model::program_on_card p(model, lane);
  EXPECT_EQ(p.code.kernel_count(), model.kernels_on_host() - 1); // of the last layer, which has no relu
}

TEST(CardPrograms, AreReplayedAsAGraphWithTheStepOfTheMoment) {
  MAILGRAD_NEEDS_CARD();
  trained_model model("mlp:hidden=24,dropout=0.5", {.sample_dims = {6}, .classes = 3, .batch = 4});
  cuda::card_lane lane(0);
  const auto& s = std::get<cuda_stream>(lane.where());
  trained_model::program_on_card p(model, lane);
  p.code.run(s, 1, {}); // what is prepared at the first run is not part of the graph
  lane.finish();
  const cuda::captured_graph graph(s.stream, [&] { p.code.queue(s); });
  for (const std::uint64_t step : {2, 3}) {
    cuda::begin_step(s, step);
    graph.launch(s.stream);
    EXPECT_EQ(p.read(), model.on_card(lane, step));
  }
  EXPECT_NE(model.on_card(lane, 2), model.on_card(lane, 3)) << "other elements are dropped";
}

TEST(CardPrograms, RefuseAStreamOfAnotherKind) {
  MAILGRAD_NEEDS_CARD();
  trained_model model("softmax", {.sample_dims = {5}, .classes = 3, .batch = 2});
  cuda::card_lane lane(0);
  trained_model::program_on_card there(model, lane);
  EXPECT_THAT([&] { there.code.run(host_stream{}, 0, {}); },
              ThrowsMessage<std::logic_error>(HasSubstr("one of a card")));
  EXPECT_THAT([&] { there.code.run(lane.where(), 0, [] {}); },
              ThrowsMessage<std::logic_error>(HasSubstr("after run()")));
  graph g;
  program here(g, std::vector{g.input("x", {2}) * 2});
  EXPECT_THAT([&] { here.run(lane.where(), 0, {}); },
              ThrowsMessage<std::logic_error>(HasSubstr("one of the host")));
}

TEST(CardPrograms, RefuseALabelInTheWordsOfTheHost) {
  MAILGRAD_NEEDS_CARD();
  trained_model model("softmax", {.sample_dims = {5}, .classes = 3, .batch = 2});
  model.set_labels(3);
  cuda::card_lane lane(0);
  const auto message = HasSubstr("label 3, but the logits have 3 classes");
  EXPECT_THAT([&] { model.on_host(0); }, ThrowsMessage<std::out_of_range>(message));
  EXPECT_THAT([&] { model.on_card(lane, 0); }, ThrowsMessage<std::out_of_range>(message));
}

} // namespace
} // namespace mailgrad

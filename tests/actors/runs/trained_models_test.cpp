#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/dlrm.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/replicate.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <cmath>
#include <limits>
#include <random>

namespace mailgrad::testing {
namespace {

using ::testing::AllOf, ::testing::ElementsAre, ::testing::HasSubstr, ::testing::SizeIs,
    ::testing::ThrowsMessage;

// ---- between-graph replication: each worker builds a graph of its own, and what has one name is shared

std::string tower_of(const model_request& r) { return "tower_" + std::to_string(r.worker); }

model_outputs classified(const value& logits, const model_request& r) {
  const value labels = logits.owner().input(std::string(batch_input::labels), {r.batch}, dtype::int32);
  return {logits, cross_entropy(logits, labels)};
}

/// A trunk that all workers share under a last layer of each worker's own, and a variable that nobody trains.
model_outputs towers(graph& g, const model_request& r) {
  const value x = g.input(std::string(batch_input::features), {r.batch, r.sample_dims[0]});
  const value trunk = dense(x, 8, "trunk", activation::tanh);
  g.variable("nobodys", {4}, initialiser::constant(3));
  const name_scope own(g, tower_of(r));
  return classified(dense(trunk, r.classes, "out"), r);
}

/// A table of each worker's own under a bias that all share.
model_outputs sparse_towers(graph& g, const model_request& r) {
  const value columns = g.input(std::string(batch_input::columns), {r.nonzeros}, dtype::int32);
  const value values = g.input(std::string(batch_input::values), {r.nonzeros});
  const value offsets = g.input(std::string(batch_input::offsets), {r.batch + 1}, dtype::int32);
  std::optional<name_scope> own(std::in_place, g, tower_of(r));
  const value hidden = sparse_dense(columns, values, offsets, r.sample_dims[0], 8, "in", activation::tanh);
  own.reset();
  return classified(dense(hidden, r.classes, "out"), r);
}

std::vector<float> part(std::span<const float> all, const parameter_layout& layout, std::string_view name) {
  const auto v = std::ranges::find(layout.variables(), name, &placed_variable::name);
  const auto values = all.subspan(v->offset, v->dims.size());
  return {values.begin(), values.end()};
}

class DifferentGraphs : public DrawnRuns {
protected:
  /// By AdamW, which moves weights even by gradients of zero.
  static assembly two_workers(const std::string& policy) {
    return {.policy = policy, .model = towers, .workers = 2, .optimizer = "adamw"};
  }
};

/// The same barrier steps without actors: each worker's gradient at the same weights, halved and added.
std::vector<float> trained_in_step(const assembly& a, const std::shared_ptr<const data_split>& data) {
  model_request request = request_for(*data, a.batch);
  request.workers = a.workers;
  const auto layout = std::make_shared<parameter_layout>(lay_out(a.model, request, 1));
  shard weights(*layout, 0, a.seed, parse_optimizer(a.optimizer));
  std::vector<std::unique_ptr<replica>> replicas;
  for (request.worker = 0; request.worker < a.workers; ++request.worker)
    replicas.push_back(std::make_unique<replica>(a.model, request, layout));
  dealer deals({data->train.size(), a.batch, std::numeric_limits<std::uint32_t>::max(), a.batches, a.seed,
                deal_mode::by_rank, a.workers});
  for (std::uint64_t step = 0; step < a.batches / a.workers; ++step) {
    const snapshot now = weights.snapshot();
    std::vector<contribution> work;
    for (std::uint32_t r = 0; r < a.workers; ++r) {
      const auto dealt = deals.next(r);
      auto b = std::make_shared<batch>();
      shape_batch(data->train, dealt->samples.size(), 0, *b);
      fill_batch(data->train, dealt->samples, *b);
      b->number = dealt->number;
      auto g = replicas[r]->make_gradient();
      replicas[r]->use_weights(0, now);
      replicas[r]->begin_step(b, g);
      work.push_back({g, 0.5F});
    }
    weights.update(work);
  }
  const auto values = weights.snapshot().on_host();
  return {values.begin(), values.end()};
}

TEST_F(DifferentGraphs, MeetInSyncAsOneStepOnTheMeanOfTheirLosses) {
  const assembly a = two_workers("sync");
  const std::vector<float> expected = trained_in_step(a, data_);
  for (const drawn_order& order : drawn_orders(20)) EXPECT_EQ(drawn_weights(a, order), expected);
}

TEST_F(DifferentGraphs, LeaveAloneWhatNobodyTrains) {
  for (const char* policy : {"async", "sync", "ssp:1", "k-async:2"}) {
    SCOPED_TRACE(policy);
    in_orders(drawn_orders(1), two_workers(policy), [](const assembled_run& run) {
      EXPECT_THAT(part(run.weights(), run.layout(), "nobodys"), ElementsAre(3, 3, 3, 3));
    });
  }
}

/// Two shards, async, Adam with decay: each worker's tower must be what its own gradients make of it, in
/// whatever order those of the other came between.
TEST_F(DifferentGraphs, MoveInAsyncOnlyWhatTheyHave) {
  assembly a = two_workers("async");
  a.batches = 1;
  in_orders(drawn_orders(20), a, [&](const assembled_run& run) {
    const std::uint32_t idle = run.outcome().workers[0].steps == 0 ? 0 : 1;
    const std::vector<float> began = first_values(run.layout(), a.seed), now = run.weights();
    const auto moved = [&](const std::string& name) {
      return part(now, run.layout(), name) != part(began, run.layout(), name);
    };
    EXPECT_FALSE(moved("tower_" + std::to_string(idle) + "/out/weights"));
    EXPECT_TRUE(moved("tower_" + std::to_string(1 - idle) + "/out/weights"));
    EXPECT_TRUE(moved("trunk/weights"));
  });
}

class DifferentGraphsOnThreads : public ::testing::TestWithParam<const char*> {
protected:
  static training_options options() {
    return options_for(GetParam(), 2,
                       {.optimizer = "adamw", .rate = 0.01, .epochs = 40, .shards = 2, .seed = 1});
  }
  /// A worker may be so slow to begin that the other has done everything.
  static bool is_trained(const std::string& name, const training_report& r) {
    if (name.starts_with("tower_")) return staleness_of(r, name[6] == '0' ? 0 : 1).total() > 0;
    return name != "nobodys";
  }
};

TEST_P(DifferentGraphsOnThreads, TrainTogether) {
  training run(towers, small_data(), options());
  const training_report r = expect_ended("completed", "", run.report());
  const parameter_layout& layout = run.layout();
  std::vector<std::string> names;
  for (const placed_variable& v : layout.variables()) names.push_back(v.name);
  EXPECT_THAT(names, ElementsAre("trunk/weights", "trunk/bias", "nobodys", "tower_0/out/weights",
                                 "tower_0/out/bias", "tower_1/out/weights", "tower_1/out/bias"));
  const std::vector<float> began = first_values(layout, 1);
  for (const std::string& name : names)
    EXPECT_EQ(part(run.parameters(), layout, name) != part(began, layout, name), is_trained(name, r)) << name;
}

TEST_P(DifferentGraphsOnThreads, TrainTablesOfTheirOwn) {
  training run(sparse_towers, sparse_data(), options());
  const training_report r = expect_ended("completed", "", run.report());
  const parameter_layout& layout = run.layout();
  const std::vector<float> began = first_values(layout, 1);
  for (const std::string name : {"tower_0/in/weights", "tower_1/in/weights"}) {
    const auto v = std::ranges::find(layout.variables(), name, &placed_variable::name);
    ASSERT_TRUE(v != layout.variables().end() && v->sparse) << name;
    EXPECT_EQ(part(run.parameters(), layout, name) != part(began, layout, name), is_trained(name, r)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, DifferentGraphsOnThreads,
                         ::testing::Values("async", "sync", "ssp:1", "k-async:2", "hogwild",
                                           "sync, hogwild@40, async@80"));

using DifferentGraphsRecorded = DifferentGraphsOnThreads;

TEST_P(DifferentGraphsRecorded, AreRepeatedBitForBitAndOnlyAsTheyWere) {
  const training_options o = expect_repeatable(options(), small_data(), towers);
  const auto other_second_graph = [](graph& g, const model_request& r) {
    if (r.worker == 1) g.variable("more", {2}, initialiser::zeros());
    return towers(g, r);
  };
  EXPECT_THAT([&] { train(other_second_graph, small_data(), o); },
              ThrowsMessage<recording_error>(HasSubstr("the model was SHA-256 ")));
}

INSTANTIATE_TEST_SUITE_P(OrderedPolicies, DifferentGraphsRecorded, ::testing::Values("async", "sync"));

TEST(DifferentGraphsRefused, BeforeAnythingRunsIfANameHasTwoShapes) {
  const auto build = [](graph& g, const model_request& r) {
    const value x = g.input(std::string(batch_input::features), {r.batch, r.sample_dims[0]});
    return classified(dense(dense(x, r.worker == 0 ? 8 : 9, "in", activation::tanh), r.classes, "out"), r);
  };
  EXPECT_THAT([&] { const training run(build, small_data(), options_for("async", 2)); },
              ThrowsMessage<graph_error>(AllOf(
                  HasSubstr("variable 'in/weights' is float32 4x9 in the graph of worker 1"),
                  HasSubstr("float32 4x8 in the graph of worker 0"), HasSubstr("trained_models_test.cpp:"))));
}

// ---- a polynomial

/// [x^2, x, 1] w
value polynomial(const named_values& inputs) {
  const value x = inputs.at("x");
  tensor ones(x.dims());
  std::ranges::fill(ones.values(), 1.0F);
  graph& g = x.owner();
  const value features = concat(std::array{square(x), x, g.constant(std::move(ones))}, 1);
  return matmul(features, g.variable("w", {3, 1}, initialiser::zeros()));
}

model_outputs polynomial_model(graph& g, const model_request& r) {
  const value x = g.input("features", {r.batch, 1});
  const value y = g.input("labels", {r.batch});
  const value guess = replicate(polynomial, r.devices, {{"x", x}});
  return {guess, mean_squared_error(reshape(guess, {r.batch}), y)};
}

/// y = 5x^2 + 3 for x uniform in (-10, 10).
dataset polynomial_samples(std::size_t count) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform(-10, 10);
  std::vector<float> x(count);
  std::vector<float> y(count);
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = uniform(random);
    y[i] = 5 * x[i] * x[i] + 3;
  }
  return {float_features{{1}, std::move(x)}, std::move(y)};
}

void expect_found(std::uint32_t devices) {
  training_options o{.devices = cpus(devices),
                     .workers = 1,
                     .optimizer = parse_optimizer("adam"),
                     .batch = 100,
                     .steps = 1000};
  o.optimizer.learning_rate = 0.1;
  auto data = std::make_shared<data_split>(
      data_split{polynomial_samples(100'000), polynomial_samples(100), "5x^2 + 3", {}});
  training run(polynomial_model, std::move(data), o);
  const training_report r = expect_ended("completed", "", run.report());
  EXPECT_EQ(r.steps, 1000U);
  const std::span<const float> w = run.parameters();
  EXPECT_NEAR(w[0], 5, 0.05);
  EXPECT_NEAR(w[1], 0, 0.05);
  EXPECT_NEAR(w[2], 3, 0.5) << "the constant is still moving";
  EXPECT_LT(*r.test_rmse, 0.5);
}

TEST(Polynomial, ComesOutOfAThousandStepsOfAdam) { expect_found(1); }

TEST(Polynomial, ComesOutOfTwoDevicesToo) {
  if (available_devices().size() < 2) GTEST_SKIP() << "one core";
  expect_found(2);
}

// ---- a recommender in data parallel: tables with gradients in rows, repeated rows among them

constexpr std::size_t users = 40;
constexpr std::size_t films = 30;

model_function recommender(interaction how = interaction::dot) {
  return [how](graph& g, const model_request& r) {
    return build_dlrm(g, {.width = 4, .bottom = {6}, .top = {8}, .how = how}, r);
  };
}

/// Who likes what follows from the parity of both numbers, with a little noise.
dataset tastes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  categorical_features f{{users, films}, {}, 1, {}};
  std::vector<float> targets;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t user = random() % users;
    const std::size_t film = random() % films;
    f.categories.insert(f.categories.end(),
                        {static_cast<std::int32_t>(user), static_cast<std::int32_t>(film)});
    const float noise = static_cast<float>(random() >> 11) * 0x1p-53F - 0.5F;
    f.values.push_back(noise);
    targets.push_back((user % 2 == film % 2 ? 2.0F : 0.0F) + 0.2F * noise);
  }
  return {std::move(f), std::move(targets)};
}

std::shared_ptr<const data_split> taste_data(std::size_t count = 1600) {
  return std::make_shared<data_split>(data_split{tastes(count, 1), tastes(400, 2), "tastes", {}});
}

/// Fifty joined batches, whoever computes them.
training_options joined_options(const char* policy, std::uint32_t workers, const char* optimizer,
                                std::size_t joined_batch = 32) {
  return options_for(policy, workers,
                     {.optimizer = optimizer,
                      .batch = joined_batch / workers,
                      .steps = std::uint64_t{50} * workers,
                      .seed = 1});
}
training_options on_two_devices(training_options o, std::size_t micro_batches) {
  o.devices = cpus(2);
  o.workers = 1;
  o.micro_batches = micro_batches;
  return o;
}

std::vector<float> weights_after(const training_options& o, const model_function& model = recommender()) {
  return weights_of(o, taste_data(), model);
}

double norm_of_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}
double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  return norm_of_difference(a, b) / norm_of_difference(b, std::vector<float>(b.size()));
}

class RecommenderInStep : public ::testing::TestWithParam<const char*> {};

TEST_P(RecommenderInStep, MakesOfSeveralWorkersWhatOneMakesOfTheirJoinedBatches) {
  const std::vector<float> alone = weights_after(joined_options("sync", 1, GetParam()));
  for (const std::uint32_t workers : {1U, 2U, 4U}) {
    const std::vector<float> together = weights_after(joined_options("sync", workers, GetParam()));
    ASSERT_EQ(together.size(), alone.size());
    EXPECT_LT(relative_distance(together, alone), 1e-4) << workers << " workers";
  }
}

TEST_P(RecommenderInStep, MakesTheSameWeightsHoweverItsTablesAreCut) {
  training_options o = joined_options("sync", 2, GetParam());
  const std::vector<float> whole = weights_after(o);
  for (const std::uint32_t shards : {2U, 3U}) {
    o.shards = shards;
    EXPECT_EQ(weights_after(o), whole) << shards;
  }
}

TEST_P(RecommenderInStep, MakesOfTwoDevicesWhatOneMakes) {
  if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  const training_options o = joined_options("sync", 1, GetParam());
  const std::vector<float> alone = weights_after(o);
  const auto distance = [&](std::size_t micro_batches, const model_function& spanning) {
    return relative_distance(weights_after(on_two_devices(o, micro_batches), spanning), alone);
  };
  EXPECT_LT(distance(1, replicated(recommender())), 1e-4);
  for (const std::size_t micro_batches : {1U, 4U})
    EXPECT_LT(distance(micro_batches, pipelined(recommender())), 1e-4) << micro_batches;
}

TEST_P(RecommenderInStep, WritesRepeatedRowsOnceAStepUnderHogwild) {
  if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  const training_options o = joined_options("hogwild", 1, GetParam());
  const std::vector<float> spanning = weights_after(on_two_devices(o, 4), pipelined(recommender()));
  EXPECT_LT(relative_distance(spanning, weights_after(o)), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(SeveralRules, RecommenderInStep,
                         ::testing::Values("sgd", "adagrad", "momentum", "adam"), name_of_policy);

TEST(RecommenderTraining, LearnsInEveryPolicy) {
  for (const char* policy : {"async", "sync", "ssp:1", "hogwild"}) {
    training_options o = joined_options(policy, 2, "adagrad");
    o.steps = 1000;
    o.shards = 2;
    const training_report r = completed(o, taste_data(), recommender());
    EXPECT_FALSE(r.test_accuracy);
    EXPECT_LT(r.test_rmse.value(), 0.5) << policy << "; guessing the mean gives 1";
  }
}

TEST(RecommenderTraining, LearnsFromVectorsSideBySide) {
  training_options o = joined_options("async", 2, "adam");
  o.optimizer.learning_rate = 0.01;
  o.steps = 1000;
  EXPECT_LT(train(recommender(interaction::concat), taste_data(), o).test_rmse.value(), 0.5);
}

TEST(RecommenderTraining, IsRefusedOnSamplesWithoutCategories) {
  const auto data = std::make_shared<data_split>();
  data->train = dataset(float_features{{1}, {1, 2}}, std::vector<float>{1, 2});
  training_options o = joined_options("sync", 1, "sgd");
  o.batch = 1;
  EXPECT_THROW(training(recommender(), data, o), graph_error);
}

// ---- a small GPT

constexpr std::size_t symbols = 7, window = 12;

/// Squares modulo the number of symbols, which nobody guesses without attending to what came before.
dataset some_text(std::size_t windows, std::size_t first) {
  token_windows text{{}, window, window};
  for (std::size_t i = first; i < first + windows * window + 1; ++i)
    text.tokens.push_back(static_cast<std::int32_t>((i * i + i / 5) % symbols));
  return {std::move(text), {}, symbols};
}

std::shared_ptr<const data_split> text_data() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < symbols; ++i) names.emplace_back(1, static_cast<char>('a' + i));
  return std::make_shared<data_split>(data_split{some_text(400, 0), some_text(20, 5000), "text", names});
}

training_options small_gpt_options(std::uint32_t workers) {
  return joined_options("sync", workers, "momentum", 8);
}

model_function small_gpt() { return *built_in_model("gpt:layers=2,width=16,heads=2"); }

std::vector<float> gpt_weights_of(const training_options& o, const model_function& model = small_gpt()) {
  return weights_of(o, text_data(), model);
}
std::vector<float> first_gpt_weights() {
  training_options none = small_gpt_options(1);
  none.optimizer.learning_rate = 0;
  return gpt_weights_of(none);
}

TEST(TransformerTraining, OfWorkersInStepIsThatOfOneWithTheirBatchesJoined) {
  const std::vector<float> expected = gpt_weights_of(small_gpt_options(1));
  const double moved = norm_of_difference(expected, first_gpt_weights());
  EXPECT_GT(moved, 0.1);
  for (const std::uint32_t workers : {2U, 4U}) {
    const std::vector<float> weights = gpt_weights_of(small_gpt_options(workers));
    EXPECT_THAT(weights, SizeIs(expected.size()));
    EXPECT_LT(norm_of_difference(weights, expected), 1e-4 * moved) << workers << " workers";
  }
}

TEST(TransformerTraining, OverTwoDevicesIsThatOfOne) {
  if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  const std::vector<float> expected = gpt_weights_of(small_gpt_options(1));
  const double most = 1e-4 * norm_of_difference(expected, first_gpt_weights());
  const auto distance = [&](std::size_t micro_batches, const model_function& spanning) {
    return norm_of_difference(gpt_weights_of(on_two_devices(small_gpt_options(1), micro_batches), spanning),
                              expected);
  };
  EXPECT_LT(distance(1, replicated(small_gpt())), most);
  for (const std::size_t micro_batches : {1U, 4U})
    EXPECT_LT(distance(micro_batches, pipelined(small_gpt())), most) << micro_batches;
}

TEST(TransformerTraining, WritesASample) {
  training_options o = small_gpt_options(1);
  o.optimizer = parse_optimizer("adamw");
  o.optimizer.learning_rate = 0.01;
  o.text = {.length = 40, .temperature = 0.5, .seed = 2};
  const auto sample = [&] {
    return train(*built_in_model("gpt:layers=1,width=16,heads=2"), text_data(), o).sample;
  };
  const std::string text = sample().value();
  EXPECT_THAT(text, SizeIs(40));
  EXPECT_EQ(text.find_first_not_of("abcdefg"), text.npos);
  EXPECT_EQ(sample(), text) << "the same run writes the same";
  o.text.length = 0;
  EXPECT_FALSE(sample());
}

} // namespace
} // namespace mailgrad::testing

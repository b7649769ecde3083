#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <array>
#include <cmath>
#include <random>

// Runs on arrays that the program holds, with two named inputs.

namespace mailgrad::testing {
namespace {

using ::testing::HasSubstr;
using floats = std::vector<float>;
using ints = std::vector<std::int32_t>;

floats noise(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  floats made(count);
  for (float& x : made) x = static_cast<float>(random() >> 11) * 0x1p-53F - 0.5F;
  return made;
}

constexpr std::size_t left = 3, right = 2, both = left + right;

/// Columns [first, first + count) of rows of `both` numbers.
floats columns(const floats& rows, std::size_t first, std::size_t count) {
  floats cut;
  for (std::size_t i = 0; i < rows.size(); i += both)
    cut.insert(cut.end(), rows.data() + i + first, rows.data() + i + first + count);
  return cut;
}

/// Two targets of each row: the sum of the left columns and that of the right ones.
floats sums(const floats& rows) {
  floats made;
  for (std::size_t i = 0; i < rows.size(); i += both)
    made.insert(made.end(), {rows[i] + rows[i + 1] + rows[i + 2], rows[i + 3] + rows[i + 4]});
  return made;
}

named_arrays in_one(const floats& rows) { return sample_array({rows.size() / both, both}, rows); }
named_arrays in_two(const floats& rows) {
  const std::size_t n = rows.size() / both;
  return {{"left", sample_array({n, left}, columns(rows, 0, left))},
          {"right", sample_array({n, right}, columns(rows, left, right))}};
}

using inputs_of_rows = named_arrays (*)(const floats&);

dataset samples(inputs_of_rows inputs, std::size_t count, std::uint64_t seed) {
  const floats rows = noise(count * both, seed);
  return dataset::from(inputs(rows), sample_array({count, 2}, sums(rows)));
}

std::shared_ptr<const data_split> data_of(inputs_of_rows inputs) {
  return std::make_shared<data_split>(
      data_split{samples(inputs, 203, 1), samples(inputs, 300, 2), "sums", {}});
}

model_outputs two_layers(const value& x, graph& g, const model_request& r) {
  const value guess = dense(dense(x, 4, "hidden", activation::tanh), r.outputs(), "out");
  return {guess, mean_squared_error(guess, g.input("labels", {r.batch, r.outputs()}))};
}

model_outputs of_one(graph& g, const model_request& r) {
  return two_layers(g.input("features", {r.batch, both}), g, r);
}

model_outputs of_two(graph& g, const model_request& r) {
  const value l = g.input("left", {r.batch, left});
  const value x = concat(std::array{l, g.input("right", {r.batch, right})}, 1);
  return two_layers(x, g, r);
}

training_options options_for(std::size_t devices) {
  training_options o{.policy = "sync", .optimizer = {.learning_rate = 0.1}, .batch = 16, .epochs = 2};
  o.devices.assign(devices, parse_device("cpu:0"));
  return o;
}

void expect_the_same(const model_function& one, const model_function& two, const training_options& o) {
  const training_report a = completed(o, data_of(in_one), one), b = completed(o, data_of(in_two), two);
  EXPECT_FALSE(a.parameters_sha256.empty());
  EXPECT_EQ(a.parameters_sha256, b.parameters_sha256);
  EXPECT_EQ(a.test_rmse.value(), b.test_rmse.value());
}

TEST(InMemoryTraining, OfTwoInputsIsThatOfTheirColumnsInOne) {
  expect_the_same(of_one, of_two, options_for(2));
}

TEST(InMemoryTraining, SplitsTwoInputsOverDevicesAndIntoMicroBatches) {
  if (available_devices().size() < 2) GTEST_SKIP() << "one core";
  training_options o = options_for(2);
  o.devices = cpus(2);
  o.workers = 1;
  expect_the_same(replicated(of_one), replicated(of_two), o);
  o.micro_batches = 4;
  expect_the_same(pipelined(of_one), pipelined(of_two), o);
}

TEST(InMemoryTraining, TakesArraysForTheRowsOfAFile) {
  const auto model = find_model("mlp:hidden=6");
  const floats rows = noise(100 * both, 3);
  const floats targets = noise(100, 4);
  const auto sum_of = [&](dataset d) {
    const auto data = std::make_shared<data_split>(data_split{std::move(d), {}, "rows", {}});
    return completed(options_for(1), data, model).parameters_sha256;
  };
  EXPECT_EQ(sum_of({float_features{{both}, rows}, targets}),
            sum_of(dataset::from(in_one(rows), sample_array({100}, targets))));
}

TEST(InMemoryTraining, PredictsWhatTheTestMeasured) {
  const auto data = data_of(in_two);
  training run(of_two, data, options_for(1));
  const training_report r = run.report();
  const floats guesses = run.predict(*data->test.arrays());
  ASSERT_EQ(guesses.size(), 2 * data->test.size());
  double squares = 0;
  for (std::size_t i = 0; i < guesses.size(); ++i) {
    const auto distance = static_cast<double>(guesses[i]) - static_cast<double>(data->test.targets()[i]);
    squares += distance * distance;
  }
  EXPECT_NEAR(r.test_rmse.value(), std::sqrt(squares / static_cast<double>(guesses.size())), 1e-9);
  expect_refused({"other inputs", [&] { run.predict(in_one(noise(both, 1))); },
                  "data: named inputs of 'features' float32 5, where the model was built for"});
}

TEST(InMemoryTraining, BuiltInModelsPredictSeveralNumbers) {
  EXPECT_LT(completed(options_for(1), data_of(in_one), find_model("mlp:hidden=6")).test_rmse.value(), 0.5);
}

/// A number for each pair of a user and an item; the rows of both gradients come straight from the batch.
model_outputs matrix_factors(graph& g, const model_request& r) {
  const value user = embedding(g.input("user", {r.batch}, dtype::int32), 9, 4, "users");
  const value item = embedding(g.input("item", {r.batch}, dtype::int32), 7, 4, "items");
  const value guess = dense(user * item, 1, "out");
  return {guess, mean_squared_error(reshape(guess, {r.batch}), g.input("labels", {r.batch}))};
}

/// Of two sets that differ in the last item, nothing else differs.
std::shared_ptr<const data_split> ratings(std::int32_t last_item = 0) {
  ints users, items;
  floats stars;
  for (std::int32_t i = 0; i < 300; ++i) {
    users.push_back(i % 9);
    items.push_back(i == 299 ? last_item : i * 5 % 7);
    stars.push_back(static_cast<float>(i % 9 % 2 + i * 5 % 7 % 3));
  }
  const auto all = dataset::from({{"user", {{300}, users}}, {"item", {{300}, items}}}, {{300}, stars});
  return std::make_shared<data_split>(data_split{all, all.slice(0, 63), "ratings", {}});
}

/// With a rate so small that the staleness of a busy machine does no harm.
training_options rating_options(const char* policy = "async", std::uint64_t epochs = 20) {
  training_options o = options_for(2);
  o.policy = policy;
  o.optimizer = parse_optimizer("adam");
  o.optimizer.learning_rate = 0.02;
  o.epochs = epochs;
  return o;
}

TEST(InMemoryTraining, LearnsFromTwoInputsOfNumbersOfRows) {
  for (const char* policy : {"async", "sync", "ssp:1", "hogwild"}) {
    SCOPED_TRACE(policy);
    EXPECT_LT(completed(rating_options(policy, 100), ratings(), matrix_factors).test_rmse.value(), 0.3);
  }
}

TEST(InMemoryTraining, IsReplayedOnTheSameArraysAlone) {
  const auto o = expect_repeatable(rating_options("async", 2), ratings(), matrix_factors);
  expect_refused({"another number in the second array", [&] { train(matrix_factors, ratings(1), o); },
                  "the training data were "});
}

TEST(InMemoryTraining, FailsInWordsAtARowThatNoTableHas) {
  const training_report r = train(matrix_factors, ratings(7), rating_options());
  EXPECT_NE(r.ended, "completed");
  EXPECT_THAT(r.why, HasSubstr("row 7 of a table of 7 rows"));
}

TEST(InMemoryTraining, RefusesAModelOfOtherInputs) {
  const auto reading = [](const std::string& name, shape sample, dtype type) {
    return [=](graph& g, const model_request& r) {
      std::vector<std::size_t> dims{r.batch};
      dims.insert(dims.end(), sample.begin(), sample.end());
      g.input(name, shape(dims), type);
      return of_two(g, r);
    };
  };
  const auto trained = [](model_function model) {
    return [=] { train(model, data_of(in_two), options_for(1)); };
  };
  auto unlike =
      std::make_shared<data_split>(data_split{samples(in_two, 16, 1), samples(in_one, 8, 1), "", {}});
  expect_refused({
      {"name", trained(reading("middle", {1}, dtype::float32)),
       "input 'middle' of the model is none of this data set's, which are 'left', 'right' and 'labels'"},
      {"a file's", trained(reading("categories", {1}, dtype::int32)), "none of this data set's"},
      {"built in", trained(find_model("mlp")), "input 'features' of the model is none of this data set's"},
      {"shape", trained(reading("right", {4}, dtype::float32)),
       "input 'right' of the model has shape 16x4, where a batch of 16 samples has 16x2"},
      {"type", trained(reading("right", {2}, dtype::int32)), "is int32, where the data set has float32"},
      {"test samples", [&] { train(of_two, unlike, options_for(1)); },
       "data: named inputs of 'features' float32 5, where"},
  });
}

TEST(InMemoryTraining, EndsWhenItsUserHasSeenEnough) {
  training_options o = options_for(2);
  o.epochs = for_ever;
  training run(of_two, data_of(in_two), o);
  while (!run.wait_for(std::chrono::milliseconds(1)))
    if (run.progress().steps >= 100) run.stop("seen enough");
  const training_report r = run.report();
  EXPECT_EQ(r.why, "seen enough");
  EXPECT_LT(r.steps, run.total_steps());
  EXPECT_EQ(run.predict(in_two(noise(both, 1))).size(), 2U);
}

} // namespace
} // namespace mailgrad::testing

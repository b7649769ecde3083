#include <mailgrad/actors/training.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/graph/models/dlrm.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

// A recommender in data parallel: tables with gradients in rows, repeated rows among them.

namespace mailgrad {
namespace {

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

training_options recommender_options(const char* policy, std::uint32_t workers, const char* optimizer) {
  training_options o;
  o.devices.clear();
  const auto present = static_cast<std::uint32_t>(available_devices().size());
  for (std::uint32_t i = 0; i < workers; ++i)
    o.devices.push_back({device_kind::cpu, i % std::min(2U, present)});
  o.policy = policy;
  o.optimizer = parse_optimizer(optimizer);
  o.optimizer.learning_rate = 0.05;
  o.batch = 32 / workers;
  o.steps = 50 * workers; // of 32 samples, whoever computes them
  return o;
}

std::vector<float> weights_after(const training_options& o, const model_function& model = recommender()) {
  training run(model, taste_data(), o);
  const std::span<const float> weights = run.parameters();
  return {weights.begin(), weights.end()};
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  double whole = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += d * d;
    whole += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(squares / whole);
}

class RecommenderInStep : public ::testing::TestWithParam<const char*> {};

TEST_P(RecommenderInStep, MakesOfSeveralWorkersWhatOneMakesOfTheirJoinedBatches) {
  const std::vector<float> alone = weights_after(recommender_options("sync", 1, GetParam()));
  for (const std::uint32_t workers : {1U, 2U, 4U}) {
    const std::vector<float> together = weights_after(recommender_options("sync", workers, GetParam()));
    ASSERT_EQ(together.size(), alone.size());
    EXPECT_LT(relative_distance(together, alone), 1e-4) << workers << " workers";
  }
}

TEST_P(RecommenderInStep, MakesTheSameWeightsHoweverItsTablesAreCut) {
  training_options o = recommender_options("sync", 2, GetParam());
  const std::vector<float> whole = weights_after(o);
  for (const std::uint32_t shards : {2U, 3U}) {
    o.shards = shards;
    EXPECT_EQ(weights_after(o), whole) << shards;
  }
}

TEST_P(RecommenderInStep, MakesOfTwoDevicesWhatOneMakes) {
  if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  const std::vector<float> alone = weights_after(recommender_options("sync", 1, GetParam()));
  training_options o = recommender_options("sync", 1, GetParam());
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 1}};
  o.workers = 1;
  EXPECT_LT(relative_distance(weights_after(o, replicated(recommender())), alone), 1e-4);
  for (const std::size_t micro_batches : {1U, 4U}) {
    o.micro_batches = micro_batches;
    EXPECT_LT(relative_distance(weights_after(o, pipelined(recommender())), alone), 1e-4) << micro_batches;
  }
}

TEST_P(RecommenderInStep, WritesRepeatedRowsOnceAStepUnderHogwild) {
  if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  training_options o = recommender_options("hogwild", 1, GetParam());
  const std::vector<float> alone = weights_after(o);
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 1}};
  o.workers = 1;
  o.micro_batches = 4;
  EXPECT_LT(relative_distance(weights_after(o, pipelined(recommender())), alone), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(SeveralRules, RecommenderInStep,
                         ::testing::Values("sgd", "adagrad", "momentum", "adam"),
                         [](const auto& rule) { return std::string(rule.param); });

TEST(RecommenderTraining, LearnsInEveryPolicy) {
  for (const char* policy : {"async", "sync", "ssp:1", "hogwild"}) {
    training_options o = recommender_options(policy, 2, "adagrad");
    o.steps = 1000;
    o.shards = 2;
    const training_report r = train(recommender(), taste_data(), o);
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
    EXPECT_FALSE(r.test_accuracy);
    EXPECT_LT(r.test_rmse.value(), 0.5) << policy << "; guessing the mean gives 1";
  }
}

TEST(RecommenderTraining, LearnsFromVectorsSideBySide) {
  training_options o = recommender_options("async", 2, "adam");
  o.optimizer.learning_rate = 0.01;
  o.steps = 1000;
  EXPECT_LT(train(recommender(interaction::concat), taste_data(), o).test_rmse.value(), 0.5);
}

TEST(RecommenderTraining, IsRefusedOnSamplesWithoutCategories) {
  const auto data = std::make_shared<data_split>();
  data->train = dataset(float_features{{1}, {1, 2}}, std::vector<float>{1, 2});
  training_options o = recommender_options("sync", 1, "sgd");
  o.batch = 1;
  EXPECT_THROW(training(recommender(), data, o), graph_error);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/actors/training.hpp>

#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>

#include <gmock/gmock.h>

#include <cmath>

// Whole runs of a small GPT on threads of their own.

namespace mailgrad {
namespace {

using ::testing::SizeIs;

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

training_options small_gpt_options(std::uint32_t workers, std::size_t joined_batch) {
  const auto present = static_cast<std::uint32_t>(available_devices().size());
  training_options o;
  o.devices.clear();
  for (std::uint32_t r = 0; r < workers; ++r) o.devices.push_back({device_kind::cpu, r % present});
  o.policy = "sync";
  o.optimizer = parse_optimizer("momentum");
  o.optimizer.learning_rate = 0.05;
  o.batch = joined_batch / workers;
  o.steps = 50 * workers;
  return o;
}

model_function small_gpt() { return *built_in_model("gpt:layers=2,width=16,heads=2"); }

std::vector<float> gpt_weights_of(const training_options& o, const model_function& model = small_gpt()) {
  training run(model, text_data(), o);
  const auto weights = run.parameters();
  EXPECT_EQ(run.report().ended, "completed");
  EXPECT_EQ(run.report().steps, o.steps);
  return {weights.begin(), weights.end()};
}

double norm_of_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

TEST(TransformerTraining, OfWorkersInStepIsThatOfOneWithTheirBatchesJoined) {
  const std::vector<float> expected = gpt_weights_of(small_gpt_options(1, 8));
  training_options none = small_gpt_options(1, 8);
  none.optimizer.learning_rate = 0;
  const std::vector<float> first = gpt_weights_of(none);
  const double moved = norm_of_difference(expected, first);
  EXPECT_GT(moved, 0.1);
  for (const std::uint32_t workers : {2U, 4U}) {
    const std::vector<float> weights = gpt_weights_of(small_gpt_options(workers, 8));
    EXPECT_THAT(weights, SizeIs(expected.size()));
    EXPECT_LT(norm_of_difference(weights, expected), 1e-4 * moved) << workers << " workers";
  }
}

TEST(TransformerTraining, OverTwoDevicesIsThatOfOne) {
  if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  const std::vector<float> expected = gpt_weights_of(small_gpt_options(1, 8));
  training_options none = small_gpt_options(1, 8);
  none.optimizer.learning_rate = 0;
  const double moved = norm_of_difference(expected, gpt_weights_of(none));
  training_options o = small_gpt_options(1, 8);
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 1}};
  o.workers = 1;
  EXPECT_LT(norm_of_difference(gpt_weights_of(o, replicated(small_gpt())), expected), 1e-4 * moved);
  for (const std::size_t micro_batches : {1U, 4U}) {
    o.micro_batches = micro_batches;
    EXPECT_LT(norm_of_difference(gpt_weights_of(o, pipelined(small_gpt())), expected), 1e-4 * moved)
        << micro_batches;
  }
}

TEST(TransformerTraining, WritesASample) {
  training_options o = small_gpt_options(1, 8);
  o.optimizer = parse_optimizer("adamw");
  o.optimizer.learning_rate = 0.01;
  o.text = {.length = 40, .temperature = 0.5, .seed = 2};
  const auto sample = [&] {
    return train(*built_in_model("gpt:layers=1,width=16,heads=2"), text_data(), o).sample;
  };
  const auto text = sample();
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, SizeIs(40));
  EXPECT_EQ(text->find_first_not_of("abcdefg"), text->npos);
  EXPECT_EQ(sample(), text) << "the same run writes the same";
  o.text.length = 0;
  EXPECT_FALSE(sample());
}

} // namespace
} // namespace mailgrad

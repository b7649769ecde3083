#include <pages/includes.inc>

#include <mailgrad/lab/sweep/sweep_folder.hpp>
#include <mailgrad/mailgrad.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#define main main_of_custom_operation
#include <mailgrad/demos/custom_operation.cpp> // the page on operations goes through it
#undef main

// The blocks of C++ in README.md and docs/, which page_blocks.py writes as fragments. All are compiled, in
// one source since each would spend most of its time on the same headers. Those that stand in a test are run.
// What a page leaves to its reader, such as data and options, is given around its block.

#include <pages/cures/a_cure_of_your_own_1.inc>
#include <pages/policies/a_policy_of_your_own_1.inc>

namespace of_library {
#include <pages/library/bring_a_parameter_actor_of_your_own_1.inc>
} // namespace of_library

namespace mailgrad {
namespace {

using of_library::median_of_workers;
using testing::options_for;
using testing::small_data;
using testing::small_model;
using testing::trained;

#include <pages/in_memory/two_inputs_2.inc>
#include <pages/models/a_model_function_1.inc>

/// Compiled alone, since fashion_mnist() may not be there.
[[maybe_unused]] std::size_t sweep_of_the_lab() {
#include <pages/lab/sweeps_a_grid_of_runs_1.inc>
  return rows.size();
}

/// Pictures as the pages have them, which show nothing.
std::shared_ptr<data_split> pictures(std::size_t n) {
  const auto data = std::make_shared<data_split>();
  data->train = dataset::from(sample_array({n, 28, 28, 1}, std::vector<float>(n * 784)),
                              sample_array({n}, std::vector<std::int32_t>(n)), 10);
  return data;
}

TEST(Pages, TrainOnOneArray) {
  const std::size_t n = 1000;
  const training_options options;
  {
#include <pages/in_memory/one_array_1.inc>
    EXPECT_EQ(report.ended, "completed") << report.why;
  }
  const std::vector<float> features(n * 4);
  const std::vector<std::int32_t> labels(n);
  const auto data = std::make_shared<data_split>();
#include <pages/in_memory/one_array_2.inc>
  EXPECT_EQ(data->test.size(), 100U);
}

/// User 7 has given item 3 two stars, again and again.
std::shared_ptr<data_split> ratings(std::size_t n) {
  std::vector<std::int32_t> users(n, 7), items(n, 3);
  std::vector<float> stars(n, 2);
  const auto data = std::make_shared<data_split>();
#include <pages/in_memory/two_inputs_1.inc>
  return data;
}

TEST(Pages, TrainOnTwoArraysUntilTheLossIsSmall) {
  const auto data = ratings(1000);
  training_options options;
  options.optimizer.learning_rate = 0.1;
  options.epochs = 1'000'000;
#include <pages/in_memory/a_callback_and_an_early_stop_1.inc>
  EXPECT_EQ(report.why, "the loss is small enough");
  const std::vector<std::int32_t> user{7}, item{3};
#include <pages/in_memory/predict_after_the_run_1.inc>
  ASSERT_EQ(stars.size(), 1U);
  EXPECT_NEAR(stars.front(), 2, 0.1);
}

TEST(Pages, FollowARunAndEndIt) {
  const model_function model = small_model();
  const auto data = small_data();
  const training_options options = options_for("async", 2);
  {
#include <pages/library/follow_a_run_and_end_it_early_1.inc>
    EXPECT_EQ(report.ended, "completed") << report.why;
  }
#include <pages/library/follow_a_run_and_end_it_early_2.inc>
  EXPECT_EQ(report.ended, "completed") << report.why;
}

TEST(Pages, PredictWithTheTrainedWeights) {
  training run(two_layers, ::mailgrad::pictures(64), {});
  const std::vector<float> pictures(std::size_t{2} * 784);
#include <pages/library/predict_with_the_trained_weights_1.inc>
  EXPECT_EQ(logits.size(), 20U);
}

/// The fifth worker pushes its gradients times -10.
model_outputs with_a_broken_worker(graph& g, const model_request& r) {
  model_outputs m = small_model()(g, r);
  if (r.worker == 4) m.loss = m.loss * -10;
  return m;
}

TEST(Pages, TrainByTheMedianOfWorkersDespiteABrokenOne) {
  training_options options = options_for("sync", 5);
  const auto data = small_data(1000);
  const double by_mean = train(with_a_broken_worker, data, options).test_accuracy.value_or(0);
#include <pages/library/bring_a_parameter_actor_of_your_own_2.inc>
  for (const std::uint32_t shards : {1U, 3U}) {
    options.shards = shards;
    const training_report by_median = train(with_a_broken_worker, data, options);
    EXPECT_EQ(by_median.ended, "completed") << by_median.why;
    EXPECT_TRUE(by_median.ledger.balances()) << to_string(by_median.ledger);
    EXPECT_GT(by_median.test_accuracy.value_or(0), 0.8);
    EXPECT_LT(by_mean, 0.4);
  }
}

TEST(Pages, StopARunByItsTests) {
  const model_function model = small_model();
  const auto data = small_data();
  training_options options = options_for("async", 2);
  options.epochs = 1'000'000;
#include <pages/metrics/in_a_program_1.inc>
  EXPECT_EQ(report.why, "the test loss is below 0.3");
}

TEST(Pages, TrainUnderAPolicyAndACureOfTheReader) {
  training_options options = options_for("async", 2);
  {
#include <pages/policies/a_policy_of_your_own_2.inc>
    EXPECT_EQ(trained(options).policy, "fair-turns:1");
  }
  options.policy = "async";
#include <pages/cures/a_cure_of_your_own_2.inc>
  EXPECT_EQ(trained(options).ended, "completed");
}

TEST(Pages, CheckTheGradientOfAnOperationOfTheReader) {
#include <pages/custom_operation/6_the_check_1.inc>
  EXPECT_TRUE(check_gradients(huber_loss(guess, target), std::array{guess}).empty());
}

// The rest waits for other processes, or for files.

[[maybe_unused]] void read_a_graph(std::span<const std::byte> bytes) {
#include <pages/custom_operation/7_the_journey_to_another_machine_2.inc>
}

[[maybe_unused]] void write_as_onnx(const model_function& my_model_function) {
#include <pages/onnx/in_a_program_1.inc>
}

class clipping : public onnx_form {
#include <pages/onnx/in_a_program_2.inc>
};

[[maybe_unused]] void serve_and_join(const model_function& model, const std::shared_ptr<data_split>& data,
                                     const training_options& options) {
#include <pages/remote/in_c_1.inc>
}

[[maybe_unused]] void ask_and_watch(caf::event_based_actor* self, const remote::membership& here) {
#include <pages/remote/in_c_2.inc>
}

[[maybe_unused]] void predict(std::span<const float> picture) {
#include <pages/weights/use_a_trained_model_1.inc>
}

[[maybe_unused]] void save_and_start(const std::shared_ptr<data_split>& data,
                                     const training_options& options) {
#include <pages/weights/in_a_program_1.inc>
}

} // namespace
} // namespace mailgrad

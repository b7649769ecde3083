#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

/// Weights and two workers on one GPU.
training_options on_one_gpu(const std::string& policy) {
  training_options o;
  o.devices.assign(2, {device_kind::cuda, 0});
  o.parameters = {{device_kind::cuda, 0}};
  o.policy = policy;
  return o;
}

std::string words_of_refusal_of(const training_options& o, const parameter_layout& layout) {
  const std::vector<scheduled_policy> policies{{0, policy_spec("async", 2)}, {9, policy_spec(o.policy, 2)}};
  return testing::words_of_refusal([&] { require_parameter_place(o, policies, layout); });
}

/// Ringleader adds up rows of gradients on the host.
TEST(ParameterPlace, RefusesTablesOnAGpuUnderRingleaderInOneLine) {
  const parameter_layout tables = testing::layout_of({{"w", {8}}, {"words", {20, 4}, true}}, 1);
  const std::string why = words_of_refusal_of(on_one_gpu("ringleader"), tables);
  EXPECT_THAT(why,
              HasSubstr("--parameters: cuda:0: policy 'ringleader' needs the gradient of table 'words' on "
                        "the host; leave one of both out"));
  EXPECT_EQ(std::ranges::count(why, '\n'), 0);
  EXPECT_EQ(words_of_refusal_of(on_one_gpu("malenia:4"), tables), "");
}

TEST(ParameterPlace, TakesRingleaderWithoutTablesOrWithoutAGpu) {
  const parameter_layout dense = testing::layout_of({{"w", {8}}}, 1);
  EXPECT_EQ(words_of_refusal_of(on_one_gpu("ringleader"), dense), "");
  const parameter_layout tables = testing::layout_of({{"words", {20, 4}, true}}, 1);
  training_options on_host = on_one_gpu("ringleader");
  on_host.parameters.clear();
  EXPECT_EQ(words_of_refusal_of(on_host, tables), "");
}

std::string words_of_refusal_to_run_ahead(training_options o, std::uint64_t steps = 1) {
  o.run_ahead = steps;
  const std::vector<scheduled_policy> policies{{0, policy_spec("async", 2)}, {9, policy_spec(o.policy, 2)}};
  return testing::words_of_refusal([&] { require_run_ahead(o, policies); });
}

TEST(RunAhead, IsRefusedWhereNoWorkerCan) {
  const training_options good = on_one_gpu("sync");
  EXPECT_EQ(words_of_refusal_to_run_ahead(good), "");
  const auto refused = [&](const auto& change, const std::string& why) {
    training_options o = good;
    change(o);
    EXPECT_EQ(words_of_refusal_to_run_ahead(o),
              "--run-ahead 1: workers do not run ahead " + why + "; take --run-ahead 0");
    EXPECT_EQ(words_of_refusal_to_run_ahead(o, 0), "");
  };
  refused([](auto& o) { o.optimizer.clip_norm = 1; }, "with --clip-norm, which reads each gradient first");
  refused([](auto& o) { o.sample_gap = 1; }, "with --sample-gap, which compares each gradient first");
  refused([](auto& o) { o.workers = 1; }, "if a model spans devices");
  refused([](auto& o) { o.policy = "hogwild"; }, "in a run under hogwild");
  refused([](auto& o) { o.parameters.clear(); }, "unless all weights are on their GPU");
  refused([](auto& o) { o.parameters.push_back({}); }, "unless all weights are on their GPU");
  refused(
      [](auto& o) {
        o.devices.assign(2, {device_kind::cuda, 1});
      },
      "unless all weights are on their GPU");
}

TEST(RunAhead, IsTakenIfOneWorkerCanOrARecordingSaysSo) {
  training_options o = on_one_gpu("async");
  o.devices[0] = {device_kind::cpu, 0};
  EXPECT_EQ(words_of_refusal_to_run_ahead(o), "");
  o.devices[1] = {device_kind::cpu, 1};
  o.replay = std::make_shared<const recording>();
  EXPECT_EQ(words_of_refusal_to_run_ahead(o), "");
  EXPECT_THAT(words_of_refusal_to_run_ahead(o, 2), HasSubstr("--run-ahead: 2 steps; at most 1"));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/actors/runs/ordered_policies.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>
#include <mailgrad/tests/support/test_name.hpp>
#include <mailgrad/tests/support/words_of_forms.hpp>

#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

// Runs with every policy and every cure on streams of a GPU, on threads: with the weights on the host beside
// a worker on a core, and with the weights on the GPU.

namespace mailgrad {
namespace {

using testing::gpu_options;
using testing::ordered_policies;
using testing::small_data;
using testing::trained;
using testing::words_of_forms;

/// Where the weights are. On the host a core is among the workers.
enum class weights_on : std::uint8_t { host, gpu };

using chosen = std::tuple<std::string, weights_on>;

std::string chosen_name(const ::testing::TestParamInfo<chosen>& info) {
  const auto& [text, where] = info.param;
  return testing::test_name(text + (where == weights_on::gpu ? " with weights there" : " beside a core"));
}

training_options options_with(const std::string& policy, weights_on where) {
  training_options o = gpu_options(policy, 3);
  if (where == weights_on::gpu)
    o.parameters = {{device_kind::cuda, 0}};
  else
    o.devices[1] = {device_kind::cpu, 0};
  o.shards = 2;
  o.evaluate_every = {.steps = 10};
  return o;
}

/// How well it learns depends on who comes first. RecordedOnProcessors compares weights.
void expect_trained(const training_options& o) {
  const training_report r = trained(o, small_data(200));
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  EXPECT_EQ(r.samples, 800U);
  EXPECT_TRUE(std::isfinite(r.test_loss.value()));
}

std::vector<std::string> policies_tested() {
  std::vector<std::string> all(ordered_policies.begin(), ordered_policies.end());
  all.insert(all.end(), {"auto", "rennala:3, sync@20", "ringmaster:2, async@20"});
#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
  all.insert(all.end(), {"hogwild", "async, hogwild@10, sync@30"});
#endif
  return all;
}

class GpuPolicies : public ::testing::TestWithParam<chosen> {
protected:
  void SetUp() override { MAILGRAD_NEEDS_GPU(); }
};

TEST_P(GpuPolicies, BalanceTheLedgerAndTrainEveryBatch) {
  const auto& [policy, where] = GetParam();
  expect_trained(options_with(policy, where));
}

INSTANTIATE_TEST_SUITE_P(All, GpuPolicies,
                         ::testing::Combine(::testing::ValuesIn(policies_tested()),
                                            ::testing::Values(weights_on::host, weights_on::gpu)),
                         chosen_name);

TEST(GpuPoliciesThatAreTested, AreAllThereAre) {
  std::string tested;
  for (const std::string& policy : policies_tested()) tested += policy + '\n';
  for (const std::string& word : words_of_forms(policy_forms()))
    if (word != "hogwild") {
      EXPECT_THAT(tested, ::testing::HasSubstr(word));
    }
}

class GpuCures : public GpuPolicies {};

TEST_P(GpuCures, BalanceTheLedgerAndTrainEveryBatch) {
  const auto& [cure, where] = GetParam();
  training_options o = options_with("async", where);
  o.cure = cure;
  o.optimizer = parse_optimizer("sgd");
  o.optimizer.learning_rate = 0.05;
  if (cure == "momentum-compensation") o.optimizer = parse_optimizer("momentum");
  const bool outer = cure == "cgad" || cure == "mla" || cure == "heloco";
  if (outer || cure == "easgd") o.local_steps = 2;
  if (outer) o.outer = parse_optimizer(cure == "cgad" ? "adam" : "nesterov");
  if (cure == "heloco" && where == weights_on::gpu) {
    EXPECT_THROW(trained(o), std::invalid_argument) << "it looks at whole variables on the host";
    return;
  }
  expect_trained(o);
}

INSTANTIATE_TEST_SUITE_P(All, GpuCures,
                         ::testing::Combine(::testing::ValuesIn(words_of_forms(cure_forms())),
                                            ::testing::Values(weights_on::host, weights_on::gpu)),
                         chosen_name);

} // namespace
} // namespace mailgrad

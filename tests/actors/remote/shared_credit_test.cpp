#include <mailgrad/tests/actors/remote/remote_runs.hpp>

#include <cstdint>
#include <functional>
#include <string>

// Runs whose workers have more gradients in a step than a server has room for, so that they send them by
// turns.

namespace mailgrad::remote {
namespace {

constexpr std::uint32_t workers = 12;

kind_of_run of_large_gradients(const std::string& name, const std::string& policy,
                               const std::function<void(training_options&)>& change) {
  kind_of_run kind = with(name, policy, workers, [&](training_options& o) {
    o.steps = 3 * workers;
    change(o);
  });
  kind.model = *built_in_model("mlp:hidden=1024x512");
  return kind;
}

struct RunsOfSharedCredit : ::testing::TestWithParam<kind_of_run> {};

TEST_P(RunsOfSharedCredit, EndWithTheWeightsOfOneProcess) {
  const kind_of_run& kind = GetParam();
  const training_report here = train(kind.model, kind.data, kind.options);
  for (const std::uint32_t hosts : {0U, 2U}) {
    if (hosts > kind.options.shards) continue;
    SCOPED_TRACE(std::to_string(hosts) + " parameter hosts");
    const training_report there = trained_elsewhere(kind, hosts);
    ASSERT_EQ(there.ended, "completed") << there.why;
    EXPECT_EQ(there.parameters_sha256, here.parameters_sha256);
    EXPECT_EQ(there.ledger, here.ledger);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RunsOfSharedCredit,
                         ::testing::Values(of_large_gradients("OneShard", "sync", [](training_options&) {}),
                                           of_large_gradients("ThreeShards", "sync",
                                                              [](training_options& o) { o.shards = 3; }),
                                           // Nobody adds to the last gradient, which is scaled.
                                           of_large_gradients("OneBatchMore", "sync",
                                                              [](training_options& o) {
                                                                o.steps = 3 * workers + 1;
                                                                o.optimizer.clip_norm = 1e-3;
                                                              }),
                                           of_large_gradients("LocalSteps", "sync",
                                                              [](training_options& o) {
                                                                o.optimizer = parse_optimizer("adam");
                                                                o.local_steps = 2;
                                                                o.shards = 2;
                                                              })),
                         [](const auto& run) { return run.param.name; });

/// The feeder holds workers for each switch while others wait for their turns.
TEST(RunsThatSwitchWithSharedCredit, Complete) {
  const kind_of_run kind =
      of_large_gradients("Switches", "sync, async@17, sync@40, ssp:2@61, sync@77", [](training_options& o) {
        o.shards = 2;
        o.steps = 110;
        o.optimizer.learning_rate = 1e-3; // twelve workers under async diverge by chance at a larger one
      });
  for (const std::uint32_t hosts : {0U, 2U}) {
    const training_report there = trained_elsewhere(kind, hosts);
    ASSERT_EQ(there.ended, "completed") << there.why;
    EXPECT_EQ(there.switches.size(), 4U);
  }
}

} // namespace
} // namespace mailgrad::remote

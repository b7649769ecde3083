#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <mailgrad/tests/actors/remote/remote_runs.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <memory>
#include <string>
#include <vector>

// A completed run over processes that is made longer ends as one process does that trains as long at once.

namespace mailgrad::remote {
namespace {

struct LongerRunsOverProcesses : ::testing::TestWithParam<kind_of_run> {};

/// After 13 batches, the last round of sync and that of local steps have only begun.
TEST_P(LongerRunsOverProcesses, EndWithTheWeightsOfALongRunInOneProcess) {
  kind_of_run kind = GetParam();
  kind.options.steps = 24;
  const training_report whole = train(kind.model, kind.data, kind.options);
  for (const std::uint32_t hosts : {0U, 1U}) {
    SCOPED_TRACE(std::to_string(hosts) + " parameter hosts");
    const scratch_folder folder;
    kind_of_run parts = kind;
    parts.options.checkpoints.folder = folder.path().string();
    for (const std::uint64_t steps : {13U, 24U}) {
      parts.options.steps = steps;
      const training_report there = trained_elsewhere(parts, hosts);
      ASSERT_EQ(there.ended, "completed") << there.why;
      parts.options.resume = std::make_shared<const checkpoint>(newest_checkpoint(folder.path()).what);
      if (steps < 24) continue;
      EXPECT_EQ(there.resumed->steps, 13U);
      EXPECT_EQ(there.parameters_sha256, whole.parameters_sha256);
      EXPECT_EQ(there.ledger, whole.ledger);
    }
  }
}

std::vector<kind_of_run> kinds_with_state_at_workers() {
  const auto of = [](const std::string& name, const std::string& policy, const std::string& cure,
                     const std::string& optimizer, std::uint64_t local_steps) {
    return with(name, policy, policy == "sync" ? 2 : 1, [&](training_options& o) {
      o.cure = cure;
      o.optimizer = parse_optimizer(optimizer);
      o.optimizer.learning_rate = 0.05;
      o.local_steps = local_steps;
      o.shards = 2;
    });
  };
  return {of("Sync", "sync", "none", "momentum", 0),
          of("Dana", "async", "dana-zero", "sgd", 0),
          of("DanaSlim", "ssp:1", "dana-slim", "sgd", 0),
          of("LocalSteps", "async", "none", "adam", 3),
          of("LocalStepsInRounds", "sync", "none", "momentum", 2),
          of("ElasticAveraging", "sync", "easgd", "nesterov", 3),
          of("Batches", "k-batch-async:2", "none", "adam", 0)};
}

INSTANTIATE_TEST_SUITE_P(All, LongerRunsOverProcesses, ::testing::ValuesIn(kinds_with_state_at_workers()),
                         [](const auto& run) { return run.param.name; });

} // namespace
} // namespace mailgrad::remote

#include <mailgrad/tests/actors/runs/gpu_faults_fixture.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <string>

// Runs with checkpoints on a GPU that fails: what lacks for a checkpoint alone does not end them, and what
// ends them is followed by a last one.

namespace mailgrad {
namespace {

using simulated_gpu::faults;
using testing::assembly;
using testing::fault_cases;
using testing::fault_kinds;
using testing::GpuFaults;
using ::testing::HasSubstr;
using testing::name_of_fault;
using testing::named;
using testing::remains;

class GpuFaultsOfCheckpoints : public GpuFaults {};

/// As on the host, where a full disk does not end a run either.
TEST_P(GpuFaultsOfCheckpoints, LetTheRunGoOn) {
  const std::uint64_t all = run({}, 1).counted.*kind().counted;
  std::uint64_t failed = 0;
  for (std::uint64_t n = all / 2; n <= all; n += 2) {
    SCOPED_TRACE(std::to_string(n) + " of " + std::to_string(all));
    faults fail;
    fail.*kind().at = n;
    const remains left = run(fail, 1);
    if (!left.outcome || left.outcome->checkpoints.failed == 0) continue;
    ++failed;
    EXPECT_EQ(left.outcome->how, run_outcome::ending::completed) << left.outcome->why;
    EXPECT_EQ(left.report->samples, 48U);
    EXPECT_THAT(left.outcome->checkpoints.failure, HasSubstr("a copy on the host of what a checkpoint has"));
  }
  EXPECT_GT(failed, 0U);
}

INSTANTIATE_TEST_SUITE_P(Runs, GpuFaultsOfCheckpoints,
                         ::testing::Combine(::testing::Values(fault_cases[2], fault_cases[6]),
                                            ::testing::Values(fault_kinds[1])),
                         name_of_fault);

class GpuFaultsOfWorkers : public GpuFaults {};

/// The weights lie on the host, and the others train on until the checkpoint is collected.
TEST_P(GpuFaultsOfWorkers, AreFollowedByALastCheckpoint) {
  const std::uint64_t all = run({}, 1).counted.*kind().counted;
  std::uint64_t failed = 0, kept = 0;
  for (std::uint64_t n = all / 4; n < all; n += std::max<std::uint64_t>(1, all / 16)) {
    SCOPED_TRACE(std::to_string(n) + " of " + std::to_string(all));
    assembly a = assembly_of_case();
    a.checkpoint_every = 0;
    faults fail;
    fail.*kind().at = n;
    const remains left = run(a, fail, 1);
    ASSERT_TRUE(left.outcome);
    if (left.outcome->how == run_outcome::ending::completed) continue;
    ++failed;
    ASSERT_FALSE(left.checkpoints.empty());
    checkpoint_card card;
    left.checkpoints.back()->part("run")->field("card", card);
    kept += card.steps == left.report->steps ? 1 : 0;
    expect_resumable(left);
  }
  EXPECT_GT(failed, 4U);
  EXPECT_GT(kept, 0U) << "none has all that was trained";
}

INSTANTIATE_TEST_SUITE_P(
    Runs, GpuFaultsOfWorkers,
    ::testing::Combine(::testing::ValuesIn(named(fault_cases, "HostShards", "HostShardsInStep", "Spans")),
                       ::testing::ValuesIn(named(fault_kinds, "StickyFault", "LostGpu"))),
    name_of_fault);

class GpuMemoryOfWorkers : public GpuFaults {};

/// Also if a step is under way, such as when a worker that runs ahead needs another gradient.
TEST_P(GpuMemoryOfWorkers, IsLackingBeforeALastCheckpoint) {
  const std::uint64_t all = run({}, 1).counted.allocations;
  std::uint64_t failed = 0;
  for (std::uint64_t n = all / 2; n <= all; n += std::max<std::uint64_t>(1, all / 32)) {
    SCOPED_TRACE(std::to_string(n) + " of " + std::to_string(all));
    assembly a = assembly_of_case();
    a.checkpoint_every = 0;
    const remains left = run(a, {.out_of_memory_at = n}, 1);
    if (!left.refused.empty() || left.outcome->why.find("has failed: ") != std::string::npos) continue;
    if (left.outcome->how == run_outcome::ending::completed) continue;
    EXPECT_THAT(left.outcome->why, HasSubstr("out of memory"));
    ASSERT_FALSE(left.checkpoints.empty()) << left.outcome->why;
    if (++failed % 4 == 0) expect_resumable(left);
  }
  EXPECT_GT(failed, 3U) << "those of shards are not meant";
}

INSTANTIATE_TEST_SUITE_P(Runs, GpuMemoryOfWorkers,
                         ::testing::Combine(::testing::ValuesIn(named(fault_cases, "WeightsThere", "Spans",
                                                                      "SpansThere")),
                                            ::testing::ValuesIn(named(fault_kinds, "OutOfMemory"))),
                         name_of_fault);

} // namespace
} // namespace mailgrad

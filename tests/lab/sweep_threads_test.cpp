#include <mailgrad/tests/lab/lab_runs.hpp>

#include <mailgrad/lab/sweep/sweep_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace mailgrad::lab {
namespace {

using ::testing::UnorderedElementsAre;

const auto never = [] { return false; };

TEST(SweepThreads, RunEachCellOnce) {
  std::mutex mutex;
  std::vector<std::size_t> ran;
  run_on_threads(
      std::array<std::size_t, 5>{3, 1, 4, 7, 5}, 3,
      [&](std::size_t cell) {
        const std::lock_guard guard(mutex);
        ran.push_back(cell);
      },
      never);
  EXPECT_THAT(ran, UnorderedElementsAre(3U, 1U, 4U, 7U, 5U));
}

TEST(SweepThreads, BeginNoCellAfterAStopOrAFailure) {
  std::atomic<int> begun{0};
  const std::vector<std::size_t> cells(100, 0);
  run_on_threads(
      cells, 2, [&](std::size_t) { ++begun; }, [&] { return begun > 2; });
  EXPECT_LE(begun, 4);
  begun = 0;
  const auto fail = [&](std::size_t) {
    ++begun;
    throw std::runtime_error("the disk is full");
  };
  EXPECT_THROW(run_on_threads(cells, 2, fail, never), std::runtime_error);
  EXPECT_LE(begun, 2);
}

/// Two runs share their data, and nothing else.
TEST(SweepThreads, RunTwoVirtualRunsThatDoNotDisturbEachOther) {
  const std::array policies{"async", "sync", "ssp:1", "async"};
  const auto data = testing::small_data();
  const auto trained = [&](std::size_t cell) {
    const testing::lab_case c{3, "exp", policies[cell], 60};
    training_options o = testing::lab_options(c);
    o.optimizer = testing::sgd(0.1);
    virtual_run run(testing::small_model(), data, o, testing::lab_delays(c));
    run.run();
    return run.report().parameters_sha256;
  };
  std::array<std::string, 4> digests;
  run_on_threads(
      std::array<std::size_t, 4>{0, 1, 2, 3}, 2, [&](std::size_t cell) { digests[cell] = trained(cell); },
      never);
  for (std::size_t cell = 0; cell < digests.size(); ++cell) EXPECT_EQ(digests[cell], trained(cell)) << cell;
  EXPECT_EQ(digests[0], digests[3]);
}

} // namespace
} // namespace mailgrad::lab

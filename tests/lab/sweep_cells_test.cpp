#include <mailgrad/lab/sweep/sweep_folder.hpp>
#include <mailgrad/lab/sweep/sweep_summary.hpp>
#include <mailgrad/tests/lab/lab_runs.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace mailgrad::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::small_data;
using testing::small_model;
using ::testing::StartsWith;
using testing::words_of_refusal;

const sweep policies_and_seeds{.settings = {{"optimizer", "momentum"}, {"lr", "0.05"}},
                               .grid = {{"policy", {"async", "sync"}}, {"seed", {"1", "2"}}},
                               .without = {{{"policy", "sync"}, {"seed", "2"}}}};

std::vector<sweep_row> rows_of(const sweep& s, const virtual_run_options& how = {.workers = 2}) {
  return s.run(small_model(), small_data(), {.batch = 4, .steps = 20}, how);
}

/// "async" with seed 2, without a sweep.
training_report alone() {
  training_options o{
      .policy = "async", .delays = "exp", .delays_seed = 2, .batch = 4, .steps = 20, .seed = 2};
  o.optimizer = parse_optimizer("momentum");
  o.optimizer.learning_rate = 0.05;
  virtual_run run(small_model(), small_data(), o, {.workers = 2});
  run.run();
  return run.report();
}

TEST(SweepCells, HaveARowForEachThatIsTheRunOfItsSettings) {
  const std::vector<sweep_row> rows = rows_of(policies_and_seeds);
  ASSERT_THAT(rows, SizeIs(3));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].cell, i);
    EXPECT_EQ(rows[i].ended, "completed") << rows[i].why;
    EXPECT_EQ(rows[i].steps, 20U);
  }
  EXPECT_EQ(rows[1].parameters_sha256, alone().parameters_sha256);
  EXPECT_NE(rows[0].parameters_sha256, rows[1].parameters_sha256);
  EXPECT_GT(rows[0].staleness_mean, 0);
  EXPECT_EQ(rows[2].staleness_mean, 0) << "sync";
  EXPECT_THAT(summaries_of(policies_and_seeds, rows), SizeIs(2));
}

TEST(SweepCells, SayWhenTheTargetWasReached) {
  sweep s = policies_and_seeds;
  s.target = sweep_target{"train_loss", 1e9};
  for (const sweep_row& row : rows_of(s)) EXPECT_TRUE(row.time_to_target) << row.cell;
  s.target->value = 0;
  for (const sweep_row& row : rows_of(s)) EXPECT_FALSE(row.time_to_target) << row.cell;
}

TEST(SweepCells, EndInARowIfTheyFail) {
  const auto made =
      run_cell(policies_and_seeds, 1, []() -> cell_terms { throw std::runtime_error("no disk"); });
  ASSERT_TRUE(made);
  EXPECT_EQ(made->row.ended, "failed");
  EXPECT_EQ(made->row.why, "no disk");
  EXPECT_THAT(made->curve, IsEmpty());
}

TEST(SweepCells, LeaveNoRowIfTheyAreStopped) {
  EXPECT_THAT(rows_of(policies_and_seeds, {.workers = 2, .stop = [] { return true; }}), IsEmpty());
}

TEST(SweepCells, AreRefusedBeforeAnyRuns) {
  std::atomic<int> told = 0;
  const auto refusal = [&](const char* key, const char* value) {
    sweep s = policies_and_seeds;
    s.settings = {{key, value}};
    return words_of_refusal([&] { rows_of(s, {.workers = 2, .on_progress = [&](const auto&) { ++told; }}); });
  };
  EXPECT_THAT(refusal("frobnicate", "1"), HasSubstr("no setting 'frobnicate'"));
  EXPECT_THAT(refusal("lr", "fast"), StartsWith("lr: 'fast' is no number"));
  EXPECT_THAT(refusal("batch", "-1"), StartsWith("batch: '-1' is no whole number"));
  EXPECT_THAT(refusal("shards", "4294967297"), StartsWith("shards: "));
  EXPECT_THAT(refusal("cure", "tea"), HasSubstr("tea"));
  EXPECT_EQ(told, 0);
}

} // namespace
} // namespace mailgrad::lab

#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using testing::small_data;
using testing::small_model;

training_options recorded_by_two() {
  training_options o;
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 0}};
  o.batch = 8;
  o.shards = 3;
  o.words = {"--batch", "8"};
  return o;
}

run_plan planned_from(training_options o) { return plan_run(small_model(), small_data(), std::move(o)); }

TEST(RecordingOfPlan, TellsWorkersShardsFactsAndWords) {
  const run_plan plan = planned_from(recorded_by_two());
  const recording_header h = recording_header_of(plan);
  EXPECT_EQ(h.workers, 2u);
  EXPECT_EQ(h.shards, 3u);
  EXPECT_EQ(h.seats, 0u) << "nobody may join later";
  EXPECT_EQ(h.facts, facts_and_names(plan));
  EXPECT_THAT(h.words, ElementsAre("--batch", "8"));
}

TEST(RecordingOfPlan, RepeatsOfTheFirstPartWhatMustStayTheSame) {
  training_options o = recorded_by_two();
  o.elsewhere.emplace(); // workers that have told nothing yet
  run_plan plan = planned_from(o);
  recording before;
  before.header = recording_header_of(plan);
  for (auto& [what, is] : before.header.facts)
    if (what == first_weights_fact) is = "those of the first part";
  before.header.facts.emplace_back(computers_fact, "two of a kind");
  plan.recorded_before = std::make_shared<const recording>(before);

  const recording_header h = recording_header_of(plan);
  EXPECT_EQ(told_fact(h.facts, first_weights_fact), "those of the first part");
  EXPECT_EQ(told_fact(h.facts, computers_fact), "two of a kind");
  EXPECT_FALSE(tells(h.facts, products_fact)) << "the first part does not tell it";
}

TEST(RecordingOfPlan, LeavesRoomForTheWeightsReportsAndCheckpoints) {
  training_options o = recorded_by_two();
  const run_plan without = planned_from(o);
  const std::uint64_t weights = without.layout->size() * sizeof(float), reports = 1 << 18;
  EXPECT_EQ(room_beside_recording(without, {}), weights + reports);

  o.checkpoints.folder = "checkpoints";
  o.checkpoints.keep = 3;
  const run_plan plan = planned_from(o);
  const auto checkpoints = [&](checkpoint_account so_far) {
    return room_beside_recording(plan, so_far) - weights - reports;
  };
  EXPECT_EQ(checkpoints({}), 4 * (4 * weights)) << "four, each of four arrays";
  EXPECT_EQ(checkpoints({.written = 2, .bytes = 2000}), 2 * 1000u)
      << "the third, and one before it is removed";
  EXPECT_EQ(checkpoints({.written = 50, .bytes = 50'000}), 1000u);
}

} // namespace
} // namespace mailgrad

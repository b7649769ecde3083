#include <mailgrad/tests/lab/lab_runs.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/actors/remote/serve_options.hpp>
#include <mailgrad/actors/training.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

// Real runs that a law of delays slows down. Their threads idle, so that they take little from other tests.

namespace mailgrad {
namespace {

using testing::lab_case;
using testing::small_data;
using testing::small_model;

training_options slowed(const lab_case& c) {
  training_options o = testing::lab_options(c);
  o.optimizer = testing::sgd(0.1);
  o.devices.assign(c.workers, {device_kind::cpu, 0});
  return o;
}

TEST(DelayedTraining, TakesAsLongAsTheLawSays) {
  const training_report r = train(small_model(), small_data(), slowed({2, "constant:0.02", "sync", 20}));
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_GE(r.wall_seconds, 0.2);
  ASSERT_TRUE(r.delays);
  EXPECT_EQ(r.delays->law, "constant:0.02");
  EXPECT_FALSE(r.delays->virtual_time);
  EXPECT_THAT(to_json(r), ::testing::HasSubstr(R"("virtual_time": false)"));
}

TEST(DelayedTraining, MakesTheSameWeights) {
  training_options o = slowed({1, "exp:mean=0.001", "async", 40});
  const std::string slow = train(small_model(), small_data(), o).parameters_sha256;
  o.delays.clear();
  EXPECT_EQ(train(small_model(), small_data(), o).parameters_sha256, slow);
}

TEST(DelayedTraining, IsReplayedWithoutItsDelays) {
  const scratch_folder folder;
  training_options o = slowed({3, "exp:mean=0.003*i", "async", 60});
  o.record = (folder.path() / "run.rec").string();
  const training_report first = train(small_model(), small_data(), o);
  o.replay = std::make_shared<const recording>(read_recording(o.record));
  o.record.clear();
  o.delays = "constant:1000";
  const training_report again = train(small_model(), small_data(), o);
  EXPECT_EQ(again.ended, "completed") << again.why;
  EXPECT_EQ(again.parameters_sha256, first.parameters_sha256);
  EXPECT_FALSE(again.delays);
}

TEST(DelayedTraining, CanBeGivenUpDuringALongStep) {
  training run(small_model(), small_data(), slowed({2, "constant:100000", "async", 20}));
  EXPECT_FALSE(run.wait_for(std::chrono::milliseconds{30}));
}

TEST(DelayedTraining, RefusesWhatIsNoLaw) {
  testing::expect_refused({
      {"delays",
       [] {
         training(small_model(), small_data(), slowed({2, "gama"}));
       },
       "delays 'gama' are unknown"},
      {"workers elsewhere",
       [] {
         training(small_model(), small_data(), slowed({2, "exp"}), remote::serve_options{});
       },
       "those of workers in other processes cannot be prescribed"},
  });
}

/// The half of the sum of all differences between the shares of each gap.
double variation_between(const training_report& a, const training_report& b) {
  std::map<std::uint64_t, double> apart;
  for (const auto& [gap, count] : a.staleness.buckets())
    apart[gap] += static_cast<double>(count) / static_cast<double>(a.staleness.total());
  for (const auto& [gap, count] : b.staleness.buckets())
    apart[gap] -= static_cast<double>(count) / static_cast<double>(b.staleness.total());
  double sum = 0;
  for (const auto& [gap, share] : apart) sum += std::abs(share);
  return sum / 2;
}

/// No step of the real run is shorter than its twin in virtual time. How much longer it is depends on what
/// else runs on this machine.
TEST(DelayedTraining, HasATwinInVirtualTime) {
  const lab_case c{4, "gamma:cv=0.3,mean=0.01*i", "async", 400};
  const training_report real = train(small_model(), small_data(), slowed(c));
  const training_report twin = testing::run_in_lab(c);
  EXPECT_GE(real.wall_seconds, 0.98 * twin.wall_seconds);
  EXPECT_LT(variation_between(real, twin), 0.25);
  RecordProperty("variation", std::to_string(variation_between(real, twin)));
  RecordProperty("slower", std::to_string(real.wall_seconds / twin.wall_seconds));
}

} // namespace
} // namespace mailgrad

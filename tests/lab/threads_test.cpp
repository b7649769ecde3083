#include <mailgrad/actors/remote/serve_options.hpp>
#include <mailgrad/actors/training.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/lab/experiment.hpp>
#include <mailgrad/lab/sweep/sweep_folder.hpp>
#include <mailgrad/tests/lab/lab_runs.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

namespace mailgrad::lab {
namespace {

using namespace ::testing;
using namespace mailgrad::testing;

// Real runs that a law of delays slows down. Their threads idle, so that they take little from other tests.

training_options slowed(const lab_case& c) {
  training_options o = lab_options(c);
  o.optimizer = sgd(0.1);
  o.devices.assign(c.workers, {device_kind::cpu, 0});
  return o;
}

training_report trained(const training_options& o) { return train(small_model(), small_data(), o); }

TEST(DelayedTraining, TakesAsLongAsTheLawSays) {
  const training_report r = trained(slowed({2, "constant:0.02", "sync", 20}));
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_GE(r.wall_seconds, 0.2);
  ASSERT_TRUE(r.delays);
  EXPECT_EQ(r.delays->law, "constant:0.02");
  EXPECT_FALSE(r.delays->virtual_time);
  EXPECT_THAT(to_json(r), HasSubstr(R"("virtual_time": false)"));
}

TEST(DelayedTraining, MakesTheSameWeights) {
  training_options o = slowed({1, "exp:mean=0.001", "async", 40});
  const std::string slow = trained(o).parameters_sha256;
  o.delays.clear();
  EXPECT_EQ(trained(o).parameters_sha256, slow);
}

TEST(DelayedTraining, IsReplayedWithoutItsDelays) {
  const scratch_folder folder;
  training_options o = slowed({3, "exp:mean=0.003*i", "async", 60});
  o.record = (folder.path() / "run.rec").string();
  const training_report first = trained(o);
  o.replay = std::make_shared<const recording>(read_recording(o.record));
  o.record.clear();
  o.delays = "constant:1000";
  const training_report again = trained(o);
  EXPECT_EQ(again.ended, "completed") << again.why;
  EXPECT_EQ(again.parameters_sha256, first.parameters_sha256);
  EXPECT_FALSE(again.delays);
}

TEST(DelayedTraining, CanBeGivenUpDuringALongStep) {
  training run(small_model(), small_data(), slowed({2, "constant:100000", "async", 20}));
  EXPECT_FALSE(run.wait_for(std::chrono::milliseconds{30}));
}

TEST(DelayedTraining, RefusesWhatIsNoLaw) {
  const training_options good = slowed({2, "exp"}), wrong = slowed({2, "gama"});
  expect_refused({
      {"delays", [&] { training(small_model(), small_data(), wrong); }, "delays 'gama' are unknown"},
      {"workers elsewhere", [&] { training(small_model(), small_data(), good, remote::serve_options{}); },
       "those of workers in other processes cannot be prescribed"},
  });
}

/// The half of the sum of all differences between the shares of each gap.
double variation_between(const training_report& a, const training_report& b) {
  std::map<std::uint64_t, double> apart;
  for (const auto& [r, sign] : {std::pair{&a, 1.0}, {&b, -1.0}})
    for (const auto& [gap, count] : r->staleness.buckets())
      apart[gap] += sign * static_cast<double>(count) / static_cast<double>(r->staleness.total());
  double sum = 0;
  for (const auto& [gap, share] : apart) sum += std::abs(share);
  return sum / 2;
}

/// No step of the real run is shorter than its twin in virtual time. How much longer it is depends on what
/// else runs on this machine.
TEST(DelayedTraining, HasATwinInVirtualTime) {
  const lab_case c{4, "gamma:cv=0.3,mean=0.01*i", "async", 400};
  const training_report real = trained(slowed(c)), twin = run_in_lab(c);
  EXPECT_GE(real.wall_seconds, 0.98 * twin.wall_seconds);
  EXPECT_LT(variation_between(real, twin), 0.25);
  RecordProperty("variation", std::to_string(variation_between(real, twin)));
  RecordProperty("slower", std::to_string(real.wall_seconds / twin.wall_seconds));
}

// The experiment on threads that write without locks, on data that it is given.

experiment_result hogwild_on(data_split data) {
  const auto found = std::ranges::find(experiments(), "hogwild", &experiment::name);
  EXPECT_TRUE(found->takes_data);
  experiment_options o;
  o.quick = true;
  o.data = std::make_shared<const data_split>(std::move(data));
  experiment_result r;
  found->run(o, r);
  return r;
}

TEST(HogwildExperiment, TakesDataAndThenComparesSpeeds) {
  const experiment_result r = hogwild_on(*small_data(40));
  ASSERT_EQ(r.claims.size(), 3U);
  EXPECT_TRUE(r.claims[1].holds()) << "gradients not written";
  EXPECT_THAT(r.claims[2].name, HasSubstr("speed"));
  EXPECT_GT(r.claims[2].measured, 0);
  ASSERT_EQ(r.figures.size(), 2U);
  EXPECT_EQ(r.figures[1].x.marks.size(), 3U);
}

TEST(HogwildExperiment, RefusesDataWithoutClasses) {
  const dataset numbers(float_features{{1}, {1, 2}}, {0.5F, 1.5F});
  const data_split heights{numbers, numbers, "heights", {}};
  EXPECT_THAT([&] { hogwild_on(heights); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("--data: 'heights' has no classes")));
}

/// 0.906 is the accuracy of logistic regression by plain SGD after three epochs.
TEST(HogwildExperiment, IsAsAccurateAsOneWorkerOnFarmAds) {
  const char* given = std::getenv("MAILGRAD_DATA");
  const std::filesystem::path folder = std::filesystem::path(given ? given : MAILGRAD_DATA_DIR) / "farm-ads";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no real data set farm-ads";
  const experiment_result r = hogwild_on(open_data(folder.string(), {}));
  EXPECT_NEAR(r.claims[0].expected, 0.906, 0.02);
  EXPECT_NEAR(r.claims[0].measured, 0.906, 0.02);
  EXPECT_TRUE(r.claims[1].holds());
}

const auto never = [] { return false; };

TEST(SweepThreads, RunEachCellOnce) {
  std::array<std::atomic<int>, 8> runs{};
  const auto count = [&](std::size_t cell) { ++runs[cell]; };
  run_on_threads(std::array<std::size_t, 5>{3, 1, 4, 7, 5}, 3, count, never);
  constexpr int expected[] = {0, 1, 0, 1, 1, 1, 0, 1};
  for (std::size_t cell = 0; cell < runs.size(); ++cell) EXPECT_EQ(runs[cell].load(), expected[cell]) << cell;
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
  const auto data = small_data();
  const auto digest = [&](std::size_t cell) {
    const lab_case c{3, "exp", policies[cell], 60};
    virtual_run run(small_model(), data, lively_options(c), lab_delays(c));
    run.run();
    return run.report().parameters_sha256;
  };
  std::array<std::string, 4> digests;
  const auto run = [&](std::size_t cell) { digests[cell] = digest(cell); };
  run_on_threads(std::array<std::size_t, 4>{0, 1, 2, 3}, 2, run, never);
  for (std::size_t cell = 0; cell < digests.size(); ++cell) EXPECT_EQ(digests[cell], digest(cell)) << cell;
  EXPECT_EQ(digests[0], digests[3]);
}

} // namespace
} // namespace mailgrad::lab

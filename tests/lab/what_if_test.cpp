#include <mailgrad/actors/training.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/lab/what_if.hpp>
#include <mailgrad/tests/lab/lab_runs.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gmock/gmock.h>

// Real runs on threads, recorded, and once more in virtual time with the durations that their steps had.

namespace mailgrad::lab {
namespace {

using namespace ::testing;
using namespace mailgrad::testing;

struct recorded_training {
  training_options options;
  recording order;
  training_report report;
};

recorded_training recorded(const std::string& policy, std::uint32_t shards = 1, std::uint64_t steps = 400) {
  const scratch_folder folder;
  recorded_training r;
  r.options = lab_options({4, "exp:mean=0.0005*i", policy, steps});
  r.options.devices.assign(4, {device_kind::cpu, 0});
  r.options.shards = shards;
  r.options.record = (folder.path() / "run.rec").string();
  r.report = train(small_model(), small_data(), r.options);
  EXPECT_EQ(r.report.ended, "completed") << r.report.why;
  r.order = read_recording(r.options.record);
  return r;
}

training_report virtual_run_of(const retimed_run& what) {
  virtual_run_options how{what.workers()};
  how.delays = what.delays();
  return run_in_lab(what.options(), how);
}

class EveryVirtualTwin : public ::testing::TestWithParam<const char*> {};

/// What docs/lab.md promises of a run with nothing changed.
TEST_P(EveryVirtualTwin, KeepsTheOrderOfItsRun) {
  for (const std::uint32_t shards : {1U, 3U}) {
    const recorded_training was = recorded(GetParam(), shards);
    const retimed_run twin(was.options, was.order, {});
    const run_figures run = figures_of(twin.recorded());
    const training_report r = virtual_run_of(twin);
    const run_figures again = figures_of(r);
    EXPECT_EQ(r.steps, was.report.steps);
    EXPECT_EQ(r.delays->law, "as recorded");
    EXPECT_LT(total_variation(run.gaps, again.gaps), 0.02) << r.staleness.mean();
    EXPECT_NEAR(again.seconds, run.seconds, 0.02 * run.seconds);
    EXPECT_NEAR(static_cast<double>(again.updates), static_cast<double>(run.updates),
                0.02 * static_cast<double>(run.updates));
    EXPECT_NEAR(again.waited, run.waited, 0.02 * 4 * run.seconds);
    EXPECT_NEAR(static_cast<double>(again.discarded), static_cast<double>(run.discarded), 8);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, EveryVirtualTwin,
                         Values("async", "sync", "ssp:1", "dssp:1,4", "backup:1", "k-async:2",
                                "k-batch-async:3", "k-batch-sync:2", "rennala:3", "ringmaster:3", "malenia:5",
                                "ringleader", "quorum:2", "queue:1,3", "queue:2,4"),
                         [](const auto& policy) { return test_name(policy.param); });

/// A worker may come to a switch one step sooner or later, and then other steps meet behind it.
TEST(VirtualTwin, SwitchesWhereItsRunDidAndIsLikeItBehind) {
  const recorded_training was = recorded("async, sync@100, ssp:2@250");
  const retimed_run twin(was.options, was.order, {});
  const training_report r = virtual_run_of(twin);
  ASSERT_EQ(r.switches.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(r.switches[i].to, was.report.switches[i].to);
    EXPECT_NEAR(static_cast<double>(r.switches[i].step), static_cast<double>(was.report.switches[i].step), 4);
  }
  EXPECT_EQ(r.steps, was.report.steps);
  EXPECT_LT(total_variation(twin.recorded().gaps, r.staleness), 0.15);
}

TEST(WhatIf, TellsOfTheRecordedRunWhatItsReportTells) {
  for (const char* policy :
       {"ssp:1", "k-async:2", "queue:2,3", "malenia:5", "ringleader", "async, queue:1,4@150, sync@300"}) {
    const recorded_training was = recorded(policy);
    const run_figures told = figures_of(retimed_run(was.options, was.order, {}).recorded());
    EXPECT_EQ(told.gaps.buckets(), was.report.staleness.buckets()) << policy;
    EXPECT_EQ(told.updates, was.report.updates) << policy;
    EXPECT_GT(told.seconds, 0) << policy;
  }
}

TEST(WhatIf, ChangesThePolicy) {
  const recorded_training was = recorded("async");
  const retimed_run under_sync(was.options, was.order, {"sync"});
  const training_report r = virtual_run_of(under_sync);
  EXPECT_EQ(r.policy, "sync");
  EXPECT_EQ(r.steps, was.report.steps);
  EXPECT_EQ(r.staleness.max(), 0U);
  EXPECT_GT(r.wall_seconds, in_seconds(under_sync.recorded().lasted)) << "all wait for the slowest worker";
}

TEST(WhatIf, ChangesSpeeds) {
  const recorded_training was = recorded("async");
  const double before = virtual_run_of({was.options, was.order, {"sync"}}).wall_seconds;
  const retimed_run slower(was.options, was.order, {"sync", 0, "", 1, {{{3}, 10}}});
  const named_delays delays = slower.delays();
  EXPECT_EQ(delays.name, "as recorded, worker 3 times 10");
  for (const std::uint32_t w : {2U, 3U}) {
    const double first = in_seconds(slower.recorded().steps[w].front());
    EXPECT_DOUBLE_EQ(delays.law_of({w})->seconds(1, 0), w == 3 ? 10 * first : first);
  }
  const training_report r = virtual_run_of(slower);
  EXPECT_EQ(r.delays->law, delays.name);
  EXPECT_GT(r.wall_seconds, before);
}

TEST(WhatIf, LetsMoreWorkersTakeTheRecordedStepsFromOtherPlacesOn) {
  const recorded_training was = recorded("async");
  const retimed_run twice(was.options, was.order, {"", 8});
  const std::vector<instant>& steps = twice.recorded().steps[1];
  EXPECT_EQ(twice.delays().law_of({1})->seconds(1, 0), in_seconds(steps.front()));
  EXPECT_EQ(twice.delays().law_of({5})->seconds(1, 0), in_seconds(steps[steps.size() / 2]));
  const training_report r = virtual_run_of(twice);
  EXPECT_EQ(r.workers, 8U);
  EXPECT_EQ(r.steps, was.report.steps);
}

TEST(WhatIf, TakesALawForTheRecordedDurations) {
  const recorded_training was = recorded("async");
  const training_report r = virtual_run_of({was.options, was.order, {"", 0, "constant:2", 1, {{{0}, 2}}}});
  EXPECT_EQ(r.delays->law, "constant:2, worker 0 times 2");
  EXPECT_NEAR(r.wall_seconds, 400 / (3 / 2.0 + 1 / 4.0), 4);
}

TEST(WhatIf, TrainsTheSameModelOnTheSameSamples) {
  const recorded_training was = recorded("sync");
  EXPECT_EQ(virtual_run_of({was.options, was.order, {}}).parameters_sha256, was.report.parameters_sha256)
      << "under sync the order makes no difference";
}

TEST(WhatIf, MeasuresHowFarHistogramsAreApart) {
  staleness_histogram a, b, c;
  a.count(0, 3);
  a.count(1, 1);
  b.count(0, 6);
  b.count(1, 2);
  c.count(2, 5);
  EXPECT_EQ(total_variation(a, b), 0);
  EXPECT_EQ(total_variation(a, c), 1);
  b.count(1, 8);
  EXPECT_DOUBLE_EQ(total_variation(a, b), 0.375);
}

TEST(WhatIf, RefusesWhatMakesNoSense) {
  const recorded_training was = recorded("async", 1, 40);
  const auto refuses = [&](const training_options& options, const what_if& changed, const char* why) {
    expect_refused({why, [&] { retimed_run(options, was.order, changed); }, why});
  };
  refuses(was.options, {.slowed = {{{4}, 2}}}, "there is no worker 4 of 4");
  refuses(was.options, {.slowed = {{{0}, 0}}}, "worker 0 by a factor of 0; it must be above 0");
  refuses(was.options, {.delays = "gama"}, "delays 'gama' are unknown");
  training_options on_gpu = was.options;
  on_gpu.parameters = {{device_kind::cuda, 0}};
  refuses(on_gpu, {}, "lay on a GPU");
}

} // namespace
} // namespace mailgrad::lab

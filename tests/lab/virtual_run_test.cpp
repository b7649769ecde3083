#include <mailgrad/tests/lab/lab_runs.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/actors/training.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using testing::lab_case;
using testing::lab_delays;
using testing::lab_options;
using testing::lively_options;
using testing::run_in_lab;
using testing::small_data;
using testing::small_model;

TEST(VirtualRun, TrainsInVirtualTime) {
  const lab_case c{4, "constant:2", "async", 40};
  const training_report r = run_in_lab(c, lively_options(c));
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_EQ(r.steps, 40U);
  EXPECT_EQ(r.updates, 40U);
  EXPECT_EQ(r.workers, 4U);
  EXPECT_DOUBLE_EQ(r.wall_seconds, 20);
  EXPECT_TRUE(r.test_loss);
}

TEST(VirtualRun, IsRepeatedToTheBitByItsSeeds) {
  lab_case c{5, "lognormal:sigma=1", "ssp:2", 200};
  const training_report first = run_in_lab(c, lively_options(c));
  const training_report again = run_in_lab(c, lively_options(c));
  EXPECT_EQ(first.parameters_sha256, again.parameters_sha256);
  EXPECT_EQ(first.wall_seconds, again.wall_seconds);
  EXPECT_EQ(first.staleness.buckets(), again.staleness.buckets());
  c.seed = 2;
  const training_report other = run_in_lab(c, lively_options(c));
  EXPECT_NE(first.parameters_sha256, other.parameters_sha256);
}

/// The gradients of a run do not depend on whether somebody looks at its weights.
TEST(VirtualRun, TestsItsWeightsOnTheWay) {
  for (const char* policy : {"async", "sync", "hogwild"}) {
    const lab_case c{4, "constant:2", policy, 40};
    std::vector<lab::virtual_test> tests;
    lab::virtual_run_options how = lab_delays(c);
    how.test_every = 12;
    how.on_test = [&](const lab::virtual_test& t) { tests.push_back(t); };
    training_options o = lively_options(c);
    o.shards = 2;
    lab::virtual_run run(small_model(), small_data(), o, how);
    run.run();
    EXPECT_EQ(run.report().parameters_sha256, run_in_lab(c, o).parameters_sha256) << policy;
    ASSERT_EQ(tests.size(), 3U) << policy;
    EXPECT_EQ(tests[1].steps, 24U);
    EXPECT_EQ(tests[1].time, std::chrono::seconds{12});
    EXPECT_EQ(tests[1].updates, std::string(policy) == "sync" ? 6U : 24U) << policy;
    EXPECT_LT(tests[2].result.loss, tests[0].result.loss) << policy;
    EXPECT_TRUE(tests[1].train_loss && tests[1].result.accuracy) << policy;
  }
}

TEST(VirtualRun, IsPlannedWithoutBeingRun) {
  const lab_case c{4, "constant:2", "async", 40};
  EXPECT_EQ(lab::virtual_run::plan(small_model(), small_data(), lab_options(c), lab_delays(c)), 40U);
  lab_case wrong = c;
  wrong.delays = "gama";
  EXPECT_THROW(lab::virtual_run::plan(small_model(), small_data(), lab_options(wrong), lab_delays(wrong)),
               std::invalid_argument);
}

/// Without other workers, nothing depends on time.
TEST(VirtualRun, MakesTheWeightsOfARealRun) {
  for (const char* policy : {"async", "sync", "hogwild"}) {
    const lab_case c{1, "exp", policy, 60};
    training_options real = lively_options(c);
    real.devices = {{device_kind::cpu, 0}};
    real.delays.clear();
    const training_report trained = train(small_model(), small_data(), real);
    EXPECT_EQ(run_in_lab(c, lively_options(c)).parameters_sha256, trained.parameters_sha256) << policy;
  }
}

/// Under the barrier, delays change the time alone.
TEST(VirtualRun, MakesTheSameWeightsUnderABarrierWhateverTheDelays) {
  const lab_case even{3, "constant:1", "sync", 60};
  const lab_case uneven{3, "list:1,5,2", "sync", 60};
  const training_report one = run_in_lab(even, lively_options(even));
  const training_report other = run_in_lab(uneven, lively_options(uneven));
  EXPECT_EQ(one.parameters_sha256, other.parameters_sha256);
  EXPECT_DOUBLE_EQ(one.wall_seconds, 20);
  EXPECT_DOUBLE_EQ(other.wall_seconds, 100);
  EXPECT_NEAR(other.worker_waits[0].barrier, 80, 5);
}

TEST(VirtualRun, BalancesTheLedgerUnderEveryPolicy) {
  for (const char* policy :
       {"async", "sync", "hogwild", "ssp:1", "dssp:1,3", "backup:1", "k-async:2", "k-batch-async:3",
        "k-batch-sync:3", "rennala:3", "ringmaster:2", "malenia:5", "ringleader",
        "async, sync@100, hogwild@200", "ringleader, malenia:5@100, ringleader@200"}) {
    const lab_case c{4, "exp:mean=i", policy, 300};
    training_options o = lively_options(c);
    o.shards = std::string_view(policy) == "hogwild" ? 1 : 3;
    const training_report r = run_in_lab(c, o);
    EXPECT_EQ(r.ended, "completed") << policy << ": " << r.why;
    EXPECT_TRUE(r.ledger.balances()) << policy << ": " << to_string(r.ledger);
    EXPECT_EQ(r.steps, 300U) << policy;
    EXPECT_EQ(r.parameters_sha256, run_in_lab(c, o).parameters_sha256) << policy;
  }
}

/// The fastest of four workers is four times as fast as the slowest.
TEST(VirtualRun, LearnsWhereEachWorkerWeighsAlike) {
  for (const char* policy : {"malenia:4", "malenia:8", "ringleader"}) {
    const lab_case c{4, "exp:mean=i", policy, 2000};
    const training_report r = run_in_lab(c, lively_options(c));
    ASSERT_TRUE(r.test_accuracy) << policy;
    EXPECT_GT(*r.test_accuracy, 0.7) << policy << ": a third is guessing";
  }
}

struct skipping_run {
  training_report report;
  std::uint64_t computed = 0;
};

skipping_run run_with(const training_options& o, const lab::virtual_run_options& how) {
  lab::virtual_run run(small_model(), small_data(), o, how);
  run.run();
  return {run.report(), run.computed()};
}

/// Runs with and without skipping, and compares all that does not tell of losses.
skipping_run expect_same_if_skipped(const training_options& o, lab::virtual_run_options how,
                                    const std::string& what) {
  const skipping_run skipped = run_with(o, how);
  how.computes_discarded = true;
  const skipping_run whole = run_with(o, how);
  const training_report &a = skipped.report, &b = whole.report;
  EXPECT_EQ(a.ended, "completed") << what << ": " << a.why;
  EXPECT_EQ(a.parameters_sha256, b.parameters_sha256) << what;
  EXPECT_EQ(to_string(a.ledger), to_string(b.ledger)) << what;
  EXPECT_EQ(a.staleness.buckets(), b.staleness.buckets()) << what;
  EXPECT_EQ(a.discarded_staleness.buckets(), b.discarded_staleness.buckets()) << what;
  EXPECT_EQ(a.gradient_cosine.count(), b.gradient_cosine.count()) << what;
  EXPECT_EQ(a.gradient_cosine.mean(), b.gradient_cosine.mean()) << what;
  EXPECT_EQ(a.weight_gap.mean(), b.weight_gap.mean()) << what;
  EXPECT_EQ(a.wall_seconds, b.wall_seconds) << what;
  EXPECT_EQ(a.samples, b.samples) << what;
  EXPECT_EQ(whole.computed, b.steps + b.gradient_cosine.count()) << what;
  return skipped;
}

TEST(VirtualRun, ComputesNoGradientThatIsDiscarded) {
  const std::vector<std::string> taking{"async",     "sync",      "hogwild",         "ssp:1",
                                        "dssp:1,3",  "k-async:2", "k-batch-async:3", "quorum:2",
                                        "queue:2,3", "ringleader"};
  const std::vector<std::string> dropping{
      "backup:1",  "backup:3",     "k-batch-sync:3", "rennala:3",
      "malenia:5", "ringmaster:1", "ringmaster:2",   "async, backup:2@100, ringmaster:1@200, hogwild@250"};
  for (const auto& policies : {taking, dropping})
    for (const std::string& policy : policies) {
      const lab_case c{4, "exp:mean=i", policy, 300};
      training_options o = lively_options(c);
      o.shards = policy == "hogwild" ? 1 : 3;
      const skipping_run r = expect_same_if_skipped(o, lab_delays(c), policy);
      const std::uint64_t discarded = r.report.ledger.discarded_in_all();
      EXPECT_EQ(r.computed, r.report.steps - discarded) << policy;
      EXPECT_EQ(discarded > 0, policies == dropping) << policy;
    }
}

/// Whoever looks at gradients sees those that count, and no others.
TEST(VirtualRun, SkipsGradientsWhateverElseReadsThem) {
  const lab_case c{4, "exp:mean=i", "ringmaster:2", 300};
  const auto with = [&](const std::string& what, const std::function<void(training_options&)>& change,
                        lab::virtual_run_options how) {
    training_options o = lively_options(c);
    change(o);
    const skipping_run r = expect_same_if_skipped(o, std::move(how), what);
    EXPECT_GT(r.report.ledger.discarded_in_all(), 0U) << what;
    return r.computed < r.report.steps;
  };
  const auto nothing = [](training_options&) {};
  EXPECT_TRUE(with(
      "clipped", [](auto& o) { o.optimizer.clip_norm = 0.5; }, lab_delays(c)));
  EXPECT_TRUE(with(
      "sampled", [](auto& o) { o.sample_gap = 3; }, lab_delays(c)));
  for (const char* cure : {"inverse", "dana-zero:0.9", "gap-aware", "dc-asgd:0.1", "delay-feedback:0.5"})
    EXPECT_TRUE(with(
        cure,
        [&](auto& o) {
          o.cure = cure;
          o.optimizer =
              parse_optimizer(std::string(cure) == "dana-zero:0.9" ? "sgd" : "momentum:momentum=0.9");
          o.optimizer.learning_rate = 0.05;
        },
        lab_delays(c)))
        << cure;
  lab::virtual_run_options how = lab_delays(c);
  how.local_samples = true;
  EXPECT_TRUE(with("own samples", nothing, how));
  how = lab_delays(c);
  how.links = {"0.1*i", "1e5"};
  EXPECT_TRUE(with("links", nothing, how));
  for (const bool feedback : {true, false}) {
    how = lab_delays(c);
    how.wire = {parse_wire_format("top-k:0.2"), feedback};
    EXPECT_FALSE(with("a lossy wire, which reads all that it sends", nothing, how));
  }
  EXPECT_FALSE(with(
      "local steps, which read their gradients", [](auto& o) { o.local_steps = 2; }, lab_delays(c)));
}

TEST(VirtualRun, TrainsWithLocalStepsCuresAndSampledGaps) {
  const lab_case c{4, "exp", "async", 120};
  training_options local = lively_options(c);
  local.local_steps = 3;
  const training_report r = run_in_lab(c, local);
  EXPECT_GE(r.updates, 40U);
  EXPECT_LE(r.updates, 44U) << "the last of each worker may be of fewer steps";
  training_options cured = lively_options(c);
  cured.cure = "inverse";
  EXPECT_TRUE(run_in_lab(c, cured).mean_step_factor);
  training_options sampled = lively_options(c);
  sampled.sample_gap = 10;
  EXPECT_GT(run_in_lab(c, sampled).gradient_cosine.count(), 0U);
}

TEST(VirtualRun, TellsItsTimeline) {
  const lab_case c{2, "constant:1", "sync", 4};
  training_options o = lively_options(c);
  o.trace_events = 100;
  lab::virtual_run run(small_model(), small_data(), o, lab_delays(c));
  run.run();
  run.report();
  EXPECT_GE(run.trace().tracks.size(), 4U);
}

TEST(VirtualRun, CanBeStopped) {
  const lab_case c{3, "exp", "async", 1'000'000};
  lab::virtual_run_options lab = lab_delays(c);
  lab.stop = [] { return true; };
  lab::virtual_run run(small_model(), small_data(), lab_options(c), lab);
  EXPECT_EQ(run.total_steps(), 1'000'000U);
  run.run();
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped");
  EXPECT_TRUE(r.ledger.balances());
  EXPECT_LT(r.steps, 2000U);
}

TEST(VirtualRun, CanBeGivenUpBeforeItsEnd) {
  const lab_case c{3, "exp", "async", 100};
  const lab::virtual_run run(small_model(), small_data(), lab_options(c), lab_delays(c));
}

/// Workers that take turns: each reads what the step before has made, and its own step is in the next.
TEST(VirtualRun, ShowsWhatWorkersRead) {
  const lab_case c{3, "constant:2", "async", 9};
  std::vector<std::pair<std::uint32_t, double>> reads;
  std::vector<float> first, last;
  lab::virtual_run_options lab = lab_delays(c);
  lab.on_read = [&](rank worker, instant when, std::span<const float> weights) {
    reads.emplace_back(worker.value, in_seconds(when));
    (reads.size() == 1 ? first : last).assign(weights.begin(), weights.end());
  };
  lab::virtual_run run(small_model(), small_data(), lively_options(c), lab);
  run.run();
  using read = std::pair<std::uint32_t, double>;
  EXPECT_THAT(reads, ::testing::ElementsAre(read{0, 0}, read{1, 0}, read{2, 0}, read{0, 2}, read{1, 2},
                                            read{2, 2}, read{0, 4}, read{1, 4}, read{2, 4}));
  EXPECT_EQ(first.size(), run.layout().size());
  EXPECT_NE(first, last);
  EXPECT_NE(last, std::vector<float>(run.parameters().begin(), run.parameters().end()));
}

/// The model estimates the mean of its targets, and each worker has one of them.
TEST(VirtualRun, GivesEachWorkerSamplesOfItsOwn) {
  const auto data =
      std::make_shared<data_split>(data_split{dataset(float_features{{1}, {0, 0}}, {2.0F, 6.0F}),
                                              dataset(float_features{{1}, {0}}, std::vector<float>{0}),
                                              "two",
                                              {}});
  training_options o = lab_options({2, "list:1,3", "async", 4'000});
  o.optimizer = testing::sgd(0.01);
  lab::virtual_run_options lab{2};
  lab.local_samples = true;
  lab::virtual_run run(find_model("quadratic:dimension=1"), data, o, lab);
  run.run();
  EXPECT_NEAR(run.parameters()[0], (2 + 6 / 3.0) / (1 + 1 / 3.0), 0.05) << "the faster one has three votes";
  lab.workers = 3;
  o.delays = "exp";
  EXPECT_THAT([&] { lab::virtual_run(find_model("quadratic"), data, o, lab); },
              ::testing::ThrowsMessage<std::invalid_argument>(::testing::HasSubstr("too few")));
}

TEST(VirtualRun, RefusesWhatMakesNoSenseInVirtualTime) {
  const auto with = [](const std::function<void(training_options&)>& change) {
    return [change] {
      const lab_case c{2, "exp", "async", 10};
      training_options o = lab_options(c);
      change(o);
      run_in_lab(c, o);
    };
  };
  testing::expect_refused({
      {"no worker", [] { run_in_lab({0}); }, "lab: a run in virtual time needs a worker"},
      {"delays",
       [] {
         run_in_lab({2, "gama"});
       },
       "delays 'gama' are unknown; did you mean 'gamma'?"},
      {"policy",
       [] {
         run_in_lab({2, "exp", "backup:2"});
       },
       "policy 'backup:2'"},
      {"a recording", with([](auto& o) { o.record = "run.rec"; }), "is repeated by its seeds"},
      {"checkpoints", with([](auto& o) { o.checkpoints.folder = "here"; }), "keeps no checkpoints"},
      {"metrics", with([](auto& o) { o.metrics = "m.jsonl"; }), "writes no files while it goes on"},
      {"tests", with([](auto& o) { o.patience = 3; }), "tests its weights at its end only"},
      {"slots", with([](auto& o) { o.slots = 3; }), "has all its workers from the start"},
      {"a card", with([](auto& o) {
         o.parameters = {{device_kind::cuda, 0}};
       }),
       "on the host"},
      {"reads of several shards",
       [] {
         training_options o = lab_options({2, "exp", "async", 10});
         o.shards = 2;
         lab::virtual_run_options lab{2};
         lab.on_read = [](rank, instant, std::span<const float>) {};
         lab::virtual_run(small_model(), small_data(), o, lab);
       },
       "one shard only"},
      {"sums", with([](auto& o) { o.all_reduce = true; }), "has no ranks of MPI"},
  });
}

} // namespace
} // namespace mailgrad

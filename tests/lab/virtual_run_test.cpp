#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/scheduler/stepping_system.hpp>
#include <mailgrad/actors/training.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/engine/worker/delayed_runner.hpp>
#include <mailgrad/lab/virtual_clock.hpp>
#include <mailgrad/optim/policies/custom_policy.hpp>
#include <mailgrad/tests/lab/lab_runs.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

namespace mailgrad::lab {
namespace {

using namespace ::testing;
using namespace mailgrad::testing;
using std::chrono::seconds;

class VirtualClock : public ::testing::Test {
protected:
  auto noted(int what) {
    return [this, what] { told_.push_back(what); };
  }
  virtual_clock clock_;
  std::vector<int> told_;
};

TEST_F(VirtualClock, JumpsFromEventToEvent) {
  clock_.at(seconds{3}, noted(3));
  clock_.at(seconds{1}, noted(1));
  EXPECT_EQ(clock_.now(), instant{0});
  for (const int due : {1, 3}) {
    EXPECT_TRUE(clock_.next());
    EXPECT_EQ(clock_.now(), seconds{due});
  }
  EXPECT_FALSE(clock_.next());
  EXPECT_THAT(told_, ElementsAre(1, 3));
}

TEST_F(VirtualClock, NeverGoesBack) {
  clock_.at(seconds{2}, [this] { clock_.at(seconds{1}, noted(1)); });
  clock_.next();
  EXPECT_TRUE(clock_.next());
  EXPECT_EQ(clock_.now(), seconds{2});
  EXPECT_THAT(told_, ElementsAre(1));
}

TEST_F(VirtualClock, ForgetsItsEvents) {
  clock_.at(seconds{2}, noted(2));
  EXPECT_EQ(clock_.waiting(), 1U);
  clock_.clear();
  EXPECT_FALSE(clock_.next());
}

TEST_F(VirtualClock, KeepsTheOrderOfThousandsOfEvents) {
  std::mt19937_64 random(1);
  std::vector<std::pair<instant, int>> asked;
  std::vector<int> order;
  int number = 0;
  const std::function<void(int)> again = [&](int more) {
    const instant when = clock_.now() + instant{static_cast<std::int64_t>(random() % 50)};
    asked.emplace_back(when, number);
    clock_.at(when, [&, more, n = number++] {
      order.push_back(n);
      for (int i = 0; more > 0 && i < 2; ++i) again(more - 1);
    });
  };
  for (int i = 0; i < 40; ++i) again(6);
  while (clock_.next()) continue;
  std::ranges::sort(asked); // by moment, and by the order of asking
  ASSERT_EQ(order.size(), asked.size());
  for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], asked[i].second) << i;
}

TEST_F(VirtualClock, ForeseesTheEventsOfOwners) {
  std::map<virtual_clock::owner, std::vector<std::size_t>> before; // how many events were before it
  clock_.foresee([&](virtual_clock::owner whose, virtual_clock::foresight) {
    before[whose].push_back(whose - told_.size());
  });
  for (int i = 0; i < 20; ++i) clock_.at(seconds{i}, static_cast<virtual_clock::owner>(i), noted(i));
  clock_.at(seconds{30}, noted(30));
  while (clock_.next()) continue;
  EXPECT_THAT(before[12], ElementsAre(8, 5, 2));
  EXPECT_THAT(before[19], ElementsAre(8, 5, 2));
  EXPECT_THAT(before[3], ElementsAre(2)) << "it was among the first";
  EXPECT_EQ(before.count(30), 0U) << "it is nobody's";
}

TEST(VirtualRun, IsRepeatedToTheBitByItsSeeds) {
  lab_case c{5, "lognormal:sigma=1", "ssp:2", 200};
  const training_report first = run_lively(c), again = run_lively(c);
  EXPECT_EQ(first.parameters_sha256, again.parameters_sha256);
  EXPECT_EQ(first.wall_seconds, again.wall_seconds);
  EXPECT_EQ(first.staleness.buckets(), again.staleness.buckets());
  c.seed = 2;
  EXPECT_NE(first.parameters_sha256, run_lively(c).parameters_sha256);
}

/// The gradients of a run do not depend on whether somebody looks at its weights.
TEST(VirtualRun, TestsItsWeightsOnTheWay) {
  for (const char* policy : {"async", "sync", "hogwild"}) {
    const lab_case c{4, "constant:2", policy, 40};
    std::vector<virtual_test> tests;
    training_options o = lively_options(c);
    o.shards = 2;
    const std::string unseen = run_in_lab(o, lab_delays(c)).parameters_sha256;
    virtual_run_options how = lab_delays(c);
    how.test_every = 12;
    how.on_test = [&](const virtual_test& t) { tests.push_back(t); };
    EXPECT_EQ(run_in_lab(o, how).parameters_sha256, unseen) << policy;
    ASSERT_EQ(tests.size(), 3U) << policy;
    EXPECT_EQ(tests[1].steps, 24U);
    EXPECT_EQ(tests[1].time, seconds{12});
    EXPECT_EQ(tests[1].updates, std::string(policy) == "sync" ? 6U : 24U) << policy;
    EXPECT_LT(tests[2].result.loss, tests[0].result.loss) << policy;
    EXPECT_TRUE(tests[1].train_loss && tests[1].result.accuracy) << policy;
  }
}

TEST(VirtualRun, IsPlannedWithoutBeingRun) {
  lab_case c{4, "constant:2", "async", 40};
  EXPECT_EQ(virtual_run::plan(small_model(), small_data(), lab_options(c), lab_delays(c)), 40U);
  c.delays = "gama";
  EXPECT_THROW(virtual_run::plan(small_model(), small_data(), lab_options(c), lab_delays(c)),
               std::invalid_argument);
}

/// Without other workers, nothing depends on time.
TEST(VirtualRun, MakesTheWeightsOfARealRun) {
  for (const char* policy : {"async", "sync", "hogwild"}) {
    const lab_case c{1, "exp", policy, 60};
    training_options real = lively_options(c);
    real.devices = {{device_kind::cpu, 0}};
    real.delays.clear();
    EXPECT_EQ(run_lively(c).parameters_sha256, train(small_model(), small_data(), real).parameters_sha256)
        << policy;
  }
}

/// Under the barrier, delays change the time alone.
TEST(VirtualRun, MakesTheSameWeightsUnderABarrierWhateverTheDelays) {
  const training_report one = run_lively({3, "constant:1", "sync", 60});
  const training_report other = run_lively({3, "list:1,5,2", "sync", 60});
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
    const training_report r = run_in_lab(o, lab_delays(c));
    EXPECT_EQ(r.ended, "completed") << policy << ": " << r.why;
    EXPECT_TRUE(r.ledger.balances()) << policy << ": " << to_string(r.ledger);
    EXPECT_EQ(r.steps, 300U) << policy;
    EXPECT_EQ(r.parameters_sha256, run_in_lab(o, lab_delays(c)).parameters_sha256) << policy;
  }
}

/// The fastest of four workers is four times as fast as the slowest.
TEST(VirtualRun, LearnsWhereEachWorkerWeighsAlike) {
  for (const char* policy : {"malenia:4", "malenia:8", "ringleader"})
    EXPECT_GT(run_lively({4, "exp:mean=i", policy, 2000}).test_accuracy.value_or(0), 0.7)
        << policy << ": a third is guessing";
}

struct skipping_run {
  training_report report;
  std::uint64_t computed = 0;
};

skipping_run run_with(const training_options& o, const virtual_run_options& how) {
  virtual_run run(small_model(), small_data(), o, how);
  run.run();
  return {run.report(), run.computed()};
}

/// Runs with and without skipping, and compares all that does not tell of losses.
skipping_run expect_same_if_skipped(const training_options& o, virtual_run_options how,
                                    const std::string& what) {
  SCOPED_TRACE(what);
  const skipping_run skipped = run_with(o, how);
  how.computes_discarded = true;
  const skipping_run whole = run_with(o, how);
  const training_report &a = skipped.report, &b = whole.report;
  EXPECT_EQ(a.ended, "completed") << a.why;
  EXPECT_EQ(a.parameters_sha256, b.parameters_sha256);
  EXPECT_EQ(to_string(a.ledger), to_string(b.ledger));
  EXPECT_EQ(a.staleness.buckets(), b.staleness.buckets());
  EXPECT_EQ(a.discarded_staleness.buckets(), b.discarded_staleness.buckets());
  EXPECT_EQ(a.gradient_cosine.count(), b.gradient_cosine.count());
  EXPECT_EQ(a.gradient_cosine.mean(), b.gradient_cosine.mean());
  EXPECT_EQ(a.weight_gap.mean(), b.weight_gap.mean());
  EXPECT_EQ(a.wall_seconds, b.wall_seconds);
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(whole.computed, b.steps + b.gradient_cosine.count());
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
  const auto skips = [&](const std::string& what, const auto& change) {
    training_options o = lively_options(c);
    virtual_run_options how = lab_delays(c);
    change(o, how);
    const skipping_run r = expect_same_if_skipped(o, std::move(how), what);
    EXPECT_GT(r.report.ledger.discarded_in_all(), 0U) << what;
    return r.computed < r.report.steps;
  };
  EXPECT_TRUE(skips("clipped", [](auto& o, auto&) { o.optimizer.clip_norm = 0.5; }));
  EXPECT_TRUE(skips("sampled", [](auto& o, auto&) { o.sample_gap = 3; }));
  for (const std::string cure :
       {"inverse", "dana-zero:0.9", "gap-aware", "dc-asgd:0.1", "delay-feedback:0.5"})
    EXPECT_TRUE(skips(cure, [&](auto& o, auto&) {
      o.cure = cure;
      o.optimizer = parse_optimizer(cure == "dana-zero:0.9" ? "sgd" : "momentum:momentum=0.9");
      o.optimizer.learning_rate = 0.05;
    })) << cure;
  EXPECT_TRUE(skips("own samples", [](auto&, auto& how) { how.local_samples = true; }));
  EXPECT_TRUE(skips("links", [](auto&, auto& how) { how.links = {"0.1*i", "1e5"}; }));
  for (const bool feedback : {true, false})
    EXPECT_FALSE(skips("a lossy wire, which reads all that it sends", [&](auto&, auto& how) {
      how.wire = {parse_wire_format("top-k:0.2"), feedback};
    }));
  EXPECT_FALSE(skips("local steps, which read their gradients", [](auto& o, auto&) { o.local_steps = 2; }));
}

TEST(VirtualRun, TrainsWithLocalStepsCuresAndSampledGaps) {
  const lab_case c{4, "exp", "async", 120};
  const auto run = [&](const auto& change) {
    training_options o = lively_options(c);
    change(o);
    return run_in_lab(o, lab_delays(c));
  };
  EXPECT_THAT(run([](auto& o) { o.local_steps = 3; }).updates, AllOf(Ge(40U), Le(44U)))
      << "the last of each worker may be of fewer steps";
  EXPECT_TRUE(run([](auto& o) { o.cure = "inverse"; }).mean_step_factor);
  EXPECT_GT(run([](auto& o) { o.sample_gap = 10; }).gradient_cosine.count(), 0U);
}

TEST(VirtualRun, CanBeStopped) {
  const lab_case c{3, "exp", "async", 1'000'000};
  virtual_run_options how = lab_delays(c);
  how.stop = [] { return true; };
  virtual_run run(small_model(), small_data(), lab_options(c), how);
  EXPECT_EQ(run.total_steps(), 1'000'000U);
  run.run();
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped");
  EXPECT_TRUE(r.ledger.balances());
  EXPECT_LT(r.steps, 2000U);
}

TEST(VirtualRun, CanBeGivenUpBeforeItsEnd) {
  const lab_case c{3, "exp", "async", 100};
  const virtual_run run(small_model(), small_data(), lab_options(c), lab_delays(c));
}

/// Workers that take turns: each reads what the step before has made, and its own step is in the next.
TEST(VirtualRun, ShowsWhatWorkersRead) {
  const lab_case c{3, "constant:2", "async", 9};
  std::vector<std::pair<std::uint32_t, double>> reads;
  std::vector<float> first, last;
  virtual_run_options how = lab_delays(c);
  how.on_read = [&](rank worker, instant when, std::span<const float> weights) {
    reads.emplace_back(worker.value, in_seconds(when));
    (reads.size() == 1 ? first : last).assign(weights.begin(), weights.end());
  };
  virtual_run run(small_model(), small_data(), lively_options(c), how);
  run.run();
  EXPECT_THAT(reads, ElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 0), Pair(0, 2), Pair(1, 2), Pair(2, 2),
                                 Pair(0, 4), Pair(1, 4), Pair(2, 4)));
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
  o.optimizer = sgd(0.01);
  virtual_run_options how{2};
  how.local_samples = true;
  virtual_run run(find_model("quadratic:dimension=1"), data, o, how);
  run.run();
  EXPECT_NEAR(run.parameters()[0], (2 + 6 / 3.0) / (1 + 1 / 3.0), 0.05) << "the faster one has three votes";
  how.workers = 3;
  o.delays = "exp";
  EXPECT_THAT([&] { virtual_run(find_model("quadratic"), data, o, how); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("too few")));
}

TEST(VirtualRun, RefusesWhatMakesNoSenseInVirtualTime) {
  const auto refuses = [](const lab_case& c, const char* why, const auto& change) {
    training_options o = lab_options(c);
    virtual_run_options how = lab_delays(c);
    change(o, how);
    expect_refused({why, [&] { run_in_lab(o, how); }, why});
  };
  const auto nothing = [](auto&, auto&) {};
  refuses({0}, "lab: a run in virtual time needs a worker", nothing);
  refuses({2, "gama"}, "delays 'gama' are unknown; did you mean 'gamma'?", nothing);
  refuses({2, "exp", "backup:2"}, "policy 'backup:2'", nothing);
  refuses({}, "is repeated by its seeds", [](auto& o, auto&) { o.record = "run.rec"; });
  refuses({}, "keeps no checkpoints", [](auto& o, auto&) { o.checkpoints.folder = "here"; });
  refuses({}, "writes no files while it goes on", [](auto& o, auto&) { o.metrics = "m.jsonl"; });
  refuses({}, "tests its weights at its end only", [](auto& o, auto&) { o.patience = 3; });
  refuses({}, "has all its workers from the start", [](auto& o, auto&) { o.slots = 3; });
  refuses({}, "on the host", [](auto& o, auto&) { o.parameters.assign(1, {device_kind::cuda, 0}); });
  refuses({}, "one shard only", [](auto& o, auto& how) {
    o.shards = 2;
    how.on_read = [](rank, instant, std::span<const float>) {};
  });
  refuses({}, "has no ranks of MPI", [](auto& o, auto&) { o.all_reduce = true; });
}

// Workers that are interrupted by the update that makes their gradient too stale.

training_report run_interrupted(const lab_case& c) {
  virtual_run_options how = lab_delays(c);
  how.interrupts = true;
  return run_in_lab(lab_options(c), how);
}

class LateSteps : public ::testing::Test {
protected:
  /// Begins a step of a worker.
  void begin(std::uint32_t worker, int due) {
    timers_[worker]->at(instant{due}, [this, worker] { ended_.emplace_back(worker, clock_->now()); });
  }
  const std::shared_ptr<virtual_clock> clock_ = std::make_shared<virtual_clock>();
  std::vector<std::shared_ptr<step_timer>> timers_;
  std::vector<std::pair<std::uint32_t, instant>> ended_;
};

TEST_F(LateSteps, EndWithTheUpdateThatMakesThemLate) {
  late_steps steps(clock_, 1);
  timers_ = {steps.timer_of({0}), steps.timer_of({1})};
  begin(0, 10);
  begin(1, 11);
  EXPECT_EQ(steps.end(0), 0U) << "both have read version 0";
  EXPECT_EQ(steps.end(1), 0U) << "a gradient that is one version old counts";
  EXPECT_TRUE(clock_->next());
  EXPECT_EQ(steps.end(2), 1U);
  EXPECT_EQ(steps.end(3), 0U) << "none is under way";
  EXPECT_TRUE(clock_->next()) << "when it would have ended";
  EXPECT_THAT(ended_, ElementsAre(Pair(0, instant{10}), Pair(1, instant{10})));
  EXPECT_EQ(steps.passed(), 1U);
}

/// The events of interrupted steps serve the later ones, so they do not add up.
TEST_F(LateSteps, LeaveFewEventsInTheClock) {
  late_steps steps(clock_, 0);
  timers_ = {steps.timer_of({0})};
  std::uint64_t version = 0;
  for (int step = 0; step < 1000; ++step) {
    begin(0, 1000 + step);
    steps.end(version);
    if (step < 999) steps.end(++version);
  }
  EXPECT_EQ(clock_->waiting(), 1U);
  while (clock_->next()) continue;
  ASSERT_EQ(ended_.size(), 1000U);
  EXPECT_EQ(ended_[998].second, instant{0}) << "interrupted";
  EXPECT_EQ(ended_[999].second, instant{1999}) << "when it is due";
  EXPECT_EQ(steps.passed(), 1U);
}

/// A step that is shorter than what is left of the one before needs an event of its own.
TEST_F(LateSteps, EndWhenTheyAreDueBeforeAnEventThatIsLeft) {
  late_steps steps(clock_, 0);
  timers_ = {steps.timer_of({0})};
  begin(0, 100);
  steps.end(0);
  steps.end(1);
  begin(0, 10);
  steps.end(1);
  ASSERT_TRUE(clock_->next());
  begin(0, 200);
  steps.end(1);
  while (clock_->next()) continue;
  EXPECT_THAT(ended_, ElementsAre(Pair(0, instant{0}), Pair(0, instant{10}), Pair(0, instant{200})));
}

/// Every gradient is an update if it is fresh, and else is dropped.
class fresh_or_dropped : public policy {
public:
  static constexpr std::string_view policy_name = "fresh-or-dropped";
  std::string_view name() const noexcept override { return policy_name; }
  bool shards_agree() const noexcept override { return true; }
  std::optional<std::uint64_t> most_stale() const noexcept override { return 0; }
  void join(rank) override {}
  void leave(rank) override {}
  decision judge(const gradient_stamp& g) override {
    if (g.version_now != g.version_read) return {verdict::discard, "not fresh"};
    return {verdict::apply};
  }
  bool batch_complete() const override { return false; }
  void batch_applied() override {}
  bool may_start(rank) const override { return true; }
  void keep(archive& a) override { a.version(1); }
};

class fresh_in_rounds final : public fresh_or_dropped {
public:
  static constexpr std::string_view policy_name = "fresh-in-rounds";
  std::string_view name() const noexcept override { return policy_name; }
  bool has_rounds() const noexcept override { return true; }
};

/// Worker 1 takes three seconds and worker 0 one, so that worker 1 never ends a step of its own.
TEST_F(LateSteps, BeginAnewFromTheNewWeights) {
  for (const std::string& policy : {std::string("backup:1"), custom_policy<fresh_or_dropped>()}) {
    const training_report r = run_interrupted({2, "list:1,3", policy, 200});
    EXPECT_EQ(r.updates, 100U) << policy;
    EXPECT_EQ(r.ledger.discarded_in_all(), 100U) << policy;
    EXPECT_NEAR(r.wall_seconds, 100, 1e-6) << policy;
    EXPECT_TRUE(r.delays->interrupts) << policy;
  }
}

/// Without interruptions worker 1 ends the steps that it began, and its gradients are discarded.
TEST_F(LateSteps, EndLaterWithoutInterruptions) {
  const training_report r = run_in_lab({2, "list:1,3", "backup:1", 200});
  EXPECT_NEAR(static_cast<double>(r.ledger.discarded_in_all()) / static_cast<double>(r.steps), 0.25, 0.02);
  EXPECT_FALSE(r.delays->interrupts);
}

/// Ringmaster with a threshold of R lets a gradient be R - 1 versions old, and interrupts it with the next
/// one.
TEST_F(LateSteps, MayBeAsOldAsRingmasterSays) {
  const training_report r = run_interrupted({2, "list:1,2", "ringmaster:3", 300});
  EXPECT_EQ(r.staleness.max(), 2U) << "of worker 1, while worker 0 makes two updates";
  EXPECT_EQ(r.ledger.discarded_in_all(), 0U);
  EXPECT_GT(run_interrupted({2, "list:1,2", "ringmaster:2", 300}).ledger.discarded_in_all(), 50U);
}

/// The mean of the fourth of eight times, and of the first four gradients of any workers.
///
/// Source  Dutta et al., AISTATS 2018: K-sync and K-batch-sync; two of the figures are a simulation of
///         others.
TEST_F(LateSteps, GiveTheKnownTimesOfUpdates) {
  const auto takes = [](const char* delays, const char* policy, double expected, double share) {
    EXPECT_NEAR(seconds_per_update(run_interrupted({8, delays, policy, 80'000})), expected, share * expected)
        << policy << " with " << delays;
  };
  takes("exp", "backup:4", 0.634524, 0.02);
  takes("shifted-exp:shift=1,mean=1", "backup:4", 1.634524, 0.015);
  takes("gamma:cv=0.1", "backup:4", 0.982, 0.005);
  takes("exp", "k-batch-sync:4", 0.5, 0.02);
  takes("shifted-exp:shift=1,mean=1", "k-batch-sync:4", 1.63, 0.015);
}

/// The same twice, and with tests in mid-run. Each multiple that an event passes is followed by one test.
TEST_F(LateSteps, AreTheSameEachTime) {
  const lab_case c{6, "exp", "rennala:3", 240};
  std::vector<std::string> weights;
  std::vector<std::uint64_t> multiples;
  for (const std::uint64_t every : {0U, 50U}) {
    virtual_run_options how = lab_delays(c);
    how.interrupts = true;
    how.test_every = every;
    how.on_test = [&](const virtual_test& t) { multiples.push_back(t.steps / 50); };
    virtual_run run(small_model(), small_data(), lively_options(c), how);
    run.run();
    weights.push_back(run.report().parameters_sha256);
    EXPECT_EQ(run.report().steps, 240U);
    EXPECT_LT(run.computed(), 240U);
    EXPECT_LE(run.events(), 240U + 6U);
  }
  EXPECT_THAT(multiples, ElementsAre(1U, 2U, 3U, 4U)) << "of the second run alone";
  EXPECT_EQ(weights[0], weights[1]);
}

TEST_F(LateSteps, AreRefusedWhereNothingIsLate) {
  const auto refuses = [](const std::string& policy, const char* why, const auto& change) {
    const lab_case c{4, "exp", policy, 40};
    virtual_run_options how = lab_delays(c);
    how.interrupts = true;
    training_options o = lab_options(c);
    change(o, how);
    expect_refused({why, [&] { virtual_run::plan(small_model(), small_data(), o, how); }, why});
  };
  const auto nothing = [](auto&, auto&) {};
  refuses("async", "under async, which discards no gradient as too stale", nothing);
  refuses("hogwild", "under hogwild", nothing);
  refuses("backup:1, async@20", "switches its policy", nothing);
  refuses(custom_policy<fresh_in_rounds>(), "its old weights again", nothing);
  refuses("backup:1", "several shards", [](auto& o, auto&) { o.shards = 2; });
  refuses("backup:1", "latency", [](auto&, auto& how) { how.links.latency = "1"; });
  refuses("backup:1", "sample-gap", [](auto& o, auto&) { o.sample_gap = 5; });
  refuses("backup:1", "local steps", [](auto& o, auto&) { o.local_steps = 2; });
  refuses("backup:1", "lossy wire", [](auto&, auto& how) { how.wire.format = parse_wire_format("1-bit"); });
  refuses("backup:1", "gradients that are discarded are computed",
          [](auto&, auto& how) { how.computes_discarded = true; });
}

// What slows real workers down, on a clock that computing and messages do not move, against simulated
// workers: the same moments, and so the same run to the bit. What a real run has besides, bench/twin
// measures.

/// Real workers, each with a program of its own, whose steps idle as `train --delays` lets them.
class delayed_run {
public:
  explicit delayed_run(const lab_case& c)
      : plan_(plan_run(small_model(), small_data(), virtual_options(lab_options(c), c.workers))),
        law_(c.delays, c.workers), seed_(c.seed) {
    plan_.update_helpers = 0;
    run_crew_options options{clock_};
    options.coordinator_has_thread = false;
    options.on_end = [this](run_outcome outcome) {
      outcome_ = std::move(outcome);
      ended_ = clock_->now();
    };
    options.runner = [this](rank worker, std::shared_ptr<step_runner> own) -> std::shared_ptr<step_runner> {
      return std::make_shared<delayed_runner>(
          std::move(own), step_delays{law_.law_of(worker, seed_), clock_, clock_, instant{0}});
    };
    crew_.emplace(system_.actors(), plan_, std::move(options));
  }
  /// Events hold actors, which must be gone before their system.
  ~delayed_run() {
    crew_->give_up();
    system_.run();
    clock_->clear();
    crew_.reset();
    system_.run();
  }
  delayed_run(const delayed_run&) = delete;
  delayed_run& operator=(const delayed_run&) = delete;

  training_report run() {
    system_.run();
    while (!outcome_ && clock_->next()) system_.run();
    return report_of(outcome_.value());
  }
  std::vector<float> weights() const { return joined_weights(*outcome_, *plan_.layout).value(); }
  instant ended() const { return ended_; }

private:
  run_plan plan_;
  const delay_spec law_;
  const std::uint64_t seed_;
  const std::shared_ptr<virtual_clock> clock_ = std::make_shared<virtual_clock>();
  std::optional<run_outcome> outcome_;
  instant ended_{0};
  stepping_system system_;
  std::optional<run_crew> crew_;
};

class DelayedTwin : public ::testing::TestWithParam<const char*> {};

TEST_P(DelayedTwin, IsTheVirtualRunToTheBit) {
  for (const char* law : {"exp:mean=0.5*i", "gamma:cv=0.3", "slowdown:p=0.1,factor=10"}) {
    SCOPED_TRACE(law);
    const lab_case c{4, law, GetParam(), 200, 7};
    delayed_run real(c);
    const training_report was = real.run();
    virtual_run simulated(small_model(), small_data(), lab_options(c), lab_delays(c));
    simulated.run();
    const training_report is = simulated.report();
    EXPECT_EQ(was.staleness.buckets(), is.staleness.buckets());
    EXPECT_EQ(was.ledger, is.ledger);
    EXPECT_EQ(was.updates, is.updates);
    EXPECT_EQ(was.waits.barrier, is.waits.barrier);
    EXPECT_EQ(was.waits.bound, is.waits.bound);
    EXPECT_EQ(in_seconds(real.ended()), is.wall_seconds);
    EXPECT_TRUE(std::ranges::equal(real.weights(), simulated.parameters()));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, DelayedTwin,
                         Values("async", "sync", "ssp:1", "dssp:1,4", "backup:1", "k-async:2",
                                "k-batch-async:3", "queue:2,3", "k-batch-sync:2", "rennala:3", "ringmaster:3",
                                "malenia:5", "ringleader", "async, sync@60, ssp:2@120"),
                         [](const auto& policy) { return test_name(policy.param); });

} // namespace
} // namespace mailgrad::lab

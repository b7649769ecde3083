#include <mailgrad/tests/lab/lab_runs.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/lab/virtual_clock.hpp>
#include <mailgrad/optim/policies/custom_policy.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Workers that are interrupted by the update that makes their gradient too stale.

namespace mailgrad {
namespace {

using testing::lab_case;
using testing::lab_delays;
using testing::lab_options;
using testing::lively_options;
using testing::seconds_per_update;
using testing::small_data;
using testing::small_model;
using testing::words_of_refusal;

training_report run_interrupted(const lab_case& c) {
  lab::virtual_run_options how = lab_delays(c);
  how.interrupts = true;
  lab::virtual_run run(small_model(), small_data(), lab_options(c), std::move(how));
  run.run();
  return run.report();
}

TEST(LateSteps, EndWithTheUpdateThatMakesThemLate) {
  const auto clock = std::make_shared<lab::virtual_clock>();
  lab::late_steps steps(clock, 1);
  std::vector<std::pair<int, instant>> ended;
  for (const int worker : {0, 1}) {
    steps.timer_of({static_cast<std::uint32_t>(worker)})->at(instant{10 + worker}, [&, worker] {
      ended.emplace_back(worker, clock->now());
    });
  }
  EXPECT_EQ(steps.end(0), 0U) << "both have read version 0";
  EXPECT_EQ(steps.end(1), 0U) << "a gradient that is one version old counts";
  EXPECT_TRUE(clock->next());
  EXPECT_EQ(steps.end(2), 1U);
  EXPECT_EQ(steps.end(3), 0U) << "none is under way";
  EXPECT_TRUE(clock->next()) << "when it would have ended";
  EXPECT_EQ(ended, (std::vector<std::pair<int, instant>>{{0, instant{10}}, {1, instant{10}}}));
  EXPECT_EQ(steps.passed(), 1U);
}

/// The events of interrupted steps serve the later ones, so they do not add up.
TEST(LateSteps, LeaveFewEventsInTheClock) {
  const auto clock = std::make_shared<lab::virtual_clock>();
  lab::late_steps steps(clock, 0);
  const std::shared_ptr<step_timer> timer = steps.timer_of({0});
  std::vector<instant> ended;
  std::uint64_t version = 0;
  for (int step = 0; step < 1000; ++step) {
    timer->at(instant{1000 + step}, [&] { ended.push_back(clock->now()); });
    steps.end(version);
    if (step < 999) steps.end(++version);
  }
  EXPECT_EQ(clock->waiting(), 1U);
  while (clock->next()) continue;
  ASSERT_EQ(ended.size(), 1000U);
  EXPECT_EQ(ended[998], instant{0}) << "interrupted";
  EXPECT_EQ(ended[999], instant{1999}) << "when it is due";
  EXPECT_EQ(steps.passed(), 1U);
}

/// A step that is shorter than what is left of the one before needs an event of its own.
TEST(LateSteps, EndWhenTheyAreDueBeforeAnEventThatIsLeft) {
  const auto clock = std::make_shared<lab::virtual_clock>();
  lab::late_steps steps(clock, 0);
  const std::shared_ptr<step_timer> timer = steps.timer_of({0});
  std::vector<instant> ended;
  const auto begin = [&](int due, std::uint64_t version) {
    timer->at(instant{due}, [&] { ended.push_back(clock->now()); });
    steps.end(version);
  };
  begin(100, 0);
  steps.end(1);
  begin(10, 1);
  ASSERT_TRUE(clock->next());
  begin(200, 1);
  while (clock->next()) continue;
  EXPECT_EQ(ended, (std::vector<instant>{instant{0}, instant{10}, instant{200}}));
}

/// Worker 1 takes three seconds and worker 0 one, so that worker 1 never ends a step of its own.
TEST(LateSteps, BeginAnewFromTheNewWeights) {
  const training_report r = run_interrupted({2, "list:1,3", "backup:1", 200});
  EXPECT_EQ(r.updates, 100U);
  EXPECT_EQ(r.ledger.discarded_in_all(), 100U);
  EXPECT_NEAR(r.wall_seconds, 100, 1e-6);
}

/// Without interruptions worker 1 ends the steps that it began, and its gradients are discarded.
TEST(LateSteps, EndLaterWithoutInterruptions) {
  const training_report r = testing::run_in_lab({2, "list:1,3", "backup:1", 200});
  EXPECT_NEAR(static_cast<double>(r.ledger.discarded_in_all()) / static_cast<double>(r.steps), 0.25, 0.02);
}

/// Ringmaster with a threshold of R lets a gradient be R - 1 versions old, and interrupts it with the next
/// one.
TEST(LateSteps, MayBeAsOldAsRingmasterSays) {
  const training_report r = run_interrupted({2, "list:1,2", "ringmaster:3", 300});
  EXPECT_EQ(r.staleness.max(), 2U) << "of worker 1, while worker 0 makes two updates";
  EXPECT_EQ(r.ledger.discarded_in_all(), 0U);
  EXPECT_GT(run_interrupted({2, "list:1,2", "ringmaster:2", 300}).ledger.discarded_in_all(), 50U);
}

/// The mean of the fourth of eight times, and of the first four gradients of any workers.
///
/// Source  Dutta et al., AISTATS 2018: K-sync and K-batch-sync; two of the figures are a simulation of
///         others.
TEST(LateSteps, GiveTheKnownTimesOfUpdates) {
  struct known {
    const char *delays, *policy;
    double seconds, share;
  };
  for (const auto& [delays, policy, seconds, share] :
       {known{"exp", "backup:4", 0.634524, 0.02},
        {"shifted-exp:shift=1,mean=1", "backup:4", 1.634524, 0.015},
        {"gamma:cv=0.1", "backup:4", 0.982, 0.005},
        {"exp", "k-batch-sync:4", 0.5, 0.02},
        {"shifted-exp:shift=1,mean=1", "k-batch-sync:4", 1.63, 0.015}})
    EXPECT_NEAR(seconds_per_update(run_interrupted({8, delays, policy, 80'000})), seconds, share * seconds)
        << policy << " with " << delays;
}

/// The same twice, and with tests in mid-run. Each multiple that an event passes is followed by one test.
TEST(LateSteps, AreTheSameEachTime) {
  const lab_case c{6, "exp", "rennala:3", 240};
  std::vector<std::string> weights;
  for (const std::uint64_t every : {0U, 50U}) {
    lab::virtual_run_options how = lab_delays(c);
    how.interrupts = true;
    how.test_every = every;
    std::vector<std::uint64_t> tested;
    how.on_test = [&](const lab::virtual_test& t) { tested.push_back(t.steps); };
    lab::virtual_run run(small_model(), small_data(), lively_options(c), how);
    run.run();
    weights.push_back(run.report().parameters_sha256);
    EXPECT_EQ(run.report().steps, 240U);
    EXPECT_LT(run.computed(), 240U);
    EXPECT_LE(run.events(), 240U + 6U);
    std::vector<std::uint64_t> multiples;
    for (const std::uint64_t after : tested) multiples.push_back(after / 50);
    EXPECT_EQ(multiples,
              every == 0 ? std::vector<std::uint64_t>{} : (std::vector<std::uint64_t>{1, 2, 3, 4}));
  }
  EXPECT_EQ(weights[0], weights[1]);
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

/// Worker 1 never ends a step of its own.
TEST(LateSteps, KnowTheLimitOfAPolicyOfYourOwn) {
  const training_report r = run_interrupted({2, "list:1,3", custom_policy<fresh_or_dropped>(), 200});
  EXPECT_EQ(r.updates, 100U);
  EXPECT_EQ(r.ledger.discarded_in_all(), 100U);
  EXPECT_NEAR(r.wall_seconds, 100, 1e-6);
}

TEST(LateSteps, AreSaidInTheReport) {
  EXPECT_TRUE(run_interrupted({2, "list:1,3", "backup:1", 20}).delays->interrupts);
  EXPECT_FALSE(testing::run_in_lab({2, "list:1,3", "backup:1", 20}).delays->interrupts);
}

TEST(LateSteps, AreRefusedWhereNothingIsLate) {
  const auto refused = [](const std::string& policy, const auto& change) {
    const lab_case c{4, "exp", policy, 40};
    lab::virtual_run_options how = lab_delays(c);
    how.interrupts = true;
    training_options o = lab_options(c);
    change(o, how);
    return words_of_refusal([&] { lab::virtual_run::plan(small_model(), small_data(), o, how); });
  };
  const auto nothing = [](auto&, auto&) {};
  using ::testing::HasSubstr;
  EXPECT_THAT(refused("async", nothing), HasSubstr("under async, which discards no gradient as too stale"));
  EXPECT_THAT(refused("hogwild", nothing), HasSubstr("under hogwild"));
  EXPECT_THAT(refused("backup:1, async@20", nothing), HasSubstr("switches its policy"));
  EXPECT_THAT(refused("backup:1", [](auto& o, auto&) { o.shards = 2; }), HasSubstr("several shards"));
  EXPECT_THAT(refused("backup:1", [](auto&, auto& how) { how.links.latency = "1"; }), HasSubstr("latency"));
  EXPECT_THAT(refused("backup:1", [](auto& o, auto&) { o.sample_gap = 5; }), HasSubstr("sample-gap"));
  EXPECT_THAT(refused("backup:1", [](auto& o, auto&) { o.local_steps = 2; }), HasSubstr("local steps"));
  EXPECT_THAT(refused("backup:1", [](auto&, auto& how) { how.wire.format = parse_wire_format("1-bit"); }),
              HasSubstr("lossy wire"));
  EXPECT_THAT(refused("backup:1", [](auto&, auto& how) { how.computes_discarded = true; }),
              HasSubstr("gradients that are discarded are computed"));
  EXPECT_THAT(refused(custom_policy<fresh_in_rounds>(), nothing), HasSubstr("its old weights again"));
}

} // namespace
} // namespace mailgrad

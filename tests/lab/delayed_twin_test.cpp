#include <mailgrad/tests/lab/lab_runs.hpp>

#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/scheduler/stepping_system.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/worker/delayed_runner.hpp>
#include <mailgrad/lab/virtual_clock.hpp>
#include <mailgrad/lab/virtual_run.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// What slows real workers down, on a clock that computing and messages do not move, against simulated
// workers: the same moments, and so the same run to the bit. What a real run has besides, bench/twin
// measures.

namespace mailgrad {
namespace {

using testing::lab_case;
using testing::small_data;
using testing::small_model;

/// What two such runs have in common.
struct ended_run {
  training_report report;
  std::vector<float> weights;
  instant ended{0};
};

/// Real workers, each with a program of its own, whose steps idle as `train --delays` lets them.
class delayed_run {
public:
  explicit delayed_run(const lab_case& c)
      : plan_(
            plan_run(small_model(), small_data(), lab::virtual_options(testing::lab_options(c), c.workers))),
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

  ended_run run() {
    system_.run();
    while (!outcome_ && clock_->next()) system_.run();
    return {report_of(outcome_.value()), joined_weights(*outcome_, *plan_.layout).value(), ended_};
  }

private:
  run_plan plan_;
  const delay_spec law_;
  const std::uint64_t seed_;
  const std::shared_ptr<lab::virtual_clock> clock_ = std::make_shared<lab::virtual_clock>();
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
    const ended_run was = real.run();
    lab::virtual_run simulated(small_model(), small_data(), testing::lab_options(c), testing::lab_delays(c));
    simulated.run();
    const training_report is = simulated.report();
    EXPECT_EQ(was.report.staleness.buckets(), is.staleness.buckets());
    EXPECT_EQ(was.report.ledger, is.ledger);
    EXPECT_EQ(was.report.updates, is.updates);
    EXPECT_EQ(was.report.waits.barrier, is.waits.barrier);
    EXPECT_EQ(was.report.waits.bound, is.waits.bound);
    EXPECT_EQ(in_seconds(was.ended), is.wall_seconds);
    EXPECT_TRUE(std::ranges::equal(was.weights, simulated.parameters()));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, DelayedTwin,
                         ::testing::Values("async", "sync", "ssp:1", "dssp:1,4", "backup:1", "k-async:2",
                                           "k-batch-async:3", "queue:2,3", "k-batch-sync:2", "rennala:3",
                                           "ringmaster:3", "malenia:5", "ringleader",
                                           "async, sync@60, ssp:2@120"),
                         [](const auto& policy) {
                           std::string name = policy.param;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

} // namespace
} // namespace mailgrad

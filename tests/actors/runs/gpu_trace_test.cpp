#include <mailgrad/tests/actors/runs/gpu_runs.hpp>
#include <mailgrad/tests/engine/ticking_time.hpp>
#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <mailgrad/engine/account/report_of_run.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <sstream>

// The timelines of runs on streams of the simulated GPU, which runs what is queued as late as it may. The
// clock goes on whenever it is read.

namespace mailgrad {
namespace {

using testing::asked_watch;
using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using ::testing::HasSubstr;
using testing::on_gpu;
using testing::orders_on_gpu;

class GpuTrace : public ::testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    simulated_gpu::settings late = simulated_gpu::default_settings();
    late.when = simulated_gpu::timing::late;
    late.late_queries = 0;
    simulated_gpu::set_up(late);
  }
  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  /// A run whose watch asks when no message is on its way, or now and then as well.
  run_trace trace_of_run(drawn_order order, bool asks_now_and_then, std::size_t events = 1000) {
    assembly a;
    a.policy = GetParam();
    a.batches = 30;
    a.trace_events = events;
    const auto watch = std::make_shared<asked_watch>();
    return played(order, on_gpu(a, testing::small_data(), watch), watch, asks_now_and_then);
  }

  run_trace
  played(drawn_order& order, const assembly& a, const std::shared_ptr<asked_watch>& watch,
         bool asks_now_and_then,
         const std::shared_ptr<const time_source>& time = std::make_shared<testing::ticking_time>()) {
    const assembled_run run(system_.actors(), a, testing::small_data(), time);
    do
      while (system_.step(order))
        if (asks_now_and_then && order.below(4) == 0) watch->ask();
    while (watch->ask() > 0 || watch->watched() > 0);
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    return trace_of(run.outcome(), instant{0}, instant{0});
  }

  /// Steps by their number.
  static std::map<std::uint64_t, trace_event> steps_of(const trace_track& worker) {
    std::map<std::uint64_t, trace_event> found;
    for (const trace_event& e : worker.events())
      if (e.what == trace_kind::compute) found.emplace(e.step, e);
    return found;
  }
  /// The track of a worker is before that of its copies.
  template <class Check>
  static void for_each_worker(const run_trace& trace, const Check& check) {
    std::size_t workers = 0;
    for (std::size_t i = 1; i < trace.tracks.size(); ++i) {
      if (!trace.tracks[i]->name().ends_with(", copies")) continue;
      EXPECT_EQ(trace.tracks[i - 1]->name() + ", copies", trace.tracks[i]->name());
      check(steps_of(*trace.tracks[i - 1]), trace.tracks[i]->events());
      ++workers;
    }
    EXPECT_EQ(workers, 3U);
  }

  testing::deterministic_system system_;
};

TEST_P(GpuTrace, ShowsTheCopyOfEachBatchUnderTheStepBeforeIt) {
  for (const drawn_order& order : orders_on_gpu(10)) {
    const run_trace trace = trace_of_run(order, false);
    for_each_worker(trace, [](const auto& steps, const std::vector<trace_event>& copies) {
      ASSERT_FALSE(steps.empty());
      ASSERT_EQ(copies.size(), steps.size() - 1) << "all but the first";
      for (const trace_event& copy : copies) {
        EXPECT_EQ(copy.what, trace_kind::copy);
        const trace_event& before = steps.at(copy.step - 1);
        EXPECT_GT(copy.begin, before.begin) << copy.step;
        EXPECT_LT(copy.begin, copy.end) << copy.step;
        EXPECT_LT(copy.end, before.end) << copy.step;
      }
    });
  }
}

TEST_P(GpuTrace, ShowsNoTwoCopiesAtOnce) {
  for (const drawn_order& order : orders_on_gpu(10)) {
    const run_trace trace = trace_of_run(order, true);
    for_each_worker(trace, [](const auto& steps, const std::vector<trace_event>& copies) {
      instant last{0};
      for (const trace_event& copy : copies) {
        EXPECT_GE(copy.begin, last);
        last = copy.end;
        EXPECT_LE(copy.begin, steps.at(copy.step).begin) << copy.step;
      }
    });
  }
}

TEST_P(GpuTrace, IsWrittenWithItsCopies) {
  std::ostringstream out;
  write_trace(out, trace_of_run(drawn_order(1), false));
  EXPECT_THAT(out.str(), HasSubstr("copies a batch ahead"));
  EXPECT_THAT(out.str(), HasSubstr(", copies"));
}

TEST_P(GpuTrace, IsNotMadeUnlessWanted) {
  EXPECT_TRUE(trace_of_run(drawn_order(1), false, 0).tracks.empty());
}

/// The GPU reads its clock when a step begins and when it ends, and each time it goes on by 1 us. All that
/// is queued runs at once, so that is how long each step takes, however late the host hears of it.
TEST_P(GpuTrace, ShowsStepsWithWeightsThereByTheClockOfTheGpu) {
  if (std::string_view(GetParam()) == "hogwild") GTEST_SKIP() << "its weights lie on the host";
  for (const std::uint64_t ahead : {0U, 1U})
    for (drawn_order& order : orders_on_gpu(5)) {
      simulated_gpu::settings s = simulated_gpu::default_settings();
      s.when = simulated_gpu::timing::late;
      s.late_queries = order.seed() % 3;
      const auto time = std::make_shared<testing::ticking_time>();
      s.clock = [time] { return static_cast<std::uint64_t>((time->now() + std::chrono::hours{1}).count()); };
      simulated_gpu::set_up(s);
      assembly a;
      a.policy = GetParam();
      a.workers = 1;
      a.batches = 20;
      a.trace_events = 1000;
      a.parameters = {{device_kind::cuda, 0}};
      a.run_ahead = ahead;
      const auto watch = std::make_shared<asked_watch>();
      a.watch = watch;
      const run_trace trace = played(order, a, watch, true, time);
      const auto steps = steps_of(*trace.tracks[0]);
      ASSERT_EQ(steps.size(), 20U);
      for (std::uint64_t k = 1; k <= 20; ++k) {
        EXPECT_EQ((steps.at(k).end - steps.at(k).begin).count(), 1000) << k;
        EXPECT_LT(steps.at(k).end, time->now()) << k;
        if (k > 1) {
          EXPECT_GT(steps.at(k).begin, steps.at(k - 1).end) << k;
        }
      }
      SetUp(); // the clock ends here
    }
}

INSTANTIATE_TEST_SUITE_P(Policies, GpuTrace, ::testing::Values("async", "sync", "ssp:1", "hogwild"),
                         [](const auto& policy) { return testing::test_name(policy.param); });

} // namespace
} // namespace mailgrad

#include <mailgrad/demos/custom_policy.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/actors/runs/gpu_runs.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/engine/ticking_time.hpp>
#include <mailgrad/tests/support/simulated_gpu/waiting_threads.hpp>

#include <set>
#include <thread>

// What steps and tests on the simulated GPU cost, what timelines show of them, and how they fail.

namespace mailgrad::testing {
namespace {

using ::testing::AllOf, ::testing::AnyOf, ::testing::Contains, ::testing::HasSubstr, ::testing::Le,
    ::testing::SizeIs;

constexpr std::uint64_t failure_orders = 16; // scripts/endurance tries more

constexpr gpu_case async_there{.policy = "async", .weights_there = true};

class GpuCopies : public GpuSteps {};

/// Only batches cross the bus in a step if the weights lie on the GPU, however gradients come to be
/// updates. The records of steps are written by kernels.
TEST_P(GpuCopies, WithWeightsThereAreOfTheBatchAlone) {
  const auto copied = [&](std::uint64_t batches, std::uint32_t shards) {
    assembly a = assembly_of(GetParam());
    a.batches = batches;
    a.shards = shards;
    return counted(placed(GetParam(), a, data_));
  };
  const auto aligned_to_lines = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  const std::size_t labels = 4 * sizeof(std::int32_t);
  const std::size_t features = 4 * data_->train.sample_dims().size() * sizeof(float);
  for (const std::uint32_t shards : {1U, 3U}) {
    const simulated_gpu::counters few = copied(6, shards), many = copied(12, shards);
    EXPECT_EQ(many.bytes_to_gpu - few.bytes_to_gpu,
              6 * (aligned_to_lines(features) + aligned_to_lines(labels)));
    EXPECT_EQ(many.bytes_to_host, few.bytes_to_host);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, GpuCopies,
    ::testing::Values(gpu_case{"async", 0, 0, "none", true}, gpu_case{"async", 0, 0, "none", true, 0, 0},
                      gpu_case{"sync", 0, 0, "none", true}, gpu_case{"k-batch-async:2", 0, 0, "none", true},
                      gpu_case{"ringleader", 0, 0, "none", true}, gpu_case{"async", 0, 0, "dc-asgd-a", true},
                      gpu_case{"async", 0, 0, "dana-zero", true}, gpu_case{"async", 2, 0, "none", true},
                      gpu_case{"sync", 2, 0, "easgd", true}),
    name_of);

#ifndef __SANITIZE_THREAD__ // whose reports of that race would be right
INSTANTIATE_TEST_SUITE_P(OfHogwildsRace, GpuCopies,
                         ::testing::Values(gpu_case{"hogwild", 0, 0, "none", true}), name_of);
#endif

/// A step reads the weights by one copy within the GPU.
TEST_F(GpuSteps, WithWeightsThereReadThemOnce) {
  const auto copied = [&](std::uint64_t batches) {
    return counted(placed(async_there, {.batches = batches}, data_)).bytes_on_gpu;
  };
  const std::size_t weights = plan_of({}, data_).layout->size() * sizeof(float);
  EXPECT_EQ(copied(12) - copied(6), 6 * weights);
}

/// A step that a graph runs makes no event, takes no memory, and asks the runtime for the same each time.
TEST_F(GpuSteps, WithWeightsThereMakeNothingNew) {
  const auto done = [&](std::uint64_t batches) {
    return counted(placed(async_there, {.workers = 1, .shards = 1, .batches = batches}, data_));
  };
  const simulated_gpu::counters few = done(60), many = done(80);
  EXPECT_EQ(many.events, few.events);
  EXPECT_EQ(many.allocations, few.allocations);
  EXPECT_EQ(many.waits, few.waits) << "a step releases memory";
  EXPECT_EQ(many.launches - few.launches, 20U * 3) << "the step's number, its graph, the update";
  EXPECT_LE(many.calls - few.calls, 20U * 14);
}

/// The steps behind the one that fails may have begun, and their gradients may have been applied.
TEST_F(GpuSteps, WithWeightsThereNameTheStepThatFails) {
  const auto make = [&](const auto& watch) {
    assembly a = placed(async_there, {.workers = 1}, data_, watch);
    a.runner = [](rank, std::shared_ptr<step_runner> own) {
      return std::make_shared<spoiling_runner>(std::move(own), 4);
    };
    return a;
  };
  in_every_order(failure_orders, make, [](const assembled_run& run) {
    EXPECT_EQ(run.outcome().how, run_outcome::ending::failed);
    EXPECT_THAT(run.outcome().why, AllOf(HasSubstr("step 5: "), HasSubstr("label 99")));
    expect_balanced(run);
  });
}

/// A worker alone has at most one step under way besides the one that its stream runs, and it has that one.
TEST_F(GpuSteps, WithWeightsThereRunAheadByOneStep) {
  for (const std::uint64_t ahead : {0U, 1U}) {
    set_up({}, 1000); // no step ends as long as this test asks
    const auto watch = std::make_shared<asked_watch>();
    {
      const assembled_run run =
          assemble(placed(async_there, {.workers = 1, .run_ahead = ahead}, data_, watch));
      drawn_order order(ahead);
      for (std::size_t ended = 0; ended < 4; ++ended) {
        deliver(order);
        EXPECT_EQ(watch->watched(), 1 + ahead) << ended;
        while (watch->ask() == 0) {
        }
      }
      play(order, *watch);
    }
    system_.run();
  }
}

/// Their gradients come when they are computed, unless the options say otherwise.
TEST_F(GpuSteps, WithWeightsThereDoNotRunAheadWhereThePolicyLooksAtWhatComesFirst) {
  const auto steps_under_way = [&](const char* policy, std::optional<std::uint64_t> asked) {
    set_up({}, 1000); // no step ends as long as this test asks
    const auto watch = std::make_shared<asked_watch>();
    const assembly a{.policy = policy, .workers = 1, .run_ahead = asked};
    std::size_t found = 0;
    {
      const assembled_run run = assemble(with_weights_there(a, watch));
      drawn_order order(1);
      deliver(order);
      found = watch->watched();
      play(order, *watch);
    }
    system_.run();
    return found;
  };
  for (const char* policy : {"async", "sync", "ssp:1", "async, sync@4"})
    EXPECT_EQ(steps_under_way(policy, {}), 2U) << policy;
  for (const char* policy :
       {"quorum:1,grace=0.5", "backup:0", "k-async:1", "k-batch-async:1", "k-batch-sync:1", "dssp:1,4",
        "auto", "ringmaster:4", "ringleader", "rennala:1", "malenia:1", "queue:1,4", "async, k-async:1@4"})
    EXPECT_EQ(steps_under_way(policy, {}), 1U) << policy;
  EXPECT_EQ(steps_under_way(custom_policy<fair_turns>("1").c_str(), {}), 1U) << "it may look at anything";
  EXPECT_EQ(steps_under_way("k-async:1", 1), 2U) << "it was asked for";
  EXPECT_EQ(steps_under_way("async", 0), 1U);
}

class GpuFaultsInRuns : public GpuSteps {};

TEST_P(GpuFaultsInRuns, EndTheRunInOrderAtEveryCall) {
  std::size_t failed = 0;
  const auto make = [&](const auto& watch) {
    return placed(GetParam(), assembly_of(GetParam()), data_, watch);
  };
  for (std::uint64_t n = 1; n < 400; n += 7)
    with_run(make, [&](const assembled_run& run, asked_watch& watch) {
      drawn_order order(n);
      set_up({.lost_gpu_at = n});
      play(order, watch);
      ASSERT_EQ(run.times_ended(), 1U) << n;
      if (run.outcome().how == run_outcome::ending::failed) {
        ++failed;
        EXPECT_THAT(run.outcome().why, AnyOf(HasSubstr("worker"), HasSubstr("shard"))) << n;
      }
      expect_balanced(run);
      set_up();
    });
  EXPECT_GT(failed, 20U);
}

INSTANTIATE_TEST_SUITE_P(Weights, GpuFaultsInRuns,
                         ::testing::Values(gpu_case{"async"}, gpu_case{"async", 0, 0, "none", true},
                                           gpu_case{"async", 2, 0, "none", true}),
                         name_of);

// ---- what the tests of a run cost the others

class GpuTestCosts : public ::testing::Test {
protected:
  GpuTestCosts() {
    set_up_gpu([](auto& s) { s.when = simulated_gpu::timing::late; });
  }
  ~GpuTestCosts() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  static training_report tested(bool weights_there) {
    training run(*built_in_model("mlp:hidden=256"), pictures(),
                 gpu_options("async", 2,
                             {.epochs = for_ever,
                              .shards = 2,
                              .evaluate_every = {.steps = 4},
                              .weights_there = weights_there}));
    return report_when_tested(run);
  }
};

/// At the end they come to the host once, and go back for the last test.
TEST_F(GpuTestCosts, NoWeightsThatGoOverTheBusDuringTheRun) {
  const training_report r = tested(true);
  EXPECT_LT(simulated_gpu::count().bytes_to_host, r.weights * sizeof(float) * 3 / 2);
}

/// The evaluator has given up its stream on the GPU, its copy of the weights and its programs.
TEST_F(GpuTestCosts, NoMemoryThatTheLastTestsNeed) {
  for (const auto keep : {kept_weights::last, kept_weights::best}) {
    training_options o = endless("async", 2, {.evaluate_every = {.steps = 4}, .keep = keep});
    o.parameters = {{device_kind::cuda, 0}};
    std::size_t during = 0, at_end = 0;
    {
      training run(*built_in_model("mlp:hidden=256"), pictures(), o);
      run.observe([&run, &during](const run_event& e) {
        if (!std::holds_alternative<evaluation_made>(e)) return;
        during = std::max(during, simulated_gpu::count().bytes_now); // the last event may be late
        run.stop("tested");
      });
      run.report([&at_end] {
        at_end = std::max(at_end, simulated_gpu::count().bytes_now);
        return false;
      });
    }
    EXPECT_GT(during, std::size_t{8} << 20) << "of a stream";
    EXPECT_LT(at_end, during + (std::size_t{4} << 20));
  }
}

/// The evaluator and this thread wait, and no other.
TEST_F(GpuTestCosts, NoWaitOfAnyOtherActor) {
  for (const bool weights_there : {false, true}) {
    simulated_gpu::take_waiting_threads();
    tested(weights_there);
    const std::set<std::thread::id> waited = simulated_gpu::take_waiting_threads();
    EXPECT_THAT(waited, Contains(std::this_thread::get_id()));
    EXPECT_THAT(waited, SizeIs(Le(2U)));
  }
}

// ---- timelines, of a GPU that runs what is queued as late as it may. The clock goes on whenever it is read

class GpuTrace : public ::testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    set_up_gpu([](auto& s) {
      s.when = simulated_gpu::timing::late;
      s.late_queries = 0;
    });
  }
  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }
  /// A run whose watch asks when no message is on its way, or now and then as well.
  run_trace trace_of_run(drawn_order order, bool asks_now_and_then, std::size_t events = 1000) {
    assembly a{.policy = GetParam(), .batches = 30, .trace_events = events};
    const auto watch = std::make_shared<asked_watch>();
    return played(order, on_gpu(a, small_data(), watch), watch, asks_now_and_then);
  }

  run_trace played(drawn_order& order, const assembly& a, const std::shared_ptr<asked_watch>& watch,
                   bool asks_now_and_then,
                   const std::shared_ptr<const time_source>& time = std::make_shared<ticking_time>()) {
    const assembled_run run(system_.actors(), a, small_data(), time);
    do
      while (system_.step(order))
        if (asks_now_and_then && order.below(4) == 0) watch->ask();
    while (watch->ask() > 0 || watch->watched() > 0);
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    return trace_of(run.outcome(), instant{0}, instant{0});
  }
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

  deterministic_system system_;
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
      const auto time = std::make_shared<ticking_time>();
      set_up_gpu([&](auto& s) {
        s.when = simulated_gpu::timing::late;
        s.late_queries = order.seed() % 3;
        s.clock = [time] {
          return static_cast<std::uint64_t>((time->now() + std::chrono::hours{1}).count());
        };
      });
      assembly a{.policy = GetParam(), .workers = 1, .batches = 20, .trace_events = 1000, .run_ahead = ahead};
      const auto watch = std::make_shared<asked_watch>();
      const run_trace trace = played(order, with_weights_there(a, watch), watch, true, time);
      const auto steps = steps_of(*trace.tracks[0]);
      ASSERT_EQ(steps.size(), 20U);
      for (std::uint64_t k = 1; k <= 20; ++k) {
        EXPECT_EQ((steps.at(k).end - steps.at(k).begin).count(), 1000) << k;
        EXPECT_LT(steps.at(k).end, time->now()) << k;
        EXPECT_TRUE(k == 1 || steps.at(k).begin > steps.at(k - 1).end) << k;
      }
      SetUp(); // the clock ends here
    }
}

INSTANTIATE_TEST_SUITE_P(Policies, GpuTrace, ::testing::Values("async", "sync", "ssp:1", "hogwild"),
                         name_of_policy);

} // namespace
} // namespace mailgrad::testing

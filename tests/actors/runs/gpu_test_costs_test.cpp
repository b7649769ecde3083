#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/actors/runs/run_until_tested.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>
#include <mailgrad/tests/support/simulated_gpu/waiting_threads.hpp>

#include <mailgrad/graph/models/built_in.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <thread>
#include <variant>

// What the tests of a run on the simulated GPU cost the others.

namespace mailgrad {
namespace {

using ::testing::Contains;
using ::testing::Le;
using ::testing::SizeIs;

class GpuTestCosts : public ::testing::Test {
protected:
  GpuTestCosts() {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.when = simulated_gpu::timing::late;
    simulated_gpu::set_up(s);
  }
  ~GpuTestCosts() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  static training_report tested(bool weights_there) {
    training_options o = testing::gpu_options("async", 2);
    if (weights_there) o.parameters = {{device_kind::cuda, 0}};
    o.shards = 2;
    o.epochs = testing::endless_epochs;
    o.evaluate_every = {.steps = 4};
    training run(*built_in_model("mlp:hidden=256"), testing::pictures(), o);
    training_report r = testing::report_when_tested(run);
    EXPECT_EQ(r.ended, "stopped") << r.why;
    EXPECT_GE(r.evaluations.count, 3U);
    return r;
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
    training_options o = testing::options_for("async", 2);
    o.parameters = {{device_kind::cuda, 0}};
    o.epochs = testing::endless_epochs;
    o.evaluate_every = {.steps = 4};
    o.keep = keep;
    std::size_t during = 0, at_end = 0;
    {
      training run(*built_in_model("mlp:hidden=256"), testing::pictures(), o);
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

} // namespace
} // namespace mailgrad

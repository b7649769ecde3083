#pragma once

#include <mailgrad/tests/actors/runs/gpu_runs.hpp>
#include <mailgrad/tests/actors/runs/keeping_writer.hpp>
#include <mailgrad/tests/actors/runs/recorded_runs.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// Fixture of runs that take checkpoints and have their weights on the simulated GPU, which runs what is
/// queued as late as it may. No call may wait for it.
class GpuCheckpointRun : public RecordedRun {
protected:
  static constexpr std::uint64_t orders = 12;

  struct result {
    std::vector<float> weights;
    run_outcome outcome;
    training_report report;
    keeping_writer::kept_checkpoints checkpoints;
  };

  void SetUp() override { set_up(true); }
  /// `may_wait`: a call may wait for the GPU.
  static void set_up(bool may_wait) {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.when = simulated_gpu::timing::late;
    s.late_queries = 2;
    s.may_wait = may_wait;
    simulated_gpu::set_up(s);
  }
  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  std::optional<result> run(assembly a, drawn_order& order) {
    a.parameters = {{device_kind::cuda, 0}};
    return run_there(std::move(a), order);
  }
  /// The same with the weights where the assembly says.
  std::optional<result> run_there(assembly a, drawn_order& order) {
    const auto watch = std::make_shared<asked_watch>();
    const auto kept = std::make_shared<keeping_writer::kept_checkpoints>();
    a.watch = watch;
    a.checkpoint_writer = messaging::spawn<keeping_writer>(system_.actors(), kept);
    std::optional<result> ended;
    {
      const assembled_run run = assemble(a);
      set_up(false);
      for (;;) {
        if (order.below(4) == 0) watch->ask();
        if (deliver(order, 1) > 0) continue;
        if (watch->watched() == 0) break;
        watch->ask();
      }
      set_up(true);
      EXPECT_EQ(run.times_ended(), 1U);
      if (run.times_ended() == 1) {
        EXPECT_EQ(run.outcome().why, "");
        expect_balanced(run);
        ended = result{run.weights(), run.outcome(), report_of(run.outcome(), run.written()), *kept};
      }
    }
    messaging::kill(a.checkpoint_writer);
    deliver(order);
    return ended;
  }
};

} // namespace mailgrad::testing

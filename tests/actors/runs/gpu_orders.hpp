#pragma once

#include <mailgrad/tests/actors/runs/gpu_runs.hpp>
#include <mailgrad/tests/actors/runs/recorded_runs.hpp>
#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad::testing {

/// Fixture of whole runs on the simulated GPU, which runs what is queued as late as it may, or entry by
/// entry of streams that the order draws as it draws messages. No call may wait for it. Messages arrive and
/// events are asked for in drawn orders.
class GpuRun : public RecordedRun {
protected:
  void SetUp() override {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.gpus = 2;
    simulated_gpu::set_up(s);
  }
  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  void set_up(const simulated_gpu::faults& fail = {}, std::uint64_t late_queries = 1) {
    draws_entries_ = false;
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.when = simulated_gpu::timing::late;
    s.late_queries = late_queries;
    s.gpus = 2;
    s.fail = fail;
    simulated_gpu::set_up(s);
  }
  /// From now on a call that waits for the GPU throws. In every other order play() draws the entries of
  /// streams.
  void forbid_waits(const drawn_order& order) {
    draws_entries_ = order.seed() % 2 == 1;
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.when = draws_entries_ ? simulated_gpu::timing::drawn : simulated_gpu::timing::late;
    s.late_queries = order.seed() % 8 / 2;
    s.gpus = 2;
    s.may_wait = false;
    simulated_gpu::set_up(s);
  }

  /// So many nanoseconds may pass with each message that is played. By themselves they take a microsecond.
  void let_time_pass(std::uint64_t most) { tick_ = most; }

  /// Delivers messages and asks for events in a drawn order until neither is left; at most `most` of them.
  /// Each message may come on a thread of its own, on which no GPU is current yet.
  void play(drawn_order& order, asked_watch& watch, std::size_t most = deterministic_system::endless) {
    for (std::size_t played = 0; played < most; ++played) {
      simulated_gpu::leave_gpus();
      if (order.below(4) == 0) watch.ask();
      if (draws_entries_ && order.below(2) == 0) run_entry(order);
      if (tick_ > 0) time_->advance(instant{static_cast<instant::rep>(order.below(tick_))});
      simulated_gpu::leave_gpus();
      if (deliver(order, 1) > 0) continue;
      if (watch.watched() == 0) return;
      if (draws_entries_) run_entry(order);
      watch.ask();
    }
  }

  /// Runs `a` once in each of so many orders, and calls `check` at the end of each, when calls may wait
  /// again. `a` is made for the watch that it is given.
  template <class Make, class Check>
  void in_every_order(std::uint64_t orders, Make a, Check check) {
    for (drawn_order& order : orders_on_gpu(orders)) {
      set_up();
      const auto watch = std::make_shared<asked_watch>();
      {
        const assembled_run run = assemble(a(watch));
        forbid_waits(order);
        play(order, *watch);
        set_up();
        ASSERT_EQ(run.times_ended(), 1U);
        check(run);
      }
      system_.run();
    }
  }

  /// Runs and records in one of these orders what `a` makes for the watch that it is given. No message of a
  /// run before is left to be drawn.
  template <class Make>
  std::optional<finished_run> finish_on_gpu(std::uint64_t seed, Make a) {
    set_up();
    system_.run();
    drawn_order order(seed);
    const auto watch = std::make_shared<asked_watch>();
    const auto play_all = [&] {
      play(order, *watch);
      set_up();
    };
    auto ended = finish_by(play_all, a(watch), [&](const assembled_run&) { forbid_waits(order); });
    system_.run();
    return ended;
  }

  /// Records `a` where `place` puts it for a watch, and repeats the recording there in another order.
  template <class Place>
  void expect_repeated(std::uint64_t seed, assembly a, Place place) {
    const auto make = [&](const auto& watch) { return place(a, watch); };
    const auto was = finish_on_gpu(seed, make);
    ASSERT_TRUE(was);
    a.replayed = std::make_shared<const recording>(was->order);
    const auto is = finish_on_gpu(seed + 7, make);
    ASSERT_TRUE(is);
    expect_same(*was, *is);
  }

  /// The same as in_every_order() for a run whose weights do not depend on the order.
  template <class Make>
  void expect_weights_in_every_order(const std::vector<float>& expected, std::uint64_t orders, Make a) {
    in_every_order(orders, a, [&](const assembled_run& run) {
      const std::vector<float> found = run.weights();
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << i;
    });
  }

private:
  static void run_entry(drawn_order& order) { simulated_gpu::run_next(order.below(1 << 16)); }

  bool draws_entries_ = false;
  std::uint64_t tick_ = 0;
};

} // namespace mailgrad::testing

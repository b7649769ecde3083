#pragma once

#include <mailgrad/engine/worker/gpu_replica.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <exception>

// Whole runs on the simulated GPU.

namespace mailgrad::testing {

/// Sets the simulated GPU up anew, with what `change` changes of its settings.
template <class Change>
void set_up_gpu(Change change) {
  simulated_gpu::settings s = simulated_gpu::default_settings();
  change(s);
  simulated_gpu::set_up(s);
}

/// A watch that asks until the event has passed, when it is given it. The end of a step is then a message
/// that is on its way at once.
class prompt_watch final : public event_watch {
public:
  void when_passed(device_event m, notice tell) override {
    std::exception_ptr why;
    try {
      while (!m.passed()) {
      }
    } catch (...) {
      why = std::current_exception();
    }
    tell(why);
  }
};

/// Has the batch of one number come with a label that is none.
class spoiling_runner final : public forwarding_runner {
public:
  spoiling_runner(std::shared_ptr<step_runner> own, std::uint64_t spoilt)
      : forwarding_runner(std::move(own)), spoilt_(spoilt) {}

  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override {
    if (inputs->number == spoilt_) const_cast<batch&>(*inputs).labels.values<std::int32_t>()[0] = 99;
    return forwarding_runner::begin_step(std::move(inputs), std::move(out));
  }

private:
  std::uint64_t spoilt_;
};

/// The same run with each worker on a stream of the GPU.
inline assembly on_gpu(assembly a, const std::shared_ptr<const data_split>& data,
                       const std::shared_ptr<event_watch>& watch = std::make_shared<prompt_watch>()) {
  const run_plan plan = plan_of(a, data);
  const std::uint32_t workers = a.workers;
  a.runner = [plan, watch, workers](rank r, const std::shared_ptr<step_runner>&) {
    model_request request = plan.request_of(r.value % workers);
    request.devices = {{device_kind::cuda, 0, r.value}};
    return std::make_shared<gpu_replica>(plan.model, request, plan.replica_layout, watch);
  };
  return a;
}
/// The same run with its weights on the GPU, and so its workers.
inline assembly with_weights_there(assembly a, const std::shared_ptr<event_watch>& watch) {
  a.parameters = {{device_kind::cuda, 0}};
  a.watch = watch;
  return a;
}
/// The same with shards at several places, and a worker on a core.
inline assembly with_weights_mixed(assembly a, const std::shared_ptr<event_watch>& watch) {
  a.parameters = a.devices = {{device_kind::cuda, 0}, {}, {device_kind::cuda, 1}};
  a.watch = watch;
  return a;
}

/// Fixture of whole runs on the simulated GPU, for which no call may wait. It runs what is queued as late as
/// it may, or in drawn orders. So do messages arrive, and so are events asked for.
class GpuRun : public RecordedRun {
protected:
  void SetUp() override {
    set_up_gpu([](auto& s) { s.gpus = 2; });
  }
  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }
  void set_up(const simulated_gpu::faults& fail = {}, std::uint64_t late_queries = 1, bool may_wait = true) {
    draws_entries_ = false;
    set_up_gpu([&](auto& s) {
      s.when = simulated_gpu::timing::late;
      s.late_queries = late_queries;
      s.gpus = 2;
      s.fail = fail;
      s.may_wait = may_wait;
    });
  }
  /// From now on a call that waits for the GPU throws. In every other order play() draws entries of streams.
  void forbid_waits(const drawn_order& order) {
    draws_entries_ = order.seed() % 2 == 1;
    set_up_gpu([&](auto& s) {
      s.when = draws_entries_ ? simulated_gpu::timing::drawn : simulated_gpu::timing::late;
      s.late_queries = order.seed() % 8 / 2;
      s.gpus = 2;
      s.may_wait = false;
    });
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
  /// The same until the run has ended, once and with books that balance.
  void play_to_end(const assembled_run& run, drawn_order& order, asked_watch& watch) {
    play(order, watch);
    EXPECT_EQ(run.times_ended(), 1U) << order.seed();
    if (run.times_ended() == 0) throw std::runtime_error("the run has not ended");
    expect_balanced(run);
  }
  /// Has `body` play the run that `make` makes for a watch.
  template <class Make, class Body>
  void with_run(Make make, Body body) {
    set_up();
    const auto watch = std::make_shared<asked_watch>();
    {
      const assembled_run run = assemble(make(watch));
      body(run, *watch);
    }
    system_.run();
  }
  /// Plays what `make` makes in so many orders. `check` looks at each end, when calls may wait again.
  template <class Make, class Check>
  void in_every_order(std::uint64_t orders, Make make, Check check) {
    for (drawn_order& order : orders_on_gpu(orders))
      with_run(make, [&](const assembled_run& run, asked_watch& watch) {
        forbid_waits(order);
        play(order, watch);
        set_up();
        ASSERT_EQ(run.times_ended(), 1U);
        check(run);
      });
  }
  /// Runs and records in one such order what `make` makes. No message of an earlier run is left.
  template <class Make>
  finished_run finish_on_gpu(std::uint64_t seed, Make make) {
    set_up();
    system_.run();
    drawn_order order(seed);
    const auto watch = std::make_shared<asked_watch>();
    const auto play_all = [&] {
      play(order, *watch);
      set_up();
    };
    finished_run ended = finish_by(play_all, make(watch), [&](const assembled_run&) { forbid_waits(order); });
    system_.run();
    return ended;
  }
  /// Records `a` where `place` puts it for a watch, and repeats the recording there in another order.
  template <class Place>
  void expect_repeated(std::uint64_t seed, assembly a, Place place) {
    const auto make = [&](const auto& watch) { return place(a, watch); };
    const finished_run was = finish_on_gpu(seed, make);
    a = replay_of(a, was.order);
    expect_same(was, finish_on_gpu(seed + 7, make));
  }
  /// Expects a run to come to the weights of the processors in every order, where `place` puts it.
  template <class Place>
  void expect_weights_of_processors(const assembly& a, std::uint64_t orders, Place place) {
    const finished_run expected = finish(a, 1);
    ASSERT_EQ(expected.outcome.how, run_outcome::ending::completed) << expected.outcome.why;
    in_every_order(
        orders, [&](const auto& watch) { return place(a, watch); },
        [&](const assembled_run& run) {
          ASSERT_THAT(run.weights(), ::testing::Pointwise(::testing::FloatNear(1e-5F), expected.weights));
        });
  }
  /// What the GPU does in a run.
  simulated_gpu::counters counted(const assembly& a) {
    system_.run(); // until the run before has let go of its memory
    set_up();
    finish(a, 3);
    return simulated_gpu::count();
  }
  /// Every batch is trained, and nobody is lost.
  static void expect_all_trained_in_order(const assembled_run& run, std::uint64_t samples = 48) {
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    EXPECT_EQ(std::ranges::count(run.outcome().lost, true), 0)
        << "a worker has failed, and others did its work";
    expect_balanced(run);
    EXPECT_EQ(report_of(run.outcome(), run.written()).samples, samples);
  }

private:
  static void run_entry(drawn_order& order) { simulated_gpu::run_next(order.below(1 << 16)); }

  bool draws_entries_ = false;
  std::uint64_t tick_ = 0;
};

/// Fixture of runs that take checkpoints, with their weights on a GPU that runs as late as it may.
class GpuCheckpointRun : public GpuRun {
protected:
  static constexpr std::uint64_t orders = 12;

  void SetUp() override { set_up({}, 2); }
  kept_result run(assembly a, drawn_order& order) {
    a.parameters = {{device_kind::cuda, 0}};
    return run_there(std::move(a), order);
  }
  /// The same with the weights where the assembly says.
  kept_result run_there(assembly a, drawn_order& order) {
    const auto watch = std::make_shared<asked_watch>();
    a.watch = watch;
    return finish_keeping(a, order, [&] {
      set_up({}, 2, false);
      play(order, *watch);
      set_up({}, 2);
    });
  }
};

/// A way of gradients to and from a GPU.
struct gpu_case {
  const char* policy;
  std::uint64_t local_steps = 0;
  std::uint64_t sample_gap = 0;
  const char* cure = "none";
  bool weights_there = false; ///< on the GPU
  double clip_norm = 0;
  std::uint64_t run_ahead = most_run_ahead;
  bool mixed = false; ///< shards at several places, and a worker on a core
};

inline std::string name_of(const ::testing::TestParamInfo<gpu_case>& info) {
  const gpu_case& c = info.param;
  return test_name(std::string(c.policy) + (c.local_steps > 0 ? " local" : "") +
                   (c.sample_gap > 0 ? " sampled" : "") + (std::string_view(c.cure) == "none" ? "" : c.cure) +
                   (c.clip_norm > 0 ? " clipped" : "") + (c.weights_there ? " with weights there" : "") +
                   (c.run_ahead == 0 ? " not ahead" : "") + (c.mixed ? " mixed" : ""));
}

inline assembly assembly_of(const gpu_case& c) {
  assembly a{.policy = c.policy,
             .cure = c.cure,
             .local_steps = c.local_steps,
             .sample_gap = c.sample_gap,
             .run_ahead = c.run_ahead,
             .clip_norm = c.clip_norm};
  if (c.mixed) a.shards = 3;
  if (c.local_steps > 0 || a.cure != "none") a.optimizer = "sgd";
  if (a.cure == "momentum-compensation") a.optimizer = "momentum";
  if (a.cure == "cgad") a.outer_optimizer = "adam";
  if (a.cure == "mla" || a.cure == "heloco") a.outer_optimizer = "nesterov";
  return a;
}

/// The run on the GPU, with or without its weights.
inline assembly placed(const gpu_case& c, assembly a, const std::shared_ptr<const data_split>& data,
                       const std::shared_ptr<event_watch>& watch = std::make_shared<prompt_watch>()) {
  if (!c.weights_there) return on_gpu(std::move(a), data, watch);
  return c.mixed ? with_weights_mixed(std::move(a), watch) : with_weights_there(std::move(a), watch);
}

class GpuSteps : public GpuRun, public ::testing::WithParamInterface<gpu_case> {};

/// Each policy that has an order, with the weights on the host and on the GPU.
inline std::vector<gpu_case> with_every_policy() {
  std::vector<gpu_case> all;
  for (const char* policy : ordered_policies)
    for (const bool there : {false, true}) all.push_back({.policy = policy, .weights_there = there});
  return all;
}

} // namespace mailgrad::testing

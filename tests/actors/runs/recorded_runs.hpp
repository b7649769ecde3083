#pragma once

#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/engine/record/rehearsal.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>

#include <gtest/gtest.h>

#include <sstream>

namespace mailgrad::testing {

/// The results of a run that has ended.
struct finished_run {
  recording order;
  run_outcome outcome;
  training_report report;
  std::vector<float> weights;
};

/// The terms that a rehearsal of `a` needs.
inline replay_terms terms_of(const assembly& a) {
  const bool elastic = cure_spec(a.cure, a.workers).traits().pull.has_value();
  return {parse_policy_schedule(a.policy, std::max(a.workers, a.slots)).front().policy.text(), a.local_steps,
          elastic, a.batches};
}

/// Fixture of tests that record a run in one order of delivery and repeat it in others.
class RecordedRun : public DrawnRuns {
protected:
  static constexpr std::uint64_t replays_of_each = 3;

  /// The file of the recorder of `a`, in memory.
  static std::shared_ptr<recording_writer> file_in(std::streambuf& bytes, const assembly& a) {
    return std::make_shared<recording_writer>(std::make_unique<std::ostream>(&bytes), "memory",
                                              recording_header{a.workers, a.shards, {}, {}, a.slots});
  }
  /// Spawns a recorder. `before`: what its file holds.
  caf::actor record_into(std::shared_ptr<recording_writer> file,
                         const recording_cut& before = recording_cut()) {
    return messaging::spawn<recorder>(
        system_.actors(),
        recorder_options{std::move(file), [](const std::string& failure) { EXPECT_EQ(failure, ""); },
                         before});
  }
  /// Ends the recording of a run that has ended.
  template <class DeliverAll>
  static finished_run finished(const assembled_run& run, const std::stringbuf& bytes,
                               DeliverAll deliver_all) {
    finished_run f{{}, run.outcome(), report_of(run.outcome()), run.weights()};
    messaging::send_anonymously(run.feeder_actor,
                                end_recording{std::make_shared<recording_end>(end_of(f.outcome, f.report))});
    deliver_all();
    f.order = parse_recording(bytes.view(), "memory");
    return f;
  }

  /// Runs and records `a`, which has to end. `disturb` is called before the first message, and then
  /// `deliver_all` delivers messages until none is left.
  template <class Disturb, class DeliverAll>
  finished_run finish_by(DeliverAll deliver_all, assembly a, Disturb disturb) {
    std::stringbuf bytes;
    a.recorder = record_into(file_in(bytes, a));
    assembled_run run = assemble(a);
    disturb(run);
    deliver_all();
    EXPECT_EQ(run.times_ended(), 1U) << "somebody waits";
    if (run.times_ended() == 1) return finished(run, bytes, deliver_all);
    messaging::kill(a.recorder);
    deliver_all();
    throw std::runtime_error("the run has not ended");
  }
  template <class Disturb>
  finished_run finish(const assembly& a, drawn_order& order, Disturb disturb) {
    return finish_by([&] { deliver(order); }, a, disturb);
  }
  finished_run finish(const assembly& a, std::uint64_t seed) {
    drawn_order order(seed);
    return finish(a, order, [](const assembled_run&) {});
  }

  static void expect_same(const finished_run& was, const finished_run& is) {
    expect_same_bits(was.weights, is.weights);
    EXPECT_EQ(was.report.ledger, is.report.ledger);
    EXPECT_EQ(was.report.samples, is.report.samples);
    for (std::size_t s = 0; s < was.outcome.shards.size(); ++s) {
      EXPECT_EQ(was.outcome.shards[s].version, is.outcome.shards[s].version);
      for (std::size_t r = 0; r < was.outcome.workers.size(); ++r) {
        const worker_account& before = was.outcome.shards[s].workers[r];
        const worker_account& now = is.outcome.shards[s].workers[r];
        EXPECT_EQ(before.ledger, now.ledger);
        EXPECT_EQ(before.gaps.buckets(), now.gaps.buckets());
        EXPECT_EQ(before.last_step, now.last_step);
      }
    }
    ASSERT_EQ(was.outcome.switches.size(), is.outcome.switches.size());
    for (std::size_t i = 0; i < was.outcome.switches.size(); ++i) {
      EXPECT_EQ(was.outcome.switches[i].step, is.outcome.switches[i].step);
      EXPECT_EQ(was.outcome.switches[i].to, is.outcome.switches[i].to);
      EXPECT_EQ(was.outcome.switches[i].why, is.outcome.switches[i].why);
    }
    expect_same_order(was.order, is.order);
  }

  static void expect_same_order(const recording& was, const recording& is) {
    EXPECT_EQ(was.batches, is.batches);
    EXPECT_EQ(was.end.switches, is.end.switches);
    for (std::size_t s = 0; s < was.entries.size(); ++s) {
      ASSERT_EQ(was.entries[s].size(), is.entries[s].size());
      for (std::size_t i = 0; i < was.entries[s].size(); ++i) {
        const order_entry &before = was.entries[s][i], &now = is.entries[s][i];
        EXPECT_EQ(std::tie(before.what, before.worker, before.step, before.arrived),
                  std::tie(now.what, now.worker, now.step, now.arrived));
      }
    }
  }

  /// The run that repeats a recording of `a`.
  static assembly replay_of(assembly a, const recording& order) {
    a.replayed = std::make_shared<const recording>(order);
    return a;
  }
  /// The same of a recording that can be repeated, which it has to be.
  static assembly checked_replay_of(const assembly& a, const recording& order) {
    require_repeatable(order);
    require_replay_ends(order, terms_of(a));
    return replay_of(a, order);
  }

  /// Repeats a run in other orders of delivery, and expects the same results each time.
  void expect_repeatable(const assembly& a, const finished_run& was, std::uint64_t seed) {
    const assembly replay = checked_replay_of(a, was.order);
    for (std::uint64_t i = 1; i <= replays_of_each; ++i) expect_same(was, finish(replay, seed * 1000 + i));
  }
  /// Records `a` as finish() does, and repeats that.
  template <class Disturb>
  finished_run finish_and_repeat(const assembly& a, drawn_order& order, Disturb disturb) {
    finished_run was = finish(a, order, disturb);
    expect_repeatable(a, was, order.seed());
    return was;
  }
  finished_run finish_and_repeat(const assembly& a, std::uint64_t seed) {
    drawn_order order(seed);
    return finish_and_repeat(a, order, [](const assembled_run&) {});
  }
};

} // namespace mailgrad::testing

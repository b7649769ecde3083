#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>

#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/record/rehearsal.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

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

  /// Runs and records `a`. `disturb` is called before the first message, and then `deliver_all` delivers
  /// messages until none is left.
  template <class Disturb, class DeliverAll>
  std::optional<finished_run> finish_by(DeliverAll deliver_all, assembly a, Disturb disturb) {
    std::stringbuf bytes;
    a.recorder = messaging::spawn<recorder>(
        system_.actors(), recorder_options{std::make_shared<recording_writer>(
                                               std::make_unique<std::ostream>(&bytes), "memory",
                                               recording_header{a.workers, a.shards, {}, {}, a.slots}),
                                           [](const std::string& failure) { EXPECT_EQ(failure, ""); }});
    assembled_run run = assemble(a);
    disturb(run);
    deliver_all();
    EXPECT_EQ(run.times_ended(), 1U) << "somebody waits";
    if (run.times_ended() != 1) {
      messaging::kill(a.recorder);
      deliver_all();
      return std::nullopt;
    }
    finished_run f{{}, run.outcome(), report_of(run.outcome()), run.weights()};
    messaging::send_anonymously(run.feeder_actor,
                                end_recording{std::make_shared<recording_end>(end_of(f.outcome, f.report))});
    deliver_all();
    f.order = parse_recording(bytes.view(), "memory");
    return f;
  }
  /// The same in this order of delivery.
  template <class Disturb>
  std::optional<finished_run> finish(const assembly& a, drawn_order& order, Disturb disturb) {
    return finish_by([&] { deliver(order); }, a, disturb);
  }
  std::optional<finished_run> finish(const assembly& a, std::uint64_t seed) {
    drawn_order order(seed);
    return finish(a, order, [](const assembled_run&) {});
  }

  static void expect_same(const finished_run& was, const finished_run& is) {
    ASSERT_EQ(was.weights.size(), is.weights.size());
    EXPECT_EQ(0, std::memcmp(was.weights.data(), is.weights.data(), was.weights.size() * sizeof(float)));
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
        EXPECT_EQ(was.entries[s][i].what, is.entries[s][i].what);
        EXPECT_EQ(was.entries[s][i].worker, is.entries[s][i].worker);
        EXPECT_EQ(was.entries[s][i].step, is.entries[s][i].step);
        EXPECT_EQ(was.entries[s][i].arrived, is.entries[s][i].arrived);
      }
    }
  }

  /// Repeats a run in other orders of delivery, and expects the same results each time.
  void expect_repeatable(assembly a, const finished_run& was, std::uint64_t seed) {
    ASSERT_NO_THROW(require_repeatable(was.order));
    ASSERT_NO_THROW(require_replay_ends(was.order, terms_of(a)));
    a.replayed = std::make_shared<const recording>(was.order);
    for (std::uint64_t i = 1; i <= replays_of_each; ++i) {
      const auto again = finish(a, seed * 1000 + i);
      ASSERT_TRUE(again);
      expect_same(was, *again);
    }
  }
};

} // namespace mailgrad::testing

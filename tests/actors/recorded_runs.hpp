#pragma once

#include <mailgrad/tests/actors/assembled_run.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/recorder.hpp>
#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/record/killed_recording.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace mailgrad::testing {

/// What a run left behind.
struct finished_run {
  recording order;
  run_outcome outcome;
  training_report report;
  std::vector<float> weights;
};

/// What a rehearsal of `a` has to know.
inline replay_terms terms_of(const assembly& a) {
  const auto cure = make_cure(a.cure, {a.workers});
  return {parse_policy_schedule(a.policy, a.workers).front().policy, a.local_steps, cure && cure->pull(),
          a.batches};
}

/// Runs that are recorded in one order of delivery and repeated in others.
class RecordedRun : public ::testing::Test {
protected:
  static constexpr std::uint64_t replays_of_each = 3;

  void deliver(std::mt19937_64& random, std::size_t most = 100'000) {
    for (std::size_t n = 0; n < most && system_.step_any(random); ++n)
      time_->advance(instant{static_cast<instant::rep>(random() % 1000)});
  }

  /// Runs `a` in the order of delivery that `seed` draws, recorded; `disturb` may step in at any time.
  template <class Disturb>
  std::optional<finished_run> finish(assembly a, std::uint64_t seed, Disturb disturb) {
    std::mt19937_64 random(seed);
    std::stringbuf bytes;
    a.recorder = spawn<recorder>(
        system_.actors(),
        recorder_options{std::make_shared<recording_writer>(std::make_unique<std::ostream>(&bytes), "memory",
                                                            recording_header{a.workers, a.shards, {}, {}}),
                         [](const std::string& failure) { EXPECT_EQ(failure, ""); }});
    const assembled_run run(system_.actors(), a, data_, time_);
    disturb(run, random);
    deliver(random);
    EXPECT_EQ(run.times_ended(), 1U) << "somebody waits";
    if (run.times_ended() != 1) {
      kill(a.recorder);
      deliver(random);
      return std::nullopt;
    }
    finished_run f{{}, run.outcome(), report_of(run.outcome()), run.weights()};
    send_anonymously(run.feeder_actor,
                     end_recording{std::make_shared<recording_end>(end_of(f.outcome, f.report))});
    deliver(random);
    f.order = parse_recording(bytes.view(), "memory");
    return f;
  }
  std::optional<finished_run> finish(const assembly& a, std::uint64_t seed) {
    return finish(a, seed, [](const assembled_run&, std::mt19937_64&) {});
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
    for (std::size_t s = 0; s < was.turns.size(); ++s) {
      ASSERT_EQ(was.turns[s].size(), is.turns[s].size());
      for (std::size_t i = 0; i < was.turns[s].size(); ++i) {
        EXPECT_EQ(was.turns[s][i].what, is.turns[s][i].what);
        EXPECT_EQ(was.turns[s][i].worker, is.turns[s][i].worker);
        EXPECT_EQ(was.turns[s][i].step, is.turns[s][i].step);
        EXPECT_EQ(was.turns[s][i].arrived, is.turns[s][i].arrived);
      }
    }
  }

  /// Repeats a run in other orders of delivery.
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

  deterministic_system system_;
  std::shared_ptr<const data_split> data_ = small_data();
  const std::shared_ptr<manual_time> time_ = std::make_shared<manual_time>();
};

} // namespace mailgrad::testing

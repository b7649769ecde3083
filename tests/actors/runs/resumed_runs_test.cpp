#include <mailgrad/tests/actors/runs/drawn_runs.hpp>

// Each checkpoint is a run that was killed at that place: another one goes on from there.

namespace mailgrad::testing {
namespace {

constexpr treated_run adam_under(const char* policy) { return {"none", "adam", 0, policy}; }

class ResumedRuns : public RecordedRun {
protected:
  static constexpr std::uint64_t orders = 40, least = 4; ///< each takes many runs

  kept_result run(const assembly& a, drawn_order& order) {
    return finish_keeping(a, order, [&] { deliver(order); });
  }
  /// Keeps checkpoints every few batches, and goes on from each of them.
  template <class Check>
  void resume_from_each(assembly a, std::uint64_t seed, const Check& check) {
    a.checkpoint_every = 2 + seed % 3;
    std::uint64_t next = seed * 100;
    const auto play = [&](const assembly& x) {
      drawn_order order(x.resume ? next++ : seed);
      return run(x, order);
    };
    go_on_from_each(2, a, play, [&](const kept_result& was, const kept_result& is) {
      EXPECT_EQ(was.report.steps, a.batches);
      check(was, is);
    });
  }
  /// The same of a replay of `a`, which repeats every weight that was read, so it goes on with the same bits.
  void resume_replay_from_each(const assembly& a, std::uint64_t seed) {
    const finished_run recorded = finish(a, seed);
    resume_from_each(replay_of(a, recorded.order), seed, [&](const kept_result& was, const kept_result& is) {
      expect_same_bits(was.weights, is.weights);
      EXPECT_EQ(is.report.ledger, recorded.report.ledger);
      EXPECT_EQ(is.report.staleness.buckets(), recorded.report.staleness.buckets());
    });
  }

  static void expect_same(const kept_result& was, const kept_result& is) {
    expect_same_bits(was.weights, is.weights);
    EXPECT_EQ(was.report.ledger, is.report.ledger);
    EXPECT_EQ(was.report.samples, is.report.samples);
    EXPECT_EQ(was.report.final_loss, is.report.final_loss);
  }
};

/// The run of a case whose bits do not depend on the order of messages.
assembly ordered(const treated_run& t, std::uint32_t shards) {
  assembly a = treated(t);
  a.workers = std::string_view(t.policy) == "sync" ? 3 : 1;
  a.shards = shards;
  return a;
}
class ExactlyResumed : public ResumedRuns, public ::testing::WithParamInterface<treated_run> {};

TEST_P(ExactlyResumed, ComesToTheSameWeights) {
  for (const std::uint32_t shards : {1U, 3U})
    for (const drawn_order& order : drawn_orders(orders, least))
      resume_from_each(ordered(GetParam(), shards), order.seed(),
                       [](const kept_result& was, const kept_result& is) {
                         expect_same(was, is);
                         EXPECT_EQ(was.report.staleness.buckets(), is.report.staleness.buckets());
                       });
}

INSTANTIATE_TEST_SUITE_P(
    All, ExactlyResumed,
    ::testing::Values(plain_under("sync"), treated_run{"none", "momentum", 0, "sync"}, adam_under("async"),
                      treated_run{"none", "momentum", 0, "ssp:1"}, plain_under("k-batch-async:2"),
                      treated_run{"none", "adam", 2, "sync"}, treated_run{"none", "sgd", 3, "async"},
                      treated_run{"easgd", "nesterov", 3, "async"}, treated_run{"easgd", "sgd", 2, "sync"},
                      treated_run{"dc-asgd-a", "adam", 0, "async"},
                      treated_run{"gap-aware", "momentum", 0, "async"},
                      treated_run{"dana-zero", "sgd", 0, "async"},
                      treated_run{"dana-slim", "sgd", 0, "async"},
                      treated_run{"cgad:0.1,3", "sgd", 2, "async", "adam"},
                      treated_run{"mla:2", "sgd", 2, "async", "nesterov"},
                      treated_run{"heloco", "sgd", 2, "async", "nesterov"},
                      treated_run{"none", "momentum", 0, "async, ssp:1@5, async@9"}),
    name_of_treated);

/// The last checkpoint of a completed run is of before the workers end: what they then push, and what shards
/// forget of them, is not in a long run.
class MadeLonger : public ResumedRuns, public ::testing::WithParamInterface<treated_run> {};

TEST_P(MadeLonger, ComesToTheWeightsOfALongRun) {
  for (const std::uint32_t shards : {1U, 3U})
    for (const std::uint64_t half : {12U, 13U}) // 13: the last round of sync, and of local steps, has begun
      for (drawn_order& order : drawn_orders(orders / 4, least)) {
        SCOPED_TRACE(std::to_string(half) + " of 24 batches");
        assembly a = ordered(GetParam(), shards);
        a.batches = 24;
        const kept_result was = run(a, order);
        a.batches = half;
        a.checkpoint_every = order.seed() % 2 == 0 ? 5 : 0;
        const kept_result first = run(a, order);
        ASSERT_FALSE(first.checkpoints.empty());
        EXPECT_EQ(first.checkpoints.back()->path(), "checkpoint of step " + std::to_string(half));
        a.batches = 24;
        a.resume = first.checkpoints.back();
        expect_same(was, run(a, order));
      }
}

INSTANTIATE_TEST_SUITE_P(
    All, MadeLonger,
    ::testing::Values(treated_run{"none", "momentum", 0, "sync"}, adam_under("ssp:1"), adam_under("dssp:0,2"),
                      adam_under("k-batch-sync:1"), adam_under("k-batch-async:2"), adam_under("rennala:2"),
                      adam_under("ringmaster:2"), adam_under("malenia:4"), adam_under("ringleader"),
                      treated_run{"none", "adam", 2, "ringleader"},
                      treated_run{"none", "momentum", 0, "async, ssp:1@5, async@9"},
                      treated_run{"none", "adam", 2, "sync"}, treated_run{"none", "adam", 3, "async"},
                      treated_run{"none", "momentum", 5, "rennala:2"}, treated_run{"inverse"},
                      treated_run{"dynsgd"}, treated_run{"polynomial"}, treated_run{"hinge"},
                      treated_run{"mishchenko"}, treated_run{"koloskova"},
                      treated_run{"fedbuff", "sgd", 2, "k-batch-async:2"}, treated_run{"dc-asgd"},
                      treated_run{"dc-asgd-a", "adam"}, treated_run{"delay-feedback"},
                      treated_run{"gap-aware"}, treated_run{"dana-zero", "sgd"},
                      treated_run{"dana-slim", "sgd", 0, "ssp:1"}, treated_run{"dana-dc", "sgd"},
                      treated_run{"easgd", "nesterov", 3}, treated_run{"easgd:0.5", "adam", 1},
                      treated_run{"easgd", "momentum", 2, "sync"}, treated_run{"momentum-compensation"}),
    name_of_treated);

/// Runs whose bits depend on the order of messages: nothing is lost, and nothing counts twice.
class Resumed : public ResumedRuns, public ::testing::WithParamInterface<const char*> {};

TEST_P(Resumed, TrainsEachBatchOnce) {
  for (const std::uint32_t shards : {1U, 3U})
    for (drawn_order& order : drawn_orders(orders, least)) {
      assembly a{.policy = GetParam(), .shards = shards};
      resume_from_each(a, order.seed(), [&](const kept_result& was, const kept_result& is) {
        EXPECT_EQ(is.report.steps, a.batches);
        EXPECT_EQ(is.report.samples, was.report.samples);
        EXPECT_EQ(is.report.ledger.produced, a.batches);
        EXPECT_EQ(is.outcome.how, run_outcome::ending::completed);
      });
    }
}

INSTANTIATE_TEST_SUITE_P(All, Resumed, ::testing::ValuesIn(kept_policies), name_of_policy);

/// Every batch is trained and every worker has left while the first checkpoint is still being written.
TEST_P(Resumed, WaitsForNoCheckpointThatIsBeingWritten) {
  for (drawn_order& order : drawn_orders(orders / 4, least)) {
    assembly a{.policy = GetParam(), .overhear = true, .checkpoint_every = 2};
    std::uint64_t asked = 0;
    a.checkpoint_writer = spawn_writer([&](const write_checkpoint&) {
      ++asked;
      return std::nullopt; // as if the disk did not answer
    });
    {
      const assembled_run run = assemble(a);
      deliver(order);
      EXPECT_EQ(asked, 1U);
      for (std::uint32_t s = 0; s < a.shards; ++s) {
        std::size_t pushed = 0;
        for (std::uint32_t w = 0; w < a.workers; ++w) {
          pushed += run.notes(w, s).steps_pushed.size();
          EXPECT_TRUE(run.notes(w, s).left) << "worker " << w << ", shard " << s;
        }
        EXPECT_EQ(pushed, a.batches);
      }
      EXPECT_EQ(run.times_ended(), 0U) << "the outcome tells of the checkpoint";
      for (std::uint64_t number = 1; number <= 2; ++number) { // the second is that of the end
        EXPECT_EQ(asked, number);
        messaging::send_anonymously(run.coordinator_actor, checkpoint_written{number, 0, "late", {}, 0, 0});
        deliver(order);
      }
      EXPECT_EQ(run.times_ended(), 1U);
      if (run.times_ended() == 1) expect_balanced(run);
    }
    messaging::kill(a.checkpoint_writer);
    deliver(order);
  }
}

TEST_P(Resumed, ReplaysGoOnBitForBit) {
  for (const std::uint32_t shards : {1U, 3U})
    for (const drawn_order& order : drawn_orders(orders / 2, least))
      resume_replay_from_each({.policy = GetParam(), .shards = shards}, order.seed());
}

TEST_F(ResumedRuns, ReplayOfEveryCureAndLocalStepsGoesOn) {
  for (const treated_run& t : treated_runs)
    for (drawn_order& order : drawn_orders(orders / 8)) {
      SCOPED_TRACE(std::string(t.cure) + ' ' + t.policy);
      resume_replay_from_each(treated(t), order.seed());
    }
}

} // namespace
} // namespace mailgrad::testing

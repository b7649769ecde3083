#include <mailgrad/tests/actors/runs/keeping_writer.hpp>
#include <mailgrad/tests/actors/runs/recorded_runs.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/actors/runs/treated_runs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

// Whole runs whose state is kept while they go on, in drawn orders of all messages. Each checkpoint is a run
// that was killed at that place: another one goes on from there.

namespace mailgrad {
using messaging::on, messaging::spawn;

namespace {

using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::keeping_writer;
using testing::RecordedRun;
using testing::treated_run;

/// Takes a checkpoint and says nothing more, as if the disk did not answer.
class silent_writer {
public:
  static constexpr const char* name = "mailgrad.silent-writer";

  silent_writer(caf::event_based_actor* self, std::shared_ptr<std::uint64_t> asked)
      : self_(self), asked_(std::move(asked)) {}

  caf::behavior make_behavior() {
    return {
        on(self_, [this](const write_checkpoint&) { ++*asked_; }),
        on(self_, [this](const give_up&) { self_->quit(); }),
    };
  }

private:
  caf::event_based_actor* self_;
  std::shared_ptr<std::uint64_t> asked_;
};

/// What a run came to.
struct result {
  std::vector<float> weights;
  run_outcome outcome;
  training_report report;
  keeping_writer::kept_checkpoints checkpoints;
};

class ResumedRuns : public RecordedRun {
protected:
  static constexpr std::uint64_t orders = 40, least = 4; ///< each takes many runs

  std::optional<result> run(assembly a, drawn_order& order) {
    const auto kept = std::make_shared<keeping_writer::kept_checkpoints>();
    a.checkpoint_writer = spawn<keeping_writer>(system_.actors(), kept);
    std::optional<result> ended;
    {
      const assembled_run run = assemble(a);
      deliver(order);
      if (run.times_ended() == 0) {
        messaging::send_anonymously(run.coordinator_actor, list_wait_reasons{});
        deliver(order);
      }
      EXPECT_EQ(run.times_ended(), 1U) << run.waits();
      if (run.times_ended() == 1) {
        EXPECT_EQ(run.outcome().why, "");
        expect_balanced(run);
        ended = result{run.weights(), run.outcome(), report_of(run.outcome()), *kept};
      }
    }
    messaging::kill(a.checkpoint_writer);
    deliver(order);
    return ended;
  }

  static void expect_same_weights(const result& was, const result& is) {
    ASSERT_EQ(was.weights.size(), is.weights.size());
    EXPECT_EQ(0, std::memcmp(was.weights.data(), is.weights.data(), was.weights.size() * sizeof(float)));
  }

  static std::uint64_t steps_of(const result& r) {
    std::uint64_t steps = 0;
    for (const worker_report& w : r.outcome.workers) steps += w.steps;
    return steps;
  }

  /// Keeps checkpoints every few batches, and goes on from each of them.
  template <class Check>
  void resume_from_each(assembly a, std::uint64_t seed, const Check& check) {
    drawn_order first(seed);
    a.checkpoint_every = 2 + seed % 3;
    const auto was = run(a, first);
    ASSERT_TRUE(was);
    EXPECT_GE(was->checkpoints.size(), 2U);
    EXPECT_EQ(steps_of(*was), a.batches);
    for (std::size_t i = 0; i < was->checkpoints.size(); ++i) {
      SCOPED_TRACE("resumed from " + was->checkpoints[i]->path().string());
      a.resume = was->checkpoints[i];
      drawn_order next(seed * 100 + i);
      const auto is = run(a, next);
      ASSERT_TRUE(is);
      check(*was, *is);
    }
  }
};

/// Runs whose bits do not depend on the order of messages.
class ExactlyResumed : public ResumedRuns, public ::testing::WithParamInterface<treated_run> {};

TEST_P(ExactlyResumed, ComesToTheSameWeights) {
  for (const std::uint32_t shards : {1U, 3U})
    for (drawn_order& order : drawn_orders(orders, least)) {
      assembly a = testing::treated(GetParam());
      const bool alone = std::string(GetParam().policy) != "sync";
      a.workers = alone ? 1 : 3;
      a.shards = shards;
      resume_from_each(a, order.seed(), [](const result& was, const result& is) {
        expect_same_weights(was, is);
        EXPECT_EQ(was.report.ledger, is.report.ledger);
        EXPECT_EQ(was.report.samples, is.report.samples);
        EXPECT_EQ(was.report.final_loss, is.report.final_loss);
        EXPECT_EQ(was.report.staleness.buckets(), is.report.staleness.buckets());
      });
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, ExactlyResumed,
    ::testing::Values(
        treated_run{"none", "sgd", 0, "sync"}, treated_run{"none", "momentum", 0, "sync"},
        treated_run{"none", "adam", 0, "async"}, treated_run{"none", "momentum", 0, "ssp:1"},
        treated_run{"none", "sgd", 0, "k-batch-async:2"}, treated_run{"none", "adam", 2, "sync"},
        treated_run{"none", "sgd", 3, "async"}, treated_run{"easgd", "nesterov", 3, "async"},
        treated_run{"easgd", "sgd", 2, "sync"}, treated_run{"dc-asgd-a", "adam", 0, "async"},
        treated_run{"gap-aware", "momentum", 0, "async"}, treated_run{"dana-zero", "sgd", 0, "async"},
        treated_run{"dana-slim", "sgd", 0, "async"}, treated_run{"cgad:0.1,3", "sgd", 2, "async", "adam"},
        treated_run{"mla:2", "sgd", 2, "async", "nesterov"},
        treated_run{"heloco", "sgd", 2, "async", "nesterov"},
        treated_run{"none", "momentum", 0, "async, ssp:1@5, async@9"}),
    testing::name_of_treated);

/// The last checkpoint of a completed run is of before the workers end: what they then push, and what shards
/// forget of them, is not in a long run.
class MadeLonger : public ResumedRuns, public ::testing::WithParamInterface<treated_run> {};

TEST_P(MadeLonger, ComesToTheWeightsOfALongRun) {
  for (const std::uint32_t shards : {1U, 3U})
    for (const std::uint64_t half : {12U, 13U}) // 13: the last round of sync, and of local steps, has begun
      for (drawn_order& order : drawn_orders(orders / 4, least)) {
        SCOPED_TRACE(std::to_string(half) + " of 24 batches");
        assembly a = testing::treated(GetParam());
        a.workers = std::string(GetParam().policy) == "sync" ? 3 : 1;
        a.shards = shards;
        a.batches = 24;
        const auto was = run(a, order);
        ASSERT_TRUE(was);
        a.batches = half;
        a.checkpoint_every = order.seed() % 2 == 0 ? 5 : 0;
        const auto first = run(a, order);
        ASSERT_TRUE(first && !first->checkpoints.empty());
        EXPECT_EQ(first->checkpoints.back()->path(), "checkpoint of step " + std::to_string(half));
        a.batches = 24;
        a.resume = first->checkpoints.back();
        const auto is = run(a, order);
        ASSERT_TRUE(is);
        expect_same_weights(*was, *is);
        EXPECT_EQ(was->report.ledger, is->report.ledger);
        EXPECT_EQ(was->report.samples, is->report.samples);
        EXPECT_EQ(was->report.final_loss, is->report.final_loss);
      }
}

INSTANTIATE_TEST_SUITE_P(
    All, MadeLonger,
    ::testing::Values(
        treated_run{"none", "momentum", 0, "sync"}, treated_run{"none", "adam", 0, "ssp:1"},
        treated_run{"none", "adam", 0, "dssp:0,2"}, treated_run{"none", "adam", 0, "k-batch-sync:1"},
        treated_run{"none", "adam", 0, "k-batch-async:2"}, treated_run{"none", "adam", 0, "rennala:2"},
        treated_run{"none", "adam", 0, "ringmaster:2"}, treated_run{"none", "adam", 0, "malenia:4"},
        treated_run{"none", "adam", 0, "ringleader"}, treated_run{"none", "adam", 2, "ringleader"},
        treated_run{"none", "momentum", 0, "async, ssp:1@5, async@9"}, treated_run{"none", "adam", 2, "sync"},
        treated_run{"none", "adam", 3, "async"}, treated_run{"none", "momentum", 5, "rennala:2"},
        treated_run{"inverse"}, treated_run{"dynsgd"}, treated_run{"polynomial"}, treated_run{"hinge"},
        treated_run{"mishchenko"}, treated_run{"koloskova"},
        treated_run{"fedbuff", "sgd", 2, "k-batch-async:2"}, treated_run{"dc-asgd"},
        treated_run{"dc-asgd-a", "adam"}, treated_run{"delay-feedback"}, treated_run{"gap-aware"},
        treated_run{"dana-zero", "sgd"}, treated_run{"dana-slim", "sgd", 0, "ssp:1"},
        treated_run{"dana-dc", "sgd"}, treated_run{"easgd", "nesterov", 3},
        treated_run{"easgd:0.5", "adam", 1}, treated_run{"easgd", "momentum", 2, "sync"},
        treated_run{"momentum-compensation"}),
    testing::name_of_treated);

/// Runs whose bits depend on the order of messages: nothing is lost, and nothing counts twice.
class Resumed : public ResumedRuns, public ::testing::WithParamInterface<const char*> {};

TEST_P(Resumed, TrainsEachBatchOnce) {
  for (const std::uint32_t shards : {1U, 3U})
    for (drawn_order& order : drawn_orders(orders, least)) {
      assembly a;
      a.policy = GetParam();
      a.shards = shards;
      resume_from_each(a, order.seed(), [&](const result& was, const result& is) {
        EXPECT_EQ(steps_of(is), a.batches);
        EXPECT_EQ(is.report.samples, was.report.samples);
        EXPECT_EQ(is.report.ledger.produced, a.batches);
        EXPECT_EQ(is.outcome.how, run_outcome::ending::completed);
      });
    }
}

INSTANTIATE_TEST_SUITE_P(All, Resumed,
                         ::testing::Values("async", "sync", "ssp:1", "dssp:0,2", "backup:1", "k-async:2",
                                           "k-batch-async:2", "k-batch-sync:2", "rennala:2", "ringmaster:2",
                                           "malenia:4", "ringleader", "async, sync@5, async@9",
                                           "sync, ssp:1@6"),
                         [](const auto& of) { return testing::test_name(of.param); });

/// Every batch is trained and every worker has left while the first checkpoint is still being written.
TEST_P(Resumed, WaitsForNoCheckpointThatIsBeingWritten) {
  for (drawn_order& order : drawn_orders(orders / 4, least)) {
    assembly a;
    a.policy = GetParam();
    a.overhear = true;
    a.checkpoint_every = 2;
    const auto asked = std::make_shared<std::uint64_t>(0);
    a.checkpoint_writer = spawn<silent_writer>(system_.actors(), asked);
    {
      const assembled_run run = assemble(a);
      deliver(order);
      EXPECT_EQ(*asked, 1U);
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
        EXPECT_EQ(*asked, number);
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

/// A replay goes on with the same bits under every policy, because it repeats every weight that was read.
TEST_P(Resumed, ReplaysGoOnBitForBit) {
  for (const std::uint32_t shards : {1U, 3U})
    for (drawn_order& order : drawn_orders(orders / 2, least)) {
      assembly a;
      a.policy = GetParam();
      a.shards = shards;
      const auto recorded = finish(a, order.seed());
      ASSERT_TRUE(recorded);
      a.replayed = std::make_shared<const recording>(recorded->order);
      resume_from_each(a, order.seed(), [&](const result& was, const result& is) {
        expect_same_weights(was, is);
        EXPECT_EQ(is.report.ledger, recorded->report.ledger);
        EXPECT_EQ(is.report.staleness.buckets(), recorded->report.staleness.buckets());
      });
    }
}

TEST_F(ResumedRuns, ReplayOfEveryCureAndLocalStepsGoesOn) {
  for (const treated_run& t : testing::treated_runs)
    for (drawn_order& order : drawn_orders(orders / 8)) {
      SCOPED_TRACE(std::string(t.cure) + ' ' + t.policy);
      assembly a = testing::treated(t);
      const auto recorded = finish(a, order.seed());
      ASSERT_TRUE(recorded);
      a.replayed = std::make_shared<const recording>(recorded->order);
      resume_from_each(a, order.seed(), [&](const result& was, const result& is) {
        expect_same_weights(was, is);
        EXPECT_EQ(is.report.ledger, recorded->report.ledger);
      });
    }
}

} // namespace

} // namespace mailgrad

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/keeping_writer.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

// Runs that keep checkpoints while their workers die and come back. Another run goes on from each.

namespace mailgrad {
using messaging::kill, messaging::spawn;

namespace {

using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::expect_balanced;
using testing::keeping_writer;

constexpr std::uint64_t batches = 16;

class ElasticCheckpoints : public testing::DrawnRuns, public ::testing::WithParamInterface<const char*> {
protected:
  using checkpoints = keeping_writer::kept_checkpoints;

  static assembly small_run(std::uint32_t shards, std::uint32_t seats) {
    assembly a;
    a.policy = GetParam();
    a.shards = shards;
    a.seats = seats;
    a.batches = batches;
    return a;
  }

  /// Workers die and come back meanwhile.
  checkpoints keep_some(assembly a, drawn_order& order) {
    const auto kept = std::make_shared<checkpoints>();
    a.checkpoint_every = 2;
    a.checkpoint_writer = spawn<keeping_writer>(system_.actors(), kept);
    {
      assembled_run run = assemble(a);
      const std::uint32_t seats = std::max(a.workers, a.seats);
      for (std::uint32_t i = 1; i < 4; ++i) {
        deliver(order, order.below(70));
        const auto r = static_cast<std::uint32_t>(order.below(seats));
        if (r < run.devices.size() && run.devices[r] && order.below(2) == 0) kill(run.devices[r]);
        deliver(order, order.below(30));
        if (order.below(3) != 0) run.add_worker(r, i);
      }
      deliver(order);
      if (run.times_ended() == 0) {
        messaging::send_anonymously(run.coordinator_actor, name_waits{});
        deliver(order);
      }
      EXPECT_EQ(run.times_ended(), 1U) << "somebody waits:\n" << run.waits();
      if (run.times_ended() == 1) expect_balanced(run);
    }
    kill(a.checkpoint_writer);
    deliver(order);
    return *kept;
  }

  static bool all_present(const checkpoint& from) {
    checkpoint_card card;
    from.part("run")->field("card", card);
    return std::ranges::find(card.present, false) == card.present.end();
  }
};

TEST_P(ElasticCheckpoints, LetAnotherRunTrainWhatIsLeft) {
  for (const std::uint32_t shards : {1U, 2U})
    for (drawn_order& order : drawn_orders(150)) {
      assembly a = small_run(shards, order.seed() % 3 == 0 ? 4 : 0);
      for (const auto& from : keep_some(a, order)) {
        a.resume = from;
        const assembled_run run = assemble(a);
        deliver(order);
        ASSERT_EQ(run.times_ended(), 1U) << "somebody waits";
        if (a.seats > 0 || !all_present(*from)) continue; // some accounts begin anew
        expect_balanced(run);
        ASSERT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
        for (const shard_report& s : run.outcome().shards) ASSERT_EQ(testing::judged_by(s), batches);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, ElasticCheckpoints,
                         ::testing::Values("async", "sync", "ssp:1", "dssp:0,2", "backup:1", "k-async:2",
                                           "k-batch-async:2", "k-batch-sync:2", "rennala:3", "ringmaster:2",
                                           "async, sync@5, async@9"),
                         [](const auto& of) { return testing::test_name(of.param); });

} // namespace
} // namespace mailgrad

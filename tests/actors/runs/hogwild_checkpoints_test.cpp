#include <mailgrad/tests/actors/runs/hogwild_checkpoints.hpp>
#include <mailgrad/tests/engine/worker/late_runner.hpp>

// Steps end when they like, so that a checkpoint finds some worker in the middle of one.

namespace mailgrad::testing {
namespace {

using messaging::kill;

constexpr std::uint64_t hogwild_orders = 40, least_hogwild = 4; // each takes many runs

/// Computes a gradient of ones in place of that of the batch.
class counting_runner final : public late_runner {
public:
  using late_runner::late_runner;
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override {
    computed_ = out;
    return late_runner::begin_step(std::move(inputs), std::move(out));
  }
  float end_step() override {
    const float loss = late_runner::end_step();
    std::ranges::fill(computed_->dense.on_host<float>(), 1.0F);
    computed_.reset();
    return loss;
  }

private:
  std::shared_ptr<gradient> computed_;
};

class LateKeptRun : public DrawnRuns {
protected:
  template <class Runner = late_runner>
  kept_result run(assembly a, drawn_order& order) {
    late_steps steps(order.seed());
    a.runner = [&steps](rank, std::shared_ptr<step_runner> own) {
      return std::make_shared<Runner>(std::move(own), steps);
    };
    return finish_keeping(a, order, [&] { play(order, steps); });
  }
};

class HogwildCheckpoints : public HogwildRuns<LateKeptRun> {};

TEST_P(HogwildCheckpoints, OfOneWorkerGoOnToTheSameWeights) {
  for (const char* rule : rules())
    for (const std::uint32_t shards : {1U, 3U})
      for (drawn_order& order : drawn_orders(hogwild_orders / 4, least_hogwild))
        expect_one_worker_goes_on_to_the_same(small_run(order.seed(), shards), rule, order);
}

TEST_P(HogwildCheckpoints, OfACompletedRunMakeItLonger) {
  for (drawn_order& order : drawn_orders(hogwild_orders / 4, least_hogwild))
    expect_made_longer(small_run(order.seed(), 2), order);
}

TEST_P(HogwildCheckpoints, OfSeveralWorkersLetEachBatchBeTrainedOnce) {
  for (const std::uint32_t shards : {1U, 3U})
    for (drawn_order& order : drawn_orders(hogwild_orders, least_hogwild))
      expect_each_batch_once(small_run(order.seed(), shards), order);
}

TEST_P(HogwildCheckpoints, AreOneCutThroughBlockWorkersAndFeeder) {
  std::size_t in_block = 0;
  for (const std::uint32_t shards : {1U, 3U})
    for (drawn_order& order : drawn_orders(hogwild_orders, least_hogwild)) {
      assembly a = small_run(order.seed(), shards);
      a.optimizer = "sgd";
      a.learning_rate = counting_rate;
      in_block += expect_each_is_one_cut(run<counting_runner>(a, order), a, alone() ? 0 : shards);
    }
  EXPECT_GT(in_block, drawn_orders(hogwild_orders, least_hogwild).count())
      << "too few checkpoints were taken under hogwild";
}

/// Their steps end at once, since a worker that is killed waits for the step under way.
TEST_P(HogwildCheckpoints, KeepNobodyWaitingWhoeverDies) {
  for (drawn_order& order : drawn_orders(hogwild_orders * 4)) {
    assembly a = small_run(order.seed(), 2);
    const auto kept = checkpoints_of(a, order, [&](const assembled_run& run, const kept_checkpoints&) {
      deliver(order, order.below(200));
      const std::uint64_t victim = order.below(6);
      if (victim < 3) kill(run.devices[victim]);
      if (victim == 3) kill(run.feeder_actor);
      if (victim == 4 && !run.shards.empty()) kill(run.shards.back());
      deliver_to_end(order, run);
      expect_balanced(run);
    });
    for (const auto& from : kept) {
      a.resume = from;
      const assembled_run is = assemble(a);
      deliver_to_end(order, is);
      EXPECT_EQ(is.outcome().how, run_outcome::ending::completed);
      if (std::ranges::count(card_of(*from).present, false) == 0)
        expect_balanced(is); // else an account begins anew
    }
  }
}

/// Another number of workers begins anew from the weights, and schedules go on.
TEST_P(HogwildCheckpoints, LetOtherWorkersGoOn) {
  for (drawn_order& order : drawn_orders(hogwild_orders, least_hogwild)) {
    assembly a = small_run(order.seed(), 2);
    const kept_result was = run(a, order);
    a.workers = order.seed() % 2 == 0 ? 2 : 4;
    for (const auto& from : was.checkpoints) {
      a.resume = from;
      const training_report is = run(a, order).report;
      EXPECT_EQ(is.steps, a.batches - card_of(*from).steps);
      EXPECT_EQ(is.ledger.produced, is.steps);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HogwildCheckpoints,
                         ::testing::Values("hogwild", "hogwild, async@6", "async, hogwild@5",
                                           "sync, hogwild@4, async@9", "hogwild, ssp:1@4, hogwild@8"),
                         name_of_policy);

} // namespace
} // namespace mailgrad::testing

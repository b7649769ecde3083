#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/tests/actors/runs/gpu_runs.hpp>
#include <mailgrad/tests/actors/runs/hogwild_checkpoints.hpp>

// The GPU runs as late as it may, so most markers fall between a gradient and the end of its step.

namespace mailgrad::testing {
namespace {

class GpuCheckpoints : public GpuCheckpointRun, public ::testing::WithParamInterface<const char*> {
protected:
  /// Goes on from each checkpoint of so many workers, and has `check` compare that with the whole run.
  template <class Check>
  void from_each_checkpoint(std::uint32_t workers, Check check) {
    for (drawn_order& order : drawn_orders(orders)) {
      assembly a{.policy = GetParam(),
                 .workers = workers,
                 .shards = 1 + static_cast<std::uint32_t>(order.seed() % 2),
                 .checkpoint_every = 2 + order.seed() % 3};
      go_on_from_each(
          workers == 1 ? 2 : 1, a, [&](const assembly& x) { return run(x, order); }, check);
    }
  }
};

TEST_P(GpuCheckpoints, GoOnToTheSameWeightsAndReport) {
  const std::uint32_t workers = std::string_view(GetParam()) == "sync" ? 3 : 1;
  from_each_checkpoint(workers, [](const kept_result& was, const kept_result& is) {
    EXPECT_EQ(is.weights, was.weights);
    EXPECT_EQ(is.report.ledger, was.report.ledger);
    EXPECT_EQ(is.report.samples, was.report.samples);
    EXPECT_EQ(is.report.final_loss, was.report.final_loss);
    EXPECT_EQ(is.report.staleness.buckets(), was.report.staleness.buckets());
  });
}

INSTANTIATE_TEST_SUITE_P(Policies, GpuCheckpoints,
                         ::testing::Values("async", "sync", "ssp:1", "k-batch-async:2",
                                           "async, ssp:1@5, async@9"),
                         name_of_policy);

/// Runs whose bits depend on the order of messages: nothing is lost, and nothing counts twice.
class GpuCheckpointsOfSeveral : public GpuCheckpoints {};

TEST_P(GpuCheckpointsOfSeveral, TrainEachBatchOnce) {
  from_each_checkpoint(3, [](const kept_result& was, const kept_result& is) {
    EXPECT_EQ(is.report.ledger.produced, assembly{}.batches);
    EXPECT_EQ(is.report.samples, was.report.samples);
    std::uint64_t told = 0;
    for (const worker_report& w : is.outcome.workers) told += w.last_losses.samples();
    EXPECT_EQ(told, is.report.samples) << "each loss is told once, since no worker takes many steps";
  });
}

INSTANTIATE_TEST_SUITE_P(Policies, GpuCheckpointsOfSeveral,
                         ::testing::Values("async", "ssp:1", "backup:1", "k-async:2", "k-batch-sync:2",
                                           "async, sync@5, async@9"),
                         name_of_policy);

#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right

/// Puts ones in place of each gradient.
class counting_gpu_runner final : public forwarding_runner {
public:
  explicit counting_gpu_runner(std::shared_ptr<step_runner> own)
      : forwarding_runner(std::move(own)), ones_(queue_->allocate(make_gradient()->dense.bytes())) {
    fill(queue_->where(), 1, ones_.on<float>(queue_->where()));
  }

  std::size_t most_under_way() const noexcept override { return 1; }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override {
    const step_state state = forwarding_runner::begin_step(std::move(inputs), out);
    queue_->wait_for(out->ready);
    const stream& s = queue_->where();
    copy_bytes(s, out->dense.on<float>(s).data(), ones_.on<float>(s).data(), out->dense.bytes());
    out->ready = queue_->record();
    return state;
  }

private:
  std::shared_ptr<cuda::gpu_queue> queue_ = std::make_shared<cuda::gpu_queue>(0);
  memory ones_;
};

/// Runs whose workers write into one block on the GPU. Their steps end when the watch says so, so that a
/// checkpoint finds some worker in the middle of one, and updates that are queued and have not run.
class GpuHogwildCheckpoints : public HogwildRuns<GpuCheckpointRun> {
protected:
  static constexpr std::uint64_t hogwild_orders = 4;

  static assembly small_run(const drawn_order& order) {
    return HogwildRuns::small_run(order.seed(), 1 + static_cast<std::uint32_t>(order.seed() % 2));
  }
  /// A run that went on in the other place has trained each batch of the whole run once. Under hogwild alone
  /// its books begin there, and else they go on.
  static void expect_the_rest(const kept_result& was, const kept_result& is, const checkpoint& from) {
    const std::uint64_t before = alone() ? card_of(from).steps : 0;
    EXPECT_EQ(is.outcome.how, run_outcome::ending::completed);
    EXPECT_EQ(is.report.steps + before, was.report.steps);
    EXPECT_EQ(is.report.samples * was.report.steps, was.report.samples * is.report.steps);
    EXPECT_EQ(is.report.ledger.produced, is.report.steps);
    EXPECT_EQ(is.report.ledger.lost, 0U);
    EXPECT_TRUE(is.report.ledger.balances());
  }
};

TEST_P(GpuHogwildCheckpoints, OfOneWorkerGoOnToTheSameWeights) {
  for (const char* rule : rules())
    for (drawn_order& order : drawn_orders(hogwild_orders / 2))
      expect_one_worker_goes_on_to_the_same(small_run(order), rule, order);
}

TEST_P(GpuHogwildCheckpoints, OfACompletedRunMakeItLonger) {
  for (drawn_order& order : drawn_orders(hogwild_orders)) expect_made_longer(small_run(order), order);
}

TEST_P(GpuHogwildCheckpoints, AreOneCutThroughBlockWorkersAndFeeder) {
  std::size_t in_block = 0;
  for (drawn_order& order : drawn_orders(2 * hogwild_orders)) {
    assembly a = small_run(order);
    a.optimizer = "sgd";
    a.learning_rate = counting_rate;
    a.runner = [](rank, std::shared_ptr<step_runner> own) {
      return std::make_shared<counting_gpu_runner>(std::move(own));
    };
    in_block += expect_each_is_one_cut(run(a, order), a, a.shards);
  }
  EXPECT_GT(in_block, hogwild_orders) << "too few checkpoints were taken under hogwild";
}

TEST_P(GpuHogwildCheckpoints, OfSeveralWorkersLetEachBatchBeTrainedOnce) {
  for (drawn_order& order : drawn_orders(hogwild_orders)) expect_each_batch_once(small_run(order), order);
}

/// To cores, and from there to the GPU again. Where hogwild is the only policy, all workers begin anew.
TEST_P(GpuHogwildCheckpoints, GoOnInTheOtherPlace) {
  for (drawn_order& order : drawn_orders(hogwild_orders / 2)) {
    assembly a = small_run(order);
    const kept_result was = run(a, order);
    a.resume = was.checkpoints.back();
    EXPECT_EQ(run_there(a, order).weights, was.weights) << "no step was left";
    a.resume = was.checkpoints.front();
    const kept_result on_cores = run_there(a, order);
    ASSERT_FALSE(on_cores.checkpoints.empty());
    a.resume = on_cores.checkpoints.back();
    EXPECT_EQ(run(a, order).weights, on_cores.weights);
    a.resume = on_cores.checkpoints.front();
    expect_the_rest(was, on_cores, *was.checkpoints.front());
    expect_the_rest(was, run(a, order), *on_cores.checkpoints.front());
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, GpuHogwildCheckpoints,
                         ::testing::Values("hogwild", "hogwild, async@6", "async, hogwild@5, async@9",
                                           "hogwild, ssp:1@4, hogwild@8"),
                         name_of_policy);

#endif // __SANITIZE_THREAD__

} // namespace
} // namespace mailgrad::testing

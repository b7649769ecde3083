#include <mailgrad/tests/actors/runs/gpu_checkpoint_runs.hpp>
#include <mailgrad/tests/actors/runs/hogwild_cut.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/kernels/vectors.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

// Checkpoints of runs whose workers run ahead of the simulated GPU, which runs what is queued as late as it
// may. Most markers fall between a gradient and the end of its step.

namespace mailgrad {
namespace {

using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;

class GpuCheckpoints : public testing::GpuCheckpointRun, public ::testing::WithParamInterface<const char*> {};

TEST_P(GpuCheckpoints, GoOnToTheSameWeightsAndReport) {
  const bool alone = std::string_view(GetParam()) != "sync";
  for (drawn_order& order : drawn_orders(orders)) {
    assembly a;
    a.policy = GetParam();
    a.workers = alone ? 1 : 3;
    a.shards = 1 + order.seed() % 2;
    a.checkpoint_every = 2 + order.seed() % 3;
    const auto was = run(a, order);
    ASSERT_TRUE(was);
    EXPECT_GE(was->checkpoints.size(), 2U);
    for (const auto& from : was->checkpoints) {
      a.resume = from;
      const auto is = run(a, order);
      ASSERT_TRUE(is);
      EXPECT_EQ(is->weights, was->weights);
      EXPECT_EQ(is->report.ledger, was->report.ledger);
      EXPECT_EQ(is->report.samples, was->report.samples);
      EXPECT_EQ(is->report.final_loss, was->report.final_loss);
      EXPECT_EQ(is->report.staleness.buckets(), was->report.staleness.buckets());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, GpuCheckpoints,
                         ::testing::Values("async", "sync", "ssp:1", "k-batch-async:2",
                                           "async, ssp:1@5, async@9"),
                         [](const auto& policy) { return testing::test_name(policy.param); });

/// Runs whose bits depend on the order of messages: nothing is lost, and nothing counts twice.
class GpuCheckpointsOfSeveral : public GpuCheckpoints {};

TEST_P(GpuCheckpointsOfSeveral, TrainEachBatchOnce) {
  for (drawn_order& order : drawn_orders(orders)) {
    assembly a;
    a.policy = GetParam();
    a.shards = 1 + order.seed() % 2;
    a.checkpoint_every = 2 + order.seed() % 3;
    const auto was = run(a, order);
    ASSERT_TRUE(was);
    for (const auto& from : was->checkpoints) {
      a.resume = from;
      const auto is = run(a, order);
      ASSERT_TRUE(is);
      EXPECT_EQ(is->report.ledger.produced, a.batches);
      EXPECT_EQ(is->report.samples, was->report.samples);
      std::uint64_t told = 0;
      for (const worker_report& w : is->outcome.workers) told += w.last_losses.samples();
      EXPECT_EQ(told, is->report.samples) << "each loss is told once, since no worker takes many steps";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, GpuCheckpointsOfSeveral,
                         ::testing::Values("async", "ssp:1", "backup:1", "k-async:2", "k-batch-sync:2",
                                           "async, sync@5, async@9"),
                         [](const auto& policy) { return testing::test_name(policy.param); });

#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right

constexpr float counting_rate = 0.25F;

/// Puts ones in place of each gradient. With plain SGD each step then moves every weight by the learning
/// rate, so the weights tell how many steps they have seen.
class counting_gpu_runner final : public step_runner {
public:
  explicit counting_gpu_runner(std::shared_ptr<step_runner> own)
      : own_(std::move(own)), ones_(queue_->allocate(own_->make_gradient()->dense.bytes())) {
    fill(queue_->where(), 1, ones_.on<float>(queue_->where()));
  }

  std::shared_ptr<gradient> make_gradient() const override { return own_->make_gradient(); }
  void on_end(std::function<void()> notice) override { own_->on_end(std::move(notice)); }
  void use_weights(std::uint32_t shard, const snapshot& values) override { own_->use_weights(shard, values); }
  void use_host_weights(std::uint32_t shard, const float* values,
                        std::shared_ptr<const void> owner) override {
    own_->use_host_weights(shard, values, std::move(owner));
  }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override {
    const step_state state = own_->begin_step(std::move(inputs), out);
    queue_->wait_for(out->ready);
    const stream& s = queue_->where();
    copy_bytes(s, out->dense.on<float>(s).data(), ones_.on<float>(s).data(), out->dense.bytes());
    out->ready = queue_->record();
    return state;
  }
  float end_step() override { return own_->end_step(); }
  std::optional<device_span> span() const override { return own_->span(); }
  step_state give_up() override { return own_->give_up(); }

private:
  std::shared_ptr<step_runner> own_;
  std::shared_ptr<cuda::gpu_queue> queue_ = std::make_shared<cuda::gpu_queue>(0);
  memory ones_;
};

/// Runs whose workers write into one block on the GPU. Their steps end when the watch says so, so that a
/// checkpoint finds some worker in the middle of one, and updates that are queued and have not run.
class GpuHogwildCheckpoints : public GpuCheckpoints {
protected:
  static constexpr std::uint64_t hogwild_orders = 4;

  static assembly small_run(const drawn_order& order) {
    assembly a;
    a.policy = GetParam();
    a.batches = 24;
    a.shards = 1 + order.seed() % 2;
    a.checkpoint_every = 2 + order.seed() % 3;
    return a;
  }
  static bool alone() { return std::string_view(GetParam()) == "hogwild"; }

  static void expect_same(const result& was, const result& is) {
    EXPECT_EQ(is.weights, was.weights);
    EXPECT_EQ(is.report.samples, was.report.samples);
    EXPECT_EQ(is.report.final_loss, was.report.final_loss);
    EXPECT_EQ(is.report.updates, was.report.updates);
    EXPECT_EQ(is.report.ledger.produced, was.report.ledger.produced);
    if (!alone()) return; // else they depend on the moment of a switch
    EXPECT_EQ(is.report.ledger, was.report.ledger);
    EXPECT_EQ(is.report.staleness.buckets(), was.report.staleness.buckets());
  }

  /// A run that went on in the other place has trained each batch of the whole run once. Under hogwild alone
  /// its books begin there, and else they go on.
  static void expect_the_rest(const result& was, const result& is, const checkpoint& from) {
    checkpoint_card card;
    from.part("run")->field("card", card);
    const std::uint64_t before = alone() ? card.steps : 0;
    EXPECT_EQ(is.outcome.how, run_outcome::ending::completed);
    EXPECT_EQ(is.report.steps + before, was.report.steps);
    EXPECT_EQ(is.report.samples * was.report.steps, was.report.samples * is.report.steps);
    EXPECT_EQ(is.report.ledger.produced, is.report.steps);
    EXPECT_EQ(is.report.ledger.lost, 0U);
    EXPECT_TRUE(is.report.ledger.balances());
  }
};

/// A switch comes before or after the batch that a worker has in hand, so the weights of several policies are
/// the same only with a rule without state.
TEST_P(GpuHogwildCheckpoints, OfOneWorkerGoOnToTheSameWeights) {
  for (const char* rule : {"sgd", "momentum", "adam"}) {
    if (std::string_view(rule) != "sgd" && !alone()) continue;
    for (drawn_order& order : drawn_orders(hogwild_orders / 2)) {
      assembly a = small_run(order);
      a.workers = 1;
      a.optimizer = rule;
      const auto was = run(a, order);
      ASSERT_TRUE(was);
      EXPECT_GE(was->checkpoints.size(), 2U);
      for (const auto& from : was->checkpoints) {
        SCOPED_TRACE(std::string(rule) + ", resumed from " + from->path().string());
        a.resume = from;
        const auto is = run(a, order);
        ASSERT_TRUE(is);
        expect_same(*was, *is);
      }
    }
  }
}

/// The state of a worker's rule outlives the worker, which has ended by then.
TEST_P(GpuHogwildCheckpoints, OfACompletedRunMakeItLonger) {
  for (drawn_order& order : drawn_orders(hogwild_orders)) {
    assembly a = small_run(order);
    a.workers = 1;
    if (!alone()) a.optimizer = "sgd";
    const auto was = run(a, order);
    a.batches = 12;
    const auto half = run(a, order);
    ASSERT_TRUE(was && half);
    a.batches = 24;
    a.resume = half->checkpoints.back();
    const auto is = run(a, order);
    ASSERT_TRUE(is);
    expect_same(*was, *is);
  }
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
    const auto was = run(a, order);
    ASSERT_TRUE(was);
    for (const auto& from : was->checkpoints) {
      SCOPED_TRACE(from->path().string());
      const testing::told_steps told = testing::told_by(*from, a.workers, a.shards);
      EXPECT_EQ(told.of_block, told.written);
      EXPECT_EQ(told.taken, told.counted);
      if (!told.in_block) continue;
      ++in_block;
      const auto later = counting_rate * static_cast<float>(a.batches - told.counted);
      ASSERT_EQ(told.weights.size(), was->weights.size());
      for (std::size_t i = 0; i < told.weights.size(); ++i)
        ASSERT_NEAR(told.weights[i] - later, was->weights[i], 1e-4) << "weight " << i;
    }
  }
  EXPECT_GT(in_block, hogwild_orders) << "too few checkpoints were taken under hogwild";
}

TEST_P(GpuHogwildCheckpoints, OfSeveralWorkersLetEachBatchBeTrainedOnce) {
  for (drawn_order& order : drawn_orders(hogwild_orders)) {
    assembly a = small_run(order);
    const auto was = run(a, order);
    ASSERT_TRUE(was);
    for (const auto& from : was->checkpoints) {
      SCOPED_TRACE("resumed from " + from->path().string());
      a.resume = from;
      const auto is = run(a, order);
      ASSERT_TRUE(is);
      EXPECT_EQ(is->report.steps, a.batches);
      EXPECT_EQ(is->report.samples, was->report.samples);
      EXPECT_EQ(is->report.ledger.produced, a.batches);
      EXPECT_EQ(is->report.ledger.lost, 0U);
      EXPECT_EQ(is->report.switches.size(), was->report.switches.size());
    }
  }
}

/// To cores, and from there to the GPU again. Where hogwild is the only policy, all workers begin anew.
TEST_P(GpuHogwildCheckpoints, GoOnInTheOtherPlace) {
  for (drawn_order& order : drawn_orders(hogwild_orders / 2)) {
    assembly a = small_run(order);
    const auto was = run(a, order);
    ASSERT_TRUE(was);
    a.resume = was->checkpoints.back();
    const auto end_on_cores = run_there(a, order);
    ASSERT_TRUE(end_on_cores);
    EXPECT_EQ(end_on_cores->weights, was->weights) << "no step was left";
    a.resume = was->checkpoints.front();
    const auto on_cores = run_there(a, order);
    ASSERT_TRUE(on_cores);
    ASSERT_FALSE(on_cores->checkpoints.empty());
    a.resume = on_cores->checkpoints.back();
    const auto end_again = run(a, order);
    ASSERT_TRUE(end_again);
    EXPECT_EQ(end_again->weights, on_cores->weights);
    a.resume = on_cores->checkpoints.front();
    const auto again = run(a, order);
    ASSERT_TRUE(again);
    expect_the_rest(*was, *on_cores, *was->checkpoints.front());
    expect_the_rest(*was, *again, *on_cores->checkpoints.front());
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, GpuHogwildCheckpoints,
                         ::testing::Values("hogwild", "hogwild, async@6", "async, hogwild@5, async@9",
                                           "hogwild, ssp:1@4, hogwild@8"),
                         [](const auto& policy) { return testing::test_name(policy.param); });

#endif // __SANITIZE_THREAD__

} // namespace
} // namespace mailgrad

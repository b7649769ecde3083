#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/assembled_run.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

// Whole runs on threads of their own. Nothing here depends on who is how fast.

namespace mailgrad {
using messaging::actor_home;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::options_for;
using testing::small_data;
using testing::small_model;
using testing::trained;

/// The weights that a loop without actors makes of the same options: the reference.
std::string trained_in_sequence(const training_options& o, const std::shared_ptr<const data_split>& data) {
  model_request request;
  request.sample_dims = data->train.sample_dims();
  request.classes = data->train.classes();
  request.nonzeros = data->train.is_sparse() ? max_nonzeros(data->train, o.batch) : 0;
  const auto layout = std::make_shared<parameter_layout>(lay_out(small_model(), request, 1));
  std::vector<float> weights = testing::first_values(*layout, o.seed);
  replica model(small_model(), request, layout);
  model.use_weights(0, weights.data());
  const auto rule = make_optimizer(o.optimizer, layout->size());
  const auto g = model.make_gradient();
  dealer deals({data->train.size(), o.batch, o.epochs, o.steps, o.seed, deal_mode::on_demand, 1});
  std::uint64_t step = 0;
  while (const auto d = deals.next(0)) {
    auto b = std::make_shared<batch>();
    shape_batch(data->train, d->samples.size(), request.nonzeros, *b);
    fill_batch(data->train, d->samples, *b);
    b->number = d->number;
    model.begin_step(b, g);
    const scaled_gradient part{g->dense.on_host<float>().data(), 1};
    const std::span<float> dense = std::span(weights).first(layout->dense_size());
    ++step;
    rule->update(host_stream{}, {dense, dense, {&part, 1}, step, 0});
    for (const gradient_rows& rows : g->sparse) {
      const placed_variable& table = layout->variables()[rows.variable];
      rule->update_rows(host_stream{},
                        {std::span(weights).subspan(table.offset, table.dims.size()), rows.width, rows.rows,
                         rows.values, 1.0F, step, table.offset, 0, static_cast<std::int32_t>(table.dims[0])});
    }
  }
  return sha256(std::as_bytes(std::span(weights)));
}

class TrainingPolicy : public ::testing::TestWithParam<const char*> {
protected:
  /// Whether the policy may discard a gradient.
  static bool drops() {
    const std::string text = GetParam();
    return text.find("backup") != text.npos || text.find("rennala") != text.npos ||
           text.find("ringmaster") != text.npos;
  }
};

TEST_P(TrainingPolicy, BalancesTheLedgerAndTrainsEveryBatch) {
  for (const std::uint32_t shards : {1U, 2U}) {
    training_options o = options_for(GetParam(), 2);
    o.shards = shards;
    const training_report r = trained(o, small_data(1000));
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
    EXPECT_EQ(r.steps, 500U);
    EXPECT_EQ(r.samples, 4000U);
    const std::uint64_t taken = r.ledger.applied + r.ledger.merged;
    EXPECT_EQ(taken + r.ledger.discarded_in_all(), 500U);
    if (!drops()) {
      EXPECT_EQ(taken, 500U);
    }
    if (shards == 1) {
      EXPECT_EQ(r.staleness.total(), taken);
    }
    EXPECT_EQ(r.parameters_sha256.size(), 64U);
    EXPECT_EQ(r.policy, o.policy);
    ASSERT_TRUE(r.test_accuracy);
    EXPECT_GT(*r.test_accuracy, 0.7) << "a third is guessing";
    EXPECT_TRUE(r.final_loss);
    EXPECT_GT(r.wall_seconds, 0);
  }
}

TEST_P(TrainingPolicy, EndsInGoodOrderWhenItIsStopped) {
  training_options o = options_for(GetParam(), 2);
  o.epochs = 1'000'000'000;
  o.shards = 2;
  training run(small_model(), small_data(), o);
  while (run.progress().steps == 0) run.wait_for(std::chrono::milliseconds{5});
  run.stop("enough");
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped");
  EXPECT_EQ(r.why, "enough");
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  EXPECT_EQ(r.ledger.lost, 0U) << "what was begun is taken";
  EXPECT_GT(r.steps, 0U);
}

TEST_P(TrainingPolicy, SaysWhyWhenTheLossDiverges) {
  training_options o = options_for(GetParam(), 2);
  o.optimizer = parse_optimizer("sgd");
  o.optimizer.learning_rate = 1e30;
  o.optimizer.l2 = 1e30; // the first step throws every weight out of range
  const training_report r = trained(o);
  EXPECT_EQ(r.ended, "diverged");
  EXPECT_THAT(r.why, AllOf(HasSubstr("worker"), HasSubstr("step"), HasSubstr("loss")));
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  EXPECT_GE(r.ledger.discarded.at("not finite"), 1U);
  EXPECT_FALSE(r.test_accuracy);
}

TEST_P(TrainingPolicy, ReturnsFromTheDestructorOfARunInProgress) {
  training_options o = options_for(GetParam(), 2);
  o.epochs = 1'000'000'000;
  training run(small_model(), small_data(), o);
  while (run.progress().steps == 0) run.wait_for(std::chrono::milliseconds{5});
}

TEST_P(TrainingPolicy, RunsMoreWorkersThanThreads) {
  training_options o = options_for(GetParam(), 5);
  o.shards = 2;
  const training_report r = trained(o, small_data(500));
  EXPECT_EQ(r.ended, "completed");
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  EXPECT_EQ(r.devices.size(), 5U);
}

TEST_P(TrainingPolicy, TrainsASparseModel) {
  training_options o = options_for(GetParam(), 2);
  o.optimizer = parse_optimizer("adagrad");
  o.epochs = 20;
  o.shards = 2;
  const training_report r = trained(o, testing::sparse_data(200));
  EXPECT_EQ(r.ended, "completed");
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  EXPECT_GT(r.test_accuracy.value(), 0.6);
}

TEST_P(TrainingPolicy, CountsStepsOfAllWorkersTogether) {
  training_options o = options_for(GetParam(), 3);
  o.steps = 17;
  const training_report r = trained(o);
  EXPECT_EQ(r.steps, 17U);
  EXPECT_EQ(r.ended, "completed");
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, TrainingPolicy,
                         ::testing::Values("async", "sync", "hogwild", "ssp:1", "dssp:1,3", "backup:1",
                                           "k-async:2", "k-batch-async:2", "rennala:2", "ringmaster:2",
                                           "async, sync@5, backup:1@9"),
                         [](const auto& policy) { return testing::test_name(policy.param); });

class TrainingAlone : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainingAlone, MakesTheWeightsOfASequentialLoopInEveryPolicy) {
  for (const std::size_t samples : {48U, 45U}) { // with and without a short last batch
    const auto data = small_data(samples);
    training_options o = options_for("async", 1);
    o.optimizer = parse_optimizer(GetParam());
    const std::string expected = trained_in_sequence(o, data);
    for (const char* policy : {"async", "sync", "hogwild"}) {
      o.policy = policy;
      for (const std::uint32_t shards : {1U, 2U, 3U}) {
        o.shards = shards;
        EXPECT_EQ(trained(o, data).parameters_sha256, expected) << policy << ", shards: " << shards;
      }
    }
  }
}

TEST_P(TrainingAlone, MakesTheRowsOfASequentialLoop) {
  const auto data = testing::sparse_data();
  training_options o = options_for("async", 1);
  o.optimizer = parse_optimizer(GetParam());
  const std::string expected = trained_in_sequence(o, data);
  for (const char* policy : {"async", "sync"}) {
    o.policy = policy;
    for (const std::uint32_t shards : {1U, 2U, 3U}) {
      o.shards = shards;
      EXPECT_EQ(trained(o, data).parameters_sha256, expected) << policy << ", shards: " << shards;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(SeveralRules, TrainingAlone, ::testing::Values("sgd", "momentum", "adam", "adamw"),
                         [](const auto& rule) { return std::string(rule.param); });

TEST(Training, MakesTheSameWeightsTwiceIfWorkersKeepInStep) {
  training_options o = options_for("sync", 2);
  o.shards = 2;
  const training_report first = trained(o, small_data(50));
  EXPECT_EQ(trained(o, small_data(50)).parameters_sha256, first.parameters_sha256);
  EXPECT_EQ(first.staleness.max(), 0U);
  o.shards = 1;
  EXPECT_EQ(trained(o, small_data(50)).parameters_sha256, first.parameters_sha256);
}

TEST(Training, MakesOfTwoWorkersInStepWhatOneMakesOfBatchesTwiceAsLarge) {
  const auto data = small_data(400);
  training_options two = options_for("sync", 2);
  two.batch = 8;
  two.epochs = 2;
  training_options one = options_for("sync", 1);
  one.batch = 16;
  one.epochs = 2;
  training in_step(small_model(), data, two);
  training alone(small_model(), data, one);
  const std::span<const float> expected = alone.parameters();
  const std::span<const float> weights = in_step.parameters();
  ASSERT_EQ(weights.size(), expected.size());
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], expected[i], 1e-5) << i;
  EXPECT_EQ(in_step.report().steps, 100U);
  EXPECT_EQ(alone.report().steps, 50U);
}

TEST(Training, DependsOnItsSeed) {
  training_options o = options_for("sync", 1);
  const std::string first = trained(o).parameters_sha256;
  ++o.seed;
  EXPECT_NE(trained(o).parameters_sha256, first);
}

TEST(Training, ConservesStalenessOnRealThreads) {
  testing::assembly a;
  a.workers = 4;
  a.batches = 400;
  a.overhear = true;
  caf::actor_system_config config;
  register_messages(config);
  config.set(caf_compat::option("scheduler.max-threads"), std::size_t{3});
  actor_home home(config);
  const testing::assembled_run run(home.system(), a, small_data(), std::make_shared<machine_time>());
  for (const shard_report& s : run.outcome().shards) {
    std::uint64_t gaps = 0;
    std::uint64_t ages_at_the_end = 0;
    std::uint64_t missed_at_the_start = 0;
    for (std::uint32_t r = 0; r < a.workers; ++r) {
      const testing::exchange_notes& notes = run.notes(r, s.shard.value);
      for (const auto& [gap, count] : s.workers[r].gaps.buckets()) gaps += gap * count;
      ages_at_the_end += s.version.value - notes.versions_read.back();
      missed_at_the_start += notes.versions_read.front();
    }
    EXPECT_EQ(s.version.value, a.batches);
    EXPECT_EQ(gaps + ages_at_the_end, (a.workers - 1) * s.version.value - missed_at_the_start);
  }
  EXPECT_TRUE(report_of(run.outcome()).ledger.balances());
}

TEST(Training, LeavesTheAccuracyOutIfTheTestIsEnded) {
  training run(small_model(), small_data(), options_for("async", 1));
  const training_report r = run.report([] { return true; });
  EXPECT_EQ(r.ended, "completed");
  EXPECT_EQ(r.why, "the test was ended early");
  EXPECT_FALSE(r.test_accuracy);
  EXPECT_EQ(r.parameters_sha256.size(), 64U);
}

// Workers start anew from one version and are stopped together. After the feeder has heard of it, each makes
// the step it is in and that of the batch it has, two at most; so no more than two updates by each of the
// others pass the weights that a worker reads last. All else that passes a worker is a gap: with U updates,
// gaps sum up to (M - 1) U, less 2 (M - 1) for each worker at most.
TEST(Training, HasAMeanStalenessOfAllOtherWorkers) {
  for (const std::uint32_t workers : {2U, 4U}) {
    training_options o = options_for("sync, async@" + std::to_string(workers), workers);
    o.epochs = 1'000'000'000;
    o.shards = 2;
    training run(small_model(), small_data(), o);
    while (run.progress().steps < 4000) run.wait_for(std::chrono::milliseconds{5});
    run.stop("enough");
    const training_report r = run.report();
    ASSERT_EQ(r.switches.size(), 1U);
    const auto most = static_cast<double>(workers - 1);
    const double edge = workers * 2 * most / static_cast<double>(r.ledger.applied);
    EXPECT_LT(edge, 0.01) << r.ledger.applied;
    for (std::uint32_t s = 0; s < 2; ++s) {
      double gaps = 0;
      for (const exchange_figures& x : r.exchanges)
        if (x.shard == s)
          for (const auto& [gap, count] : x.gaps.buckets()) gaps += static_cast<double>(gap * count);
      const double mean = gaps / static_cast<double>(r.ledger.applied); // those merged before are fresh
      EXPECT_LE(mean, most) << workers << " workers, shard " << s;
      EXPECT_GE(mean, most - edge) << workers << " workers, shard " << s;
    }
  }
}

TEST(Training, NamesNothingThatWaitsOnceItHasEnded) {
  training run(small_model(), small_data(), options_for("sync", 2));
  static_cast<void>(run.report());
  EXPECT_TRUE(run.wait_for(std::chrono::milliseconds{0}));
  EXPECT_THAT(run.list_wait_reasons(std::chrono::milliseconds{0}), ::testing::IsEmpty());
}

TEST(ShortForms, MeanWhatTheLongOnesMean) {
  EXPECT_EQ(cpus(2), (std::vector<device>{{device_kind::cpu, 0}, {device_kind::cpu, 1}}));
  EXPECT_EQ(gpus(2), (std::vector<device>{{device_kind::cuda, 0}, {device_kind::cuda, 1}}));
  const training_options o = options_for("sync", 1);
  EXPECT_EQ(train(mlp({8}), small_data(), o).parameters_sha256,
            train(find_model("mlp:hidden=8"), small_data(), o).parameters_sha256);
  EXPECT_THROW(serve(mlp({8}), small_data(), o, "nowhere"), std::invalid_argument);
}

} // namespace
} // namespace mailgrad

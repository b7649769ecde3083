#include <mailgrad/tests/actors/runs/gpu_checkpoint_runs.hpp>
#include <mailgrad/tests/actors/runs/gpu_orders.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/engine/tall_tables.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <mailgrad/graph/models/built_in.hpp>

#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <vector>

// Models whose tables lie on the simulated GPU: a recommender, whose row numbers come from a kernel, and a
// classifier of sparse samples, whose row numbers come with the batch and end before its last place.

namespace mailgrad {
namespace {

using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::orders_on_gpu;

constexpr const char* recommender = "dlrm:width=4,bottom=6,top=8";

struct table_case {
  const char* model;
  const char* policy;
  const char* optimizer = "momentum";
  std::size_t height = 0; ///< of its tallest table; 0: as few rows as a batch may name
};

std::string name_of_case(const ::testing::TestParamInfo<table_case>& info) {
  return testing::test_name(std::string(info.param.model).substr(0, 4) + " " + info.param.policy + " " +
                            info.param.optimizer + (info.param.height > 0 ? " tall" : ""));
}

std::shared_ptr<const data_split> data_of(const table_case& c) {
  const bool sparse = std::string_view(c.model) == "softmax";
  if (c.height > 0) return sparse ? testing::tall_sparse_data(c.height) : testing::tall_tastes(c.height);
  return sparse ? testing::sparse_data() : testing::tastes();
}

assembly assembly_of_tables(const table_case& c) {
  assembly a;
  a.policy = c.policy;
  a.optimizer = c.optimizer;
  a.shards = std::string_view(c.model) == "softmax" ? 2 : 3; // of which some share a table
  a.model = *built_in_model(c.model);
  return a;
}

assembly on_the_gpu(assembly a, const std::shared_ptr<event_watch>& watch) {
  a.parameters = {{device_kind::cuda, 0}};
  a.watch = watch;
  return a;
}

class GpuTables : public testing::GpuRun, public ::testing::WithParamInterface<table_case> {
protected:
  GpuTables() { data_ = data_of(GetParam()); }
  static bool is(std::string_view policy) { return policy == GetParam().policy; }
};

TEST_P(GpuTables, EndOnceWithABalancedLedgerAndEveryBatchTrained) {
  const auto make = [](const auto& watch) { return on_the_gpu(assembly_of_tables(GetParam()), watch); };
  in_every_order(8, make, [](const assembled_run& run) {
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    EXPECT_EQ(std::ranges::count(run.outcome().lost, true), 0);
    testing::expect_balanced(run);
    EXPECT_EQ(report_of(run.outcome(), run.written()).samples, 48U);
  });
}

/// In `sync`, and with one worker, the order makes no difference, so neither may work that runs before that
/// which it reads.
TEST_P(GpuTables, ComeToTheWeightsOfTheProcessorsInEveryOrder) {
  assembly a = assembly_of_tables(GetParam());
  a.batches = 24;
  if (!is("sync")) a.workers = 1;
  if (is("async, hogwild@4, sync@8")) a.optimizer = "sgd"; // has no state to tell who made which update
  const auto expected = finish(a, 1);
  ASSERT_TRUE(expected);
  const auto make = [&](const auto& watch) { return on_the_gpu(a, watch); };
  expect_weights_in_every_order(expected->weights, 6, make);
}

INSTANTIATE_TEST_SUITE_P(
    Runs, GpuTables,
    ::testing::Values(table_case{recommender, "async", "sgd"}, table_case{recommender, "async", "adagrad"},
                      table_case{recommender, "sync", "adam"}, table_case{recommender, "ssp:1"},
                      table_case{recommender, "k-batch-async:4"}, table_case{recommender, "async, sync@4"},
                      table_case{"softmax", "async", "adam"}, table_case{"softmax", "sync", "sgd"},
                      table_case{"softmax", "ssp:2", "adagrad"},
                      table_case{recommender, "async", "adagrad", 7'000},
                      table_case{recommender, "sync", "adam", 7'000},
                      table_case{recommender, "async, sync@4", "momentum", 7'000},
                      table_case{"softmax", "async", "adam", 7'000}),
    name_of_case);

#ifndef __SANITIZE_THREAD__ // whose reports of that race would be right
INSTANTIATE_TEST_SUITE_P(OfHogwildsRace, GpuTables,
                         ::testing::Values(table_case{recommender, "async, hogwild@4, sync@8"},
                                           table_case{"softmax", "hogwild"},
                                           table_case{recommender, "hogwild", "adam"},
                                           table_case{recommender, "async, hogwild@4, sync@8", "sgd", 7'000}),
                         name_of_case);
#endif

class RecordedTables : public GpuTables {};

TEST_P(RecordedTables, HaveTheSameStalenessAndWeightsOnTheGpu) {
  for (const drawn_order& order : orders_on_gpu(3)) {
    assembly a = assembly_of_tables(GetParam());
    const auto was = finish(a, order.seed());
    ASSERT_TRUE(was);
    a.replayed = std::make_shared<const recording>(was->order);
    const auto is = finish_on_gpu(order.seed() + 1, [&](const auto& watch) { return on_the_gpu(a, watch); });
    ASSERT_TRUE(is);
    EXPECT_EQ(was->report.ledger, is->report.ledger);
    EXPECT_EQ(was->report.staleness.buckets(), is->report.staleness.buckets());
    ASSERT_EQ(was->weights.size(), is->weights.size());
    for (std::size_t i = 0; i < was->weights.size(); ++i)
      EXPECT_NEAR(was->weights[i], is->weights[i], 1e-5) << i;
  }
}

TEST_P(RecordedTables, OnTheGpuAreRepeatedBitForBit) {
  for (const drawn_order& order : orders_on_gpu(3)) {
    expect_repeated(order.seed(), assembly_of_tables(GetParam()),
                    [&](const assembly& a, const auto& watch) { return on_the_gpu(a, watch); });
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, RecordedTables,
                         ::testing::Values(table_case{recommender, "async"},
                                           table_case{recommender, "async", "adagrad"},
                                           table_case{recommender, "sync"},
                                           table_case{recommender, "k-batch-async:4"},
                                           table_case{"softmax", "async", "adam"},
                                           table_case{recommender, "async", "adagrad", 7'000}),
                         name_of_case);

class GpuTableCheckpoints : public testing::GpuCheckpointRun,
                            public ::testing::WithParamInterface<table_case> {
protected:
  GpuTableCheckpoints() { data_ = data_of(GetParam()); }
};

TEST_P(GpuTableCheckpoints, GoOnToTheSameWeights) {
  const bool alone = std::string_view(GetParam().policy) != "sync";
  for (drawn_order& order : orders_on_gpu(4)) {
    assembly a = assembly_of_tables(GetParam());
    a.workers = alone ? 1 : 3;
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
      EXPECT_EQ(is->report.final_loss, was->report.final_loss);
    }
  }
}

class GpuTablePlaces : public GpuTableCheckpoints {};

/// What waits at a shard is kept with its rows, and read in either place.
TEST_P(GpuTablePlaces, GoOnOnProcessorsAndBack) {
  const bool alone = std::string_view(GetParam().policy) != "sync";
  for (drawn_order& order : orders_on_gpu(4)) {
    assembly a = assembly_of_tables(GetParam());
    a.workers = alone ? 1 : 3;
    a.checkpoint_every = 2 + order.seed() % 3;
    const auto was = run(a, order);
    ASSERT_TRUE(was);
    for (const auto& from : was->checkpoints) {
      SCOPED_TRACE(from->path().string());
      a.resume = from;
      const auto on_cores = run_there(a, order);
      ASSERT_TRUE(on_cores && !on_cores->checkpoints.empty());
      a.resume = on_cores->checkpoints.front();
      const auto back = run(a, order);
      ASSERT_TRUE(back);
      for (const auto* is : {&*on_cores, &*back})
        for (std::size_t i = 0; i < was->weights.size(); ++i)
          ASSERT_NEAR(is->weights[i], was->weights[i], 1e-5) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, GpuTableCheckpoints,
                         ::testing::Values(table_case{recommender, "async"},
                                           table_case{recommender, "sync", "adagrad"},
                                           table_case{recommender, "k-batch-async:3", "adam"},
                                           table_case{"softmax", "sync"},
                                           table_case{recommender, "async", "adagrad", 7'000}),
                         name_of_case);

INSTANTIATE_TEST_SUITE_P(Runs, GpuTablePlaces,
                         ::testing::Values(table_case{recommender, "async"},
                                           table_case{recommender, "sync", "adagrad"},
                                           table_case{"softmax", "sync"}),
                         name_of_case);

} // namespace
} // namespace mailgrad

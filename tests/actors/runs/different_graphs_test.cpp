#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/actors/training.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operations.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

// Between-graph replication: each worker builds a graph of its own, and what has one name is shared.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::small_data;
using testing::sparse_data;
using ::testing::ThrowsMessage;

std::string tower_of(const model_request& r) { return "tower_" + std::to_string(r.worker); }

model_outputs classified(const value& logits, const model_request& r) {
  const value labels = logits.owner().input(std::string(batch_input::labels), {r.batch}, dtype::int32);
  return {logits, cross_entropy(logits, labels)};
}

/// A trunk that all workers share under a last layer of each worker's own, and a variable that nobody trains.
model_outputs towers(graph& g, const model_request& r) {
  const value x = g.input(std::string(batch_input::features), {r.batch, r.sample_dims[0]});
  const value trunk = dense(x, 8, "trunk", activation::tanh);
  g.variable("nobodys", {4}, initialiser::constant(3));
  const name_scope own(g, tower_of(r));
  return classified(dense(trunk, r.classes, "out"), r);
}

/// A table of each worker's own under a bias that all share.
model_outputs sparse_towers(graph& g, const model_request& r) {
  const value columns = g.input(std::string(batch_input::columns), {r.nonzeros}, dtype::int32);
  const value values = g.input(std::string(batch_input::values), {r.nonzeros});
  const value offsets = g.input(std::string(batch_input::offsets), {r.batch + 1}, dtype::int32);
  std::optional<name_scope> own(std::in_place, g, tower_of(r));
  const value hidden = sparse_dense(columns, values, offsets, r.sample_dims[0], 8, "in", activation::tanh);
  own.reset();
  return classified(dense(hidden, r.classes, "out"), r);
}

std::vector<float> part(std::span<const float> all, const parameter_layout& layout, std::string_view name) {
  const auto v = std::ranges::find(layout.variables(), name, &placed_variable::name);
  const auto values = all.subspan(v->offset, v->dims.size());
  return {values.begin(), values.end()};
}

class DifferentGraphs : public testing::DrawnRuns {
protected:
  static assembly two_workers(const std::string& policy) {
    assembly a;
    a.policy = policy;
    a.model = towers;
    a.workers = 2;
    a.optimizer = "adamw"; // which moves weights even by gradients of zero
    return a;
  }
};

/// The same barrier steps without actors: each worker's gradient at the same weights, halved and added.
std::vector<float> trained_in_step(const assembly& a, const std::shared_ptr<const data_split>& data) {
  model_request request;
  request.sample_dims = data->train.sample_dims();
  request.classes = data->train.classes();
  request.workers = a.workers;
  const auto layout = std::make_shared<parameter_layout>(lay_out(a.model, request, 1));
  shard weights(*layout, 0, a.seed, parse_optimizer(a.optimizer));
  std::vector<std::unique_ptr<replica>> replicas;
  for (request.worker = 0; request.worker < a.workers; ++request.worker)
    replicas.push_back(std::make_unique<replica>(a.model, request, layout));
  dealer deals({data->train.size(), a.batch, std::numeric_limits<std::uint32_t>::max(), a.batches, a.seed,
                deal_mode::by_rank, a.workers});
  for (std::uint64_t step = 0; step < a.batches / a.workers; ++step) {
    const snapshot now = weights.snapshot();
    std::vector<contribution> work;
    for (std::uint32_t r = 0; r < a.workers; ++r) {
      const auto dealt = deals.next(r);
      auto b = std::make_shared<batch>();
      shape_batch(data->train, dealt->samples.size(), 0, *b);
      fill_batch(data->train, dealt->samples, *b);
      b->number = dealt->number;
      auto g = replicas[r]->make_gradient();
      replicas[r]->use_weights(0, now);
      replicas[r]->begin_step(b, g);
      work.push_back({g, 0.5F});
    }
    weights.update(work);
  }
  const auto values = weights.snapshot().on_host();
  return {values.begin(), values.end()};
}

TEST_F(DifferentGraphs, MeetInSyncAsOneStepOnTheMeanOfTheirLosses) {
  const assembly a = two_workers("sync");
  const std::vector<float> expected = trained_in_step(a, data_);
  for (drawn_order& order : drawn_orders(20)) {
    const assembled_run run = assemble(a);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    testing::expect_balanced(run);
    EXPECT_EQ(run.weights(), expected);
  }
}

TEST_F(DifferentGraphs, LeaveAloneWhatNobodyTrains) {
  for (const char* policy : {"async", "sync", "ssp:1", "k-async:2"}) {
    SCOPED_TRACE(policy);
    const assembled_run run = assemble(two_workers(policy));
    drawn_order order(1);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    EXPECT_THAT(part(run.weights(), run.layout(), "nobodys"), ElementsAre(3, 3, 3, 3));
  }
}

/// Two shards, async, Adam with decay: each worker's tower must be what its own gradients make of it, in
/// whatever order those of the other came between.
TEST_F(DifferentGraphs, MoveInAsyncOnlyWhatTheyHave) {
  assembly a = two_workers("async");
  a.batches = 1;
  for (drawn_order& order : drawn_orders(20)) {
    const assembled_run run = assemble(a);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    const std::uint32_t idle = run.outcome().workers[0].steps == 0 ? 0 : 1;
    const std::vector<float> began = testing::first_values(run.layout(), a.seed);
    const std::vector<float> now = run.weights();
    const std::string of_idle = "tower_" + std::to_string(idle) + "/out/weights";
    const std::string of_busy = "tower_" + std::to_string(1 - idle) + "/out/weights";
    EXPECT_EQ(part(now, run.layout(), of_idle), part(began, run.layout(), of_idle));
    EXPECT_NE(part(now, run.layout(), of_busy), part(began, run.layout(), of_busy));
    EXPECT_NE(part(now, run.layout(), "trunk/weights"), part(began, run.layout(), "trunk/weights"));
  }
}

class DifferentGraphsOnThreads : public ::testing::TestWithParam<const char*> {
protected:
  static training_options options() {
    training_options o;
    const std::uint32_t last_core = available_devices().size() > 1 ? 1 : 0;
    o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, last_core}};
    o.policy = GetParam();
    o.shards = 2;
    o.batch = 8;
    o.epochs = 40;
    o.optimizer = parse_optimizer("adamw");
    o.optimizer.learning_rate = 0.01;
    return o;
  }

  /// A worker may be so slow to begin that the other has done everything.
  static bool is_trained(const std::string& name, const training_report& r) {
    if (name.starts_with("tower_")) return staleness_of(r, name[6] == '0' ? 0 : 1).total() > 0;
    return name != "nobodys";
  }
};

TEST_P(DifferentGraphsOnThreads, TrainTogether) {
  training run(towers, small_data(), options());
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_TRUE(r.ledger.balances());
  const parameter_layout& layout = run.layout();
  std::vector<std::string> names;
  for (const placed_variable& v : layout.variables()) names.push_back(v.name);
  EXPECT_THAT(names, ElementsAre("trunk/weights", "trunk/bias", "nobodys", "tower_0/out/weights",
                                 "tower_0/out/bias", "tower_1/out/weights", "tower_1/out/bias"));
  const std::vector<float> began = testing::first_values(layout, 1);
  for (const std::string& name : names)
    EXPECT_EQ(part(run.parameters(), layout, name) != part(began, layout, name), is_trained(name, r)) << name;
}

TEST_P(DifferentGraphsOnThreads, TrainTablesOfTheirOwn) {
  training run(sparse_towers, sparse_data(), options());
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "completed") << r.why;
  const parameter_layout& layout = run.layout();
  const std::vector<float> began = testing::first_values(layout, 1);
  for (const std::string name : {"tower_0/in/weights", "tower_1/in/weights"}) {
    const auto v = std::ranges::find(layout.variables(), name, &placed_variable::name);
    ASSERT_TRUE(v != layout.variables().end() && v->sparse) << name;
    EXPECT_EQ(part(run.parameters(), layout, name) != part(began, layout, name), is_trained(name, r)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, DifferentGraphsOnThreads,
                         ::testing::Values("async", "sync", "ssp:1", "k-async:2", "hogwild",
                                           "sync, hogwild@40, async@80"));

using DifferentGraphsRecorded = DifferentGraphsOnThreads;

TEST_P(DifferentGraphsRecorded, AreRepeatedBitForBitAndOnlyAsTheyWere) {
  const scratch_folder folder;
  training_options o = options();
  o.record = (folder.path() / "run.rec").string();
  const training_report was = train(towers, small_data(), o);
  ASSERT_EQ(was.ended, "completed");
  o.replay = std::make_shared<const recording>(read_recording(o.record));
  o.record.clear();
  EXPECT_EQ(train(towers, small_data(), o).parameters_sha256, was.parameters_sha256);

  const auto other_second_graph = [](graph& g, model_request r) {
    const bool last = r.worker == 1;
    if (last) g.variable("more", {2}, initialiser::zeros());
    return towers(g, r);
  };
  EXPECT_THAT([&] { train(other_second_graph, small_data(), o); },
              ThrowsMessage<recording_error>(HasSubstr("the model was SHA-256 ")));
}

INSTANTIATE_TEST_SUITE_P(OrderedPolicies, DifferentGraphsRecorded, ::testing::Values("async", "sync"));

TEST(DifferentGraphsRefused, BeforeAnythingRunsIfANameHasTwoShapes) {
  const auto build = [](graph& g, const model_request& r) {
    const value x = g.input(std::string(batch_input::features), {r.batch, r.sample_dims[0]});
    return classified(dense(dense(x, r.worker == 0 ? 8 : 9, "in", activation::tanh), r.classes, "out"), r);
  };
  training_options o;
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 0}};
  o.batch = 8;
  EXPECT_THAT(
      [&] { const training run(build, small_data(), o); },
      ThrowsMessage<graph_error>(
          AllOf(HasSubstr("variable 'in/weights' is float32 4x9 in the graph of worker 1"),
                HasSubstr("float32 4x8 in the graph of worker 0"), HasSubstr("different_graphs_test.cpp:"))));
}

} // namespace
} // namespace mailgrad

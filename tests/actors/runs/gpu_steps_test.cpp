#include <mailgrad/demos/custom_cure.hpp>
#include <mailgrad/demos/custom_policy.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/tests/actors/runs/gpu_runs.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/engine/tall_tables.hpp>
#include <mailgrad/tests/net/played_sums.hpp>
#include <mailgrad/tests/support/words_of_forms.hpp>

namespace mailgrad::testing {
namespace {

using messaging::send_anonymously;
using ::testing::FloatNear, ::testing::Pointwise;

constexpr std::uint64_t step_orders = 16; // scripts/endurance tries 700, in four tests of each policy

/// A policy that switches by a rule, as often as a few batches let it.
constexpr const char* automatic = "auto:window=1,wait=0.05,harm=0.01";

/// Workers tell what they measure by the clock, which goes on by milliseconds for a rule that judges it.
constexpr std::uint64_t tick_of(std::string_view policy) {
  return policy.starts_with("auto") ? 20'000'000 : 0;
}

TEST_P(GpuSteps, EndOnceWithABalancedLedgerAndEveryBatchTrained) {
  const auto make = [&](const auto& watch) {
    return placed(GetParam(), assembly_of(GetParam()), data_, watch);
  };
  let_time_pass(tick_of(GetParam().policy));
  in_every_order(step_orders, make, [](const assembled_run& run) { expect_all_trained_in_order(run); });
}

TEST_P(GpuSteps, EndWhenTheyLikeAfterTheRunWasStopped) {
  let_time_pass(tick_of(GetParam().policy));
  const auto make = [&](const auto& watch) {
    return placed(GetParam(), assembly_of(GetParam()), data_, watch);
  };
  for (drawn_order& order : orders_on_gpu(step_orders))
    with_run(make, [&](const assembled_run& run, asked_watch& watch) {
      play(order, watch, order.below(150));
      for (const caf::actor& device : run.devices) send_anonymously(device, give_up{});
      deliver(order);
      // The report waits for weights that come from the GPU, but nobody waits for a step that nobody wants.
      while (GetParam().weights_there && run.times_ended() == 0 && watch.watched() > 0) {
        watch.ask();
        deliver(order);
      }
      ASSERT_EQ(run.times_ended(), 1U);
      while (watch.watched() > 0) watch.ask();
      system_.run();
      expect_balanced(run);
    });
}

INSTANTIATE_TEST_SUITE_P(
    EveryWayOfAGradient, GpuSteps,
    ::testing::Values(
        gpu_case{"hogwild"}, gpu_case{"async, hogwild@4, sync@8"}, gpu_case{"async", 2},
        gpu_case{"async", 0, 2}, gpu_case{"async", 0, 0, "dana-zero"},
        gpu_case{"async", 0, 0, "none", true, 0.5}, gpu_case{"async", 0, 0, "none", true, 0, 0},
        gpu_case{"sync", 0, 0, "none", true, 0, 0}, gpu_case{"ssp:1", 0, 0, "dc-asgd-a", true},
        gpu_case{"async, sync@4, ssp:2@8", 0, 0, "none", true}, gpu_case{"async", 0, 0, "dana-zero", true},
        gpu_case{"async", 2, 0, "none", true}, gpu_case{"async", 2, 0, "none", true, 0, 0},
        gpu_case{"async", 2, 0, "none", true, 0.5}, gpu_case{"sync", 3, 0, "none", true},
        gpu_case{"async", 0, 2, "none", true}, gpu_case{"async, sync@4", 0, 1, "none", true},
        gpu_case{"async", 2, 0, "easgd", true}, gpu_case{"async, ssp:2@8", 2, 0, "none", true},
        gpu_case{"async, sync@8", 2, 0, "easgd", true}, gpu_case{"async", 0, 0, "none", true, 0, 1, true},
        gpu_case{"sync", 0, 0, "none", true, 0.5, 1, true}, gpu_case{"async", 0, 2, "none", true, 0, 1, true},
        gpu_case{"async", 0, 0, "dana-zero", true, 0, 1, true},
        gpu_case{"async, sync@8", 2, 0, "easgd", true, 0, 1, true}),
    name_of);

/// No rule's switches are repeated, so that of `auto` is among these alone.
std::vector<gpu_case> with_auto_too() {
  std::vector<gpu_case> all = with_every_policy();
  for (const bool there : {false, true}) all.push_back({.policy = automatic, .weights_there = there});
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, GpuSteps, ::testing::ValuesIn(with_auto_too()), name_of);

TEST_F(GpuSteps, SwitchByARuleToAndFro) {
  let_time_pass(tick_of(automatic));
  for (const bool there : {false, true}) {
    std::size_t to_async = 0, to_sync = 0;
    const gpu_case c{.policy = automatic, .weights_there = there};
    const auto make = [&](const auto& watch) {
      assembly a = assembly_of(c);
      a.batches = 60;
      return placed(c, a, data_, watch);
    };
    in_every_order(step_orders / 2, make, [&](const assembled_run& run) {
      expect_all_trained_in_order(run, 240);
      to_async += std::ranges::count(run.outcome().switches, "async", &policy_switch::to);
      to_sync += std::ranges::count(run.outcome().switches, "sync", &policy_switch::to);
    });
    if (orders_on_gpu(step_orders / 2).count() < 4) continue; // too few for either
    EXPECT_GT(to_async, 0U) << there;
    EXPECT_GT(to_sync, 0U) << there;
  }
}

#ifndef __SANITIZE_THREAD__ // whose reports of that race would be right
INSTANTIATE_TEST_SUITE_P(OfHogwildsRace, GpuSteps,
                         ::testing::Values(gpu_case{"hogwild", 0, 0, "none", true},
                                           gpu_case{"hogwild", 0, 0, "none", true, 0.5},
                                           gpu_case{"async, hogwild@4, sync@8", 0, 0, "none", true},
                                           gpu_case{"hogwild, async@6", 0, 0, "none", true}),
                         name_of);
#endif

class GpuSync : public GpuSteps {};

/// In `sync` the order makes no difference, so neither may a step that runs before the copy of its batch, nor
/// a batch that comes while the step before still reads.
TEST_F(GpuSync, ComesToTheWeightsOfTheProcessorsInEveryOrder) {
  assembly a{.policy = "sync", .batches = 36};
  expect_weights_of_processors(
      a, step_orders, [&](const assembly& of, const auto& watch) { return on_gpu(of, data_, watch); });
}

/// Nor may what a worker or a shard queues before that has run which it reads.
TEST_F(GpuSync, WithWeightsThereComesToTheWeightsOfTheProcessorsInEveryOrder) {
  std::vector<gpu_case> cases{{"sync", 0, 0, "none", true},
                              {"sync", 3, 0, "none", true},
                              {"sync", 2, 0, "easgd", true},
                              {"sync", 0, 0, "none", true, 0, 1, true},
                              {"sync", 2, 0, "easgd", true, 0, 1, true}};
#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
  cases.push_back({"async, hogwild@8, async@16", 0, 0, "none", true}); // of one worker, which loses no update
#endif
  for (const gpu_case& c : cases) {
    SCOPED_TRACE(name_of(::testing::TestParamInfo<gpu_case>(c, 0)));
    assembly a = assembly_of(c);
    if (std::string_view(c.policy) != "sync") {
      a.workers = 1;
      a.optimizer = "sgd"; // without a state, which would tell who made how many of the updates
    }
    a.batches = 24;
    expect_weights_of_processors(a, step_orders / 5, [&](const assembly& of, const auto& watch) {
      return placed(c, of, data_, watch);
    });
  }
}

class GpuSums : public GpuRun {};

/// Gradients are added up on the host before they are pushed.
TEST_F(GpuSums, ComeToTheWeightsOfTheProcessorsInEveryOrder) {
  assembly a{.policy = "sync"};
  a.batches = 13; // the last round is of one worker
  expect_weights_of_processors(a, 8, [&](const assembly& of, const auto& watch) {
    assembly summed = on_gpu(of, data_, watch);
    const auto sums = std::make_shared<net::played_sums>(of.workers);
    summed.sums = [sums](rank worker) { return sums->join(worker.value); };
    return summed;
  });
}

// ---- recordings, on processors and on the GPU, that are repeated on the GPU

constexpr std::uint64_t replay_orders = 4; // scripts/endurance tries 140

/// A run on processors is recorded, and repeated on the GPU.
class RecordedOnProcessors : public GpuSteps {};

TEST_P(RecordedOnProcessors, HasTheSameStalenessOnTheGpu) {
  for (const drawn_order& order : orders_on_gpu(replay_orders)) {
    const assembly a = assembly_of(GetParam());
    const finished_run was = finish(a, order.seed());
    const auto make = [&](const auto& watch) {
      return placed(GetParam(), replay_of(a, was.order), data_, watch);
    };
    const finished_run is = finish_on_gpu(order.seed() + 1, make);
    EXPECT_EQ(was.report.ledger, is.report.ledger);
    EXPECT_EQ(was.report.samples, is.report.samples);
    EXPECT_EQ(was.report.weight_gap.count(), is.report.weight_gap.count());
    EXPECT_NEAR(was.report.weight_gap.mean(), is.report.weight_gap.mean(), 1e-6);
    EXPECT_EQ(was.report.gradient_cosine.count(), is.report.gradient_cosine.count());
    EXPECT_NEAR(was.report.gradient_cosine.mean(), is.report.gradient_cosine.mean(), 1e-4);
    for (std::size_t s = 0; s < was.outcome.shards.size(); ++s)
      for (std::size_t w = 0; w < was.outcome.shards[s].workers.size(); ++w)
        EXPECT_EQ(was.outcome.shards[s].workers[w].gaps.buckets(),
                  is.outcome.shards[s].workers[w].gaps.buckets());
    // Where a rule divides by the root of its squares, a gradient that is almost 0 moves a weight as far as a
    // large one, and so does what it was rounded by.
    const float most = a.cure == "cgad" ? 1e-3F : 1e-5F;
    EXPECT_THAT(is.weights, Pointwise(FloatNear(most), was.weights));
  }
}

TEST_P(RecordedOnProcessors, OrOnTheGpuIsRepeatedThereBitForBit) {
  for (const drawn_order& order : orders_on_gpu(replay_orders))
    expect_repeated(order.seed(), assembly_of(GetParam()), [&](const assembly& a, const auto& watch) {
      return placed(GetParam(), a, data_, watch);
    });
}

INSTANTIATE_TEST_SUITE_P(EveryWayOfAGradient, RecordedOnProcessors,
                         ::testing::Values(gpu_case{"async", 2}, gpu_case{"async", 0, 0, "none", true, 0.5},
                                           gpu_case{"async", 0, 0, "none", true, 0, 0},
                                           gpu_case{"async", 2, 0, "none", true},
                                           gpu_case{"async", 2, 0, "none", true, 0.5},
                                           gpu_case{"async", 2, 0, "easgd", true, 0, 0},
                                           gpu_case{"async", 0, 2, "none", true},
                                           gpu_case{"async", 0, 0, "none", true, 0, 1, true},
                                           gpu_case{"ssp:1", 0, 0, "dc-asgd-a", true, 0, 1, true}),
                         name_of);

/// A cure and policies as users write them. Such a cure keeps the weights on the host.
std::vector<gpu_case> with_custom_parts() {
  static const std::string cure = custom_cure<fading>("0.5"), policy = custom_policy<fair_turns>("1");
  return {{"async", 0, 0, cure.c_str()}, {policy.c_str()}, {policy.c_str(), 0, 0, "none", true}};
}

INSTANTIATE_TEST_SUITE_P(CustomParts, RecordedOnProcessors, ::testing::ValuesIn(with_custom_parts()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(EveryPolicy, RecordedOnProcessors, ::testing::ValuesIn(with_every_policy()),
                         name_of);

std::vector<gpu_case> with_every_cure() {
  static const std::vector<std::string> cures = words_of_forms(cure_forms());
  std::vector<gpu_case> all;
  for (const std::string& cure : cures)
    for (const bool there : {false, true}) {
      if (there && cure == "heloco") continue; // it looks at whole variables on the host
      const bool local = cure == "easgd" || cure == "cgad" || cure == "mla" || cure == "heloco";
      all.push_back({"async", local ? 2U : 0U, 0, cure.c_str(), there});
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryCure, RecordedOnProcessors, ::testing::ValuesIn(with_every_cure()), name_of);

// ---- models whose tables lie on the GPU: a recommender, whose row numbers come from a kernel, and a
// classifier of sparse samples, whose row numbers come with the batch and end before its last place

constexpr const char* recommender = "dlrm:width=4,bottom=6,top=8";

struct table_case {
  const char* model;
  const char* policy;
  const char* optimizer = "momentum";
  std::size_t height = 0; ///< of its tallest table; 0: as few rows as a batch may name

  bool sparse() const { return std::string_view(model) == "softmax"; }
};

std::string name_of_case(const ::testing::TestParamInfo<table_case>& info) {
  const auto& [model, policy, optimizer, height] = info.param;
  return test_name(std::string(model).substr(0, 4) + " " + policy + " " + optimizer +
                   (height > 0 ? " tall" : ""));
}

/// Fixture of runs of such a case.
template <class Run>
class TablesOf : public Run, public ::testing::WithParamInterface<table_case> {
protected:
  TablesOf() {
    const auto& c = GetParam();
    if (c.height > 0)
      this->data_ = c.sparse() ? tall_sparse_data(c.height) : tall_tastes(c.height);
    else
      this->data_ = c.sparse() ? sparse_data() : tastes();
  }
  static assembly assembly_of_tables() {
    assembly a{.policy = GetParam().policy, .optimizer = GetParam().optimizer};
    a.shards = GetParam().sparse() ? 2 : 3; // of which some share a table
    a.model = *built_in_model(GetParam().model);
    return a;
  }
  static bool is(std::string_view policy) { return policy == GetParam().policy; }
};

class GpuTables : public TablesOf<GpuRun> {};

TEST_P(GpuTables, EndOnceWithABalancedLedgerAndEveryBatchTrained) {
  in_every_order(
      8, [](const auto& watch) { return with_weights_there(assembly_of_tables(), watch); },
      [](const assembled_run& run) { expect_all_trained_in_order(run); });
}

/// In `sync`, and with one worker, the order makes no difference.
TEST_P(GpuTables, ComeToTheWeightsOfTheProcessorsInEveryOrder) {
  assembly a = assembly_of_tables();
  a.batches = 24;
  if (!is("sync")) a.workers = 1;
  if (is("async, hogwild@4, sync@8")) a.optimizer = "sgd"; // has no state to tell who made which update
  expect_weights_of_processors(a, 6, with_weights_there);
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
    const assembly a = assembly_of_tables();
    const finished_run was = finish(a, order.seed());
    const finished_run is = finish_on_gpu(order.seed() + 1, [&](const auto& watch) {
      return with_weights_there(replay_of(a, was.order), watch);
    });
    EXPECT_EQ(was.report.ledger, is.report.ledger);
    EXPECT_EQ(was.report.staleness.buckets(), is.report.staleness.buckets());
    EXPECT_THAT(is.weights, Pointwise(FloatNear(1e-5F), was.weights));
  }
}

TEST_P(RecordedTables, OnTheGpuAreRepeatedBitForBit) {
  for (const drawn_order& order : orders_on_gpu(3))
    expect_repeated(order.seed(), assembly_of_tables(), with_weights_there);
}

INSTANTIATE_TEST_SUITE_P(Runs, RecordedTables,
                         ::testing::Values(table_case{recommender, "async"},
                                           table_case{recommender, "async", "adagrad"},
                                           table_case{recommender, "sync"},
                                           table_case{recommender, "k-batch-async:4"},
                                           table_case{"softmax", "async", "adam"},
                                           table_case{recommender, "async", "adagrad", 7'000}),
                         name_of_case);

class GpuTableCheckpoints : public TablesOf<GpuCheckpointRun> {
protected:
  /// Goes on from each checkpoint of a run, which `check` is given with the run.
  template <class Check>
  void from_each_checkpoint(Check check) {
    for (drawn_order& order : orders_on_gpu(4)) {
      assembly a = assembly_of_tables();
      a.workers = is("sync") ? 3 : 1;
      a.checkpoint_every = 2 + order.seed() % 3;
      const kept_result was = run(a, order);
      EXPECT_GE(was.checkpoints.size(), 2U);
      for (const auto& from : was.checkpoints) {
        SCOPED_TRACE(from->path().string());
        a.resume = from;
        check(a, was, order);
      }
    }
  }
};

TEST_P(GpuTableCheckpoints, GoOnToTheSameWeights) {
  from_each_checkpoint([&](const assembly& a, const kept_result& was, drawn_order& order) {
    const kept_result is = run(a, order);
    EXPECT_EQ(is.weights, was.weights);
    EXPECT_EQ(is.report.ledger, was.report.ledger);
    EXPECT_EQ(is.report.final_loss, was.report.final_loss);
  });
}

class GpuTablePlaces : public GpuTableCheckpoints {};

/// What waits at a shard is kept with its rows, and read in either place.
TEST_P(GpuTablePlaces, GoOnOnProcessorsAndBack) {
  from_each_checkpoint([&](assembly a, const kept_result& was, drawn_order& order) {
    const kept_result on_cores = run_there(a, order);
    ASSERT_FALSE(on_cores.checkpoints.empty());
    a.resume = on_cores.checkpoints.front();
    for (const auto& weights : {on_cores.weights, run(a, order).weights})
      ASSERT_THAT(weights, Pointwise(FloatNear(1e-5F), was.weights));
  });
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
} // namespace mailgrad::testing

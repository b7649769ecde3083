#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::small_data;
using namespace ::testing;

using change = std::function<void(training_options&)>;

training_options with(const change& c) {
  training_options o;
  o.devices.assign(2, {device_kind::cpu, 0});
  o.batch = 8;
  c(o);
  return o;
}

std::vector<scheduled_policy> checked(const training_options& o) {
  return checked_policies(o, cure_spec(o.cure, workers_of(o)));
}

std::function<void()> checking(const change& c) {
  return [c] { checked(with(c)); };
}

TEST(CheckedOptions, GiveThePoliciesInTheirOrder) {
  const auto policies = checked(with([](auto& o) { o.policy = "async, ssp:2@5, sync@9"; }));
  ASSERT_THAT(policies, SizeIs(3));
  EXPECT_EQ(policies[1].policy.text(), "ssp:2");
  EXPECT_EQ(policies[1].from_step, 5U);
}

TEST(CheckedOptions, RefuseOptionsThatContradictEachOther) {
  expect_refused({
      {"local steps in a block", checking([](auto& o) {
         o.policy = "hogwild";
         o.local_steps = 2;
       }),
       "under hogwild workers write into one block at every step"},
      {"slots in a block", checking([](auto& o) {
         o.policy = "sync, hogwild@2";
         o.slots = 9;
       }),
       "slots: under hogwild"},
      {"samples of differences", checking([](auto& o) {
         o.local_steps = 2;
         o.sample_gap = 5;
       }),
       "leave one of both out"},
      {"samples in a block", checking([](auto& o) {
         o.policy = "hogwild";
         o.sample_gap = 5;
       }),
       "under hogwild no version stays"},
      {"samples at predicted weights", checking([](auto& o) {
         o.cure = "dana-zero:0.9";
         o.optimizer = parse_optimizer("sgd");
         o.sample_gap = 5;
       }),
       "dana-zero"},
      {"a replay of rounded products on a core", checking([](auto& o) {
         o.precision = product_precision::bfloat16;
         o.replay = std::make_shared<recording>();
       }),
       "its products were in bfloat16, and a core computes in float32 alone; replay it on GPUs"},
      {"a replay that records", checking([](auto& o) {
         o.record = "file";
         o.replay = std::make_shared<recording>();
       }),
       "makes none of its own"},
      {"no shards", checking([](auto& o) { o.shards = 0; }), "shards: 0"},
  });
}

TEST(CheckedOptions, RefuseWhatAUsersParameterActorCannotDo) {
  const auto with_custom = [](bool switches, const change& c) {
    return checking([=](training_options& o) {
      o.parameter_actor = std::make_shared<parameter_actor_kind>("mine", switches);
      c(o);
    });
  };
  EXPECT_NO_THROW(with_custom(false, [](auto&) {})());
  EXPECT_NO_THROW(with_custom(true, [](auto& o) { o.policy = "async, sync@3"; })());
  expect_refused({
      {"a switch", with_custom(false, [](auto& o) { o.policy = "async, sync@3"; }),
       "parameter actor 'mine' switches no policy"},
      {"the rule that switches", with_custom(false, [](auto& o) { o.policy = "auto"; }),
       "switches no policy"},
      {"hogwild", with_custom(true, [](auto& o) { o.policy = "hogwild"; }),
       "hogwild has no parameter actors"},
      {"slots", with_custom(true, [](auto& o) { o.slots = 9; }), "slots: parameter actor 'mine'"},
      {"a cure that draws",
       with_custom(true,
                   [](auto& o) {
                     o.cure = "easgd:0.1";
                     o.local_steps = 2;
                   }),
       "would be drawn to what parameter actor 'mine' knows nothing of"},
      {"a recording", with_custom(true, [](auto& o) { o.record = "file"; }), "does not tell the order"},
  });
}

TEST(CheckedOptions, RequireDataThatTheRunCanUse) {
  const auto required = [](const change& c, const data_split& data) {
    return [=] {
      const training_options o = with(c);
      require_data_for(o, checked(o), data);
    };
  };
  const data_split data = *small_data();
  const std::uint64_t batches = data.train.size() / 8;
  const auto switch_at = [](std::uint64_t step) {
    return [step](training_options& o) { o.policy = "async, sync@" + std::to_string(step); };
  };
  EXPECT_NO_THROW(required(switch_at(batches - 1), data)());
  expect_refused({
      {"a switch after the end", required(switch_at(batches), data), "before the switch at step"},
      {"no sample", required([](auto&) {}, data_split{}), "holds no sample"},
      {"a batch of more", required([](auto& o) { o.batch = 1000; }, data), "batch: 1000 samples"},
      {"no samples at a time", required([](auto& o) { o.batch = 0; }, data), "batch: 0"},
      {"nothing", required([](auto& o) { o.epochs = 0; }, data), "nothing to do"},
  });
}

TEST(CheckedOptions, LetARunSwitchOnlyToWhatItsCureAllows) {
  const training_options o = with([](auto& x) { x.cure = "dana-zero:0.9"; });
  const cure_spec cure("dana-zero:0.9", 2);
  EXPECT_NO_THROW(require_switch(o, checked(o), cure, "ssp:4"));
  expect_refused({
      {"no such policy", [&] { require_switch(o, checked(o), cure, "asink"); }, "asink"},
      {"one of batches", [&] { require_switch(o, checked(o), cure, "sync"); }, "dana-zero:0.9"},
  });
}

TEST(CheckedOptions, RequireDenseGradientsForLocalStepsAndCompensation) {
  const parameter_layout table = testing::layout_of({{"t", {8, 2}, true}, {"w", {4}}}, 1);
  const auto needs = [&](const std::string& cure, std::uint64_t local_steps) {
    return [&table, cure, local_steps] {
      training_options o;
      o.cure = cure;
      o.local_steps = local_steps;
      require_dense_if_needed(o, cure_spec(cure, 1), table);
    };
  };
  EXPECT_NO_THROW(needs("none", 0)());
  EXPECT_NO_THROW(needs("inverse", 0)());
  expect_refused({
      {"local steps", needs("none", 2), "--local-steps: the gradient of table 't' comes in rows"},
      {"a local step", needs("none", 1), "--local-steps: the gradient of table 't' comes in rows"},
      {"a cure", needs("dc-asgd:1", 0), "cure 'dc-asgd:1': the gradient of table 't'"},
  });
}

TEST(CheckedOptions, LetADenseModelHaveLocalStepsAndCompensation) {
  const parameter_layout dense = testing::layout_of({{"v", {8, 2}}, {"w", {4}}}, 1);
  training_options o;
  o.local_steps = 2;
  EXPECT_NO_THROW(require_dense_if_needed(o, cure_spec("none", 1), dense));
  o.local_steps = 0;
  EXPECT_NO_THROW(require_dense_if_needed(o, cure_spec("dc-asgd:1", 1), dense));
}

TEST(CheckedOptions, DealWithoutEndIfStepsAreGiven) {
  const training_options o = with([](auto& x) {
    x.steps = 1000;
    x.epochs = 2;
  });
  EXPECT_EQ(dealer(deal_of(o, *small_data(), {"async", 2})).batches(), 1000U);
}

TEST(CheckedOptions, NameTheOptionThatWouldBeRight) {
  expect_refused({
      {"a learning rate", checking([](auto& o) { o.optimizer.learning_rate = -1; }), "learning rate"},
      {"an outer learning rate", checking([](auto& o) { o.outer.learning_rate = -1; }), "learning rate"},
      {"a cure of fresh gradients", checking([](auto& o) {
         o.policy = "sync";
         o.cure = "inverse";
       }),
       "cure 'inverse': under sync every gradient is fresh"},
      {"predicted weights", checking([](auto& o) {
         o.cure = "dana-zero:0.9";
         o.optimizer = parse_optimizer("sgd");
         o.sample_gap = 1;
       }),
       "--sample-gap: under cure 'dana-zero:0.9' workers compute at predicted weights"},
  });
}

/// Each stands at the border of what is refused.
TEST(CheckedOptions, AcceptWhatOnlyLooksLikeAContradiction) {
  EXPECT_NO_THROW(checking([](auto& o) { o.local_steps = 1; })());
  EXPECT_NO_THROW(checking([](auto& o) { o.policy = "hogwild"; })());
  EXPECT_NO_THROW(checking([](auto& o) {
    o.policy = "hogwild, async@3"; // versions stay once async has begun
    o.sample_gap = 1;
  })());
  EXPECT_NO_THROW(checking([](auto& o) { o.record = "file"; })());
  EXPECT_NO_THROW(checking([](auto& o) { o.replay = std::make_shared<recording>(); })());
  EXPECT_NO_THROW(checking([](auto& o) { o.cure = "dana-zero:0.9"; })());
}

TEST(CheckedOptions, RefuseTheReplayOfAUsersParameterActor) {
  expect_refused({{"a replay", checking([](auto& o) {
                     o.parameter_actor = std::make_shared<parameter_actor_kind>("mine", true);
                     o.replay = std::make_shared<recording>();
                   }),
                   "record: parameter actor 'mine' does not tell the order"}});
}

TEST(CheckedOptions, RequireNoMoreThanTheRunUses) {
  const auto require = [](const change& c, const data_split& data) {
    const training_options o = with(c);
    require_data_for(o, checked(o), data);
  };
  const data_split data = *small_data();
  EXPECT_NO_THROW(require([&](auto& o) { o.batch = data.train.size(); }, data));
  EXPECT_NO_THROW(require(
      [](auto& o) {
        o.epochs = 0;
        o.steps = 1;
      },
      data));
  EXPECT_NO_THROW(require([](auto& o) { o.text.length = 5; }, data)) << "a classifier writes no text";
  EXPECT_NO_THROW(require(
      [](auto& o) {
        o.policy = "async, sync@1000000";
        o.replay = std::make_shared<recording>();
      },
      data))
      << "a replay ends where its recording does";
  expect_refused({
      {"all that is known of a switch",
       [&] { require([](auto& o) { o.policy = "async, ssp:2@6, sync@7"; }, data); },
       "policy 'async, ssp:2@6, sync@7': the run ends at step 6, before the switch at step 7"},
      {"one sample more", [&] { require([&](auto& o) { o.batch = data.train.size() + 1; }, data); },
       "batch: 49 samples; the training set has 48"},
      {"no name",
       [&] {
         require([](auto&) {}, {{}, {}, "empty", {}});
       },
       "data 'empty' holds no sample to train on"},
  });
}

TEST(CheckedOptions, RequireSymbolsForATextThatIsToBeWritten) {
  data_split text;
  text.train = dataset(token_windows{{0, 1, 0, 1, 1, 0, 1, 0, 0, 1}, 2, 1}, {}, 2);
  const auto require = [&](std::size_t length) {
    const training_options o = with([&](auto& x) {
      x.batch = 2;
      x.text.length = length;
    });
    require_data_for(o, checked(o), text);
  };
  EXPECT_NO_THROW(require(0));
  EXPECT_THROW(require(1), std::invalid_argument);
  text.class_names = {"a", "b"};
  EXPECT_NO_THROW(require(1));
}

TEST(CheckedOptions, DealAsTheFirstPolicyAndTheDataHaveIt) {
  const training_options o = with([](auto& x) {
    x.epochs = 3;
    x.seed = 42;
  });
  const dealer_options by_rank = deal_of(o, *small_data(), {"sync", 2});
  EXPECT_EQ(by_rank.samples, 48U);
  EXPECT_EQ(by_rank.batch_size, 8U);
  EXPECT_EQ(by_rank.epochs, 3U);
  EXPECT_EQ(by_rank.batches, 0U);
  EXPECT_EQ(by_rank.seed, 42U);
  EXPECT_EQ(by_rank.mode, deal_mode::by_rank);
  EXPECT_EQ(by_rank.ranks, 2U);
  EXPECT_EQ(deal_of(o, *small_data(), {"async", 2}).mode, deal_mode::on_demand);
}

TEST(CheckedOptions, LetARuleThatSwitchesUseACureOfStaleGradients) {
  EXPECT_NO_THROW(checking([](auto& o) {
    o.policy = "auto";
    o.cure = "inverse";
  })());
}

TEST(CheckedOptions, GiveTheShardsTheOptimiserThatTheCureAdapts) {
  const auto momentum_of = [](const training_options& o) {
    const cure_spec cure("momentum-compensation", 2);
    return std::get<momentum_options>(shard_optimizer(o, cure).rule).momentum;
  };
  training_options o;
  o.optimizer.rule = momentum_options{0.75};
  o.outer.rule = momentum_options{0.875};
  EXPECT_EQ(momentum_of(o), 0.25) << "0.75 - (1 - 1 / 2)";
  o.local_steps = 1;
  EXPECT_EQ(momentum_of(o), 0.375) << "of the outer optimiser";
}

/// Only the optimiser of the shards must suit the cure; with local steps that is the outer one.
TEST(CheckedOptions, AskTheCureAboutTheOptimiserOfTheShards) {
  const auto with_rules = [](auto inner, auto outer, std::uint64_t local_steps) {
    return checking([=](training_options& o) {
      o.cure = "momentum-compensation";
      o.optimizer.rule = inner;
      o.outer.rule = outer;
      o.local_steps = local_steps;
    });
  };
  EXPECT_NO_THROW(with_rules(momentum_options{}, sgd_options{}, 0)());
  EXPECT_NO_THROW(with_rules(sgd_options{}, momentum_options{}, 1)());
  expect_refused({
      {"the inner one", with_rules(sgd_options{}, momentum_options{}, 0),
       "there is no momentum to take from"},
      {"the outer one", with_rules(momentum_options{}, sgd_options{}, 1),
       "there is no momentum to take from"},
  });
}

TEST(CheckedOptions, RefuseTheFirstLocalStepAndTheFirstSampleAlready) {
  expect_refused({
      {"a local step in a block", checking([](auto& o) {
         o.policy = "hogwild";
         o.local_steps = 1;
       }),
       "--local-steps: under hogwild"},
      {"every difference", checking([](auto& o) {
         o.local_steps = 1;
         o.sample_gap = 1;
       }),
       "--sample-gap: with --local-steps"},
      {"every gradient in a block", checking([](auto& o) {
         o.policy = "hogwild";
         o.sample_gap = 1;
       }),
       "--sample-gap: under hogwild"},
  });
}

TEST(WorkerComputers, AreCoresByTheirHost) {
  EXPECT_EQ(computer_of({{device_kind::cpu, 0}, {device_kind::cpu, 1}}),
            (worker_computer{"the host and the host", ""}));
}

TEST(WorkerComputers, AreNamedByWorkerAndMultiplyByEachVersionOnce) {
  const worker_computer host{"the host"}, old_gpu{"B100", "cuBLAS 13.0.0"}, new_gpu{"B100", "cuBLAS 13.1.0"};
  EXPECT_EQ(format_names({old_gpu, host, new_gpu}), "B100, the host, B100");
  EXPECT_EQ(format_products({old_gpu, host, new_gpu, old_gpu}), "cuBLAS 13.0.0, cuBLAS 13.1.0");
  EXPECT_EQ(format_products({host}), "none");
  EXPECT_TRUE(any_has_gpu({host, old_gpu}));
  EXPECT_FALSE(any_has_gpu({host, host}));
}

using change = std::function<void(training_options&)>;

training_options summed_with(const change& c) {
  training_options o;
  o.devices.assign(2, {device_kind::cpu, 0});
  o.policy = "sync";
  o.all_reduce = true;
  c(o);
  return o;
}

std::function<void()> checking_sums(const change& c) {
  return [c] { require_sums_can_be(summed_with(c)); };
}

TEST(AllReduceTerms, AllowSyncAndNothingThatLooksAtOneGradient) {
  require_sums_can_be(summed_with([](auto&) {}));
  require_sums_can_be(summed_with([](auto& o) {
    o.all_reduce = false;
    o.policy = "async";
    o.local_steps = 3;
  }));
  expect_refused({
      {"another policy", checking_sums([](auto& o) { o.policy = "async"; }),
       "all-reduce: expected policy sync, under which every update is a mean over all workers, found "
       "'async'"},
      {"a planned switch", checking_sums([](auto& o) { o.policy = "sync, ssp:1@5"; }),
       "found 'sync, ssp:1@5'"},
      {"switches by a rule", checking_sums([](auto& o) { o.policy = "auto"; }), "found 'auto'"},
      {"a cure", checking_sums([](auto& o) { o.cure = "dc:0.1"; }), "expected no cure"},
      {"clipping", checking_sums([](auto& o) { o.optimizer.clip_norm = 1; }), "expected no clipping"},
      {"local steps", checking_sums([](auto& o) { o.local_steps = 2; }), "expected no local steps"},
      {"samples", checking_sums([](auto& o) { o.sample_gap = 2; }), "expected no sampling of gaps"},
      {"slots", checking_sums([](auto& o) { o.slots = 3; }), "expected no slots for later workers"},
      {"a recording", checking_sums([](auto& o) { o.record = "run.rec"; }), "expected no recording"},
      {"a replay", checking_sums([](auto& o) { o.replay = std::make_shared<const recording>(); }),
       "expected no recording"},
      {"checkpoints", checking_sums([](auto& o) { o.checkpoints.folder = "kept"; }),
       "expected no checkpoints"},
      {"an actor of the user's", checking_sums([](auto& o) {
         o.parameter_actor = std::make_shared<parameter_actor_kind>("mine", true);
       }),
       "expected Mailgrad's own parameter actor"},
      {"workers over devices", checking_sums([](auto& o) { o.workers = 1; }),
       "expected one device for each worker"},
  });
}

TEST(AllReduceTerms, AreAmongTheChecksOfARun) {
  const training_options o = summed_with([](auto& x) { x.policy = "async"; });
  expect_refused({{"the options", [&] { checked_policies(o, cure_spec(o.cure, 2)); }, "all-reduce: "}});
}

/// A worker that has paused gives nothing to the sum for which another waits, and so does not pause.
TEST(AllReduceTerms, RefuseASwitchOfTheRunningRunEvenToSync) {
  const training_options o = summed_with([](auto&) {});
  for (const char* policy : {"sync", "ssp:2"})
    expect_refused({{policy,
                     [&] {
                       require_switch(o, {{0, policy_spec("sync", 2)}}, cure_spec("none", 2), policy);
                     },
                     "all-reduce: expected no switch of policy"}});
}

TEST(AllReduceTerms, RefuseAModelWithTablesByTheirName) {
  const training_options o = summed_with([](auto&) {});
  const parameter_layout layout = testing::layout_of({{"w", {8}}, {"words", {20, 4}, true}}, 1);
  expect_refused({{"a table", [&] { require_dense_if_needed(o, cure_spec("none", 2), layout); },
                   "all-reduce: the gradient of table 'words' comes in rows"}});
}

/// Weights and two workers on one GPU.
training_options on_one_gpu(const std::string& policy) {
  training_options o;
  o.devices.assign(2, {device_kind::cuda, 0});
  o.parameters = {{device_kind::cuda, 0}};
  o.policy = policy;
  return o;
}

std::string words_of_refusal_of(const training_options& o, const parameter_layout& layout) {
  const std::vector<scheduled_policy> policies{{0, policy_spec("async", 2)}, {9, policy_spec(o.policy, 2)}};
  return testing::words_of_refusal([&] { require_parameter_place(o, policies, layout); });
}

/// Ringleader adds up rows of gradients on the host.
TEST(ParameterPlace, RefusesTablesOnAGpuUnderRingleaderInOneLine) {
  const parameter_layout tables = testing::layout_of({{"w", {8}}, {"words", {20, 4}, true}}, 1);
  const std::string why = words_of_refusal_of(on_one_gpu("ringleader"), tables);
  EXPECT_THAT(why,
              HasSubstr("--parameters: cuda:0: policy 'ringleader' needs the gradient of table 'words' on "
                        "the host; leave one of both out"));
  EXPECT_EQ(std::ranges::count(why, '\n'), 0);
  EXPECT_EQ(words_of_refusal_of(on_one_gpu("malenia:4"), tables), "");
}

TEST(ParameterPlace, TakesRingleaderWithoutTablesOrWithoutAGpu) {
  const parameter_layout dense = testing::layout_of({{"w", {8}}}, 1);
  EXPECT_EQ(words_of_refusal_of(on_one_gpu("ringleader"), dense), "");
  const parameter_layout tables = testing::layout_of({{"words", {20, 4}, true}}, 1);
  training_options on_host = on_one_gpu("ringleader");
  on_host.parameters.clear();
  EXPECT_EQ(words_of_refusal_of(on_host, tables), "");
}

std::string words_of_refusal_to_run_ahead(training_options o, std::uint64_t steps = 1) {
  o.run_ahead = steps;
  const std::vector<scheduled_policy> policies{{0, policy_spec("async", 2)}, {9, policy_spec(o.policy, 2)}};
  return testing::words_of_refusal([&] { require_run_ahead(o, policies); });
}

TEST(RunAhead, IsRefusedWhereNoWorkerCan) {
  const training_options good = on_one_gpu("sync");
  EXPECT_EQ(words_of_refusal_to_run_ahead(good), "");
  const auto refused = [&](const auto& change, const std::string& why) {
    training_options o = good;
    change(o);
    EXPECT_EQ(words_of_refusal_to_run_ahead(o),
              "--run-ahead 1: workers do not run ahead " + why + "; take --run-ahead 0");
    EXPECT_EQ(words_of_refusal_to_run_ahead(o, 0), "");
  };
  refused([](auto& o) { o.optimizer.clip_norm = 1; }, "with --clip-norm, which reads each gradient first");
  refused([](auto& o) { o.sample_gap = 1; }, "with --sample-gap, which compares each gradient first");
  refused([](auto& o) { o.workers = 1; }, "if a model spans devices");
  refused([](auto& o) { o.policy = "hogwild"; }, "in a run under hogwild");
  refused([](auto& o) { o.parameters.clear(); }, "unless all weights are on their GPU");
  refused([](auto& o) { o.parameters.push_back({}); }, "unless all weights are on their GPU");
  refused(
      [](auto& o) {
        o.devices.assign(2, {device_kind::cuda, 1});
      },
      "unless all weights are on their GPU");
}

TEST(RunAhead, IsTakenIfOneWorkerCanOrARecordingSaysSo) {
  training_options o = on_one_gpu("async");
  o.devices[0] = {device_kind::cpu, 0};
  EXPECT_EQ(words_of_refusal_to_run_ahead(o), "");
  o.devices[1] = {device_kind::cpu, 1};
  o.replay = std::make_shared<const recording>();
  EXPECT_EQ(words_of_refusal_to_run_ahead(o), "");
  EXPECT_THAT(words_of_refusal_to_run_ahead(o, 2), HasSubstr("--run-ahead: 2 steps; at most 1"));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::layout_of;
using testing::small_data;
using testing::small_features;
using testing::small_model;
using testing::words_of_refusal;
using namespace ::testing;

training_options on_two_cores(training_options o) {
  o.devices.assign(2, {device_kind::cpu, 0});
  return o;
}

std::vector<scheduled_policy> checked(const training_options& o) {
  return checked_policies(o, cure_spec(o.cure, workers_of(o)));
}

std::function<void()> checking(const training_options& o) {
  return [o = on_two_cores(o)] { checked(o); };
}

std::shared_ptr<const parameter_actor_kind> mine(bool switches) {
  return std::make_shared<parameter_actor_kind>("mine", switches);
}

std::shared_ptr<const recording> some_recording() { return std::make_shared<const recording>(); }

TEST(CheckedOptions, GiveThePoliciesInTheirOrder) {
  const auto policies = checked(on_two_cores({.policy = "async, ssp:2@5, sync@9"}));
  ASSERT_THAT(policies, SizeIs(3));
  EXPECT_EQ(policies[1].policy.text(), "ssp:2");
  EXPECT_EQ(policies[1].from_step, 5U);
}

/// Already the first local step and the first sample are refused.
TEST(CheckedOptions, RefuseOptionsThatContradictEachOther) {
  const optimizer_options sgd = parse_optimizer("sgd"), negative{.learning_rate = -1};
  expect_refused({
      {"local steps in a block", checking({.policy = "hogwild", .local_steps = 1}),
       "--local-steps: under hogwild workers write into one block at every step"},
      {"slots in a block", checking({.slots = 9, .policy = "sync, hogwild@2"}), "slots: under hogwild"},
      {"samples of differences", checking({.local_steps = 1, .sample_gap = 1}),
       "--sample-gap: with --local-steps shards get differences"},
      {"samples in a block", checking({.policy = "hogwild", .sample_gap = 1}),
       "--sample-gap: under hogwild no version stays"},
      {"samples at predicted weights", checking({.cure = "dana-zero:0.9", .optimizer = sgd, .sample_gap = 1}),
       "--sample-gap: under cure 'dana-zero:0.9' workers compute at predicted weights"},
      {"a replay of rounded products on a core",
       checking({.precision = product_precision::bfloat16, .replay = some_recording()}),
       "its products were in bfloat16, and a core computes in float32 alone; replay it on GPUs"},
      {"a replay that records", checking({.record = "file", .replay = some_recording()}),
       "makes none of its own"},
      {"a replay of a user's parameter actor",
       checking({.replay = some_recording(), .parameter_actor = mine(true)}),
       "record: parameter actor 'mine' does not tell the order"},
      {"no shards", checking({.shards = 0}), "shards: 0"},
      {"a learning rate", checking({.optimizer = negative}), "learning rate"},
      {"an outer learning rate", checking({.outer = negative}), "learning rate"},
      {"a cure of fresh gradients", checking({.policy = "sync", .cure = "inverse"}),
       "cure 'inverse': under sync every gradient is fresh"},
  });
}

/// Each stands at the border of what is refused.
TEST(CheckedOptions, AcceptWhatOnlyLooksLikeAContradiction) {
  for (const training_options& o : std::initializer_list<training_options>{
           {.local_steps = 1},
           {.policy = "hogwild"},
           {.policy = "hogwild, async@3", .sample_gap = 1}, // versions stay once async has begun
           {.record = "file"},
           {.replay = some_recording()},
           {.cure = "dana-zero:0.9"},
           {.policy = "auto", .cure = "inverse"},
           {.parameter_actor = mine(false)},
           {.policy = "async, sync@3", .parameter_actor = mine(true)}})
    EXPECT_NO_THROW(checking(o)()) << o.policy << ' ' << o.cure;
}

TEST(CheckedOptions, RefuseWhatAUsersParameterActorCannotDo) {
  expect_refused({
      {"a switch", checking({.policy = "async, sync@3", .parameter_actor = mine(false)}),
       "parameter actor 'mine' switches no policy"},
      {"the rule that switches", checking({.policy = "auto", .parameter_actor = mine(false)}),
       "switches no policy"},
      {"hogwild", checking({.policy = "hogwild", .parameter_actor = mine(true)}),
       "hogwild has no parameter actors"},
      {"slots", checking({.slots = 9, .parameter_actor = mine(true)}), "slots: parameter actor 'mine'"},
      {"a cure that draws", checking({.cure = "easgd:0.1", .local_steps = 2, .parameter_actor = mine(true)}),
       "would be drawn to what parameter actor 'mine' knows nothing of"},
      {"a recording", checking({.record = "file", .parameter_actor = mine(true)}), "does not tell the order"},
  });
}

TEST(CheckedOptions, RequireDataThatTheRunCanUse) {
  const data_split data = *small_data();
  const std::size_t samples = data.train.size();
  const auto required = [&](const training_options& o, const data_split& from) {
    return [&from, o = on_two_cores(o)] { require_data_for(o, checked(o), from); };
  };
  const auto switch_at = [](std::uint64_t step) {
    return training_options{.policy = "async, sync@" + std::to_string(step), .batch = 8};
  };
  EXPECT_NO_THROW(required(switch_at(samples / 8 - 1), data)());
  EXPECT_NO_THROW(required({.batch = samples}, data)());
  EXPECT_NO_THROW(required({.batch = 8, .epochs = 0, .steps = 1}, data)());
  EXPECT_NO_THROW(required({.batch = 8, .text = {.length = 5}}, data)()) << "a classifier writes no text";
  EXPECT_NO_THROW(required({.policy = "async, sync@1000000", .batch = 8, .replay = some_recording()}, data)())
      << "a replay ends where its recording does";
  const data_split empty{{}, {}, "empty", {}};
  expect_refused({
      {"a switch after the end", required(switch_at(samples / 8), data), "before the switch at step"},
      {"all that is known of a switch", required({.policy = "async, ssp:2@6, sync@7", .batch = 8}, data),
       "policy 'async, ssp:2@6, sync@7': the run ends at step 6, before the switch at step 7"},
      {"no sample", required({.batch = 8}, empty), "data 'empty' holds no sample to train on"},
      {"one sample more", required({.batch = samples + 1}, data),
       "batch: 49 samples; the training set has 48"},
      {"no samples at a time", required({.batch = 0}, data), "batch: 0"},
      {"nothing", required({.batch = 8, .epochs = 0}, data), "nothing to do"},
  });
  data_split text;
  text.train = dataset(token_windows{{0, 1, 0, 1, 1, 0, 1, 0, 0, 1}, 2, 1}, {}, 2);
  EXPECT_NO_THROW(required({.batch = 2}, text)());
  EXPECT_THROW(required({.batch = 2, .text = {.length = 1}}, text)(), std::invalid_argument);
  text.class_names = {"a", "b"};
  EXPECT_NO_THROW(required({.batch = 2, .text = {.length = 1}}, text)()) << "it has symbols to write";
}

TEST(CheckedOptions, LetARunSwitchOnlyToWhatItsCureAllows) {
  const training_options o = on_two_cores({.cure = "dana-zero:0.9"});
  const auto switching = [&](const char* policy) {
    return [&o, policy] { require_switch(o, checked(o), cure_spec(o.cure, 2), policy); };
  };
  EXPECT_NO_THROW(switching("ssp:4")());
  expect_refused({{"no such policy", switching("asink"), "asink"},
                  {"one of batches", switching("sync"), "dana-zero:0.9"}});
}

TEST(CheckedOptions, RequireDenseGradientsForLocalStepsAndCompensation) {
  const parameter_layout table = layout_of({{"t", {8, 2}, true}, {"w", {4}}}, 1),
                         dense = layout_of({{"v", {8, 2}}, {"w", {4}}}, 1);
  const auto needs = [](const parameter_layout& layout, const char* cure, std::uint64_t local_steps) {
    return [&layout, o = training_options{.cure = cure, .local_steps = local_steps}] {
      require_dense_if_needed(o, cure_spec(o.cure, 1), layout);
    };
  };
  for (const char* cure : {"none", "inverse"}) EXPECT_NO_THROW(needs(table, cure, 0)());
  EXPECT_NO_THROW(needs(dense, "none", 2)());
  EXPECT_NO_THROW(needs(dense, "dc-asgd:1", 0)());
  expect_refused({
      {"local steps", needs(table, "none", 2), "--local-steps: the gradient of table 't' comes in rows"},
      {"a local step", needs(table, "none", 1), "--local-steps: the gradient of table 't' comes in rows"},
      {"a cure", needs(table, "dc-asgd:1", 0), "cure 'dc-asgd:1': the gradient of table 't'"},
  });
}

TEST(CheckedOptions, DealAsTheFirstPolicyAndTheDataHaveIt) {
  const training_options o = on_two_cores({.batch = 8, .epochs = 3, .seed = 42});
  const dealer_options by_rank = deal_of(o, *small_data(), {"sync", 2});
  EXPECT_EQ(by_rank.samples, 48U);
  EXPECT_EQ(by_rank.batch_size, 8U);
  EXPECT_EQ(by_rank.epochs, 3U);
  EXPECT_EQ(by_rank.batches, 0U);
  EXPECT_EQ(by_rank.seed, 42U);
  EXPECT_EQ(by_rank.mode, deal_mode::by_rank);
  EXPECT_EQ(by_rank.ranks, 2U);
  EXPECT_EQ(deal_of(o, *small_data(), {"async", 2}).mode, deal_mode::on_demand);
  const training_options of_steps = on_two_cores({.batch = 8, .epochs = 2, .steps = 1000});
  EXPECT_EQ(dealer(deal_of(of_steps, *small_data(), {"async", 2})).batches(), 1000U) << "without end";
}

/// Only the optimiser of the shards must suit the cure; with local steps that is the outer one.
TEST(CheckedOptions, GiveTheShardsTheOptimiserThatTheCureAdapts) {
  const auto options = [](auto inner, auto outer, std::uint64_t local_steps) {
    return training_options{.cure = "momentum-compensation",
                            .optimizer = {.rule = inner},
                            .local_steps = local_steps,
                            .outer = {.rule = outer}};
  };
  const auto momentum = [&](std::uint64_t local_steps) {
    const training_options o = options(momentum_options{0.75}, momentum_options{0.875}, local_steps);
    return std::get<momentum_options>(shard_optimizer(o, cure_spec(o.cure, 2)).rule).momentum;
  };
  EXPECT_EQ(momentum(0), 0.25) << "0.75 - (1 - 1 / 2)";
  EXPECT_EQ(momentum(1), 0.375) << "of the outer optimiser";
  EXPECT_NO_THROW(checking(options(momentum_options{}, sgd_options{}, 0))());
  EXPECT_NO_THROW(checking(options(sgd_options{}, momentum_options{}, 1))());
  expect_refused({{"the inner one", checking(options(sgd_options{}, momentum_options{}, 0)),
                   "there is no momentum to take from"},
                  {"the outer one", checking(options(momentum_options{}, sgd_options{}, 1)),
                   "there is no momentum to take from"}});
}

TEST(WorkerComputers, AreNamedByWorkerAndMultiplyByEachVersionOnce) {
  EXPECT_EQ(computer_of({{device_kind::cpu, 0}, {device_kind::cpu, 1}}),
            (worker_computer{"the host and the host", ""}));
  const worker_computer host{"the host"}, old_gpu{"B100", "cuBLAS 13.0.0"}, new_gpu{"B100", "cuBLAS 13.1.0"};
  EXPECT_EQ(format_names({old_gpu, host, new_gpu}), "B100, the host, B100");
  EXPECT_EQ(format_products({old_gpu, host, new_gpu, old_gpu}), "cuBLAS 13.0.0, cuBLAS 13.1.0");
  EXPECT_EQ(format_products({host}), "none");
  EXPECT_TRUE(any_has_gpu({host, old_gpu}));
  EXPECT_FALSE(any_has_gpu({host, host}));
}

/// Under sync, unless the options say another policy.
training_options summed(training_options o = {}) {
  if (o.policy == "async") o.policy = "sync";
  o.all_reduce = true;
  return on_two_cores(std::move(o));
}

TEST(AllReduceTerms, AllowSyncAndNothingThatLooksAtOneGradient) {
  const auto checking_sums = [](training_options o) {
    return [o = summed(std::move(o))] { require_sums_can_be(o); };
  };
  require_sums_can_be(summed());
  require_sums_can_be(on_two_cores({.local_steps = 3}));
  training_options async = summed();
  async.policy = "async";
  expect_refused({
      {"another policy", [&] { require_sums_can_be(async); },
       "all-reduce: expected policy sync, under which every update is a mean over all workers, found "
       "'async'"},
      {"the options of a run", [&] { checked(async); }, "all-reduce: "},
      {"a planned switch", checking_sums({.policy = "sync, ssp:1@5"}), "found 'sync, ssp:1@5'"},
      {"switches by a rule", checking_sums({.policy = "auto"}), "found 'auto'"},
      {"a cure", checking_sums({.cure = "dc:0.1"}), "expected no cure"},
      {"clipping", checking_sums({.optimizer = {.clip_norm = 1}}), "expected no clipping"},
      {"local steps", checking_sums({.local_steps = 2}), "expected no local steps"},
      {"samples", checking_sums({.sample_gap = 2}), "expected no sampling of gaps"},
      {"slots", checking_sums({.slots = 3}), "expected no slots for later workers"},
      {"a recording", checking_sums({.record = "run.rec"}), "expected no recording"},
      {"a replay", checking_sums({.replay = some_recording()}), "expected no recording"},
      {"checkpoints", checking_sums({.checkpoints = {.folder = "kept"}}), "expected no checkpoints"},
      {"an actor of the user's", checking_sums({.parameter_actor = mine(true)}),
       "expected Mailgrad's own parameter actor"},
      {"workers over devices", checking_sums({.workers = 1}), "expected one device for each worker"},
  });
}

/// A worker that has paused gives nothing to the sum for which another waits, and so does not pause.
TEST(AllReduceTerms, RefuseASwitchOfTheRunningRunAndAModelWithTables) {
  for (const char* policy : {"sync", "ssp:2"})
    expect_refused({policy,
                    [&] {
                      require_switch(summed(), {{0, policy_spec("sync", 2)}}, cure_spec("none", 2), policy);
                    },
                    "all-reduce: expected no switch of policy"});
  const parameter_layout layout = layout_of({{"w", {8}}, {"words", {20, 4}, true}}, 1);
  expect_refused({"a table", [&] { require_dense_if_needed(summed(), cure_spec("none", 2), layout); },
                  "all-reduce: the gradient of table 'words' comes in rows"});
}

/// Weights and two workers on one GPU.
training_options on_one_gpu(training_options o) {
  o.devices.assign(2, {device_kind::cuda, 0});
  o.parameters = {{device_kind::cuda, 0}};
  return o;
}

std::vector<scheduled_policy> after_async(const training_options& o) {
  return {{0, policy_spec("async", 2)}, {9, policy_spec(o.policy, 2)}};
}

/// Ringleader adds up rows of gradients on the host.
TEST(ParameterPlace, RefusesTablesOnAGpuUnderRingleaderInOneLine) {
  const parameter_layout tables = layout_of({{"w", {8}}, {"words", {20, 4}, true}}, 1),
                         dense = layout_of({{"w", {8}}}, 1);
  const auto refusal = [](const training_options& o, const parameter_layout& layout) {
    return words_of_refusal([&] { require_parameter_place(o, after_async(o), layout); });
  };
  training_options o = on_one_gpu({.policy = "ringleader"});
  EXPECT_THAT(refusal(o, tables),
              AllOf(HasSubstr("--parameters: cuda:0: policy 'ringleader' needs the gradient of table 'words' "
                              "on the host; leave one of both out"),
                    Not(HasSubstr("\n"))));
  EXPECT_EQ(refusal(on_one_gpu({.policy = "malenia:4"}), tables), "");
  EXPECT_EQ(refusal(o, dense), "");
  o.parameters.clear();
  EXPECT_EQ(refusal(o, tables), "");
}

std::string refusal_to_run_ahead(training_options o, std::uint64_t steps = 1) {
  o.run_ahead = steps;
  return words_of_refusal([&] { require_run_ahead(o, after_async(o)); });
}

TEST(RunAhead, IsRefusedWhereNoWorkerCan) {
  EXPECT_EQ(refusal_to_run_ahead(on_one_gpu({.policy = "sync"})), "");
  const auto refused = [&](const training_options& o, const std::string& why) {
    EXPECT_EQ(refusal_to_run_ahead(o),
              "--run-ahead 1: workers do not run ahead " + why + "; take --run-ahead 0");
    EXPECT_EQ(refusal_to_run_ahead(o, 0), "");
  };
  refused(on_one_gpu({.policy = "sync", .optimizer = {.clip_norm = 1}}),
          "with --clip-norm, which reads each gradient first");
  refused(on_one_gpu({.policy = "sync", .sample_gap = 1}),
          "with --sample-gap, which compares each gradient first");
  refused(on_one_gpu({.workers = 1, .policy = "sync"}), "if a model spans devices");
  refused(on_one_gpu({.policy = "hogwild"}), "in a run under hogwild");
  training_options o = on_one_gpu({.policy = "sync"});
  using places = std::vector<device>;
  for (const places& elsewhere : {places{}, places{{device_kind::cuda, 0}, {}}}) {
    o.parameters = elsewhere;
    refused(o, "unless all weights are on their GPU");
  }
  o = on_one_gpu({.policy = "sync"});
  o.devices.assign(2, {device_kind::cuda, 1});
  refused(o, "unless all weights are on their GPU");
}

TEST(RunAhead, IsTakenIfOneWorkerCanOrARecordingSaysSo) {
  training_options o = on_one_gpu({});
  o.devices[0] = {device_kind::cpu, 0};
  EXPECT_EQ(refusal_to_run_ahead(o), "");
  o.devices[1] = {device_kind::cpu, 1};
  o.replay = some_recording();
  EXPECT_EQ(refusal_to_run_ahead(o), "");
  EXPECT_THAT(refusal_to_run_ahead(o, 2), HasSubstr("--run-ahead: 2 steps; at most 1"));
}

device cpu(std::uint32_t index) { return {device_kind::cpu, index}; }

training_options on(std::vector<device> devices, std::uint32_t workers = 0, std::size_t micro_batches = 1,
                    std::uint32_t slots = 0) {
  return {.devices = std::move(devices), .workers = workers, .slots = slots, .micro_batches = micro_batches};
}

model_request on_two() {
  model_request request;
  request.sample_dims = {small_features};
  request.classes = testing::small_classes;
  request.devices = {cpu(0), cpu(1)};
  return request;
}

const std::vector<scheduled_policy> async = {{0, {"async", 1}}};

TEST(WorkerDevices, AreOneForEachWorkerUnlessWorkersAreFewer) {
  const training_options each = on({cpu(0), cpu(1), cpu(0)});
  EXPECT_EQ(workers_of(each), 3U);
  EXPECT_EQ(slots_of(each), 3U);
  EXPECT_THAT(devices_of(each, 2), ElementsAre(cpu(0)));
  const training_options spanning = on({cpu(0), cpu(1), cpu(2), cpu(3)}, 2);
  EXPECT_EQ(workers_of(spanning), 2U);
  EXPECT_THAT(devices_of(spanning, 0), ElementsAre(cpu(0), cpu(1)));
  EXPECT_THAT(devices_of(spanning, 1), ElementsAre(cpu(2), cpu(3)));
  const training_options later = on({cpu(0), cpu(1)}, 0, 1, 5);
  EXPECT_EQ(workers_of(later), 2U);
  EXPECT_EQ(slots_of(later), 5U);
  EXPECT_THAT(devices_of(later, 3), ElementsAre(cpu(1))) << "who joins later has those of another";
}

TEST(WorkerDevices, NeedAThreadForEachCoreAndStreamAndOneForUpdates) {
  EXPECT_EQ(thread_count({cpu(0), cpu(0), cpu(3)}), 2U);
  EXPECT_EQ(thread_count({}), 1U);
  EXPECT_EQ(thread_count(std::vector(5, cpu(0))), 1U);
  const std::size_t present = cores_of_process().count();
  const auto stream = [](std::uint32_t gpu, std::uint32_t number) {
    return device{device_kind::cuda, gpu, number};
  };
  EXPECT_EQ(thread_count({stream(0, 0)}), std::min<std::size_t>(2, present));
  EXPECT_EQ(thread_count({stream(0, 0), stream(0, 0)}), std::min<std::size_t>(2, present)) << "one stream";
  EXPECT_EQ(thread_count({stream(0, 0), stream(0, 1), stream(1, 0)}), std::min<std::size_t>(4, present));
  EXPECT_EQ(thread_count({stream(0, 0), cpu(0)}), std::min<std::size_t>(3, present));
}

TEST(WorkerDevices, RefuseWhatCannotBeSharedOut) {
  const auto required = [](const training_options& o) { return [o] { require_worker_devices(o); }; };
  EXPECT_NO_THROW(required(on({cpu(0), cpu(0)}))());
  EXPECT_NO_THROW(required(on({cpu(0), cpu(1)}, 1, 4))());
  EXPECT_NO_THROW(required(on({cpu(0), cpu(1), cpu(0), cpu(1)}, 2))()) << "two workers may share a device";
  expect_refused({
      {"no device", required(on({})), "devices: name at least one"},
      {"three for two", required(on({cpu(0), cpu(1), cpu(2)}, 2)), "3 devices cannot be shared out to 2"},
      {"more workers than devices", required(on({cpu(0)}, 2)), "1 devices cannot be shared out to 2"},
      {"one twice", required(on({cpu(0), cpu(1), cpu(2), cpu(2)}, 2)), "worker 1 would have cpu:2 twice"},
      {"one twice, for the first worker", required(on({cpu(1), cpu(0), cpu(1), cpu(0), cpu(2), cpu(3)}, 2)),
       "worker 0 would have cpu:1 twice"},
      {"fewer slots than workers", required(on({cpu(0), cpu(1)}, 0, 1, 1)), "slots: 1 for 2 workers"},
      {"no micro-batches", required(on({cpu(0), cpu(1)}, 1, 0)), "micro-batches: 0"},
      {"micro-batches of one device", required(on({cpu(0)}, 1, 2)), "each worker has one device"},
  });
}

TEST(WorkerDevices, RefuseAModelThatIsPlacedElsewhere) {
  const model_request request = on_two();
  EXPECT_NO_THROW(require_placed(pipelined(small_model()), request, 2, async));
  const model_function elsewhere = [](graph& g, const model_request& r) {
    model_request three = r;
    three.devices.push_back(cpu(2));
    return pipelined(small_model())(g, three);
  };
  expect_refused({"a third device", [&] { require_placed(elsewhere, request, 1, async); }, "cpu:2"});
}

/// A model whose first and last layer lie on the first device, and whose second layer lies on the other one.
model_outputs there_and_back(graph& g, const model_request& r) {
  value x = g.input("features", {r.batch, small_features});
  const value labels = g.input("labels", {r.batch}, dtype::int32);
  for (const std::size_t layer : {0U, 1U, 2U}) {
    const device_scope scope(g, r.devices[layer % 2]);
    x = dense(x, r.classes, "layer" + std::to_string(layer), activation::tanh);
  }
  return {x, cross_entropy(x, labels)};
}

/// A model with a variable that both devices read.
model_outputs with_a_shared_layer(graph& g, const model_request& r) {
  value x = g.input("features", {r.batch, small_features});
  const value labels = g.input("labels", {r.batch}, dtype::int32);
  for (const device d : r.devices) {
    const device_scope scope(g, d);
    x = dense(x, small_features, "shared", activation::tanh);
  }
  x = dense(x, r.classes, "last");
  return {x, cross_entropy(x, labels)};
}

TEST(WorkerDevices, RefuseAStageThatWaitsForItselfOnlyWithMicroBatches) {
  EXPECT_NO_THROW(require_placed(there_and_back, on_two(), 1, async));
  EXPECT_THROW(require_placed(there_and_back, on_two(), 2, async), graph_error);
}

TEST(WorkerDevices, RefuseAVariableOfTwoDevicesOnlyUnderHogwild) {
  const std::vector<scheduled_policy> later = {{0, {"async", 1}}, {9, {"hogwild", 1}}};
  EXPECT_NO_THROW(require_placed(with_a_shared_layer, on_two(), 2, async));
  EXPECT_THAT([&] { require_placed(with_a_shared_layer, on_two(), 1, later); },
              ThrowsMessage<graph_error>(HasSubstr("variable 'shared/weights'")));
}

} // namespace
} // namespace mailgrad

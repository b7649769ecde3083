#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/demos/custom_cure.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/optim/plugins/custom_rules.hpp>
#include <mailgrad/tests/support/words_of_forms.hpp>

#include <cmath>

// Whole runs on streams of a GPU, on threads: the simulated GPU, or a real one.

namespace mailgrad::testing {
namespace {

using ::testing::AllOf, ::testing::FloatNear, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::Pointwise;
using ::testing::ThrowsMessage;

void expect_close(const std::vector<float>& found, const std::vector<float>& expected, float most = 1e-5F) {
  EXPECT_THAT(found, Pointwise(FloatNear(most), expected));
}

// ---- gradients from the GPU

class GpuTraining : public GpuRuns, public ::testing::WithParamInterface<const char*> {};

TEST_P(GpuTraining, BalancesTheLedgerAndTrainsEveryBatch) {
  const training_options there = gpu_options(GetParam(), 2, {.shards = 2});
  for (const training_options& o : {there, beside_a_core(there)}) {
    const training_report r = completed(o, small_data(200));
    EXPECT_EQ(r.samples, 800U);
    EXPECT_GT(r.test_accuracy, 0.8);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, GpuTraining,
                         ::testing::Values("async", "sync", "hogwild", "ssp:2", "async, sync@30"),
                         name_of_policy);

TEST_F(GpuRuns, ComeToTheWeightsOfTheProcessorsInSync) {
  expect_close(weights_of(gpu_options("sync", 2)), weights_of(options_for("sync", 2)));
}

TEST_F(GpuRuns, GoOnFromACheckpointToTheSameWeights) {
  const scratch_folder folder;
  const training_options o = gpu_options("async", 1);
  EXPECT_EQ(weights_of(resumed(o, folder.path())), weights_of(o));
}

TEST_F(GpuRuns, AreReplayedThereAndRefusedOnCores) {
  training_options o = expect_repeatable(gpu_options("async", 2));
  o.devices = options_for("async", 2).devices;
  EXPECT_THAT([&] { weights_of(o); }, ThrowsMessage<recording_error>(HasSubstr("arithmetic of workers")));
}

TEST_F(GpuRuns, TellHowTheirStepsWereQueued) {
  const training_report r = trained(gpu_options("sync", 2));
  ASSERT_TRUE(r.gpus);
  EXPECT_EQ(r.gpus->graph_steps + r.gpus->launched_steps, r.steps);
  EXPECT_GT(r.gpus->graph_steps, r.gpus->launched_steps);
  EXPECT_FALSE(trained(options_for("sync", 2)).gpus);
}

/// A step of a small model may end before the next batch has come, so not every batch is copied ahead.
TEST_F(GpuRuns, ShowTheCopiesOfTheirBatchesBeforeTheSteps) {
  training_options o = gpu_options("sync", 2);
  o.trace_events = 1000;
  training run(small_model(), small_data(), o);
  run.report();
  const run_trace trace = run.trace();
  std::size_t tracks = 0, copied = 0;
  for (std::size_t i = 1; i < trace.tracks.size(); ++i) {
    const trace_track& copies = *trace.tracks[i];
    if (!copies.name().ends_with(", copies")) continue;
    ++tracks;
    copied += copies.events().size();
    for (const trace_event& step : trace.tracks[i - 1]->events()) {
      if (step.what != trace_kind::compute) continue;
      const auto of = std::ranges::find(copies.events(), step.step, &trace_event::step);
      EXPECT_TRUE(of == copies.events().end() || of->begin <= step.begin) << step.step;
    }
  }
  EXPECT_EQ(tracks, 2U);
  EXPECT_GT(copied, 0U);
}

TEST_F(GpuRuns, AreRefusedInOneLineBeforeAnythingRuns) {
  training_options elsewhere = gpu_options("async", 1);
  elsewhere.devices[0].index = 99;
  EXPECT_THAT([&] { trained(elsewhere); },
              ThrowsMessage<device_error>(
                  AllOf(HasSubstr("cuda:99 is not available"), HasSubstr("cpu:0"), HasSubstr("cuda:0"))));
  EXPECT_THAT([] { trained(all_on_gpu("async", 2, {.clip_norm = 1, .workers = 1})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("clipping reads the whole gradient")));
}

// ---- a rule or a parameter actor of a user's own, and prescribed times

TEST_F(GpuRuns, UpdateByARuleOfAUsersOwn) {
  training_options there = gpu_options("sync", 2, {.shards = 2});
  there.optimizer.rule = make_custom_rule(rule_table<own_momentum>);
  expect_close(weights_of(there), weights_of(options_for("sync", 2, {.shards = 2})));
}

class namesake : public parameter_actor {
public:
  static constexpr const char* name = "test.namesake-of-cards";
  using parameter_actor::parameter_actor;
};

TEST_F(GpuRuns, PushToAParameterActorOfAUsersOwn) {
  training_options o = gpu_options("sync", 2, {.shards = 2});
  const std::vector<float> expected = weights_of(o);
  o.parameter_actor = make_custom_parameter_actor<namesake>();
  EXPECT_EQ(weights_of(o), expected);
}

/// Times are prescribed to steps, not bits.
TEST_F(GpuRuns, WithPrescribedTimesComeToTheSameBits) {
  for (const bool there : {false, true}) {
    training_options o = gpu_options("sync", 2, {.shards = 2, .weights_there = there});
    const std::vector<float> expected = weights_of(o);
    o.delays = "exp:mean=0.0005";
    EXPECT_EQ(weights_of(o), expected) << there;
  }
}

// ---- other models, and such as span devices

void expect_close_and_repeated(const model_function& model, const std::shared_ptr<const data_split>& data,
                               const training_options& o, const std::vector<float>& expected) {
  const std::vector<float> found = weights_of(o, data, model);
  expect_close(found, expected, 2e-5F);
  EXPECT_EQ(weights_of(o, data, model), found) << "other bits in the second run";
}

/// Two streams of the GPU, and the first stream beside a core.
TEST_F(GpuRuns, OfAModelThatSpansDevicesComeToTheWeightsOfOneProcessor) {
  const std::vector<float> here = weights_of(options_for("async", 1));
  for (const model_function& model : {pipelined(small_model()), replicated(small_model())})
    for (const bool weights_there : {false, true}) {
      const training_options on_gpu =
          gpu_options("async", 2, {.workers = 1, .micro_batches = 2, .weights_there = weights_there});
      for (const training_options& o : {on_gpu, beside_a_core(on_gpu)})
        expect_close_and_repeated(model, small_data(), o, here);
    }
}

struct learning {
  const char* model;
  std::shared_ptr<const data_split> data;
};

const std::vector<learning>& other_models() {
  static const std::vector<learning> all{{"gpt:layers=1,width=16,heads=2,dropout=0.1", text()},
                                         {"dlrm:width=4,bottom=6,top=8", tastes()},
                                         {"softmax", sparse_data()}};
  return all;
}

TEST_F(GpuRuns, OfTextTablesAndSparseSamplesComeToTheWeightsOfTheProcessors) {
  for (const auto& [model, data] : other_models())
    for (const char* policy : {"sync", "async"}) {
      SCOPED_TRACE(std::string(model) + ", " + policy);
      const std::uint32_t workers = std::string_view(policy) == "sync" ? 2 : 1;
      const std::vector<float> here = weights_of(options_for(policy, workers), data, *built_in_model(model));
      for (const training_options& o : {gpu_options(policy, workers), all_on_gpu(policy, workers)})
        expect_close_and_repeated(*built_in_model(model), data, o, here);
    }
}

TEST_F(GpuRuns, OfTextTablesAndSparseSamplesGoWithEveryPolicyBesideACore) {
  for (const auto& [model, data] : other_models())
    for (const char* policy : {"hogwild", "ssp:2", "async, sync@6"}) {
      SCOPED_TRACE(std::string(model) + ", " + policy);
      const training_options o = beside_a_core(gpu_options(policy, 3));
      EXPECT_TRUE(std::isfinite(completed(o, data, *built_in_model(model)).test_loss.value()));
    }
}

// ---- every policy and every cure: with the weights on the host beside a worker on a core, and on the GPU

using chosen = std::tuple<std::string, bool>; ///< the policy or cure, and whether the weights are there

std::string chosen_name(const ::testing::TestParamInfo<chosen>& info) {
  const auto& [text, there] = info.param;
  return test_name(text + (there ? " with weights there" : " beside a core"));
}

training_options options_with(const std::string& policy, bool there, const std::string& cure = "none") {
  const training_options o = gpu_options(policy, 3,
                                         {.optimizer = cure == "none" ? "momentum" : "sgd",
                                          .cure = cure,
                                          .shards = 2,
                                          .evaluate_every = {.steps = 10},
                                          .weights_there = there});
  return there ? o : beside_a_core(o);
}

/// How well it learns depends on who comes first. RecordedOnProcessors compares weights.
training_report expect_trained(const training_options& o) {
  const training_report r = completed(o, small_data(200));
  EXPECT_EQ(r.samples, 800U);
  EXPECT_TRUE(std::isfinite(r.test_loss.value()));
  return r;
}

std::vector<std::string> policies_tested() {
  std::vector<std::string> all(ordered_policies.begin(), ordered_policies.end());
  all.insert(all.end(), {"auto", "rennala:3, sync@20", "ringmaster:2, async@20"});
#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
  all.insert(all.end(), {"hogwild", "async, hogwild@10, sync@30"});
#endif
  return all;
}

class GpuPolicies : public GpuRuns, public ::testing::WithParamInterface<chosen> {};

TEST_P(GpuPolicies, BalanceTheLedgerAndTrainEveryBatch) {
  const auto& [policy, there] = GetParam();
  const training_report r = expect_trained(options_with(policy, there));
  EXPECT_GE(r.test_accuracy, there && policy.find("hogwild") != policy.npos ? 0.8 : 0);
}

INSTANTIATE_TEST_SUITE_P(All, GpuPolicies,
                         ::testing::Combine(::testing::ValuesIn(policies_tested()), ::testing::Bool()),
                         chosen_name);

TEST(GpuPoliciesThatAreTested, AreAllThereAre) {
  std::string tested;
  for (const std::string& policy : policies_tested()) tested += policy + '\n';
  tested += "hogwild"; // which some builds leave out
  for (const std::string& word : words_of_forms(policy_forms())) EXPECT_THAT(tested, HasSubstr(word));
}

class GpuCures : public GpuPolicies {};

TEST_P(GpuCures, BalanceTheLedgerAndTrainEveryBatch) {
  const auto& [cure, there] = GetParam();
  training_options o = options_with("async", there, cure);
  if (cure == "momentum-compensation") o.optimizer = parse_optimizer("momentum");
  const bool outer = cure == "cgad" || cure == "mla" || cure == "heloco";
  if (outer || cure == "easgd") o.local_steps = 2;
  if (outer) o.outer = parse_optimizer(cure == "cgad" ? "adam" : "nesterov");
  if (cure == "heloco" && there) {
    EXPECT_THROW(trained(o), std::invalid_argument) << "it looks at whole variables on the host";
    return;
  }
  expect_trained(o);
}

INSTANTIATE_TEST_SUITE_P(All, GpuCures,
                         ::testing::Combine(::testing::ValuesIn(words_of_forms(cure_forms())),
                                            ::testing::Bool()),
                         chosen_name);

// ---- products in TF32 or in bfloat16

class GpuPrecisions : public GpuRuns {
protected:
  static constexpr product_precision lower[]{product_precision::tf32, product_precision::bfloat16};
};

TEST_F(GpuPrecisions, OfTf32AndBfloat16LearnAsWellAsInFloat32) {
  const auto accuracy = [](product_precision p, bool weights_there) {
    const training_report r =
        completed(gpu_options("sync", 2, {.precision = p, .weights_there = weights_there}), small_data(400));
    EXPECT_EQ(r.precision, name(p));
    return r.test_accuracy.value();
  };
  const double in_float32 = accuracy(product_precision::float32, false);
  for (const product_precision p : lower)
    for (const bool weights_there : {false, true})
      EXPECT_NEAR(accuracy(p, weights_there), in_float32, 0.02) << name(p);
}

TEST_F(GpuPrecisions, OfBfloat16LearnATextAsWellAsInFloat32) {
  const auto loss = [](product_precision p) {
    const training_options o = gpu_options("async", 1, {.precision = p});
    return train(*built_in_model("gpt:layers=1,width=16,heads=2"), text(), o).test_loss.value();
  };
  const double in_float32 = loss(product_precision::float32);
  for (const product_precision p : lower) EXPECT_NEAR(loss(p), in_float32, 0.01 * in_float32) << name(p);
}

TEST_F(GpuPrecisions, AreReplayedAlone) {
  for (const product_precision p : lower) {
    SCOPED_TRACE(name(p));
    training_options o = expect_repeatable(gpu_options("async", 2, {.precision = p}));
    o.precision = product_precision::float32;
    EXPECT_THAT([&] { weights_of(o); },
                ThrowsMessage<recording_error>(HasSubstr("the precision of products was " +
                                                         std::string(name(p)) + ", and is float32 here")));
  }
}

/// Weights are float32 in any case, so a run may go on in another precision.
TEST_F(GpuPrecisions, OfBfloat16GoOnFromACheckpointInAnyPrecision) {
  const scratch_folder folder;
  training_options o = gpu_options("async", 1, {.precision = product_precision::bfloat16});
  const std::vector<float> at_once = weights_of(o);
  o = resumed(o, folder.path());
  EXPECT_EQ(weights_of(o), at_once);
  o.precision = product_precision::float32;
  EXPECT_NE(weights_of(o), at_once);
}

TEST_F(GpuPrecisions, AreRefusedOnCores) {
  const training_options o = beside_a_core(gpu_options("async", 2, {.precision = product_precision::tf32}));
  EXPECT_THAT([&] { trained(o); }, ThrowsMessage<std::invalid_argument>(
                                       AllOf(HasSubstr("precision: tf32: cpu:0 computes in float32"),
                                             HasSubstr("name streams of GPUs"))));
}

// ---- weights that lie on the GPU, or some of them

TEST_F(GpuRuns, WithWeightsThereComeToTheWeightsOfTheProcessorsInSync) {
  for (const char* rule : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam"})
    for (const std::uint32_t shards : {1U, 3U}) {
      SCOPED_TRACE(rule + std::to_string(shards));
      const small_options s{.optimizer = rule, .rate = {}, .clip_norm = 0.5, .shards = shards};
      training_options on_gpu = all_on_gpu("sync", 2, s), here = options_for("sync", 2, s);
      on_gpu.optimizer.weight_decay = here.optimizer.weight_decay = 0.01;
      expect_close(weights_of(on_gpu), weights_of(here), 2e-5F);
    }
}

/// Workers on streams of the GPU and on a core, and shards in turn at these places.
training_options mixed(const std::string& policy, std::vector<device> places, small_options s = {}) {
  s.shards = 3;
  training_options o = beside_a_core(gpu_options(policy, 3, s));
  o.parameters = std::move(places);
  return o;
}

const std::vector<std::vector<device>>& mixes() {
  static const std::vector<std::vector<device>> all{
      {{device_kind::cuda, 0}}, {{}, {device_kind::cuda, 0}}, {{device_kind::cuda, 0}, {}, {}}};
  return all;
}

TEST_F(GpuRuns, WithWeightsThereAndElsewhereComeToTheWeightsOfTheProcessorsInSync) {
  for (const std::vector<device>& places : mixes()) {
    const small_options s{.optimizer = "adam", .rate = {}, .clip_norm = 0.5, .shards = 3};
    expect_close(weights_of(mixed("sync", places, s)), weights_of(options_for("sync", 3, s)), 2e-5F);
  }
}

TEST_F(GpuRuns, WithWeightsThereAndElsewhereBalanceTheLedgerUnderEveryPolicyAndCure) {
  // A worker on the host may be fast enough to take most batches. Policies that wait for all make few
  // updates then.
  const std::tuple<const char*, const char*, double> all[]{
      {"async", "none", 0.8},           {"ssp:2", "none", 0.8},
      {"k-batch-async:4", "none", 0.8}, {"malenia:4", "none", 0},
      {"ringleader", "none", 0},        {"ringleader, sync@20, ringleader@30", "none", 0},
      {"async", "dc-asgd-a", 0.8},      {"async", "dana-dc", 0.8},
      {"async", "gap-aware", 0.8},      {"async, sync@20", "none", 0.8},
      {"async", "easgd", 0.5}};
  std::size_t mix = 0;
  for (const auto& [policy, cure, least_accuracy] : all) {
    SCOPED_TRACE(std::string(policy) + ' ' + cure);
    const bool is_elastic = std::string_view(cure) == "easgd", is_cured = std::string_view(cure) != "none";
    const training_options o = mixed(policy, mixes()[mix++ % mixes().size()],
                                     {.optimizer = "sgd",
                                      .cure = cure,
                                      .local_steps = is_elastic ? 2U : 0U,
                                      .sample_gap = is_cured ? 0U : 3U,
                                      .evaluate_every = {.steps = 10}});
    const training_report r = completed(o, small_data(200));
    EXPECT_EQ(r.samples, 800U);
    EXPECT_GE(r.test_accuracy, least_accuracy);
  }
}

TEST_F(GpuRuns, WithWeightsThereAndElsewhereAreRepeatedAndGoOn) {
  training_options o = expect_repeatable(mixed("async", mixes()[1]));
  o.parameters = {{device_kind::cuda, 0}};
  EXPECT_THAT([&] { weights_of(o); }, ThrowsMessage<recording_error>(HasSubstr("arithmetic of shards")));
  const scratch_folder folder;
  o = mixed("sync", mixes()[1]);
  EXPECT_EQ(weights_of(resumed(o, folder.path())), weights_of(o));
}

#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
/// Of one worker no update is lost, and each step reads the last one.
TEST_F(GpuRuns, WithWeightsThereWriteThemUnderHogwildAsAShardWould) {
  for (const char* rule : {"sgd", "adam"})
    for (const std::uint32_t shards : {1U, 3U}) {
      const small_options s{.optimizer = rule, .rate = {}, .shards = shards};
      EXPECT_EQ(weights_of(all_on_gpu("hogwild", 1, s)), weights_of(all_on_gpu("async", 1, s)))
          << rule << ' ' << shards;
    }
}
#endif

TEST_F(GpuRuns, WithWeightsThereRunAheadToTheSameBits) {
  for (const auto& [policy, streams] : {std::pair("async", 1U), std::pair("sync", 3U)}) {
    training_options o = all_on_gpu(policy, streams, {.shards = 2});
    const std::vector<float> ahead = weights_of(o);
    o.run_ahead = 0;
    EXPECT_EQ(weights_of(o), ahead) << policy;
  }
  training_options too_far = all_on_gpu("async", 1);
  too_far.run_ahead = 2;
  EXPECT_THAT([&] { trained(too_far); }, ThrowsMessage<std::invalid_argument>(HasSubstr("--run-ahead: 2")));
}

TEST_F(GpuRuns, WithWeightsThereFindNoGapWhereOneWorkerIsAlone) {
  const training_report r = completed(all_on_gpu("async", 1, {.shards = 2, .sample_gap = 5}));
  EXPECT_EQ(r.gradient_cosine.count(), r.steps / 5);
  EXPECT_EQ(r.gradient_cosine.least(), 1.0);
  EXPECT_EQ(r.gradient_cosine.greatest(), 1.0);
  EXPECT_EQ(r.weight_gap.count(), 2 * (r.steps / 5)) << "on each of two shards";
  EXPECT_EQ(r.weight_gap.greatest(), 0.0);
}

/// A checkpoint may fall between a gradient and the loss of its step.
TEST_F(GpuRuns, WithWeightsThereReportAfterAResumeWhatTheyWouldHaveReported) {
  const scratch_folder folder;
  const training_options o = all_on_gpu("async", 1);
  const training_report at_once = completed(o), later = completed(resumed(o, folder.path(), 1));
  EXPECT_EQ(later.final_loss, at_once.final_loss);
  EXPECT_EQ(later.steps, at_once.steps);
}

/// The run goes on there, and on processors.
TEST_F(GpuRuns, WithWeightsThereGoOnFromACheckpoint) {
  struct kept_run {
    const char* policy;
    const char* rule = "adam"; ///< if it keeps its state in the other place, too
    const char* cure = "none";
    std::uint64_t local_steps = 0;
  };
  for (const auto& [policy, rule, cure, local_steps] :
       {kept_run{"async"}, kept_run{"async", "sgd", "dc-asgd-a"}, kept_run{"sync"},
        kept_run{"k-batch-async:3"}, kept_run{"async", "adam", "none", 3},
        kept_run{"sync", "sgd", "easgd", 2}, kept_run{"hogwild", "sgd"}}) {
    SCOPED_TRACE(std::string(policy) + ' ' + cure);
    const scratch_folder folder;
    training_options o =
        all_on_gpu(policy, std::string_view(policy) != "sync" ? 1 : 2,
                   {.optimizer = rule, .rate = {}, .cure = cure, .local_steps = local_steps});
    const std::vector<float> at_once = weights_of(o);
    o = resumed(o, folder.path());
    EXPECT_EQ(weights_of(o), at_once);
    o.parameters.clear();
    for (std::uint32_t i = 0; i < o.devices.size(); ++i) o.devices[i] = {device_kind::cpu, i};
    expect_close(weights_of(o), at_once, 1e-4F);
  }
}

TEST_F(GpuRuns, WithWeightsThereAreReplayedThereAlone) {
  training_options o = expect_repeatable(all_on_gpu("async", 3));
  o.parameters.clear();
  EXPECT_THAT([&] { weights_of(o); }, ThrowsMessage<recording_error>(HasSubstr("arithmetic of shards")));
}

/// What a change of the options makes of a run with its weights on the GPU.
template <class Change>
auto changed(const Change& change, const model_function& model = small_model(),
             const std::shared_ptr<const data_split>& data = small_data()) {
  training_options o = all_on_gpu("async", 2);
  change(o);
  return [=] { train(model, data, o); };
}

TEST_F(GpuRuns, WithWeightsThereAreRefusedForWhatStaysOnTheHost) {
  const auto refused = [](const char* why, const auto& change) {
    EXPECT_THAT(changed(change),
                ThrowsMessage<std::exception>(AllOf(HasSubstr("parameters: "), HasSubstr(why))));
  };
  refused("say host", [](auto& o) { o.parameters[0] = {device_kind::cpu, 1}; });
  refused("--parameters: cuda:0,host: 2 places for 1 shard; ", [](auto& o) { o.parameters.push_back({}); });
  refused("stream of its own", [](auto& o) { o.parameters[0].stream = 1; });
  refused("parameter actor 'mine'",
          [](auto& o) { o.parameter_actor = std::make_shared<parameter_actor_kind>("mine", false); });
  refused("under hogwild all weights and all workers share one GPU, and cpu:0", [](auto& o) {
    o.policy = "async, hogwild@10";
    o.devices[1] = {device_kind::cpu, 0};
  });
  refused("all-reduce adds gradients up on the host", [](auto& o) {
    o.policy = "sync";
    o.all_reduce = true;
  });
  refused("cure 'fading", [](auto& o) { o.cure = custom_cure<fading>("0.5"); });
  refused("cure 'heloco' looks at whole variables on the host", [](auto& o) {
    o.local_steps = 2;
    o.outer = parse_optimizer("nesterov");
    o.cure = "heloco";
  });
  refused("rule 'own-momentum'",
          [](auto& o) { o.optimizer.rule = make_custom_rule(rule_table<own_momentum>); });
  EXPECT_THAT(changed([](auto& o) { o.parameters[0].index = 7; }),
              ThrowsMessage<device_error>(HasSubstr("cuda:7 is not available")));
}

TEST_F(GpuRuns, WithTablesThereAreRefusedForWhatReadsTheirRowsOnTheHost) {
  const auto refused = [](const char* why, const auto& change) {
    EXPECT_THAT(changed(change, *built_in_model("softmax"), sparse_data()),
                ThrowsMessage<std::exception>(AllOf(HasSubstr("table 'dense1/weights'"), HasSubstr(why))));
  };
  refused("share one GPU, and cpu:0 is elsewhere", [](auto& o) { o.devices[1] = {device_kind::cpu, 0}; });
  refused("share one GPU, and cpu:0 is elsewhere", [](auto& o) {
    o.parameters.push_back({});
    o.shards = 2;
  });
  refused("clipping", [](auto& o) { o.optimizer.clip_norm = 1; });
  refused("policy 'ringleader'", [](auto& o) { o.policy = "async, ringleader@9"; });
  refused("sampling of gaps", [](auto& o) { o.sample_gap = 2; });
  refused("--local-steps", [](auto& o) { o.local_steps = 2; });
}

// ---- tests of the weights, and texts

class GpuRunTests : public GpuRuns {
protected:
  static training_options with_tests(const char* policy, std::uint32_t streams, bool weights_there) {
    return gpu_options(
        policy, streams,
        {.epochs = for_ever, .shards = 2, .evaluate_every = {.steps = 5}, .weights_there = weights_there});
  }
  /// The report of a run whose weights are tested there.
  static training_report tested_there(training& run) {
    const training_report r = report_when_tested(run);
    EXPECT_EQ(r.tested.value().device, "cuda:0");
    EXPECT_THAT(r.tested->why_on_host, IsEmpty());
    EXPECT_THAT(r.evaluations.why_on_host, IsEmpty());
    return r;
  }
  /// The tests find what the host finds, which this returns, of the weights of this run at its end.
  static evaluation expect_found(training& run, const model_function& model, const data_split& data) {
    const training_report r = tested_there(run);
    const evaluation expected =
        evaluate(model, request_for(data, 8), run.layout(), run.parameters(), data.test);
    EXPECT_NEAR(r.test_loss.value(), expected.loss, 1e-5);
    const double best = r.best ? r.best->loss : expected.loss;
    EXPECT_NEAR(best, expected.loss, 1e-5) << "its weights are those that were tested";
    return expected;
  }
};

TEST_F(GpuRunTests, FindThereWhatTheHostFinds) {
  for (const bool weights_there : {false, true})
    for (const char* policy : {"async", "sync", "ssp:1"})
      for (const bool mixed : {false, true}) {
        SCOPED_TRACE(std::string(policy) + (weights_there ? ", weights there" : "") +
                     (mixed ? ", mixed" : ""));
        training_options o = with_tests(policy, 2, weights_there);
        if (mixed) o.devices[0] = {device_kind::cpu, 0};
        o.keep = mixed ? kept_weights::best : kept_weights::last;
        training run(small_model(), small_data(), o);
        const evaluation here = expect_found(run, small_model(), *small_data());
        EXPECT_EQ(run.report().test_accuracy, here.accuracy);
      }
}

TEST_F(GpuRunTests, WriteTheTextThatTheHostWrites) {
  for (const bool weights_there : {false, true}) {
    training_options o = with_tests("async", 1, weights_there);
    o.text = {.length = 40, .seed = 7};
    const model_function model = *built_in_model("gpt:layers=1,width=16,heads=2,dropout=0.1");
    const auto data = text();
    training run(model, data, o);
    const training_report r = tested_there(run);
    EXPECT_EQ(r.sample, write_text(model, request_for(*data, 8), run.layout(), run.parameters(),
                                   data->class_names, o.text));
  }
}

/// Of tables, whose rows a test gathers.
TEST_F(GpuRunTests, OfTablesFindThereWhatTheHostFinds) {
  for (const bool weights_there : {false, true}) {
    const model_function model = *built_in_model("dlrm:width=4,bottom=6,top=8");
    const auto data = tastes();
    training run(model, data, with_tests("async", 2, weights_there));
    expect_found(run, model, *data);
  }
}

#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
/// With the label of another class at each test sample.
std::shared_ptr<const data_split> mislabelled(const std::shared_ptr<const data_split>& data) {
  data_split other = *data;
  std::vector<std::int32_t> labels(data->test.labels().begin(), data->test.labels().end());
  for (std::int32_t& label : labels) label = (label + 1) % static_cast<std::int32_t>(small_classes);
  other.test = dataset(data->test.features(), std::move(labels), small_classes);
  return std::make_shared<const data_split>(std::move(other));
}

/// Training for other labels raises the loss of the tests, so the last weights are never the best.
TEST_F(GpuRunTests, OfHogwildReadTheBlockThere) {
  for (const bool weights_there : {false, true}) {
    SCOPED_TRACE(weights_there ? "weights there" : "weights on the host");
    const auto data = mislabelled(small_data(200));
    training_options o = with_tests("hogwild", 2, weights_there);
    o.keep = kept_weights::best;
    o.evaluate_every = {.steps = 1};
    training run(small_model(), data, o);
    expect_found(run, small_model(), *data);
    EXPECT_TRUE(run.report().best);
  }
}
#endif

TEST_F(GpuRunTests, OfCoresAreMadeOnTheHost) {
  const training_report r = trained(options_for("async", 2));
  EXPECT_EQ(r.tested.value().device, "cpu:0");
  EXPECT_THAT(r.tested->why_on_host, IsEmpty());
}

} // namespace
} // namespace mailgrad::testing

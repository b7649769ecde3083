#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/plan/shard_terms.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <gmock/gmock.h>

#include <functional>
#include <set>

// Plans of runs whose rule, or parameter actor, looks at whole variables.

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::small_data;
using testing::small_model;
using testing::whole_variable_rules;
using namespace ::testing;

training_options on_cores(std::uint32_t cores, const std::string& policy = "async") {
  training_options o;
  o.devices.clear();
  for (std::uint32_t c = 0; c < cores; ++c) o.devices.push_back({device_kind::cpu, c});
  o.policy = policy;
  o.batch = 8;
  return o;
}

run_plan planned(training_options o) { return plan_run(small_model(), small_data(), std::move(o)); }

TEST(RunPlan, CountsTheStepsOfAllWorkersTogether) {
  training_options o = on_cores(2);
  o.epochs = 3;
  EXPECT_EQ(planned(o).steps, 3 * small_data()->train.size() / 8);
  o.steps = 11;
  EXPECT_EQ(planned(o).steps, 11U) << "steps come before epochs";
}

TEST(RunPlan, HasShardsUnlessHogwildIsItsOnlyPolicy) {
  training_options o = on_cores(2, "hogwild");
  o.shards = 3;
  const run_plan alone = planned(o);
  EXPECT_TRUE(alone.shares_block());
  EXPECT_FALSE(alone.has_shards());
  EXPECT_EQ(alone.layout->shard_count(), 1U) << "the block is whole";
  o.policy = "hogwild, sync@3";
  const run_plan switching = planned(o);
  EXPECT_TRUE(switching.shares_block());
  EXPECT_TRUE(switching.has_shards());
  EXPECT_EQ(switching.layout->shard_count(), 3U);
}

TEST(RunPlan, HoldsTheFeederAtEachSwitch) {
  EXPECT_THAT(planned(on_cores(1, "async, sync@3, ssp:2@5")).holds, ElementsAre(3, 5));
  EXPECT_THAT(planned(on_cores(1)).holds, IsEmpty());
}

TEST(RunPlan, DealsByRankOnlyIfTheFirstPolicyDoes) {
  EXPECT_EQ(planned(on_cores(2, "sync, async@3")).deal.mode, deal_mode::by_rank);
  EXPECT_EQ(planned(on_cores(2, "async, sync@3")).deal.mode, deal_mode::on_demand);
}

TEST(RunPlan, LetsThreadsThatWouldSleepHelp) {
  EXPECT_EQ(planned(on_cores(1)).update_helpers, 0U);
  EXPECT_EQ(planned(on_cores(3)).update_helpers, 2U);
  training_options one_core = on_cores(1);
  one_core.devices.assign(3, {device_kind::cpu, 0});
  EXPECT_EQ(planned(one_core).update_helpers, 0U) << "three workers share a thread";
}

/// Whatever needs one dense gradient lets a device of the worker add it up.
TEST(RunPlan, AddsUpAtTheShardsWhatNothingElseMustSee) {
  const auto adds_up = [](auto change) {
    training_options o = on_cores(2);
    o.workers = 1;
    change(o);
    return plan_run(replicated(small_model()), small_data(), o).sums_apart;
  };
  EXPECT_TRUE(adds_up([](auto&) {}));
  EXPECT_FALSE(adds_up([](auto& o) { o.cure = "inverse"; }));
  EXPECT_FALSE(adds_up([](auto& o) { o.optimizer.clip_norm = 1; }));
  EXPECT_FALSE(adds_up([](auto& o) { o.local_steps = 2; }));
  EXPECT_FALSE(
      adds_up([](auto& o) { o.parameter_actor = std::make_shared<parameter_actor_kind>("mine", false); }));
}

TEST(RunPlan, GivesTheShardsTheOuterOptimiserOfLocalSteps) {
  training_options o = on_cores(1);
  o.optimizer.learning_rate = 0.125;
  EXPECT_EQ(planned(o).shard_rule.learning_rate, 0.125);
  o.local_steps = 4;
  EXPECT_EQ(planned(o).shard_rule.learning_rate, 1);
  EXPECT_EQ(planned(o).replica_layout->shard_count(), 1U);
}

TEST(RunPlan, OfShardsAloneHasNoStepsAndNoData) {
  const auto layout = std::make_shared<parameter_layout>(testing::layout_of({{"w", {64}}}, 2));
  training_options o = on_cores(2, "ssp:3");
  o.optimizer.learning_rate = 0.5;
  const run_plan plan = plan_shards(layout, o);
  EXPECT_EQ(plan.layout, layout);
  EXPECT_EQ(plan.workers(), 2U);
  EXPECT_EQ(plan.first_policy().text(), "ssp:3");
  EXPECT_EQ(plan.shard_rule.learning_rate, 0.5);
  EXPECT_EQ(plan.data, nullptr);
  EXPECT_EQ(plan.steps, 0U);
  const auto table = std::make_shared<parameter_layout>(testing::layout_of({{"t", {8, 2}, true}}, 1));
  o.cure = "dc-asgd:1";
  expect_refused({
      {"no layout", [] { plan_shards(nullptr, {}); }, "shards: there is no layout"},
      {"a policy that is none", [&] { plan_shards(layout, on_cores(1, "asink")); }, "asink"},
      {"a cure of a table", [&] { plan_shards(table, o); }, "table 't'"},
  });
}

TEST(RunDescription, TellsTheOptionsOfARun) {
  training_options o = on_cores(2, "hogwild");
  o.words = {"mailgrad", "train"};
  o.model_name = "mlp";
  o.seed = 9;
  training_report r;
  r.steps = 12;
  describe(r, planned(o));
  EXPECT_EQ(r.model, "mlp");
  EXPECT_EQ(r.policy, "hogwild");
  EXPECT_EQ(r.shards, 0U) << "the run has none, whatever the option says";
  EXPECT_EQ(r.workers, 2U);
  EXPECT_THAT(r.devices, ElementsAre("cpu:0", "cpu:1"));
  EXPECT_EQ(r.weights, 67U);
  EXPECT_EQ(r.seed, 9U);
  EXPECT_EQ(r.epochs, 12.0 * 8 / static_cast<double>(small_data()->train.size()));
  EXPECT_FALSE(r.mean_step_factor);
}

/// A model of 4 hidden units for each of so many thousands.
run_plan plan_of(std::size_t thousands, bool keeps = false, const std::string& policy = "async") {
  training_options o;
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 0}};
  o.batch = 8;
  o.shards = 2;
  o.policy = policy;
  if (keeps) o.checkpoints.folder = "checkpoints";
  return plan_run(*built_in_model("mlp:hidden=1000x" + std::to_string(1000 * thousands)), small_data(), o);
}

TEST(LargestBody, IsThatOfTheRunAndNotOfAnyRun) {
  constexpr std::uint64_t room = 16 << 20, mega = 1 << 20;
  EXPECT_GE(largest_exchange(*plan_of(1).layout, 1), 3 * (2 * mega) - mega / 2 + room);
  EXPECT_GE(largest_exchange(*plan_of(1).layout, 3), 5 * (2 * mega) - mega + room);
  EXPECT_LT(largest_body(plan_of(1), 0), 8 * mega + room);
  EXPECT_GT(largest_body(plan_of(8), 0), 40 * mega + room);
}

TEST(LargestBody, HasRoomForTheShardsOfAHost) {
  const run_plan plan = plan_of(8);
  const std::uint64_t whole = plan.layout->size() * sizeof(float);
  EXPECT_GE(largest_body(plan, 1), whole);
}

TEST(LargestBody, HasRoomForPartsOfCheckpoints) {
  const run_plan plan = plan_of(1, true);
  const std::uint64_t whole = plan.layout->size() * sizeof(float);
  EXPECT_GE(largest_body(plan, 0), 6 * whole);
  // Two workers, each with a gradient that waits and the weights that it was computed from.
  EXPECT_GE(largest_body(plan, 2), largest_body(plan_of(1), 2) + 4 * whole);
}

/// Those of a queue wait one by one, however few workers there are.
TEST(LargestBody, HasRoomForTheLongestQueue) {
  const std::uint64_t whole = plan_of(1).layout->size() * sizeof(float);
  const std::uint64_t without = largest_body(plan_of(1, true), 1);
  EXPECT_GE(largest_body(plan_of(1, true, "async, queue:2,64@3"), 1), without + 63 * whole);
}

/// Each device of a worker has a gradient of its own that may wait.
TEST(LargestBody, HasRoomForTheGradientsOfEveryDeviceInThem) {
  run_plan plan = plan_of(1, true);
  const std::uint64_t whole = plan.layout->size() * sizeof(float);
  const std::uint64_t before = largest_body(plan, 2);
  plan.options.workers = plan.workers();
  plan.options.devices.resize(std::size_t{16} * plan.workers(), {device_kind::cpu, 0});
  ASSERT_EQ(plan.devices_per_worker(), 16U);
  EXPECT_GE(largest_body(plan, 2), before + 15 * whole);
}

training_options recorded_by_two() {
  training_options o;
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 0}};
  o.batch = 8;
  o.shards = 3;
  o.words = {"--batch", "8"};
  return o;
}

run_plan planned_from(training_options o) { return plan_run(small_model(), small_data(), std::move(o)); }

TEST(RecordingOfPlan, TellsWorkersShardsFactsAndWords) {
  const run_plan plan = planned_from(recorded_by_two());
  const recording_header h = recording_header_of(plan);
  EXPECT_EQ(h.workers, 2u);
  EXPECT_EQ(h.shards, 3u);
  EXPECT_EQ(h.slots, 0u) << "nobody may join later";
  EXPECT_EQ(h.facts, facts_and_names(plan));
  EXPECT_THAT(h.words, ElementsAre("--batch", "8"));
}

TEST(RecordingOfPlan, RepeatsOfTheFirstPartWhatMustStayTheSame) {
  training_options o = recorded_by_two();
  o.elsewhere.emplace(); // workers that have told nothing yet
  run_plan plan = planned_from(o);
  recording before;
  before.header = recording_header_of(plan);
  for (auto& [what, is] : before.header.facts)
    if (what == first_weights_fact) is = "those of the first part";
  before.header.facts.emplace_back(computers_fact, "two of a kind");
  plan.recorded_before = std::make_shared<const recording>(before);

  const recording_header h = recording_header_of(plan);
  EXPECT_EQ(reported_fact(h.facts, first_weights_fact), "those of the first part");
  EXPECT_EQ(reported_fact(h.facts, computers_fact), "two of a kind");
  EXPECT_FALSE(tells(h.facts, products_fact)) << "the first part does not tell it";
}

TEST(RecordingOfPlan, LeavesRoomForTheWeightsReportsAndCheckpoints) {
  training_options o = recorded_by_two();
  const run_plan without = planned_from(o);
  const std::uint64_t weights = without.layout->size() * sizeof(float), reports = 1 << 18;
  EXPECT_EQ(room_beside_recording(without, {}), weights + reports);

  o.checkpoints.folder = "checkpoints";
  o.checkpoints.keep = 3;
  const run_plan plan = planned_from(o);
  const auto checkpoints = [&](checkpoint_account so_far) {
    return room_beside_recording(plan, so_far) - weights - reports;
  };
  EXPECT_EQ(checkpoints({}), 4 * (4 * weights)) << "four, each of four arrays";
  EXPECT_EQ(checkpoints({.written = 2, .bytes = 2000}), 2 * 1000u)
      << "the third, and one before it is removed";
  EXPECT_EQ(checkpoints({.written = 50, .bytes = 50'000}), 1000u);
}

std::vector<std::string> remarks_of(const std::string& policy, std::uint64_t local_steps = 0,
                                    std::uint64_t steps = 300) {
  training_options o;
  o.devices.assign(2, {device_kind::cpu, 0});
  o.batch = 8;
  o.steps = steps;
  o.policy = policy;
  o.local_steps = local_steps;
  return update_remarks(plan_run(testing::small_model(), testing::small_data(), o));
}

TEST(UpdateRemarks, NameAPolicyWhoseFirstUpdateIsNeverFull) {
  for (const std::string policy : {"malenia:", "rennala:", "k-batch-async:", "k-batch-sync:"}) {
    EXPECT_THAT(remarks_of(policy + "300"), IsEmpty());
    EXPECT_THAT(remarks_of(policy + "301"),
                ElementsAre("policy " + policy +
                            "301: an update is made of 301 gradients or more, and all under it, 300 at most, "
                            "are less, so they make one update, at its end"));
  }
}

TEST(UpdateRemarks, CountTheGradientsOfAPolicyAlone) {
  EXPECT_THAT(remarks_of("rennala:120, malenia:180@120"), IsEmpty());
  EXPECT_EQ(remarks_of("rennala:121, malenia:180@120").size(), 1U);
  EXPECT_EQ(remarks_of("async, malenia:181@120").size(), 1U);
}

/// The two workers push what is left over at the end, too.
TEST(UpdateRemarks, CountAGradientOfLocalStepsAndTheRestOfEachWorker) {
  EXPECT_THAT(remarks_of("rennala:62", 5), IsEmpty());
  EXPECT_EQ(remarks_of("rennala:63", 5).size(), 1U);
  EXPECT_THAT(remarks_of("rennala:63", 5, 301), IsEmpty()) << "the last one is of one step";
  EXPECT_THAT(remarks_of("async", 100, 50), IsEmpty()) << "there is an update for each worker";
  EXPECT_THAT(remarks_of("async, sync@3", 5), IsEmpty());
}

TEST(UpdateRemarks, AreNoneOfPoliciesThatGatherWorkers) {
  for (const char* policy :
       {"async", "sync", "backup:1", "k-async:2", "ringleader", "ringmaster:1000", "hogwild"})
    EXPECT_THAT(remarks_of(policy), IsEmpty()) << policy;
}

training_options whole_options(std::string_view rule, std::uint32_t shards = 2) {
  training_options o;
  o.devices.assign(2, {device_kind::cpu, 0});
  o.optimizer = parse_optimizer(rule);
  o.batch = 8;
  o.shards = shards;
  return o;
}

run_plan whole_plan(const training_options& o) { return plan_run(small_model(), small_data(), o); }

TEST(WholeVariables, AreCutApartOnlyIfNobodyLooksAtThem) {
  for (const std::string_view rule : whole_variable_rules()) {
    const run_plan plan = whole_plan(whole_options(rule));
    EXPECT_EQ(plan.layout->cuts(), shard_cuts::between_variables) << rule;
    for (std::size_t v = 0; v < plan.layout->variables().size(); ++v)
      EXPECT_EQ(plan.layout->pieces(v).size(), 1U) << rule;
    EXPECT_THAT(plan.layout->format_balance(), HasSubstr("; the largest has")) << rule;
  }
  EXPECT_EQ(whole_plan(whole_options("adam")).layout->cuts(), shard_cuts::within_variables);
}

/// Shards take the outer optimiser, workers the other, on weights of their own.
TEST(WholeVariables, OfLocalStepsAreNeededByTheOuterRuleAlone) {
  training_options o = whole_options("muon");
  o.local_steps = 3;
  EXPECT_EQ(whole_plan(o).layout->cuts(), shard_cuts::within_variables);
  o.optimizer = parse_optimizer("sgd");
  o.outer = parse_optimizer("muon");
  EXPECT_EQ(whole_plan(o).layout->cuts(), shard_cuts::between_variables);
}

TEST(WholeVariables, AreWhatAParameterActorMayAskFor) {
  struct kind final : parameter_actor_kind {
    using parameter_actor_kind::parameter_actor_kind;
  };
  training_options o = whole_options("sgd");
  o.parameter_actor = std::make_shared<kind>("mine", false, true);
  EXPECT_EQ(whole_plan(o).layout->cuts(), shard_cuts::between_variables);
  o.parameter_actor = std::make_shared<kind>("mine", false);
  EXPECT_EQ(whole_plan(o).layout->cuts(), shard_cuts::within_variables);
}

TEST(WholeVariables, TravelToHostsOfShards) {
  const run_plan plan = whole_plan(whole_options("shampoo:every=3"));
  const auto read =
      read_shard_terms(write_terms({terms_of(plan, shard_index{0}, {}), terms_of(plan, shard_index{1}, {})}));
  for (std::uint32_t s = 0; s < 2; ++s) {
    EXPECT_EQ(*read[s].layout, *plan.layout);
    EXPECT_EQ(read[s].layout->cuts(), shard_cuts::between_variables);
    EXPECT_EQ(std::get<shampoo_options>(read[s].rule.rule).every, 3U);
  }
  shard_terms wrong = terms_of(plan, shard_index{0}, {});
  wrong.layout = whole_plan(whole_options("adam")).layout;
  wrong.values.resize(wrong.layout->shard(0).size());
  expect_refused(
      {{"cut", [&] { read_shard_terms(write_terms({wrong})); }, "expected shards of whole variables"}});
}

TEST(WholeVariables, HaveRulesThatTravelWithEverySetting) {
  for (const std::string text :
       {"lars:momentum=0.5,trust=0.25", "lamb:beta1=0.5,beta2=0.75,epsilon=0.125",
        "muon:momentum=0.5,nesterov=no,adamw=weights,adamw_rate=0.25,beta1=0.125,beta2=0.75,"
        "epsilon=0.5",
        "shampoo:epsilon=0.5,every=3,largest=7"}) {
    optimizer_options told = parse_optimizer(text);
    byte_archive_writer out;
    keep_optimizer(out, "rule", told);
    byte_archive_reader in(out.bytes(), "rule");
    optimizer_options read;
    keep_optimizer(in, "rule", read);
    byte_archive_writer again;
    keep_optimizer(again, "rule", read);
    EXPECT_EQ(again.bytes(), out.bytes()) << text;
    byte_archive_writer plain;
    optimizer_options defaults = parse_optimizer(text.substr(0, text.find(':')));
    keep_optimizer(plain, "rule", defaults);
    EXPECT_NE(plain.bytes(), out.bytes()) << text;
  }
}

TEST(WholeVariables, HaveRulesWhoseSettingsAreFactsOfTheRun) {
  std::set<std::string> facts;
  const char* texts[] = {"lars",
                         "lars:momentum=0.5",
                         "lars:trust=0.25",
                         "lamb:beta1=0.5",
                         "lamb:beta2=0.5",
                         "lamb:epsilon=0.5",
                         "muon",
                         "muon:momentum=0.5",
                         "muon:nesterov=no",
                         "muon:adamw=",
                         "muon:adamw_rate=1",
                         "muon:beta1=0.5",
                         "muon:beta2=0.5",
                         "muon:epsilon=0.5",
                         "shampoo",
                         "shampoo:every=3",
                         "shampoo:largest=7",
                         "shampoo:epsilon=1"};
  for (const char* text : texts)
    for (const auto& [name, value] : facts_and_names(whole_plan(whole_options(text))))
      if (name == "optimizer") facts.insert(value);
  EXPECT_EQ(facts.size(), std::size(texts));
}

TEST(WholeVariables, AreRefusedInOneLineWhereTheyCannotBe) {
  const auto planning = [](const std::function<void(training_options&)>& change, std::string_view rule) {
    return [=] {
      training_options o = whole_options(rule);
      change(o);
      whole_plan(o);
    };
  };
  expect_refused({
      {"hogwild", planning([](auto& o) { o.policy = "hogwild"; }, "muon"),
       "optimizer 'muon' looks at whole variables, and under hogwild"},
      {"a switch to hogwild", planning([](auto& o) { o.policy = "async, hogwild@3"; }, "lamb"),
       "optimizer 'lamb' looks at whole variables, and under hogwild"},
      {"more shards than variables", planning([](auto& o) { o.shards = 5; }, "lars"),
       "5 shards cannot be cut between the variables of a model of 4"},
      {"a word for nothing", planning([](auto&) {}, "muon:adamw=head"),
       "optimizer 'muon' leaves 'head' to adamw: no variable of the model has this in its name"},
      {"momentum compensation", planning([](auto& o) { o.cure = "momentum-compensation"; }, "muon"),
       "there is no momentum to take from"},
      {"gap-aware", planning([](auto& o) { o.cure = "gap-aware"; }, "shampoo"), "gap-aware"},
      {"dana", planning([](auto& o) { o.cure = "dana-zero"; }, "lars"), "take --optimizer sgd"},
  });
  EXPECT_NO_THROW(planning([](auto& o) { o.cure = "dc-asgd:0.1"; }, "muon")());
  EXPECT_NO_THROW(planning([](auto& o) { o.cure = "dynsgd"; }, "shampoo")());
}

/// A checkpoint of a shard elsewhere comes as one message.
TEST(WholeVariables, HaveMatricesForWhichAMessageHasRoom) {
  const run_plan plan = whole_plan(whole_options("shampoo"));
  std::uint64_t floats = 0;
  for (const placed_variable& v : plan.layout->variables())
    if (v.dims.rank() == 2) floats += 2 * (v.dims[0] * v.dims[0] + v.dims[1] * v.dims[1]);
  EXPECT_EQ(bytes_of_matrices(plan.shard_rule, *plan.layout), 4 * floats);
  EXPECT_EQ(bytes_of_matrices(parse_optimizer("muon"), *plan.layout), 0U);
  training_options kept = whole_options("shampoo"), plain = whole_options("adam");
  kept.checkpoints.folder = plain.checkpoints.folder = "checkpoints";
  kept.shards = plain.shards = 1;
  EXPECT_EQ(largest_body(whole_plan(kept), 1), largest_body(whole_plan(plain), 1) + 4 * floats);
}

TEST(WholeVariables, AreWhatACureThatSeesThemGets) {
  training_options o = whole_options("sgd");
  o.local_steps = 2;
  o.outer = parse_optimizer("nesterov");
  o.cure = "heloco";
  EXPECT_EQ(whole_plan(o).layout->cuts(), shard_cuts::between_variables);
  const parameter_layout whole = *whole_plan(o).layout;
  std::size_t found = 0;
  for (std::uint32_t s = 0; s < whole.shard_count(); ++s)
    for (const shard_variable& v : whole_variables_of(whole, s)) {
      EXPECT_LE(v.offset + v.dims.size(), whole.shard(s).size()) << v.name << " in its shard";
      ++found;
    }
  EXPECT_GT(whole.shard_count(), 1U);
  EXPECT_EQ(found, whole.variables().size());
  o.cure = "mla";
  o.shards = 5; // more than there are variables
  const parameter_layout cut = *whole_plan(o).layout;
  EXPECT_EQ(cut.cuts(), shard_cuts::within_variables);
  EXPECT_TRUE(whole_variables_of(cut, 0).empty()) << "whose last variable goes on in the next shard";
}

TEST(WholeVariables, AreRefusedOnAGpu) {
  training_options o = whole_options("muon");
  o.parameters = {{}, {device_kind::cuda, 0}};
  expect_refused({{"card", [&] { whole_plan(o); }, "optimizer 'muon' looks at whole variables on the host"}});
}

TEST(WholeVariables, AreRefusedForTablesUnlessTheRuleHasAFormForThem) {
  const auto data = std::make_shared<data_split>(
      data_split{testing::sparse_samples(32, 1), testing::sparse_samples(8, 2), "sparse", {}});
  const auto planning = [&](std::string_view rule) {
    return [=] { plan_run(small_model(), data, whole_options(rule)); };
  };
  expect_refused(
      {{"lars", planning("lars"), "optimizer 'lars' looks at whole variables, and the gradient of table"},
       {"lamb", planning("lamb"), "take muon, shampoo or a rule of single weights"}});
  EXPECT_NO_THROW(planning("muon")());
  EXPECT_NO_THROW(planning("shampoo")());
}

} // namespace
} // namespace mailgrad

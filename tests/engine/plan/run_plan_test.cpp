#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/plan/shard_terms.hpp>
#include <mailgrad/engine/plan/worker_terms.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/optim/plugins/custom_rules.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <set>
#include <stdexcept>
#include <variant>

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::own_momentum;
using testing::small_data;
using testing::small_model;
using namespace ::testing;

training_options on_cores(std::uint32_t cores, const std::string& policy = "async") {
  training_options o{.policy = policy, .batch = 8};
  o.devices.clear();
  for (std::uint32_t c = 0; c < cores; ++c) o.devices.push_back({device_kind::cpu, c});
  return o;
}

/// For two workers on one core, with batches of eight.
training_options for_two(training_options o) {
  o.devices.assign(2, {device_kind::cpu, 0});
  o.batch = 8;
  return o;
}

run_plan planned(const training_options& o) { return plan_run(small_model(), small_data(), o); }

TEST(RunPlan, CountsTheStepsOfAllWorkersTogether) {
  training_options o = on_cores(2);
  o.epochs = 3;
  EXPECT_EQ(planned(o).steps, 3 * small_data()->train.size() / 8);
  o.steps = 11;
  EXPECT_EQ(planned(o).steps, 11U) << "steps come before epochs";
}

TEST(RunPlan, HasShardsUnlessHogwildIsItsOnlyPolicy) {
  for (const bool alone : {true, false}) {
    training_options o = on_cores(2, alone ? "hogwild" : "hogwild, sync@3");
    o.shards = 3;
    const run_plan plan = planned(o);
    EXPECT_TRUE(plan.shares_block());
    EXPECT_EQ(plan.has_shards(), !alone);
    EXPECT_EQ(plan.layout->shard_count(), alone ? 1U : 3U) << "the block is whole";
  }
}

TEST(RunPlan, HoldsTheFeederAtEachSwitchAndDealsAsTheFirstPolicyDoes) {
  EXPECT_THAT(planned(on_cores(1, "async, sync@3, ssp:2@5")).holds, ElementsAre(3, 5));
  EXPECT_THAT(planned(on_cores(1)).holds, IsEmpty());
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
  const auto adds_up = [](training_options o) {
    o.devices = on_cores(2).devices;
    o.workers = 1;
    o.batch = 8;
    return plan_run(replicated(small_model()), small_data(), o).sums_apart;
  };
  EXPECT_TRUE(adds_up({}));
  EXPECT_FALSE(adds_up({.cure = "inverse"}));
  EXPECT_FALSE(adds_up({.optimizer = {.clip_norm = 1}}));
  EXPECT_FALSE(adds_up({.local_steps = 2}));
  EXPECT_FALSE(adds_up({.parameter_actor = std::make_shared<parameter_actor_kind>("mine", false)}));
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
  const auto layout = std::make_shared<parameter_layout>(testing::layout_of({{"w", {64}}}, 2)),
             table = std::make_shared<parameter_layout>(testing::layout_of({{"t", {8, 2}, true}}, 1));
  training_options o = on_cores(2, "ssp:3");
  o.optimizer.learning_rate = 0.5;
  const run_plan plan = plan_shards(layout, o);
  EXPECT_EQ(plan.layout, layout);
  EXPECT_EQ(plan.workers(), 2U);
  EXPECT_EQ(plan.first_policy().text(), "ssp:3");
  EXPECT_EQ(plan.shard_rule.learning_rate, 0.5);
  EXPECT_EQ(plan.data, nullptr);
  EXPECT_EQ(plan.steps, 0U);
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
  const checkpoint_options checkpoints{.folder = keeps ? "checkpoints" : ""};
  return plan_run(*built_in_model("mlp:hidden=1000x" + std::to_string(1000 * thousands)), small_data(),
                  for_two({.policy = policy, .shards = 2, .checkpoints = checkpoints}));
}

std::uint64_t bytes_of(const run_plan& plan) { return plan.layout->size() * sizeof(float); }

TEST(LargestBody, IsThatOfTheRunAndNotOfAnyRun) {
  constexpr std::uint64_t room = 16 << 20, mega = 1 << 20;
  EXPECT_GE(largest_exchange(*plan_of(1).layout, 1), 3 * (2 * mega) - mega / 2 + room);
  EXPECT_GE(largest_exchange(*plan_of(1).layout, 3), 5 * (2 * mega) - mega + room);
  EXPECT_LT(largest_body(plan_of(1), 0), 8 * mega + room);
  EXPECT_GT(largest_body(plan_of(8), 0), 40 * mega + room);
  EXPECT_GE(largest_body(plan_of(8), 1), bytes_of(plan_of(8))) << "for the shards of a host";
}

/// Each of two workers may have a gradient that waits, and the weights that it was computed from. Those of a
/// queue wait one by one, however few workers there are, and each device of a worker has a gradient of its
/// own.
TEST(LargestBody, HasRoomForPartsOfCheckpoints) {
  run_plan plan = plan_of(1, true);
  const std::uint64_t whole = bytes_of(plan), of_one = largest_body(plan, 1), of_two = largest_body(plan, 2);
  EXPECT_GE(largest_body(plan, 0), 6 * whole);
  EXPECT_GE(of_two, largest_body(plan_of(1), 2) + 4 * whole);
  EXPECT_GE(largest_body(plan_of(1, true, "async, queue:2,64@3"), 1), of_one + 63 * whole);
  plan.options.workers = plan.workers();
  plan.options.devices.resize(std::size_t{16} * plan.workers(), {device_kind::cpu, 0});
  ASSERT_EQ(plan.devices_per_worker(), 16U);
  EXPECT_GE(largest_body(plan, 2), of_two + 15 * whole);
}

training_options recorded_by_two() { return for_two({.shards = 3, .words = {"--batch", "8"}}); }

TEST(RecordingOfPlan, TellsWorkersShardsFactsAndWords) {
  const run_plan plan = planned(recorded_by_two());
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
  run_plan plan = planned(o);
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
  const run_plan without = planned(o);
  const std::uint64_t weights = bytes_of(without), reports = 1 << 18;
  EXPECT_EQ(room_beside_recording(without, {}), weights + reports);
  o.checkpoints = {.folder = "checkpoints", .keep = 3};
  const run_plan plan = planned(o);
  const auto checkpoints = [&](checkpoint_account so_far) {
    return room_beside_recording(plan, so_far) - weights - reports;
  };
  EXPECT_EQ(checkpoints({}), 4 * (4 * weights)) << "four, each of four arrays";
  EXPECT_EQ(checkpoints({.written = 2, .bytes = 2000}), 2 * 1000u)
      << "the third, and one that goes behind it";
  EXPECT_EQ(checkpoints({.written = 50, .bytes = 50'000}), 1000u);
}

std::vector<std::string> remarks_of(const std::string& policy, std::uint64_t local_steps = 0,
                                    std::uint64_t steps = 300) {
  return update_remarks(planned(for_two({.policy = policy, .local_steps = local_steps, .steps = steps})));
}

TEST(UpdateRemarks, NameAPolicyWhoseFirstUpdateIsNeverFull) {
  for (const std::string policy : {"malenia:", "rennala:", "k-batch-async:", "k-batch-sync:"}) {
    EXPECT_THAT(remarks_of(policy + "300"), IsEmpty());
    EXPECT_THAT(remarks_of(policy + "301"),
                ElementsAre("policy " + policy +
                            "301: an update is made of 301 gradients or more, and all under it, 300 at most, "
                            "are less, so they make one update, at its end"));
  }
  for (const char* policy :
       {"async", "sync", "backup:1", "k-async:2", "ringleader", "ringmaster:1000", "hogwild"})
    EXPECT_THAT(remarks_of(policy), IsEmpty()) << policy << " gathers workers";
}

/// The two workers push what is left over of local steps at the end, too.
TEST(UpdateRemarks, CountTheGradientsOfAPolicyAlone) {
  EXPECT_THAT(remarks_of("rennala:120, malenia:180@120"), IsEmpty());
  EXPECT_EQ(remarks_of("rennala:121, malenia:180@120").size(), 1U);
  EXPECT_EQ(remarks_of("async, malenia:181@120").size(), 1U);
  EXPECT_THAT(remarks_of("rennala:62", 5), IsEmpty());
  EXPECT_EQ(remarks_of("rennala:63", 5).size(), 1U);
  EXPECT_THAT(remarks_of("rennala:63", 5, 301), IsEmpty()) << "the last one is of one step";
  EXPECT_THAT(remarks_of("async", 100, 50), IsEmpty()) << "there is an update for each worker";
  EXPECT_THAT(remarks_of("async, sync@3", 5), IsEmpty());
}

/// Of two shards.
training_options whole_options(std::string_view rule, training_options o = {}) {
  o.optimizer = parse_optimizer(rule);
  if (o.shards == 1) o.shards = 2;
  return for_two(std::move(o));
}

shard_cuts cuts_of(const training_options& o) { return planned(o).layout->cuts(); }

/// Shards take the outer optimiser, workers the other, on weights of their own.
TEST(WholeVariables, AreCutApartOnlyIfNoShardLooksAtThem) {
  for (const std::string_view rule : testing::whole_variable_rules()) {
    const run_plan plan = planned(whole_options(rule));
    EXPECT_EQ(plan.layout->cuts(), shard_cuts::between_variables) << rule;
    for (std::size_t v = 0; v < plan.layout->variables().size(); ++v)
      EXPECT_EQ(plan.layout->pieces(v).size(), 1U) << rule;
    EXPECT_THAT(plan.layout->format_balance(), HasSubstr("; the largest has")) << rule;
  }
  EXPECT_EQ(cuts_of(whole_options("adam")), shard_cuts::within_variables);
  EXPECT_EQ(cuts_of(whole_options("muon", {.local_steps = 3})), shard_cuts::within_variables);
  EXPECT_EQ(cuts_of(whole_options("sgd", {.local_steps = 3, .outer = parse_optimizer("muon")})),
            shard_cuts::between_variables);
  struct kind final : parameter_actor_kind {
    using parameter_actor_kind::parameter_actor_kind;
  };
  EXPECT_EQ(cuts_of(whole_options("sgd", {.parameter_actor = std::make_shared<kind>("mine", false, true)})),
            shard_cuts::between_variables);
  EXPECT_EQ(cuts_of(whole_options("sgd", {.parameter_actor = std::make_shared<kind>("mine", false)})),
            shard_cuts::within_variables);
}

TEST(WholeVariables, TravelToHostsOfShards) {
  const run_plan plan = planned(whole_options("shampoo:every=3"));
  const auto read =
      read_shard_terms(write_terms({terms_of(plan, shard_index{0}, {}), terms_of(plan, shard_index{1}, {})}));
  for (std::uint32_t s = 0; s < 2; ++s) {
    EXPECT_EQ(*read[s].layout, *plan.layout);
    EXPECT_EQ(read[s].layout->cuts(), shard_cuts::between_variables);
    EXPECT_EQ(std::get<shampoo_options>(read[s].rule.rule).every, 3U);
  }
  shard_terms wrong = terms_of(plan, shard_index{0}, {});
  wrong.layout = planned(whole_options("adam")).layout;
  wrong.values.resize(wrong.layout->shard(0).size());
  expect_refused(
      {"cut", [&] { read_shard_terms(write_terms({wrong})); }, "expected shards of whole variables"});
}

TEST(WholeVariables, HaveRulesThatTravelWithEverySetting) {
  const auto written = [](optimizer_options told) {
    byte_archive_writer out;
    keep_optimizer(out, "rule", told);
    return std::string(out.bytes());
  };
  for (const std::string text :
       {"lars:momentum=0.5,trust=0.25", "lamb:beta1=0.5,beta2=0.75,epsilon=0.125",
        "muon:momentum=0.5,nesterov=no,adamw=weights,adamw_rate=0.25,beta1=0.125,beta2=0.75,"
        "epsilon=0.5",
        "shampoo:epsilon=0.5,every=3,largest=7"}) {
    const std::string told = written(parse_optimizer(text));
    byte_archive_reader in(told, "rule");
    optimizer_options read;
    keep_optimizer(in, "rule", read);
    EXPECT_EQ(written(read), told) << text;
    EXPECT_NE(written(parse_optimizer(text.substr(0, text.find(':')))), told) << text;
  }
}

TEST(WholeVariables, HaveRulesWhoseSettingsAreFactsOfTheRun) {
  std::set<std::string> facts;
  std::size_t told = 0;
  const std::pair<const char*, std::vector<const char*>> rules[] = {
      {"lars", {"", ":momentum=0.5", ":trust=0.25"}},
      {"lamb", {":beta1=0.5", ":beta2=0.5", ":epsilon=0.5"}},
      {"muon",
       {"", ":momentum=0.5", ":nesterov=no", ":adamw=", ":adamw_rate=1", ":beta1=0.5", ":beta2=0.5",
        ":epsilon=0.5"}},
      {"shampoo", {"", ":every=3", ":largest=7", ":epsilon=1"}}};
  for (const auto& [rule, settings] : rules)
    for (const char* setting : settings) {
      const training_options o = whole_options(rule + std::string(setting));
      facts.insert(reported_fact(facts_and_names(planned(o)), "optimizer"));
      ++told;
    }
  EXPECT_EQ(facts.size(), told);
}

TEST(WholeVariables, AreRefusedInOneLineWhereTheyCannotBe) {
  const auto planning = [](std::string_view rule, training_options o = {}) {
    return [o = whole_options(rule, std::move(o))] { planned(o); };
  };
  expect_refused({
      {"hogwild", planning("muon", {.policy = "hogwild"}),
       "optimizer 'muon' looks at whole variables, and under hogwild"},
      {"a switch to hogwild", planning("lamb", {.policy = "async, hogwild@3"}),
       "optimizer 'lamb' looks at whole variables, and under hogwild"},
      {"a GPU", planning("muon", {.parameters = {{}, {device_kind::cuda, 0}}}),
       "optimizer 'muon' looks at whole variables on the host"},
      {"more shards than variables", planning("lars", {.shards = 5}),
       "5 shards cannot be cut between the variables of a model of 4"},
      {"a word for nothing", planning("muon:adamw=head"),
       "optimizer 'muon' leaves 'head' to adamw: no variable of the model has this in its name"},
      {"momentum compensation", planning("muon", {.cure = "momentum-compensation"}),
       "there is no momentum to take from"},
      {"gap-aware", planning("shampoo", {.cure = "gap-aware"}), "gap-aware"},
      {"dana", planning("lars", {.cure = "dana-zero"}), "take --optimizer sgd"},
  });
  EXPECT_NO_THROW(planning("muon", {.cure = "dc-asgd:0.1"})());
  EXPECT_NO_THROW(planning("shampoo", {.cure = "dynsgd"})());
}

TEST(WholeVariables, AreRefusedForTablesUnlessTheRuleHasAFormForThem) {
  const auto planning = [](std::string_view rule) {
    return [o = whole_options(rule)] { plan_run(small_model(), testing::sparse_data(32), o); };
  };
  expect_refused(
      {{"lars", planning("lars"), "optimizer 'lars' looks at whole variables, and the gradient of table"},
       {"lamb", planning("lamb"), "take muon, shampoo or a rule of single weights"}});
  EXPECT_NO_THROW(planning("muon")());
  EXPECT_NO_THROW(planning("shampoo")());
}

/// A checkpoint of a shard elsewhere comes as one message.
TEST(WholeVariables, HaveMatricesForWhichAMessageHasRoom) {
  const run_plan plan = planned(whole_options("shampoo"));
  std::uint64_t floats = 0;
  for (const placed_variable& v : plan.layout->variables())
    if (v.dims.rank() == 2) floats += 2 * (v.dims[0] * v.dims[0] + v.dims[1] * v.dims[1]);
  EXPECT_EQ(bytes_of_matrices(plan.shard_rule, *plan.layout), 4 * floats);
  EXPECT_EQ(bytes_of_matrices(parse_optimizer("muon"), *plan.layout), 0U);
  const auto body_of_one_shard = [](std::string_view rule) {
    training_options o = whole_options(rule, {.checkpoints = {.folder = "checkpoints"}});
    o.shards = 1;
    return largest_body(planned(o), 1);
  };
  EXPECT_EQ(body_of_one_shard("shampoo"), body_of_one_shard("adam") + 4 * floats);
}

TEST(WholeVariables, AreWhatACureThatSeesThemGets) {
  training_options o =
      whole_options("sgd", {.cure = "heloco", .local_steps = 2, .outer = parse_optimizer("nesterov")});
  const parameter_layout whole = *planned(o).layout;
  EXPECT_EQ(whole.cuts(), shard_cuts::between_variables);
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
  const parameter_layout cut = *planned(o).layout;
  EXPECT_EQ(cut.cuts(), shard_cuts::within_variables);
  EXPECT_TRUE(whole_variables_of(cut, 0).empty()) << "whose last variable goes on in the next shard";
}

run_plan small_plan() {
  return plan_run(small_model(), small_data(),
                  {.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 0}},
                   .policy = "ssp:2",
                   .cure = "dc-asgd:0.1",
                   .optimizer = parse_optimizer("adam"),
                   .batch = 8,
                   .shards = 2});
}

void expect_not_read(const std::vector<shard_terms>& terms, const char* why) {
  const std::string bytes = write_terms(terms);
  EXPECT_THAT([&] { read_shard_terms(bytes); }, ThrowsMessage<archive_error>(HasSubstr(why)));
}

shard_terms terms_of_shard(std::uint32_t s) {
  return terms_of(small_plan(), shard_index{s}, {.records = true});
}

TEST(ShardTerms, AreReadAsTheyWereWritten) {
  const std::vector<shard_terms> read = read_shard_terms(write_terms({terms_of_shard(0), terms_of_shard(1)}));
  ASSERT_EQ(read.size(), 2U);
  const run_plan plan = small_plan();
  for (std::uint32_t s = 0; s < 2; ++s) {
    EXPECT_EQ(read[s].shard.value, s);
    EXPECT_EQ(read[s].values, plan.first_values(s));
    EXPECT_EQ(read[s].layout->shard(s).size(), plan.layout->shard(s).size());
    EXPECT_EQ(name(read[s].rule), "adam");
    EXPECT_EQ(read[s].policy, "ssp:2");
    EXPECT_EQ(read[s].cure, plan.cure.text());
    EXPECT_EQ(read[s].workers, 2U);
    EXPECT_TRUE(read[s].records);
  }
}

TEST(ShardTerms, AreRefusedInOneLineIfTheyAreWrong) {
  const std::pair<void (*)(shard_terms&), const char*> wrong[] = {
      {[](auto& x) { x.shard = {2}; }, "expected a shard from 0 to 1, found 2"},
      {[](auto& x) { x.values.pop_back(); }, "weights, found"},
      {[](auto& x) { x.values.push_back(0); }, "weights, found"},
      {[](auto& x) { x.workers = 0; }, "found 0 and 2"},
      {[](auto& x) { x.slots = 1; }, "found 2 and 1"},
      {[](auto& x) { x.slots = 0xffffffff; }, "found 2 and 4294967295"},
      {[](auto& x) { x.policy = "asink"; }, "asink"},
      {[](auto& x) { x.cure = "prayer"; }, "prayer"},
      {[](auto& x) { x.rule = parse_optimizer("muon"); },
       "expected shards of whole variables for optimizer 'muon', found cuts within them"},
      {[](auto& x) { x.cure = "heloco"; },
       "expected shards of whole variables for cure 'heloco', found cuts within them"},
      {[](auto& x) { x.policy = "./library.so:1"; }, "plug-in is loaded by"},
      {[](auto& x) { x.cure = "./library.so:1"; }, "plug-in is loaded by"}};
  for (const auto& [change, why] : wrong) {
    shard_terms t = terms_of_shard(1);
    change(t);
    expect_not_read({t}, why);
  }
}

TEST(ShardTerms, AreOfOneRun) {
  shard_terms other = terms_of_shard(1), wired = terms_of_shard(1);
  other.run = {7};
  wired.wire = "int8";
  expect_not_read({terms_of_shard(0), other}, "of one run");
  expect_not_read({terms_of_shard(0), wired}, "of one run");
  expect_not_read({terms_of_shard(1), terms_of_shard(1)}, "shard 1 twice");
  expect_not_read({}, "expected a shard, found none");
}

TEST(ShardTerms, AreRefusedWhereverTheyAreCut) {
  const std::string whole = write_terms({terms_of_shard(0)});
  for (std::size_t n = 0; n < whole.size(); n += 7)
    EXPECT_THROW(read_shard_terms(std::string_view(whole).substr(0, n)), archive_error) << n;
}

TEST(ShardTerms, TellNoRuleOfTheUsersOwnThatHasNoTable) {
  shard_terms t = terms_of_shard(0);
  custom_rule mine;
  mine.label = "mine";
  t.rule.rule = mine;
  EXPECT_THAT([&] { write_terms({t}); }, ThrowsMessage<std::invalid_argument>(HasSubstr("'mine'")));
}

std::string plugin(const std::string& name) { return MAILGRAD_TEST_PLUGINS "/" + name + ".so"; }

training_options options_with(optimizer_options rule) {
  return {
      .devices = {{device_kind::cpu, 0}, {device_kind::cpu, 0}}, .optimizer = std::move(rule), .batch = 8};
}

std::string terms_of_shard(const training_options& o) {
  return write_terms({terms_of(plan_run(small_model(), small_data(), o), shard_index{0}, {})});
}

const custom_rule& custom_rule_in(const std::vector<shard_terms>& terms) {
  return std::get<custom_rule>(terms.front().rule.rule);
}

TEST(KnownPlugins, GiveARuleOfTheProgramItsTable) {
  optimizer_options momentum{.rule = make_custom_rule(rule_table<own_momentum>)};
  std::get<custom_rule>(momentum.rule).settings[0] = 0.25;
  const std::string told = terms_of_shard(options_with(momentum));
  known_plugins here;
  here.add(make_custom_rule(rule_table<own_momentum>));
  const std::vector<shard_terms> read = read_shard_terms(told, here);
  EXPECT_EQ(custom_rule_in(read).table, &rule_table<own_momentum>);
  EXPECT_EQ(custom_rule_in(read).settings, std::vector{0.25}) << "of the run, and not the defaults";
  EXPECT_THAT([&] { read_shard_terms(told); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("'own-momentum'"), HasSubstr("expected a program with this update rule"))));
}

TEST(KnownPlugins, GiveTheRuleOfTheSameFileWhereverItLies) {
  known_plugins others;
  others.load(plugin("factor_3"));
  EXPECT_THAT(
      [&] { read_shard_terms(terms_of_shard(options_with(parse_optimizer(plugin("factor_2")))), others); },
      ThrowsMessage<std::invalid_argument>(HasSubstr(plugin_digest(plugin("factor_2")))))
      << "a rule of this name is of another file";
  const scratch_folder folder;
  const std::string copy = (folder.path() / "elsewhere.so").string();
  std::filesystem::copy_file(plugin("own_momentum"), copy);
  const std::string told =
      terms_of_shard(options_with(parse_optimizer(plugin("own_momentum") + ":momentum=0.5")));
  known_plugins here;
  here.load(plugin("own_sgd"));
  EXPECT_THAT(
      [&] { read_shard_terms(told, here); },
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("'own-momentum'"), HasSubstr(plugin_digest(copy)),
                                                 HasSubstr("name it by --plugin"))));
  here.load(copy);
  const std::vector<shard_terms> read = read_shard_terms(told, here);
  EXPECT_NE(custom_rule_in(read).table, nullptr);
  EXPECT_EQ(custom_rule_in(read).settings, std::vector{0.5});
}

/// The file may be built anew, or go, while a run uses what was loaded from it.
TEST(KnownPlugins, AreKnownByTheFileThatWasLoaded) {
  const scratch_folder folder;
  const std::string file = (folder.path() / "mine.so").string();
  std::filesystem::copy_file(plugin("own_sgd"), file);
  const optimizer_options mine = parse_optimizer(file);
  const std::string told = terms_of_shard(options_with(mine));
  std::filesystem::remove(file);
  EXPECT_EQ(terms_of_shard(options_with(mine)), told);
  std::filesystem::copy_file(plugin("factor_2"), file);
  EXPECT_EQ(terms_of_shard(options_with(mine)), told);
  EXPECT_EQ(plugin_digest(file), plugin_digest(plugin("own_sgd")));
}

TEST(KnownPlugins, GiveTheRuleOfLocalSteps) {
  training_options o = options_with({.rule = make_custom_rule(rule_table<own_momentum>)});
  o.local_steps = 2;
  const run_plan plan = plan_run(small_model(), small_data(), o);
  const std::string told = write_terms(plan, terms_of(plan, rank{0}));
  known_plugins here;
  here.add(make_custom_rule(rule_table<own_momentum>));
  const given_terms read = read_terms(told, {}, here);
  EXPECT_EQ(std::get<custom_rule>(read.terms.local->optimizer.rule).table, &rule_table<own_momentum>);
  EXPECT_THAT([&] { read_terms(told); }, ThrowsMessage<std::invalid_argument>(HasSubstr("'own-momentum'")));
}

/// Another process names the policy by a file that is not here.
TEST(KnownPlugins, AreCalledAsTheServerCallsThem) {
  const std::string file = plugin("fair_turns");
  const named_plugin wanted{"/at/the/server/fair.so", plugin_digest(file)};
  EXPECT_THAT(
      [&] { known_plugins().take(wanted); },
      ThrowsMessage<std::invalid_argument>(AllOf(
          HasSubstr("plug-in '/at/the/server/fair.so' of the run: expected"), HasSubstr(wanted.sha256))));
  EXPECT_THROW(require_loaded("/at/the/server/fair.so:1"), std::invalid_argument);
  known_plugins here;
  here.load(file);
  here.take(wanted);
  EXPECT_EQ(policy_spec("/at/the/server/fair.so:1", 2).make()->name(), "fair-turns");
  EXPECT_NO_THROW(require_loaded("/at/the/server/fair.so:1"));
  const named_plugin no_file{"sync", plugin_digest(file)};
  EXPECT_THAT([&] { here.take(no_file); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("this is no file of a plug-in")));
  here.load(plugin("fading"));
  here.take({"./another/fading.so", plugin_digest(plugin("fading"))});
  EXPECT_NO_THROW(cure_spec("./another/fading.so:2", 2));
}

/// However it is written: a text passes only if its policy is made without a look at any file.
TEST(KnownPlugins, AreNotLoadedForWhoeverElseNamesThem) {
  for (const std::string file : {"x@y.so", " x.so", "@scope/x.so", "./known.so, y", "async, x.so",
                                 "async@5, ./x.so@6", "./x.so:1,2", ".so"}) {
    EXPECT_THROW(require_loaded(file), std::invalid_argument) << file;
    EXPECT_THROW(policy_spec(file, 2), std::invalid_argument) << file;
  }
  for (const char* harmless : {"ssp:3", "async:x.so", "async"}) EXPECT_NO_THROW(require_loaded(harmless));
}

TEST(KnownPlugins, AreRefusedIfTheyAreNone) {
  known_plugins here;
  EXPECT_THAT([&] { here.load(plugin("no_entry")); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("it has no function mailgrad_plugin_rule, ")));
  EXPECT_THAT([&] { here.load("./not-there.so"); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("plug-in './not-there.so': cannot be read: No such file")));
}

} // namespace
} // namespace mailgrad

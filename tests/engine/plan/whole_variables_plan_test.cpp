#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/plan/terms.hpp>
#include <mailgrad/files/byte_archive.hpp>

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <set>

// Plans of runs whose rule, or parameter actor, looks at whole variables.

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::small_data;
using testing::small_model;
using testing::whole_variable_rules;

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
    EXPECT_THAT(plan.layout->format_balance(), ::testing::HasSubstr("; the largest has")) << rule;
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

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <gmock/gmock.h>

// Shards whose rule looks at whole variables.

namespace mailgrad {
namespace {

using testing::dense_gradient;
using testing::first_values;
using testing::random_values;
using testing::whole_variable_rules;
using namespace ::testing;

const std::vector<placed_variable> four{
    {"a", {6, 20}, {}, 0}, {"b", {20}, {}, 0}, {"c", {20, 5}, {}, 0}, {"d", {}, {}, 0}};

parameter_layout whole_layout(std::size_t shards) { return {four, shards, shard_cuts::between_variables}; }

std::vector<shard> shards_of(const parameter_layout& layout, std::string_view rule) {
  const std::vector<float> first = random_values(layout.size(), 9);
  std::vector<shard> all;
  for (std::uint32_t s = 0; s < layout.shard_count(); ++s)
    all.emplace_back(layout, s, std::span(first).subspan(layout.shard(s).begin, layout.shard(s).size()),
                     parse_optimizer(rule));
  return all;
}

void train(std::vector<shard>& all, std::size_t floats, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t step = from; step < to; ++step) {
    const contribution two[] = {{dense_gradient(random_values(floats, step)), 0.5F},
                                {dense_gradient(random_values(floats, 100 + step)), 0.25F}};
    for (shard& s : all) s.update(two);
  }
}

/// The weights of all variables, without the gaps between them.
std::vector<float> weights_in(const std::vector<shard>& all, const parameter_layout& layout) {
  std::vector<float> found;
  for (std::size_t v = 0; v < layout.variables().size(); ++v)
    for (const variable_piece& p : layout.pieces(v)) {
      const snapshot s = all[p.shard].snapshot();
      const auto part = s.on_host().subspan(p.offset_in_shard, p.length);
      found.insert(found.end(), part.begin(), part.end());
    }
  return found;
}

TEST(ShardOfWholeVariables, MakesTheSameBitsForAnyNumberOfShards) {
  for (const std::string_view rule : whole_variable_rules()) {
    std::vector<float> expected;
    for (const std::size_t shards : {1U, 2U, 4U}) {
      const parameter_layout layout = whole_layout(shards);
      std::vector<shard> all = shards_of(layout, rule);
      EXPECT_FALSE(all[0].divides());
      const std::vector<float> before = weights_in(all, layout);
      train(all, layout.size(), 1, 5);
      const std::vector<float> after = weights_in(all, layout);
      EXPECT_NE(after, before) << rule;
      if (shards == 1) expected = after;
      EXPECT_EQ(after, expected) << rule << " in " << shards;
    }
  }
}

TEST(ShardOfWholeVariables, MakesTheSameBitsFromWhatItKeptAndWhileSomebodyHoldsItsWeights) {
  for (const std::string_view rule : whole_variable_rules()) {
    const parameter_layout layout = whole_layout(1);
    std::vector<shard> going_on = shards_of(layout, rule), held = shards_of(layout, rule),
                       again = shards_of(layout, rule);
    std::vector<snapshot> holders;
    for (std::uint64_t step = 1; step < 6; ++step) {
      holders.push_back(held[0].snapshot());
      train(going_on, layout.size(), step, step + 1);
      train(held, layout.size(), step, step + 1);
    }
    EXPECT_EQ(weights_in(held, layout), weights_in(going_on, layout)) << rule;
    saved_fields kept;
    going_on[0].keep(kept);
    saved_fields read(kept.text(), kept.arrays());
    again[0].keep(read);
    train(going_on, layout.size(), 6, 12);
    train(again, layout.size(), 6, 12);
    EXPECT_EQ(weights_in(again, layout), weights_in(going_on, layout)) << rule;
  }
}

TEST(ShardOfWholeVariables, LeavesVariablesAloneThatNoGradientCovers) {
  for (const std::string_view rule : whole_variable_rules()) {
    const parameter_layout layout = whole_layout(1);
    std::vector<shard> all = shards_of(layout, rule);
    const std::vector<float> before = weights_in(all, layout);
    const auto g = dense_gradient(random_values(layout.size(), 1));
    const std::size_t covered[] = {0, 3};
    g->covered = coverage_of(layout, covered);
    testing::update_once(all[0], g);
    const std::vector<float> after = weights_in(all, layout);
    EXPECT_NE(after[0], before[0]) << rule;
    for (std::size_t i = 120; i < 240; ++i) EXPECT_EQ(after[i], before[i]) << rule << ", " << i; // b and c
  }
}

TEST(ShardOfWholeVariables, TellsNamesShapesAndPlacesAndRefusesCuts) {
  const parameter_layout layout = whole_layout(4);
  const auto told = variables_for(parse_optimizer("muon"), layout, 2);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].name, "c");
  EXPECT_EQ(told[0].dims, (shape{20, 5}));
  EXPECT_EQ(told[0].offset, 0U);
  const auto all = all_variables_for(parse_optimizer("muon"), layout);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[2].offset, layout.variables()[2].offset);
  const parameter_layout cut(four, 3);
  EXPECT_THAT([&] { shards_of(cut, "muon"); }, ThrowsMessage<std::invalid_argument>(HasSubstr(
                                                   "is cut, and the optimizer looks at whole ones")));
  EXPECT_TRUE(variables_for(parse_optimizer("adam"), cut, 0).empty());
}

/// A worker's own weights are one block, so its local steps make those of a shard.
TEST(ShardOfWholeVariables, MakesTheStepsOfALocalWorker) {
  for (const std::string_view rule : whole_variable_rules()) {
    const auto layout = std::make_shared<const parameter_layout>(whole_layout(1));
    std::vector<shard> all = shards_of(*layout, rule);
    local_steps local(layout, {.steps = 9, .optimizer = parse_optimizer(rule)});
    local.receive(0, all[0].snapshot());
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const auto g = dense_gradient(random_values(layout->size(), step));
      local.step(g, 0.5F);
      testing::update_once(all[0], g, 0.5F);
    }
    const std::vector<float> expected = weights_in(all, *layout);
    std::size_t next = 0;
    for (const placed_variable& v : layout->variables())
      for (std::size_t i = 0; i < v.dims.size(); ++i)
        EXPECT_EQ(local.weights().on_host()[v.offset + i], expected[next++]) << rule << ", " << v.name;
  }
}

} // namespace
} // namespace mailgrad

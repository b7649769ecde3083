#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/shard/row_log.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>
#include <mailgrad/tests/tensor/late_queue.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

namespace mailgrad {
namespace {

using testing::add_rows;
using testing::constant_gradient;
using testing::dense_gradient;
using ::testing::ElementsAre;
using testing::first_values;
using testing::layout_of;
using testing::random_values;
using testing::sgd;
using testing::update_once;
using testing::whole_variable_rules;
using namespace ::testing;

/// What becomes of zeros that catch up from `version` with 1, 2, 3, ...
std::vector<float> caught_up(const row_log& log, std::uint64_t version, bool known = true) {
  const std::vector<float> from{1, 2, 3, 4, 5, 6};
  std::vector<float> to(6);
  EXPECT_EQ(log.catch_up(version, from, to), known);
  return to;
}

TEST(RowLog, CopiesWhatWasWrittenSinceAVersion) {
  row_log log;
  log.begin(1);
  log.note(0, 2);
  log.begin(2);
  log.note(4, 1);
  EXPECT_THAT(caught_up(log, 0), ElementsAre(1, 2, 0, 0, 5, 0));
  EXPECT_THAT(caught_up(log, 1), ElementsAre(0, 0, 0, 0, 5, 0));
  EXPECT_THAT(caught_up(log, 2), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(RowLog, CopiesNothingForAVersionBeforeAGapOrToCome) {
  row_log log;
  log.begin(1);
  log.begin(2);
  log.begin(5);
  caught_up(log, 1, false);
  log.note(0, 6);
  EXPECT_THAT(caught_up(log, 3, false), ElementsAre(0, 0, 0, 0, 0, 0));
  caught_up(log, 6, false);
  EXPECT_THAT(caught_up(log, 4), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(RowLog, RemembersAsManyUpdatesAsItsDepth) {
  row_log log;
  for (std::uint64_t version = 1; version <= 3 * row_log::depth; ++version) {
    log.begin(version);
    log.note(version % 6, 1);
  }
  const std::uint64_t last = 3 * row_log::depth;
  caught_up(log, last - row_log::depth - 1, false);
  caught_up(log, last - row_log::depth);
  std::vector<float> expected(6);
  expected[last % 6] = static_cast<float>(last % 6 + 1);
  EXPECT_EQ(caught_up(log, last - 1), expected);
}

std::vector<float> values_of(const snapshot& taken) {
  const std::span<const float> values = taken.on_host();
  return {values.begin(), values.end()};
}

/// A gradient of rows of variable 0 alone.
std::shared_ptr<gradient> rows_alone(std::size_t width, const std::vector<std::int32_t>& rows,
                                     const std::vector<float>& values) {
  const auto g = std::make_shared<gradient>();
  add_rows(*g, 0, width, rows, values);
  return g;
}

TEST(Shard, BeginsWithTheFirstValuesOfItsVariables) {
  const parameter_layout layout = layout_of({{"w", {5, 20}}, {"table", {9, 4}, true}}, 3);
  const std::vector<float> all = first_values(layout, 4);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const shard s(layout, i, 4, sgd(1));
    const shard_range r = layout.shard(i);
    EXPECT_EQ(values_of(s.snapshot()), std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(r.begin),
                                                          all.begin() + static_cast<std::ptrdiff_t>(r.end)));
    EXPECT_EQ(s.version().value, 0U);
    EXPECT_EQ(s.index(), shard_index{i});
  }
}

TEST(Shard, TakesOneStepOfTheOptimiserOnTheScaledSum) {
  const parameter_layout layout = layout_of({{"w", {16}}}, 1);
  shard s(layout, 0, 1, sgd(0.5));
  const std::vector<float> before = values_of(s.snapshot());
  const contribution two[] = {{constant_gradient(layout, 1), 0.25F}, {constant_gradient(layout, 4), 0.5F}};
  s.update(two);
  EXPECT_EQ(s.version().value, 1U);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_FLOAT_EQ(s.snapshot().on_host()[i], before[i] - 0.5F * 2.25F);
}

/// After a resume there is an answer for each worker, which a run with a barrier never needs again.
TEST(Shard, WritesInPlaceWhenNobodyHoldsItsWeights) {
  const parameter_layout layout = layout_of({{"w", {64}}}, 1);
  shard s(layout, 0, 1, sgd(1));
  const std::vector<float> answered(64, 2);
  snapshot answer = s.restored({"answer", nullptr, answered});
  EXPECT_EQ(values_of(answer), answered);
  const std::weak_ptr<const memory> block = answer.owner();
  answer = snapshot();
  EXPECT_TRUE(block.expired()) << "nobody holds it";
  const memory* const values = s.snapshot().owner().get();
  for (int i = 0; i < 5; ++i) {
    update_once(s, constant_gradient(layout, 1));
    EXPECT_EQ(s.snapshot().owner().get(), values);
  }
}

TEST(Shard, NeverChangesASnapshotThatSomebodyHolds) {
  const parameter_layout layout = layout_of({{"w", {64}}, {"table", {8, 2}, true}}, 1);
  shard s(layout, 0, 1, sgd(1));
  std::vector<snapshot> held;
  std::vector<std::vector<float>> values;
  for (int i = 0; i < 6; ++i) {
    held.push_back(s.snapshot());
    values.push_back(values_of(held.back()));
    const auto g = constant_gradient(layout, 1);
    add_rows(*g, 1, 2, {i, 7}, {1, 1, 1, 1});
    update_once(s, g);
  }
  for (std::size_t i = 0; i < held.size(); ++i) EXPECT_EQ(values_of(held[i]), values[i]) << "version " << i;
  std::set<const void*> apart;
  for (const snapshot& h : held) apart.insert(h.owner().get());
  EXPECT_EQ(apart.size(), held.size());
}

TEST(Shard, NeedsNoMoreThanOneSpareForOneHolderOfTheLatestWeights) {
  const parameter_layout layout = layout_of({{"w", {64}}}, 1);
  shard s(layout, 0, 1, sgd(1));
  snapshot latest;
  std::set<const void*> seen;
  for (int i = 0; i < 20; ++i) {
    latest = s.snapshot();
    seen.insert(latest.owner().get());
    update_once(s, constant_gradient(layout, 1));
  }
  EXPECT_EQ(seen.size(), 2U);
}

/// The weights of all shards after some steps with random gradients, tables with repeated rows among them.
std::vector<float> trained_in_shards(const optimizer_options& o, std::size_t shards) {
  const parameter_layout layout =
      layout_of({{"w1", {9, 17}}, {"b1", {17}}, {"t1", {21, 3}, true}, {"t2", {5, 8}, true}}, shards);
  std::vector<shard> all;
  for (std::uint32_t i = 0; i < shards; ++i) all.emplace_back(layout, i, 11, o);
  for (std::uint64_t step = 0; step < 15; ++step) {
    std::vector<contribution> work;
    for (std::uint64_t worker = 0; worker < 2; ++worker) {
      const std::uint64_t seed = 2 * step + worker;
      const auto g = dense_gradient(random_values(layout.dense_size(), seed));
      const auto row = static_cast<std::int32_t>(seed);
      add_rows(*g, 2, 3, {row % 21, 20, row % 21, -1, 4}, random_values(15, 50 + seed));
      add_rows(*g, 3, 8, {row % 5, 4}, random_values(16, 90 + seed));
      work.push_back({g, 0.5F});
    }
    for (shard& s : all) s.update(work);
  }
  std::vector<float> flat;
  for (const shard& s : all) std::ranges::copy(s.snapshot().on_host(), std::back_inserter(flat));
  return flat;
}

TEST(Shard, MakesTheSameWeightsHoweverTheyAreCutByEveryRule) {
  for (const char* rule : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw"}) {
    const optimizer_options o = parse_optimizer(rule);
    const std::vector<float> whole = trained_in_shards(o, 1);
    for (const std::size_t shards : {2U, 3U, 5U})
      EXPECT_EQ(trained_in_shards(o, shards), whole) << rule << ' ' << shards;
  }
}

TEST(Shard, UpdatesOnlyTheRowsOfATableThatAGradientLists) {
  const parameter_layout layout = layout_of({{"table", {6, 2}, true}}, 1);
  shard s(layout, 0, 1, sgd(1));
  const std::vector<float> before = values_of(s.snapshot());
  update_once(s, rows_alone(2, {-1}, {1, 1}));
  EXPECT_EQ(s.version().value, 1U) << "an empty list counts";
  EXPECT_EQ(values_of(s.snapshot()), before);
  update_once(s, rows_alone(2, {4, 1, 4, -1, 0}, {1, 2, 10, 20, 100, 200, 9, 9, 9, 9}), 0.5F);
  const std::vector<float> after = values_of(s.snapshot());
  const std::vector<float> change{0, 0, 5, 10, 0, 0, 0, 0, 50.5, 101, 0, 0};
  for (std::size_t i = 0; i < change.size(); ++i)
    EXPECT_NEAR(before[i] - after[i], change[i], 1e-4) << "float " << i;
}

TEST(Shard, KeepsTheRowsThatItLoadedThoughASpareIsOlder) {
  const parameter_layout layout = layout_of({{"table", {4, 16}, true}}, 1);
  shard s(layout, 0, 1, sgd(1));
  const auto update_row = [&](std::int32_t row) {
    const snapshot held = s.snapshot(); // so that the spare takes the next version
    update_once(s, rows_alone(16, {row}, std::vector<float>(16, 1)));
  };
  for (std::int32_t row = 0; row < 3; ++row) update_row(row);
  const std::vector<float> loaded(64, 7);
  s.load(hogwild_store(loaded), 1);
  for (std::int32_t row = 0; row < 2; ++row) update_row(row);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(s.snapshot().on_host()[i], i < 32 ? 6 : 7) << i;
}

TEST(Shard, MakesTheSameWeightsAndTablesHoweverOldItsSparesAre) {
  const parameter_layout layout = layout_of({{"w", {48}}, {"t1", {50, 4}, true}, {"t2", {20, 4}, true}}, 1);
  for (const char* rule : {"adam", "adagrad"}) {
    shard alone(layout, 0, 1, parse_optimizer(rule)), watched(layout, 0, 1, parse_optimizer(rule));
    std::mt19937_64 random(5);
    std::vector<snapshot> held(4);
    for (std::uint64_t step = 0; step < 400; ++step) {
      const auto g = dense_gradient(random_values(layout.dense_size(), step));
      add_rows(*g, 1, 4, {static_cast<std::int32_t>(random() % 50), 3}, random_values(8, 500 + step));
      add_rows(*g, 2, 4, {static_cast<std::int32_t>(random() % 20)}, random_values(4, 1000 + step));
      update_once(alone, g);
      update_once(watched, g);
      ASSERT_EQ(values_of(alone.snapshot()), values_of(watched.snapshot())) << rule << ", step " << step;
      auto& one = held[random() % held.size()]; // some hold one for longer than the log remembers
      if (step < 100 || step > 300 || &one != held.data())
        one = random() % 3 == 0 ? snapshot() : watched.snapshot();
    }
  }
}

TEST(Shard, HoldsWhatAnUpdateReadsUntilItsQueueHasRunIt) {
  const parameter_layout layout = layout_of({{"w", {64}}}, 1);
  const auto queue = std::make_shared<testing::late_queue>();
  shard s(layout, 0, 1, sgd(1), queue);
  auto read = constant_gradient(layout, 1);
  const std::weak_ptr<const gradient> gradient_read = read;
  const std::weak_ptr<const memory> weights_read = s.snapshot().owner();
  queue->run();
  snapshot held = s.snapshot(); // so that the update goes elsewhere
  update_once(s, std::move(read));
  held.reset();
  EXPECT_FALSE(s.snapshot().ready().passed());
  EXPECT_FALSE(gradient_read.expired());
  update_once(s, constant_gradient(layout, 1));
  EXPECT_NE(s.snapshot().owner(), weights_read.lock()) << "the first update may still read them";
  EXPECT_FALSE(gradient_read.expired());
  queue->run();
  EXPECT_TRUE(s.snapshot().ready().passed());
  update_once(s, constant_gradient(layout, 1));
  EXPECT_TRUE(gradient_read.expired());
}

TEST(Shard, HoldsAnAddendOrASnapshotUntilItsQueueHasReadIt) {
  const parameter_layout layout = layout_of({{"w", {64}}}, 1);
  const auto queue = std::make_shared<testing::late_queue>();
  shard s(layout, 0, 1, sgd(1), queue);
  gradient_sum sum(queue, s.dense_size());
  auto added = constant_gradient(layout, 1);
  auto read = std::make_shared<const memory>(block(8));
  const std::weak_ptr<const gradient> addend = added;
  const std::weak_ptr<const memory> values = read;
  s.add_to(sum, {std::move(added)});
  s.hold(std::move(read));
  EXPECT_FALSE(addend.expired());
  EXPECT_FALSE(values.expired());
  EXPECT_FALSE(sum.result().dense.ready().passed()) << "an update must wait for the sum";
  queue->run();
  update_once(s, constant_gradient(layout, 1));
  EXPECT_TRUE(addend.expired());
  EXPECT_TRUE(values.expired());
}

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

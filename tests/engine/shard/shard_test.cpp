#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
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
using testing::first_values;
using testing::layout_of;
using testing::random_values;
using testing::sgd;
using testing::update_once;

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

class ShardOptimiser : public ::testing::TestWithParam<std::string_view> {};

TEST_P(ShardOptimiser, MakesTheSameWeightsHoweverTheyAreCut) {
  const optimizer_options o = parse_optimizer(GetParam());
  const std::vector<float> whole = trained_in_shards(o, 1);
  for (const std::size_t shards : {2U, 3U, 5U}) EXPECT_EQ(trained_in_shards(o, shards), whole) << shards;
}

INSTANTIATE_TEST_SUITE_P(EveryRule, ShardOptimiser,
                         ::testing::Values("sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam",
                                           "adamw"));

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

TEST(Shard, KeepsTheRowsOfATableThatASpareBlockMissed) {
  const parameter_layout layout = layout_of({{"table", {4, 1}, true}}, 1);
  shard s(layout, 0, 1, sgd(1));
  const std::vector<float> before = values_of(s.snapshot());
  snapshot held;
  for (std::int32_t row = 0; row < 4; ++row) { // the two blocks take turns
    held = s.snapshot();
    update_once(s, rows_alone(1, {row}, {1}));
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(s.snapshot().on_host()[i], before[i] - 1);
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

} // namespace
} // namespace mailgrad

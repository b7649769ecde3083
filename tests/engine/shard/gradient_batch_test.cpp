#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>

#include <mailgrad/engine/shard/waiting_gradients.hpp>
#include <mailgrad/files/archive.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using testing::dense_gradient;
using ::testing::ElementsAre;
using testing::layout_of;
using ::testing::Pair;
using testing::random_values;

constexpr std::uint32_t workers = 3;

waiting_gradient sent(std::uint32_t worker, std::uint64_t step, std::shared_ptr<const gradient> values,
                      float scale = 1) {
  return {testing::push_of(worker, step, 0, std::move(values), scale), {}};
}

/// As a parameter actor without a cure does.
contribution counted(const waiting_gradient& g) {
  return {g.what.payload.values, std::bit_cast<float>(g.what.header.scale_bits)};
}

struct handed_over {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> gradients; ///< worker, step
  std::vector<contribution> contributions;
};

handed_over hand_over(gradient_batch& batch) {
  handed_over all;
  batch.hand_over([](rank) { return 1.0F; }, counted,
                  [&](const gradient_header& x, const contribution* what) {
                    all.gradients.emplace_back(x.id.worker.value, x.id.step.value);
                    if (what) all.contributions.push_back(*what);
                  });
  return all;
}

TEST(GradientBatch, HandsOverWhatCameByRankWhateverTheOrderOfArrival) {
  const parameter_layout layout = layout_of({{"w", {8}}}, 1);
  gradient_batch batch(std::make_shared<shard>(layout, 0, 1, testing::sgd(1)), workers);
  EXPECT_TRUE(batch.empty());
  std::vector<std::shared_ptr<const gradient>> values;
  for (std::uint32_t r = 0; r < workers; ++r) values.push_back(dense_gradient(random_values(16, r)));
  for (const std::uint32_t r : {2U, 0U, 1U}) batch.add(sent(r, 5, values[r], 0.5F), counted);
  EXPECT_EQ(batch.size(), 3U);
  const handed_over all = hand_over(batch);
  EXPECT_THAT(all.gradients, ElementsAre(Pair(0, 5), Pair(1, 5), Pair(2, 5)));
  ASSERT_EQ(all.contributions.size(), 3U);
  for (std::uint32_t r = 0; r < workers; ++r) {
    EXPECT_EQ(all.contributions[r].values, values[r]) << "one gradient of a worker is used where it lies";
    EXPECT_EQ(all.contributions[r].scale, 0.5F);
  }
  EXPECT_TRUE(batch.empty());
}

TEST(GradientBatch, LetsGradientsGoOnceTheirWorkerHasSentAnother) {
  const parameter_layout layout = layout_of({{"w", {8}}}, 1);
  gradient_batch batch(std::make_shared<shard>(layout, 0, 1, testing::sgd(1)), workers);
  std::vector<std::weak_ptr<const gradient>> held;
  for (std::uint64_t step = 1; step <= 100; ++step)
    for (std::uint32_t r = 0; r < 2; ++r) {
      auto values = dense_gradient(random_values(16, step));
      held.emplace_back(values);
      batch.add(sent(r, step, std::move(values)), counted);
      const auto alive = std::ranges::count_if(held, [](const auto& g) { return !g.expired(); });
      ASSERT_LE(alive, 2) << "step " << step;
    }
  EXPECT_EQ(batch.size(), 200U);
  EXPECT_EQ(batch.of({0}), 100U);
  EXPECT_EQ(batch.of({2}), 0U);
  EXPECT_EQ(hand_over(batch).contributions.size(), 2U);
  EXPECT_EQ(batch.of({0}), 0U);
}

/// A shard that moves by what a batch hands over, against one that moves by all gradients themselves.
struct two_shards {
  explicit two_shards(const parameter_layout& layout, std::uint32_t index)
      : batched(std::make_shared<shard>(layout, index, 1, testing::sgd(1))),
        plain(layout, index, 1, testing::sgd(1)), batch(batched, workers) {}

  void add(std::uint32_t worker, const std::shared_ptr<const gradient>& g, float scale) {
    batch.add(sent(worker, ++steps, g, scale), counted);
    all.push_back({g, scale * share});
  }

  void expect_same_update() {
    batched->update(hand_over(batch).contributions, 1, share);
    plain.update(std::exchange(all, {}));
    const auto got = batched->snapshot().on_host();
    const auto want = plain.snapshot().on_host();
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << "float " << i;
  }

  static constexpr float share = 0.2F;
  std::shared_ptr<shard> batched;
  shard plain;
  gradient_batch batch;
  std::vector<contribution> all;
  std::uint64_t steps = 0;
};

TEST(GradientBatch, AddsUpDenseAndSparsePartsOfEveryShard) {
  const parameter_layout layout = layout_of({{"w", {40}}, {"table", {20, 4}, true}}, 3);
  for (std::uint32_t s = 0; s < layout.shard_count(); ++s) {
    two_shards both(layout, s);
    for (std::uint64_t round = 0; round < 3; ++round) { // sums begin anew in each
      for (std::uint64_t i = 0; i < 7; ++i) {
        const auto g = dense_gradient(random_values(layout.dense_size(), 10 * round + i));
        const auto row = static_cast<std::int32_t>((3 * i + round) % 20);
        testing::add_rows(*g, 1, 4, {row, 19, -1}, random_values(12, 100 + i));
        testing::add_rows(*g, 1, 4, {19}, random_values(4, 200 + i)); // gathered twice in one step
        both.add(static_cast<std::uint32_t>(i % workers), g, 0.5F + static_cast<float>(i));
      }
      both.expect_same_update();
    }
  }
}

TEST(GradientBatch, LeavesWhatNoGradientOfTheBatchIsAbout) {
  const parameter_layout layout = layout_of({{"a", {16}}, {"b", {16}}, {"c", {16}}}, 1);
  two_shards both(layout, 0);
  const float untouched = both.plain.snapshot().on_host()[32];
  for (std::uint64_t i = 0; i < 4; ++i) {
    std::vector<float> values(layout.dense_size());
    std::fill_n(values.begin(), 16, 1.0F + static_cast<float>(i));
    const auto g = dense_gradient(values);
    g->covered = std::make_shared<const coverage>(coverage{{0, 32}});
    auto& further = g->addends.emplace_back();
    further.values = block(layout.dense_size() * sizeof(float));
    std::ranges::fill(further.values.as<float>(), 9.0F); // counts where it is covered, and nowhere else
    further.covered = std::make_shared<const coverage>(coverage{{16, 32}});
    both.add(0, g, 1);
  }
  both.expect_same_update();
  EXPECT_EQ(both.batched->snapshot().on_host()[32], untouched);
}

/// What a cure applies in place of a gradient counts in the place of its dense part.
TEST(GradientBatch, AddsUpWhatIsAppliedInPlaceOfGradients) {
  const parameter_layout layout = layout_of({{"w", {16}}}, 1);
  const auto weights = std::make_shared<shard>(layout, 0, 1, testing::sgd(1));
  gradient_batch batch(weights, workers);
  const auto doubled = [](const waiting_gradient& g) {
    const auto twice = std::make_shared<memory>(block(g.what.payload.values->dense.bytes()));
    for (std::size_t i = 0; i < 16; ++i)
      twice->on_host<float>()[i] = 2 * g.what.payload.values->dense.on_host<float>()[i];
    return contribution{g.what.payload.values, 1, snapshot(twice)};
  };
  for (std::uint64_t step = 1; step <= 3; ++step)
    batch.add(sent(1, step, dense_gradient(std::vector<float>(16, static_cast<float>(step)))), doubled);
  std::vector<contribution> all;
  batch.hand_over([](rank) { return 1.0F; }, doubled,
                  [&](const gradient_header&, const contribution* what) {
                    if (what) all.push_back(*what);
                  });
  const float before = weights->snapshot().on_host()[3];
  weights->update(all);
  EXPECT_NEAR(weights->snapshot().on_host()[3], before - 12, 1e-5);
}

/// Gradients of workers that share credit, as a batch keeps and adds them up.
struct CreditedGradients : ::testing::Test {
  /// One that names what it covers is not added up before its batch is complete.
  void push(std::uint32_t worker, bool has_credit = true, bool is_dense = true) {
    auto values = dense_gradient(random_values(layout.dense_size(), worker));
    if (!is_dense) values->covered = std::make_shared<const coverage>(coverage{{0, layout.dense_size()}});
    held.emplace_back(values);
    waiting_gradient g = sent(worker, 1, std::move(values), 0.3F + static_cast<float>(worker));
    auto credit = std::make_shared<int>();
    credits.emplace_back(credit);
    if (has_credit) g.what.payload.credit = std::move(credit);
    batch.add(std::move(g), counted);
  }
  std::size_t open_credits() {
    batch.release_credit();
    return static_cast<std::size_t>(
        std::ranges::count_if(credits, [](const auto& c) { return !c.expired(); }));
  }
  std::size_t alive() const {
    return static_cast<std::size_t>(std::ranges::count_if(held, [](const auto& g) { return !g.expired(); }));
  }
  static std::vector<contribution> all_of(const parameter_layout& layout,
                                          const std::vector<std::uint32_t>& order) {
    std::vector<contribution> all;
    for (const std::uint32_t r : order)
      all.push_back({dense_gradient(random_values(layout.dense_size(), r)), 0.3F + static_cast<float>(r)});
    return all;
  }
  /// The weights are those of the gradients in this order, bit for bit.
  void expect_sum_of(const std::vector<std::uint32_t>& order) {
    shard plain(layout, 0, 1, parse_optimizer("momentum"));
    const float share = 1.0F / static_cast<float>(order.size());
    plain.update(all_of(layout, order), 1, share);
    const handed_over all = hand_over(batch);
    std::vector<std::uint32_t> ranks;
    for (const auto& [worker, step] : all.gradients) ranks.push_back(worker);
    EXPECT_EQ(ranks, order);
    weights->update(all.contributions, 1, share);
    const auto got = weights->snapshot().on_host(), want = plain.snapshot().on_host();
    EXPECT_TRUE(std::ranges::equal(got, want));
  }

  const parameter_layout layout = layout_of({{"w", {1000}}}, 1);
  std::shared_ptr<shard> weights = std::make_shared<shard>(layout, 0, 1, parse_optimizer("momentum"));
  gradient_batch batch{weights, 7};
  std::vector<std::weak_ptr<const gradient>> held;
  std::vector<std::weak_ptr<int>> credits;
};

TEST_F(CreditedGradients, AreAddedUpWhenAllOfLowerRanksAreThere) {
  for (const std::uint32_t r : {3U, 1U, 6U}) {
    push(r);
    batch.give_places({0}, counted);
  }
  EXPECT_EQ(alive(), 3U) << "that of worker 0 comes before them";
  push(0);
  batch.give_places({2}, counted);
  EXPECT_EQ(alive(), 2U) << "those of workers 3 and 6";
  push(4);
  push(2);
  batch.give_places({5}, counted);
  EXPECT_EQ(alive(), 1U);
  EXPECT_EQ(batch.size(), 6U);
  expect_sum_of({0, 1, 2, 3, 4, 6});
  EXPECT_TRUE(batch.empty());
}

TEST_F(CreditedGradients, AreKeptWhereNobodySharesCredit) {
  for (std::uint32_t r = 0; r < 5; ++r) {
    push(r, false);
    batch.give_places({r + 1}, counted);
  }
  EXPECT_EQ(alive(), 5U);
  expect_sum_of({0, 1, 2, 3, 4});
}

/// Else a worker of the process itself would keep all behind it in memory.
TEST_F(CreditedGradients, AreAddedUpWithThoseBeforeThemThatHaveNone) {
  for (std::uint32_t r = 0; r < 5; ++r) {
    push(r, r == 2);
    batch.give_places({r + 1}, counted);
    EXPECT_EQ(alive(), r < 2 ? r + 1 : r - 2) << r;
    EXPECT_EQ(batch.of({r}), 1U) << r;
  }
  EXPECT_EQ(batch.workers(), 5U);
  expect_sum_of({0, 1, 2, 3, 4});
}

TEST_F(CreditedGradients, LetTheirCreditGoBehindOneThatIsNotAddedUp) {
  for (const std::uint32_t r : {3U, 0U, 1U}) push(r, true, r != 1);
  batch.give_places({2}, counted);
  EXPECT_EQ(alive(), 3U);
  EXPECT_EQ(open_credits(), 1U) << "that of worker 3, whose turn is still to come";
  push(2);
  batch.give_places({4}, counted);
  EXPECT_EQ(open_credits(), 0U);
  EXPECT_EQ(alive(), 4U);
  expect_sum_of({0, 1, 2, 3});
}

/// The batch may get no other, and an update of one gradient multiplies it and its scale within the rule.
TEST_F(CreditedGradients, AreNotRoundedAlone) {
  push(0);
  batch.give_places({1}, counted);
  EXPECT_EQ(open_credits(), 0U);
  EXPECT_EQ(alive(), 1U);
  expect_sum_of({0});
  push(0);
  batch.give_places({1}, counted);
  push(1);
  batch.give_places({2}, counted);
  EXPECT_EQ(alive(), 0U);
}

TEST_F(CreditedGradients, GoOnInACheckpoint) {
  for (const std::uint32_t r : {1U, 0U, 4U, 3U}) push(r, r < 2);
  batch.give_places({2}, counted);
  EXPECT_EQ(alive(), 2U);
  push(2, false);
  batch.give_places({4}, counted);
  saved_fields kept;
  batch.keep(kept, {});
  batch = gradient_batch(weights, 7);
  saved_fields read(kept.text(), kept.arrays());
  batch.keep(read, {});
  EXPECT_EQ(batch.of({0}), 1U);
  EXPECT_EQ(batch.size(), 5U);
  expect_sum_of({0, 1, 2, 3, 4});
}

/// In one process, which adds up nothing before the batch is complete, the same turns give the same order.
TEST_F(CreditedGradients, LieBehindTheSumOfThoseThatHadPlacesBefore) {
  for (const bool has_credit : {true, false}) {
    const auto anew = std::make_shared<shard>(layout, 0, 1, parse_optimizer("momentum"));
    weights = anew;
    batch = gradient_batch(anew, 7);
    for (const std::uint32_t r : {1U, 2U, 4U}) push(r, has_credit);
    batch.give_places({3}, counted); // nobody waits for worker 0 any more
    push(0, has_credit);             // another incarnation of it has joined
    batch.give_places({3}, counted);
    push(3, has_credit);
    expect_sum_of({1, 2, 0, 3, 4});
  }
}

} // namespace
} // namespace mailgrad

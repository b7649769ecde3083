#include <mailgrad/engine/shard/gpu_block.hpp>
#include <mailgrad/engine/shard/gradient_batch.hpp>
#include <mailgrad/engine/shard/gradient_queue.hpp>
#include <mailgrad/engine/shard/gradient_table.hpp>
#include <mailgrad/files/archive.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

namespace mailgrad {
namespace {

using testing::dense_gradient;
using testing::layout_of;
using testing::random_values;
using namespace ::testing;

constexpr std::uint32_t workers = 3;

std::shared_ptr<shard> plain_shard(const parameter_layout& layout, std::uint32_t index = 0) {
  return std::make_shared<shard>(layout, index, 1, testing::sgd(1));
}

waiting_gradient sent(std::uint32_t worker, std::uint64_t step, std::shared_ptr<const gradient> values,
                      float scale = 1) {
  return {testing::push_of(worker, step, 0, std::move(values), scale), {}};
}

/// As a parameter actor without a cure does.
contribution counted(const waiting_gradient& g) {
  return {g.what.payload.values, std::bit_cast<float>(g.what.header.scale_bits)};
}

std::size_t alive_of(const auto& pointers) {
  return static_cast<std::size_t>(
      std::ranges::count_if(pointers, [](const auto& p) { return !p.expired(); }));
}

struct handed_over {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> gradients; ///< worker, step
  std::vector<contribution> contributions;
};

handed_over hand_over(gradient_batch& batch, const gradient_batch::counting& count = counted) {
  handed_over all;
  batch.hand_over([](rank) { return 1.0F; }, count,
                  [&](const gradient_header& x, const contribution* what) {
                    all.gradients.emplace_back(x.id.worker.value, x.id.step.value);
                    if (what) all.contributions.push_back(*what);
                  });
  return all;
}

TEST(GradientBatch, HandsOverWhatCameByRankWhateverTheOrderOfArrival) {
  const parameter_layout layout = layout_of({{"w", {8}}}, 1);
  gradient_batch batch(plain_shard(layout), workers);
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
  gradient_batch batch(plain_shard(layout), workers);
  std::vector<std::weak_ptr<const gradient>> held;
  for (std::uint64_t step = 1; step <= 100; ++step)
    for (std::uint32_t r = 0; r < 2; ++r) {
      auto values = dense_gradient(random_values(16, step));
      held.emplace_back(values);
      batch.add(sent(r, step, std::move(values)), counted);
      ASSERT_LE(alive_of(held), 2U) << "step " << step;
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
      : batched(plain_shard(layout, index)), plain(layout, index, 1, testing::sgd(1)),
        batch(batched, workers) {}

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
  const auto weights = plain_shard(layout);
  gradient_batch batch(weights, workers);
  const auto doubled = [](const waiting_gradient& g) {
    const auto twice = std::make_shared<memory>(block(g.what.payload.values->dense.bytes()));
    for (std::size_t i = 0; i < 16; ++i)
      twice->on_host<float>()[i] = 2 * g.what.payload.values->dense.on_host<float>()[i];
    return contribution{g.what.payload.values, 1, snapshot(twice)};
  };
  for (std::uint64_t step = 1; step <= 3; ++step)
    batch.add(sent(1, step, dense_gradient(std::vector<float>(16, static_cast<float>(step)))), doubled);
  const float before = weights->snapshot().on_host()[3];
  weights->update(hand_over(batch, doubled).contributions);
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
    return alive_of(credits);
  }
  std::size_t alive() const { return alive_of(held); }
  void begin_anew() {
    held.clear();
    weights = std::make_shared<shard>(layout, 0, 1, parse_optimizer("momentum"));
    batch = gradient_batch(weights, 7);
  }
  /// The weights are those of the gradients in this order, bit for bit.
  void expect_sum_of(const std::vector<std::uint32_t>& order) {
    shard plain(layout, 0, 1, parse_optimizer("momentum"));
    const float share = 1.0F / static_cast<float>(order.size());
    std::vector<contribution> in_order;
    for (const std::uint32_t r : order)
      in_order.push_back(
          {dense_gradient(random_values(layout.dense_size(), r)), 0.3F + static_cast<float>(r)});
    plain.update(in_order, 1, share);
    const handed_over all = hand_over(batch);
    std::vector<std::uint32_t> ranks;
    for (const auto& [worker, step] : all.gradients) ranks.push_back(worker);
    EXPECT_EQ(ranks, order);
    weights->update(all.contributions, 1, share);
    EXPECT_TRUE(std::ranges::equal(weights->snapshot().on_host(), plain.snapshot().on_host()));
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

/// Else a worker of the process itself would keep all behind it in memory.
TEST_F(CreditedGradients, AreAddedUpWithThoseBeforeThemThatHaveNone) {
  for (std::uint32_t r = 0; r < 5; ++r) {
    push(r, false);
    batch.give_places({r + 1}, counted);
  }
  EXPECT_EQ(alive(), 5U) << "all are kept where nobody shares credit";
  expect_sum_of({0, 1, 2, 3, 4});
  begin_anew();
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
    begin_anew();
    for (const std::uint32_t r : {1U, 2U, 4U}) push(r, has_credit);
    batch.give_places({3}, counted); // nobody waits for worker 0 any more
    push(0, has_credit);             // another incarnation of it has joined
    batch.give_places({3}, counted);
    push(3, has_credit);
    expect_sum_of({1, 2, 0, 3, 4});
  }
}

gradient_header header(std::uint32_t worker, std::uint64_t step, std::optional<sum_tag> sum) {
  gradient_header x = testing::push_of(worker, step, 0, nullptr).header;
  x.sum = sum;
  return x;
}

constexpr sum_tag two_of_0{{0}, 2};
constexpr sum_tag three_of_0{{0}, 3};

TEST(SummedGradients, PassIfTheyAreOneSumOrNone) {
  require_one_sum({});
  require_one_sum(std::vector{header(0, 4, {}), header(1, 9, {})});
  require_one_sum(std::vector{header(0, 4, two_of_0), header(2, 4, two_of_0)});
  require_one_sum(std::vector{header(5, 1, sum_tag{{5}, 1})});
}

TEST(SummedGradients, AreRefusedByWorkerAndStepIfTheyAreNotOneSum) {
  const auto expect_words = [](const std::vector<gradient_header>& all, const char* words) {
    EXPECT_THAT([&] { require_one_sum(all); }, ThrowsMessage<std::runtime_error>(HasSubstr(words)));
  };
  expect_words(
      {header(0, 4, two_of_0), header(1, 5, two_of_0)},
      "worker 1: expected its gradient in the sum of 2 gradients of step 4 that worker 0 carries, as "
      "that of worker 0, found the sum of 2 gradients of step 5 that worker 0 carries");
  expect_words({header(0, 4, two_of_0), header(1, 4, sum_tag{{1}, 2})}, "that worker 1 carries");
  expect_words({header(0, 4, two_of_0), header(1, 4, three_of_0)}, "found the sum of 3 gradients");
  expect_words({header(0, 4, two_of_0), header(1, 4, {})}, "found no sum at step 4");
  expect_words({header(0, 4, {}), header(1, 4, two_of_0)},
               "worker 0: expected its gradient in no sum at step 4");
  expect_words({header(1, 4, two_of_0), header(2, 4, two_of_0)},
               "worker 0: expected the sum of 2 gradients of step 4 that worker 0 carries, found no gradient "
               "of that worker");
  expect_words({header(0, 4, three_of_0), header(1, 4, three_of_0)}, "found 2 gradients for this update");
}

TEST(SummedGradients, AreHandedOverAsOneContributionAndAllOfTheirHeaders) {
  const parameter_layout layout = layout_of({{"w", {8}}}, 1);
  gradient_batch batch(plain_shard(layout), workers);
  const auto sum = testing::constant_gradient(layout, 6);
  const auto add = [&](std::uint32_t worker) {
    waiting_gradient g = sent(worker, 1, worker == 0 ? sum : nullptr, 0.5F);
    g.what.header.sum = three_of_0;
    batch.add(std::move(g), counted);
  };
  std::uint32_t calls = 0;
  const auto count = [&](const waiting_gradient& g) {
    ++calls;
    return counted(g);
  };
  for (const std::uint32_t r : {2U, 1U}) add(r);
  EXPECT_THROW(hand_over(batch, count), std::runtime_error) << "they are checked before any is handed over";
  EXPECT_EQ(calls, 0U);
  add(0);
  const handed_over all = hand_over(batch, count);
  EXPECT_EQ(calls, 3U);
  EXPECT_THAT(all.gradients, ElementsAre(Pair(0, 1), Pair(1, 1), Pair(2, 1)));
  ASSERT_EQ(all.contributions.size(), 1U);
  EXPECT_EQ(all.contributions[0].values, sum);
  EXPECT_EQ(all.contributions[0].scale, 0.5F);
}

class GradientQueue : public ::testing::Test {
protected:
  void add(std::uint32_t worker, std::uint64_t step) {
    queue_.add({testing::push_of(worker, step, 0, testing::constant_gradient(layout_, 1)), {}});
  }
  static std::vector<std::pair<std::uint32_t, std::uint64_t>> taken(gradient_queue& from,
                                                                    std::size_t places) {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> all;
    for (const waiting_gradient& g : from.take(places))
      all.emplace_back(g.what.header.id.worker.value, g.what.header.id.step.value);
    return all;
  }

  const parameter_layout layout_ = testing::layout_of({{"w", {8}}}, 1);
  shard shard_{layout_, 0, 1, testing::sgd(1)};
  gradient_queue queue_;
};

TEST_F(GradientQueue, GivesWhatCameFirst) {
  add(1, 1);
  add(0, 1);
  add(1, 2);
  EXPECT_EQ(queue_.size(), 3U);
  EXPECT_EQ(queue_.of({1}), 2U);
  EXPECT_THAT(taken(queue_, 2), ElementsAre(Pair(1, 1), Pair(0, 1)));
  EXPECT_EQ(queue_.of({1}), 1U);
  EXPECT_THAT(taken(queue_, 5), ElementsAre(Pair(1, 2)));
  EXPECT_TRUE(queue_.empty());
  EXPECT_THAT(taken(queue_, 1), IsEmpty());
}

TEST_F(GradientQueue, KeepsThePlaceOfALostGradient) {
  add(1, 1);
  queue_.add_lost();
  add(0, 1);
  EXPECT_EQ(queue_.size(), 2U);
  EXPECT_THAT(taken(queue_, 2), ElementsAre(Pair(1, 1)));
  EXPECT_THAT(taken(queue_, 1), ElementsAre(Pair(0, 1)));
  queue_.add_lost();
  EXPECT_EQ(queue_.size(), 0U);
  EXPECT_FALSE(queue_.empty()) << "a place waits";
}

TEST_F(GradientQueue, GoesIntoACheckpointAndComesBack) {
  add(1, 4);
  queue_.add_lost();
  add(0, 7);
  saved_fields written;
  written.group("queue", [&] { queue_.keep(written, {}, shard_, 2); });
  saved_fields read(written.text(), written.arrays());
  gradient_queue other;
  read.group("queue", [&] { other.keep(read, {9}, shard_, 2); });
  EXPECT_EQ(other.size(), 2U);
  const std::vector<waiting_gradient> first = other.take(1);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].what.header.id.run, run_id{9});
  EXPECT_EQ(first[0].what.payload.values->dense.on_host<float>()[3], 1);
  EXPECT_THAT(taken(other, 1), IsEmpty()) << "the lost one";
  EXPECT_THAT(taken(other, 1), ElementsAre(Pair(0, 7)));
  saved_fields once_more(written.text(), written.arrays());
  testing::expect_refused({"another run's",
                           [&] { once_more.group("queue", [&] { other.keep(once_more, {9}, shard_, 1); }); },
                           "place 0: there is no worker 1"});
}

/// A shard of 8 weights that plain SGD of learning rate 1 moves.
class GradientTable : public ::testing::Test {
protected:
  using gradients = std::vector<std::pair<std::uint32_t, std::uint64_t>>; ///< worker, step

  push_gradient push(std::uint32_t worker, std::uint64_t step, float value) const {
    return testing::push_of(worker, step, 0, testing::constant_gradient(layout_, value));
  }
  void add(std::uint32_t worker, std::uint64_t step, float value, float scale = 1) {
    const push_gradient x = push(worker, step, value);
    table_.add(x, {x.payload.values, scale});
  }
  void defer(std::uint32_t worker, std::uint64_t step, float value) {
    const push_gradient x = push(worker, step, value);
    table_.defer(x, {x.payload.values, 1});
  }
  static gradients counted(gradient_table& of) {
    gradients all;
    of.count_new([&](const push_gradient& x) {
      EXPECT_EQ(x.payload.values, nullptr) << "it is in the sum";
      all.emplace_back(x.header.id.worker.value, x.header.id.step.value);
    });
    return all;
  }
  /// How far an update of the present round moves each weight.
  float moves(gradient_table& of) {
    const float before = shard_->snapshot().on_host()[0];
    shard_->update(of.means());
    return before - shard_->snapshot().on_host()[0];
  }

  const parameter_layout layout_ = testing::layout_of({{"w", {8}}}, 1);
  const std::shared_ptr<shard> shard_ = std::make_shared<shard>(layout_, 0, 1, testing::sgd(1));
  gradient_table table_{shard_, 3};
};

TEST_F(GradientTable, GivesTheMeanOfEachWorkersMean) {
  add(2, 1, 3);
  add(0, 1, 2);
  add(0, 2, 4, 0.5F);
  add(0, 3, 2);
  EXPECT_FLOAT_EQ(moves(table_), (3.0F + (2 + 2 + 2) / 3.0F) / 2);
  const auto values = testing::constant_gradient(layout_, 1);
  table_.add(testing::push_of(0, 4, 0, values), {values, 1});
  EXPECT_EQ(values.use_count(), 1) << "it lets gradients go at once";
}

TEST_F(GradientTable, KeepsSumsForAllUpdatesOfARoundAndCountsEachGradientOnce) {
  add(1, 1, 4);
  add(0, 1, 2);
  EXPECT_THAT(counted(table_), ElementsAre(Pair(0, 1), Pair(1, 1)));
  EXPECT_FLOAT_EQ(moves(table_), 3);
  add(0, 2, 6);
  EXPECT_EQ(table_.of({0}), 1U);
  EXPECT_THAT(counted(table_), ElementsAre(Pair(0, 2)));
  EXPECT_FLOAT_EQ(moves(table_), (4.0F + (2 + 6) / 2.0F) / 2);
  EXPECT_TRUE(table_.nothing_waits());
  EXPECT_THAT(counted(table_), IsEmpty());
}

TEST_F(GradientTable, HasWhatWasDeferredInTheNextRoundAlone) {
  add(0, 1, 2);
  counted(table_);
  defer(1, 1, 8);
  EXPECT_FALSE(table_.nothing_waits());
  EXPECT_EQ(table_.of({1}), 1U);
  EXPECT_FLOAT_EQ(moves(table_), 2);
  table_.begin_round(1);
  EXPECT_FLOAT_EQ(moves(table_), 8);
  EXPECT_THAT(counted(table_), ElementsAre(Pair(1, 1)));
  table_.begin_round(1);
  EXPECT_FLOAT_EQ(moves(table_), 8) << "that round has begun before";
  table_.begin_round(2);
  EXPECT_THAT(table_.means(), IsEmpty());
  add(1, 2, 1);
  EXPECT_FLOAT_EQ(moves(table_), 1) << "sums begin anew";
}

TEST_F(GradientTable, NotesThatALostGradientWasToMakeAnUpdate) {
  table_.add_lost();
  EXPECT_FALSE(table_.nothing_waits());
  EXPECT_FALSE(table_.has_waiting());
  counted(table_);
  EXPECT_TRUE(table_.nothing_waits());
  table_.defer_lost();
  table_.skip_to_waiting();
  EXPECT_FALSE(table_.nothing_waits());
  table_.drop_lost();
  EXPECT_TRUE(table_.nothing_waits());
}

TEST_F(GradientTable, IsKeptWithItsSumsAndWhatIsStillToCount) {
  table_.begin_round(1);
  add(0, 1, 2);
  counted(table_);
  add(0, 2, 4);
  add(1, 1, 5);
  defer(2, 1, 7);
  saved_fields written;
  table_.keep(written, {});
  saved_fields read(written.text(), written.arrays());
  gradient_table other(shard_, 3);
  other.keep(read, {});
  for (gradient_table* t : {&table_, &other}) {
    EXPECT_THAT(counted(*t), ElementsAre(Pair(0, 2), Pair(1, 1)));
    EXPECT_FLOAT_EQ(moves(*t), (3.0F + 5) / 2);
    EXPECT_EQ(t->of({2}), 1U);
    t->begin_round(1);
    EXPECT_FLOAT_EQ(moves(*t), (3.0F + 5) / 2) << "this round is not over";
    t->begin_round(2);
    EXPECT_FLOAT_EQ(moves(*t), 7);
  }
}

TEST(GrowingBuffer, IsTheSameUntilItIsOutgrownAndKeepsWhatQueuedWorkMayStillUse) {
  growing_buffer buffer(std::make_shared<host_queue>());
  void* const first = buffer.of(100);
  EXPECT_EQ(buffer.of(100), first);
  EXPECT_EQ(buffer.of(128), first) << "it grows in powers of two";
  EXPECT_EQ(buffer.of(0), first);
  EXPECT_NE(buffer.of(129), first);
  std::memset(buffer.of(4096), 2, 4096);
  std::memset(first, 1, 100); // as a kernel that runs late
  EXPECT_EQ(static_cast<const char*>(buffer.of(4096))[0], 2);
}

} // namespace
} // namespace mailgrad

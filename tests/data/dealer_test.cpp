#include <mailgrad/data/dealer.hpp>
#include <mailgrad/tests/data/allocations.hpp>

#include <gmock/gmock.h>

#include <map>
#include <random>

namespace mailgrad {
namespace {

using ids = std::vector<std::uint32_t>;

struct received {
  std::uint32_t rank;
  std::uint64_t number;
  std::uint64_t epoch;
  ids samples;
  friend bool operator==(const received&, const received&) = default;
};

std::optional<received> ask(dealer& d, std::uint32_t rank) {
  const auto got = d.next(rank);
  if (!got) return std::nullopt;
  return received{rank, got->number, got->epoch, {got->samples.begin(), got->samples.end()}};
}

/// Ranks ask in an order of chance until none gets anything; `at_step` may let one leave.
template <class AtStep>
std::vector<received> deal_out(dealer& d, std::uint32_t ranks, std::uint64_t seed, AtStep at_step) {
  std::mt19937_64 random{seed};
  std::vector<received> all;
  for (int idle = 0; idle < 1000;) {
    at_step(all.size());
    const auto got = ask(d, static_cast<std::uint32_t>(random() % ranks));
    idle = got ? 0 : idle + 1;
    if (got) all.push_back(*got);
  }
  return all;
}

/// Each sample exactly once in each epoch, each batch number once.
void expect_complete(const std::vector<received>& all, std::size_t samples, std::uint64_t epochs) {
  std::map<std::uint64_t, ids> by_epoch;
  ids numbers;
  for (const received& x : all) {
    numbers.push_back(static_cast<std::uint32_t>(x.number));
    auto& seen = by_epoch[x.epoch];
    seen.insert(seen.end(), x.samples.begin(), x.samples.end());
  }
  ids expected(samples);
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_EQ(by_epoch.size(), epochs);
  for (auto& [epoch, seen] : by_epoch) {
    std::ranges::sort(seen);
    EXPECT_EQ(seen, expected) << "epoch " << epoch;
  }
  std::ranges::sort(numbers);
  EXPECT_EQ(std::ranges::adjacent_find(numbers), numbers.end());
  EXPECT_EQ(numbers.back() + 1, numbers.size());
}

struct dealer_case {
  std::size_t samples;
  std::size_t batch_size;
  std::uint32_t ranks;
};

class EveryDeal : public testing::TestWithParam<std::tuple<dealer_case, deal_mode>> {
protected:
  dealer_options options() const {
    const auto& [c, mode] = GetParam();
    return {.samples = c.samples, .batch_size = c.batch_size, .epochs = 4, .mode = mode, .ranks = c.ranks};
  }
};

TEST_P(EveryDeal, GivesEachSampleOnceAnEpochThoughRanksLeave) {
  const std::uint32_t ranks = options().ranks;
  for (std::uint64_t order = 0; order < 5; ++order) {
    dealer d{options()};
    const auto all = deal_out(d, ranks, order, [&](std::size_t dealt) {
      if (dealt == 2 && ranks > 1) d.leave(0);
      if (dealt == 4 && ranks > 2) d.leave(2);
    });
    expect_complete(all, options().samples, 4);
  }
}

/// Ranks join, die with up to two batches in hand, and come back.
TEST_P(EveryDeal, TrainsEachSampleOnceAnEpochThoughRanksComeAndGo) {
  for (std::uint64_t order = 1; order <= 20; ++order) {
    dealer_options with_slots = options();
    with_slots.slots = with_slots.ranks + 2;
    dealer d{with_slots};
    std::mt19937_64 random{order};
    std::vector<std::vector<received>> in_hand(with_slots.slots);
    std::vector<received> trained;
    for (std::uint64_t events = 0; events < 60 || d.undealt() > 0; ++events) {
      const auto rank = static_cast<std::uint32_t>(random() % with_slots.slots);
      std::vector<received>& own = in_hand[rank];
      const std::uint64_t what = events < 60 ? random() % 8 : 7;
      if (what == 0) {
        d.leave(rank);
        std::vector<std::uint64_t> lost;
        for (const received& x : own) lost.push_back(x.number);
        own.clear();
        d.take_back(lost);
      } else if (what == 1 || events >= 60) {
        d.join(rank);
      }
      if (own.size() == 2) {
        trained.push_back(own.front());
        own.erase(own.begin());
      }
      if (const auto got = ask(d, rank)) own.push_back(*got);
    }
    for (const std::vector<received>& own : in_hand) trained.insert(trained.end(), own.begin(), own.end());
    expect_complete(trained, with_slots.samples, 4);
  }
}

TEST_P(EveryDeal, IsTheSameWithSlotsThatStayEmpty) {
  dealer_options with_slots = options();
  with_slots.slots = with_slots.ranks + 3;
  dealer with{with_slots};
  dealer without{options()};
  const auto nothing = [](std::size_t) {};
  EXPECT_EQ(deal_out(with, with_slots.ranks, 1, nothing), deal_out(without, with_slots.ranks, 1, nothing));
  EXPECT_FALSE(with.next(with_slots.ranks));
}

TEST_P(EveryDeal, CountsWhatEachRankGot) {
  dealer d{options()};
  std::vector<deal_count> counted(options().ranks);
  const std::vector<received> all = deal_out(d, options().ranks, 1, [](std::size_t) {});
  expect_complete(all, options().samples, 4);
  for (const received& x : all) {
    ++counted[x.rank].batches;
    counted[x.rank].samples += x.samples.size();
  }
  for (std::uint32_t rank = 0; rank < options().ranks; ++rank) EXPECT_EQ(d.dealt(rank), counted[rank]);
}

INSTANTIATE_TEST_SUITE_P(Sizes, EveryDeal,
                         testing::Combine(testing::Values(dealer_case{1, 1, 1}, dealer_case{10, 3, 1},
                                                          dealer_case{100, 7, 3}, dealer_case{64, 64, 2},
                                                          dealer_case{5, 64, 4}, dealer_case{1000, 10, 8}),
                                          testing::Values(deal_mode::on_demand, deal_mode::by_rank)));

TEST(Dealer, GivesRankRTheBatchesFromROnByTheNumberOfRanks) {
  dealer d{{.samples = 100, .batch_size = 10, .epochs = 3, .mode = deal_mode::by_rank, .ranks = 3}};
  for (std::uint64_t round = 0; round < 5; ++round)
    for (std::uint32_t rank : {2U, 0U, 1U}) EXPECT_EQ(ask(d, rank)->number, round * 3 + rank);
}

TEST(Dealer, DealsTheSameByRankInWhateverOrderTheyAsk) {
  const dealer_options options{
      .samples = 50, .batch_size = 8, .epochs = 5, .seed = 9, .mode = deal_mode::by_rank, .ranks = 2};
  dealer in_turn{options};
  dealer one_after_another{options};
  std::map<std::uint64_t, received> expected;
  for (int i = 0; i < 40; ++i)
    if (const auto got = ask(in_turn, static_cast<std::uint32_t>(i % 2))) expected.emplace(got->number, *got);
  for (std::uint32_t rank : {0U, 1U}) // rank 0 runs epochs ahead of rank 1
    while (const auto got = ask(one_after_another, rank)) EXPECT_EQ(*got, expected.at(got->number));
  EXPECT_EQ(expected.size(), in_turn.batches());
}

/// Expects these ranks to get these batches, one after the other.
void expect_dealt(dealer& d, const std::vector<std::pair<std::uint32_t, std::uint64_t>>& all) {
  for (const auto& [rank, number] : all) EXPECT_EQ(d.next(rank)->number, number) << "rank " << rank;
}

TEST(Dealer, GivesTheLowestBatchThatIsLeftOnceARankIsGone) {
  dealer d{{.samples = 90, .batch_size = 10, .mode = deal_mode::by_rank, .ranks = 3}};
  for (std::uint32_t rank : {0U, 1U, 2U}) ask(d, rank);
  d.leave(1);
  EXPECT_FALSE(ask(d, 1));
  expect_dealt(d, {{2, 3}, {0, 4}, {0, 5}});
}

TEST(Dealer, GivesTheLowestBatchThatIsLeftOnceARankJoins) {
  dealer d({40, 4, 1, 0, 1, deal_mode::by_rank, 2, 3});
  expect_dealt(d, {{0, 0}, {0, 2}});
  d.join(2);
  expect_dealt(d, {{2, 1}, {0, 3}});
}

TEST(Dealer, DealsWhatIsLeftOnceWhenItChangesItsMode) {
  dealer d({100, 4, 1, 0, 5, deal_mode::by_rank, 3});
  std::set<std::uint64_t> numbers;
  const auto take = [&](std::uint32_t rank) {
    const auto dealt = d.next(rank);
    const bool again = dealt && !numbers.insert(dealt->number).second;
    EXPECT_FALSE(again) << dealt->number << " was dealt twice";
    return dealt.has_value();
  };
  for (int i = 0; i < 4; ++i) take(2); // 2, 5, 8, 11
  d.deal_by(deal_mode::on_demand);
  for (int i = 0; i < 9; ++i) take(0); // what they left out
  EXPECT_EQ(*numbers.rbegin(), 12U);
  d.deal_by(deal_mode::by_rank);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    while (take(rank)) continue;
  EXPECT_EQ(numbers.size(), 25U);
}

TEST(Dealer, EndsEachEpochWithASmallerBatch) {
  dealer d{{.samples = 10, .batch_size = 4, .epochs = 2}};
  EXPECT_EQ(d.batches_per_epoch(), 3U);
  EXPECT_EQ(d.batches(), 6U);
  std::vector<std::size_t> sizes;
  while (const auto got = d.next(0)) sizes.push_back(got->samples.size());
  EXPECT_THAT(sizes, testing::ElementsAre(4, 4, 2, 4, 4, 2));
}

TEST(Dealer, GivesAnyBatchByItsNumber) {
  const dealer_options options{23, 4, 3, 0, 5, deal_mode::on_demand, 2};
  dealer in_order(options);
  dealer by_number(options);
  std::vector<received> all;
  while (const auto got = ask(in_order, 0)) all.push_back(*got);
  std::mt19937_64 random{1};
  std::ranges::shuffle(all, random); // epochs too, of which it remembers two
  for (const received& x : all) {
    const auto got = by_number.batch(x.number);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->epoch, x.epoch);
    EXPECT_EQ(ids(got->samples.begin(), got->samples.end()), x.samples);
  }
  EXPECT_FALSE(by_number.batch(all.size()));
  EXPECT_EQ(by_number.dealt(0), deal_count{});
}

TEST(Dealer, ShufflesEachEpochAndSeedAnew) {
  const auto orders = [](std::uint64_t seed) {
    dealer d{{.samples = 64, .batch_size = 64, .epochs = 3, .seed = seed}};
    std::vector<ids> all;
    while (const auto got = d.next(0)) all.emplace_back(got->samples.begin(), got->samples.end());
    return all;
  };
  const auto first = orders(1);
  EXPECT_EQ(first, orders(1));
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[0], orders(2)[0]);
  EXPECT_NE(first[1], orders(2)[0]); // seed and epoch are not simply added
}

TEST(Dealer, DealsThisOrderOnEveryMachine) {
  dealer d{{.samples = 8, .batch_size = 8, .seed = 1}};
  EXPECT_EQ(ask(d, 0)->samples, (ids{1, 7, 3, 0, 2, 5, 6, 4}));
}

TEST(Dealer, PutsEverySampleAnywhereAlike) {
  // Mean place of sample 0 over 2000 epochs of 9 samples: 4 with a standard error of 0.058.
  dealer d{{.samples = 9, .batch_size = 9, .epochs = 2000}};
  double sum = 0;
  while (const auto got = d.next(0))
    sum += static_cast<double>(std::ranges::find(got->samples, 0U) - got->samples.begin());
  EXPECT_NEAR(sum / 2000, 4.0, 0.3);
}

TEST(Dealer, AllocatesNothingWhileItDeals) {
  dealer d{{.samples = 100, .batch_size = 8, .epochs = 5, .mode = deal_mode::by_rank, .ranks = 3}};
  const std::size_t before = allocations();
  for (std::uint32_t i = 0; i < 40; ++i) d.next(i % 3);
  d.leave(1);
  for (std::uint32_t i = 0; i < 40; ++i) d.next(i % 3);
  EXPECT_EQ(allocations(), before);
}

TEST(Dealer, HasNoEndWhereTheEpochsHaveNone) {
  dealer d{{.samples = 3, .batch_size = 2, .epochs = ~std::uint64_t{0}}};
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(d.next(0));
}

/// A part is dealt, of which some batches were not trained. Another dealer goes on, of as many ranks or
/// others.
TEST_P(EveryDeal, GoesOnFromAPosition) {
  for (const std::uint32_t others : {1U, 2U, 5U})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      dealer_options with_others = options();
      with_others.ranks = others;
      dealer first{options()};
      std::mt19937_64 random{seed};
      std::vector<received> trained;
      std::vector<std::uint64_t> again;
      for (std::uint64_t i = random() % 40; i > 0; --i)
        if (const auto got = ask(first, static_cast<std::uint32_t>(random() % options().ranks))) {
          if (random() % 3 == 0)
            again.push_back(got->number);
          else
            trained.push_back(*got);
        }
      dealer next{with_others};
      next.go_on_from(first.position(again));
      for (const received& x : deal_out(next, others, seed, [](std::size_t) {})) trained.push_back(x);
      expect_complete(trained, options().samples, 4);
    }
}

TEST(Dealer, DealsAgainToTheSameRanksByRank) {
  dealer d({40, 4, 1, 0, 1, deal_mode::by_rank, 2});
  expect_dealt(d, {{0, 0}, {0, 2}, {0, 4}, {1, 1}});
  EXPECT_EQ(d.position({4}), (dealer_position{6, {3, 4, 5}}));
  dealer next({40, 4, 1, 0, 1, deal_mode::by_rank, 2});
  next.go_on_from(d.position({4}));
  expect_dealt(next, {{0, 4}, {0, 6}, {1, 3}, {1, 5}, {1, 7}});
}

/// A run that is resumed where it has ended, and then made longer.
TEST(Dealer, KeepsWhatLiesBehindTheEndForALongerRun) {
  dealer_options o{.samples = 40, .batch_size = 4, .batches = 4, .mode = deal_mode::by_rank, .ranks = 2};
  dealer d(o);
  d.go_on_from({6, {2, 4}});
  EXPECT_EQ(d.undealt(), 1U);
  EXPECT_EQ(d.next(0)->number, 2U);
  for (const std::uint32_t rank : {0U, 1U, 0U, 1U}) EXPECT_FALSE(d.next(rank));
  EXPECT_EQ(d.undealt(), 0U);
  o.batches = 10;
  dealer longer(o);
  longer.go_on_from(d.position({}));
  ids numbers;
  for (int i = 0; i < 4; ++i)
    for (const std::uint32_t rank : {0U, 1U})
      if (const auto got = longer.next(rank)) numbers.push_back(static_cast<std::uint32_t>(got->number));
  std::ranges::sort(numbers);
  EXPECT_EQ(numbers, (ids{4, 6, 7, 8, 9}));
}

TEST(Dealer, CountsWhatIsStillToBeDealt) {
  dealer d({40, 4, 1, 0, 1, deal_mode::by_rank, 3});
  EXPECT_EQ(d.undealt(), 10U);
  d.next(1);
  d.next(1);
  EXPECT_EQ(d.undealt(), 8U);
  d.take_back(std::vector<std::uint64_t>{4});
  EXPECT_EQ(d.undealt(), 9U);
  d.leave(1);
  while (d.next(0)) continue;
  EXPECT_EQ(d.undealt(), 0U);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/actors/remote/admission.hpp>

#include <mailgrad/tests/engine/layouts.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace mailgrad::remote {
namespace {

using ::testing::ElementsAre;

/// Workers whose sessions have the numbers of their ranks.
struct GradientCredit : ::testing::Test {
  explicit GradientCredit(std::vector<std::uint32_t> shards = {0}, std::size_t most = 3)
      : credit(std::make_shared<gradient_credit>(std::move(shards), most)) {}

  void add(std::uint32_t workers) {
    given.resize(std::max<std::size_t>(given.size(), workers));
    for (std::uint32_t r = 0; r < workers; ++r) add_one(r);
  }
  void add_one(std::uint32_t r) {
    credit->add(r, {r}, [this, r](std::uint32_t bodies) { given[r] += bodies; });
  }
  void send(std::uint32_t r, std::uint32_t shard = 0) {
    ASSERT_GT(given[r], 0U) << "worker " << r;
    --given[r];
    kept[r].push_back(credit->arriving(r, shard));
    if (credit->gives_back(r)) ++given[r];
  }
  /// The gradient is added up, and the shard awaits another first.
  void add_up(std::uint32_t r, std::optional<rank> next, std::uint64_t version = 0) {
    credit->await(0, next, {version});
    kept[r].clear();
  }

  std::shared_ptr<gradient_credit> credit;
  std::vector<std::uint32_t> given;
  std::map<std::uint32_t, std::vector<std::shared_ptr<const void>>> kept;
};

TEST_F(GradientCredit, IsGivenToTheFirstOfTheSumWhenTheShardHasSaidWhoTheyAre) {
  add(6);
  EXPECT_THAT(given, ElementsAre(0, 0, 0, 0, 0, 0));
  credit->await(0, rank{0}, {});
  EXPECT_THAT(given, ElementsAre(1, 1, 1, 0, 0, 0));
}

TEST_F(GradientCredit, GoesOnAsTheSumDoes) {
  add(6);
  credit->await(0, rank{0}, {});
  send(2);
  EXPECT_THAT(given, ElementsAre(1, 1, 0, 0, 0, 0)) << "it is kept";
  send(0);
  add_up(0, rank{1});
  EXPECT_THAT(given, ElementsAre(0, 1, 0, 1, 0, 0));
  send(1);
  add_up(1, rank{3});
  kept[2].clear();
  EXPECT_THAT(given, ElementsAre(0, 0, 0, 1, 1, 1));
  for (const std::uint32_t r : {3U, 4U}) send(r), add_up(r, rank{r + 1});
  EXPECT_THAT(given, ElementsAre(1, 1, 0, 0, 0, 1)) << "the first of the next sum";
}

TEST_F(GradientCredit, IsThereForWhomeverTheSumAwaitsFirst) {
  given.resize(6);
  for (std::uint32_t r = 2; r < 6; ++r) add_one(r);
  credit->await(0, rank{2}, {});
  EXPECT_THAT(given, ElementsAre(0, 0, 1, 1, 1, 0));
  add_one(1);
  credit->await(0, rank{1}, {});
  EXPECT_THAT(given, ElementsAre(0, 1, 1, 1, 1, 0)) << "else all would wait for it";
}

TEST_F(GradientCredit, GoesToOthersWhenAWorkerEnds) {
  add(5);
  credit->await(0, rank{0}, {});
  send(1);
  credit->remove(0);
  credit->await(0, rank{1}, {});
  EXPECT_THAT(given, ElementsAre(1, 0, 1, 1, 0)) << "what worker 0 was given is of no use to it";
  credit->remove(1);
  EXPECT_THAT(given, ElementsAre(1, 0, 1, 1, 0)) << "its gradient is still kept";
  kept[1].clear();
  credit->await(0, rank{2}, {});
  EXPECT_THAT(given, ElementsAre(1, 0, 1, 1, 1));
}

TEST_F(GradientCredit, IsGivenBackWhileGradientsHaveNoTurns) {
  add(5);
  credit->await(0, std::nullopt, {});
  EXPECT_THAT(given, ElementsAre(1, 1, 1, 1, 1));
  send(4);
  EXPECT_THAT(given, ElementsAre(1, 1, 1, 1, 1));
  credit->await(0, rank{0}, {});
  send(4);
  EXPECT_THAT(given, ElementsAre(1, 1, 1, 1, 0)) << "from now on it is kept";
  credit->await(0, std::nullopt, {});
  EXPECT_THAT(given, ElementsAre(1, 1, 1, 1, 1));
}

TEST_F(GradientCredit, SaysBehindWhomAWorkerWaits) {
  add(6);
  EXPECT_EQ(credit->waits_behind(5), std::nullopt);
  credit->await(0, rank{0}, {});
  EXPECT_EQ(credit->waits_behind(5), rank{0});
  EXPECT_EQ(credit->waits_behind(2), std::nullopt) << "it has credit";
  send(2);
  EXPECT_EQ(credit->waits_behind(2), std::nullopt) << "it has sent its gradient";
  credit->await(0, std::nullopt, {});
  EXPECT_EQ(credit->waits_behind(5), std::nullopt);
}

struct CreditOfTwoShards : GradientCredit {
  CreditOfTwoShards() : GradientCredit({1, 4}, 2) {}
};

TEST_F(CreditOfTwoShards, FollowsTheOneThatIsBehind) {
  add(5);
  credit->await(1, rank{0}, {});
  EXPECT_THAT(given, ElementsAre(0, 0, 0, 0, 0)) << "the other has not said whom it awaits";
  credit->await(4, rank{0}, {});
  EXPECT_THAT(given, ElementsAre(2, 2, 0, 0, 0));
  send(0, 1);
  credit->await(1, rank{1}, {});
  kept[0].clear();
  EXPECT_THAT(given, ElementsAre(1, 2, 0, 0, 0));
  send(0, 4);
  credit->await(4, rank{1}, {});
  kept[0].clear();
  EXPECT_THAT(given, ElementsAre(0, 2, 2, 0, 0));
  send(1, 1);
  credit->await(1, rank{0}, {1});
  EXPECT_THAT(given, ElementsAre(0, 1, 2, 0, 0)) << "of the next sum, while the other awaits worker 1";
}

TEST(CreditBy, IsThereWhereNotAllGradientsFindRoom) {
  const parameter_layout layout = testing::layout_of({{"w", {1 << 20}}}, 2);
  EXPECT_EQ(credit_by("127.0.0.1:0", layout, {0, 1}, 5, 1), nullptr);
  EXPECT_NE(credit_by("127.0.0.1:0", layout, {0, 1}, 6, 1), nullptr);
  EXPECT_EQ(credit_by("127.0.0.1:0", layout, {0}, 9, 1), nullptr) << "a half of each";
  EXPECT_EQ(credit_by("memory:", layout, {0, 1}, 6, 1), nullptr);
}

TEST(CreditBy, LetsTwoComeHoweverLargeTheyAre) {
  const parameter_layout layout = testing::layout_of({{"w", {8 << 20}}}, 1);
  EXPECT_EQ(credit_by("127.0.0.1:0", layout, {0}, 2, 1), nullptr);
  EXPECT_NE(credit_by("127.0.0.1:0", layout, {0}, 3, 1), nullptr);
}

/// Their gradients are kept until all have come, so turns would save nothing.
TEST(CreditBy, IsNotThereForWhatIsNotAddedUpBefore) {
  const parameter_layout layout = testing::layout_of({{"w", {1 << 20}}}, 1);
  EXPECT_EQ(credit_by("127.0.0.1:0", layout, {0}, 64, 2), nullptr) << "devices";
  const std::vector<placed_variable> with_a_table{{"w", shape{1 << 20}, {}, 0, false},
                                                  {"t", shape{1 << 10, 16}, {}, 0, true}};
  EXPECT_EQ(credit_by("127.0.0.1:0", parameter_layout(with_a_table, 1), {0}, 64, 1), nullptr);
}

} // namespace
} // namespace mailgrad::remote

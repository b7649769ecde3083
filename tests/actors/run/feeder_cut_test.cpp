#include <mailgrad/actors/run/feeder.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using ::testing::ElementsAre, ::testing::IsEmpty;

using asker = feeder_cut::asker;
using numbers = std::vector<std::uint64_t>;

constexpr std::uint64_t no_switch = 0;

/// The book of a feeder with two workers and three slots.
class FeederCut : public ::testing::Test {
protected:
  void deal(std::uint32_t worker, const numbers& batches) {
    for (const std::uint64_t n : batches) book_.deal({worker}, n, own_);
  }
  std::optional<feeder_position> part() {
    const auto part = book_.finished(dealer_, no_switch);
    if (!part) return std::nullopt;
    feeder_position position;
    saved_fields kept(part->fields->text(), {});
    kept.field("feeder", position);
    return position;
  }

  bool own_ = false; ///< the workers have the samples
  dealer dealer_{{400, 4, 1, 0, 1, deal_mode::on_demand, 2, 3}};
  feeder_cut book_{{2, 3, 2, {}}};
};

TEST_F(FeederCut, KnowsWhoAsks) {
  EXPECT_EQ(book_.hear({0}, {0}), asker::known);
  EXPECT_EQ(book_.hear({2}, {0}), asker::newcomer) << "its slot was empty";
  EXPECT_EQ(book_.hear({2}, {0}), asker::known);
  EXPECT_EQ(book_.hear({3}, {0}), asker::stranger) << "there is no such slot";
  EXPECT_TRUE(book_.leave({0}, {0}));
  EXPECT_EQ(book_.hear({0}, {0}), asker::stranger) << "it has left";
  EXPECT_EQ(book_.hear({0}, {1}), asker::newcomer);
  EXPECT_EQ(book_.hear({0}, {0}), asker::stranger) << "a later one has come";
  EXPECT_FALSE(book_.leave({0}, {0}));
  EXPECT_TRUE(book_.lose({0}, {1}));
  EXPECT_EQ(book_.hear({0}, {1}), asker::lost);
  EXPECT_EQ(book_.hear({0}, {2}), asker::newcomer) << "it has come back";
}

TEST_F(FeederCut, ReturnsWhatALostWorkerHadNotTrainedOnce) {
  deal(0, {0, 2, 3});
  deal(1, {1});
  EXPECT_TRUE(book_.lose({0}, {0}));
  EXPECT_TRUE(book_.has_lost_shares());
  EXPECT_THAT(book_.untrained({{0}, {0}, 1}), ElementsAre(2, 3));
  EXPECT_FALSE(book_.has_lost_shares());
  EXPECT_THAT(book_.untrained({{0}, {0}, 1}), IsEmpty());
}

TEST_F(FeederCut, SaysWhatOfTheBatchesOfALostWorkerWasSentInVain) {
  deal(0, {0, 2, 3});
  own_ = true;
  deal(1, {1, 4});
  EXPECT_EQ(book_.account_of({{0}, {0}, 1}).lost, 0U) << "it is not lost";
  book_.lose({0}, {0});
  book_.lose({1}, {0});
  const auto sent = book_.account_of({{0}, {0}, 1});
  EXPECT_EQ(sent.own, 0U);
  EXPECT_EQ(sent.lost, 2U);
  const auto cut = book_.account_of({{1}, {0}, 1});
  EXPECT_EQ(cut.own, 1U);
  EXPECT_EQ(cut.lost, 0U) << "it got numbers alone";
}

TEST_F(FeederCut, ReturnsWhatAWorkerThatLeavesHasInHand) {
  deal(1, {0, 1, 2});
  EXPECT_THAT(book_.untrained({{1}, {0}, 2}), ElementsAre(2));
  EXPECT_TRUE(book_.leave({1}, {0}));
  EXPECT_THAT(book_.untrained({{1}, {0}, 2}), IsEmpty()) << "the coordinator thought it was lost";
}

TEST_F(FeederCut, CountsTheBatchesOfEachIncarnationByThemselves) {
  deal(0, {0, 1});
  book_.lose({0}, {0});
  EXPECT_THAT(book_.untrained({{0}, {0}, 1}), ElementsAre(1));
  book_.hear({0}, {1});
  deal(0, {5, 6});
  book_.lose({0}, {1});
  EXPECT_THAT(book_.untrained({{0}, {1}, 0}), ElementsAre(5, 6));
}

/// It was given a slot, and died before it asked for a batch.
TEST_F(FeederCut, ReturnsNothingOfTheIncarnationBefore) {
  deal(0, {0, 1});
  book_.untrained({{0}, {0}, 1});
  book_.leave({0}, {0});
  EXPECT_TRUE(book_.lose({0}, {1}));
  EXPECT_THAT(book_.untrained({{0}, {1}, 0}), IsEmpty());
  EXPECT_TRUE(book_.lose({2}, {0})) << "of a slot that nobody came to";
  EXPECT_EQ(book_.hear({2}, {0}), asker::lost) << "its question comes after its end";
}

TEST_F(FeederCut, IsWholeOnlyWhenItIsKnownWhatALostWorkerHadTrained) {
  for (int i = 0; i < 5; ++i) dealer_.next(0);
  deal(0, {0, 2});
  deal(1, {1, 3, 4});
  book_.mark({1, {1}, 2, 0, {}});
  book_.lose({0}, {0});
  EXPECT_FALSE(part());
  const numbers again = book_.untrained({{0}, {0}, 1});
  EXPECT_THAT(again, ElementsAre(2));
  dealer_.take_back(again);
  const auto position = part();
  ASSERT_TRUE(position);
  EXPECT_THAT(position->batches.again, ElementsAre(2, 4, 5)) << "nobody was dealt batch 5";
  EXPECT_EQ(position->batches.undealt, 6U);
  EXPECT_THAT(position->trained, ElementsAre(1, 2, 0));
}

/// Worker 0 marked the checkpoint and died. What it had in hand has worker 1 trained before its own marker,
/// so that a run that is resumed must not train it again.
TEST_F(FeederCut, LeavesWhatIsDealtAgainToWhoIsDealtItNext) {
  for (int i = 0; i < 3; ++i) dealer_.next(0);
  deal(0, {0, 1});
  deal(1, {2});
  book_.mark({1, {0}, 1, 0, {}});
  book_.lose({0}, {0});
  dealer_.take_back(book_.untrained({{0}, {0}, 1}));
  EXPECT_EQ(dealer_.next(1)->number, 1U);
  deal(1, {1});
  book_.mark({1, {1}, 2, 0, {}});
  const auto position = part();
  ASSERT_TRUE(position);
  EXPECT_THAT(position->batches.again, ElementsAre(3)) << "only what nobody was dealt";
  EXPECT_THAT(position->trained, ElementsAre(1, 2, 0)) << "each batch once";
}

} // namespace
} // namespace mailgrad

#include <mailgrad/engine/record/recorded_incarnations.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

/// Worker 0 trains two batches before a switch and one after it, worker 1 one and none; worker 2 has ended
/// before it.
std::shared_ptr<const recording> one_switch() {
  recording r;
  r.header.workers = 3;
  r.batches = {{0, 3, 4}, {1}, {2}};
  r.end.switches = {{"sync", "by hand", {2, 1, 0}, {1, 1, 0}}};
  return std::make_shared<recording>(std::move(r));
}

TEST(RecordedBatches, GiveEachWorkerItsOwn) {
  recorded_batches deals(one_switch());
  EXPECT_EQ(deals.next({0}), 0U);
  EXPECT_EQ(deals.next({2}), 2U);
  EXPECT_EQ(deals.next({0}), 3U);
  EXPECT_EQ(deals.next({2}), std::nullopt);
  EXPECT_EQ(deals.next({1}), 1U);
}

TEST(RecordedBatches, HoldWhatComesAfterASwitch) {
  recorded_batches deals(one_switch());
  EXPECT_FALSE(deals.holds({0}));
  deals.next({0});
  deals.next({0});
  deals.next({1});
  EXPECT_TRUE(deals.holds({0}));
  EXPECT_TRUE(deals.holds({1})) << "it must not end before the switch";
  EXPECT_FALSE(deals.holds({2})) << "it takes no part";
  deals.wait({0});
  EXPECT_FALSE(deals.reached_switch()) << "worker 1 has a batch to train";
  deals.wait({1});
  EXPECT_EQ(deals.reached_switch(), 1U);
  EXPECT_FALSE(deals.reached_switch()) << "that was said";
  deals.pass_switch();
  EXPECT_FALSE(deals.holds({0}));
  EXPECT_FALSE(deals.reached_switch());
  EXPECT_EQ(deals.next({0}), 4U);
  EXPECT_EQ(deals.next({1}), std::nullopt);
}

TEST(RecordedBatches, WaitForEverybodyAgainAtTheNextSwitch) {
  recording r = *one_switch();
  r.end.switches.push_back({"async", "by hand", {2, 1, 0}, {1, 1, 0}});
  recorded_batches deals(std::make_shared<recording>(std::move(r)));
  for (const std::uint32_t w : {0U, 1U}) deals.wait({w});
  EXPECT_EQ(deals.reached_switch(), 1U);
  deals.pass_switch();
  deals.wait({0});
  EXPECT_FALSE(deals.reached_switch()) << "worker 1 is not there yet";
  deals.wait({1});
  EXPECT_EQ(deals.reached_switch(), 2U);
}

/// Worker 0 was lost after a batch and came back after the first switch, before the second.
std::shared_ptr<const recording> one_return() {
  using kind = order_entry::kind;
  recording r;
  r.header.workers = 2;
  r.batches = {{0, 4}, {1, 2, 3}};
  r.incarnations = {{{{0}, 0, true}, {{3}, 1, false}}, {}};
  r.entries = {{{kind::joined, {0}},
                {kind::joined, {1}},
                {kind::left, {0}},
                {kind::switched, {}},
                order_entry::of(kind::joined, {0}, {3}),
                {kind::switched, {}}}};
  r.end.switches = {{"sync", "", {0, 2}, {0, 1}}, {"async", "", {2, 3}, {1, 1}}};
  return std::make_shared<recording>(std::move(r));
}

TEST(RecordedBatches, GiveEachIncarnationItsOwn) {
  recorded_batches deals(one_return());
  EXPECT_EQ(deals.next({0}), 0U);
  EXPECT_EQ(deals.next({0}), std::nullopt) << "the rest is of its next incarnation";
  deals.begin({0}, {3});
  EXPECT_EQ(deals.next({0}), 4U);
  EXPECT_EQ(deals.next({0}), std::nullopt);
}

TEST(RecordedBatches, WaitAtASwitchForTheIncarnationThatTookPart) {
  recorded_batches deals(one_return());
  for (int i = 0; i < 2; ++i) deals.next({1});
  deals.wait({1});
  EXPECT_EQ(deals.reached_switch(), 1U) << "worker 0 took no part in the first";
  deals.pass_switch();
  deals.leave({0});
  deals.next({1});
  EXPECT_TRUE(deals.holds({1}));
  deals.wait({1});
  EXPECT_FALSE(deals.reached_switch()) << "its next incarnation takes part in the second";
  deals.begin({0}, {3});
  EXPECT_FALSE(deals.holds({0}));
  deals.next({0});
  EXPECT_TRUE(deals.holds({0}));
  deals.wait({0});
  EXPECT_EQ(deals.reached_switch(), 2U);
}

/// It trained one that nobody knew of, and was lost soon after the switch.
TEST(RecordedBatches, HoldALostWorkerWithItsLastOne) {
  recording r = *one_return();
  r.end.switches = {{"sync", "", {2, 2}, {1, 1}}, {"async", "", {2, 3}, {1, 1}}};
  recorded_batches deals(std::make_shared<const recording>(r));
  deals.next({0});
  EXPECT_TRUE(deals.holds({0}));
}

TEST(RecordedBatches, DoNotWaitForWhoIsGone) {
  recorded_batches deals(one_switch());
  deals.wait({0});
  deals.leave({1});
  EXPECT_EQ(deals.reached_switch(), 1U);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/engine/record/recorded_batches.hpp>

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

TEST(RecordedBatches, DoNotWaitForWhoIsGone) {
  recorded_batches deals(one_switch());
  deals.wait({0});
  deals.leave({1});
  EXPECT_EQ(deals.reached_switch(), 1U);
}

} // namespace
} // namespace mailgrad

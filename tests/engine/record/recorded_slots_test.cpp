#include <mailgrad/engine/record/recorded_incarnations.hpp>

#include <gtest/gtest.h>

#include <optional>

namespace mailgrad {
namespace {

using kind = order_entry::kind;

/// Worker 0 comes back twice, the second time after a switch; worker 1 comes late.
recorded_slots three_comings() {
  recording r;
  r.header.workers = 1;
  r.header.slots = 2;
  r.batches.resize(2);
  r.entries = {{{kind::joined, {0}},
                {kind::left, {0}},
                order_entry::of(kind::joined, {0}, {1}),
                {kind::joined, {1}},
                order_entry::of(kind::left, {0}, {1}),
                {kind::switched, {}},
                order_entry::of(kind::joined, {0}, {2})}};
  return recorded_slots(recorded_incarnations(r));
}

TEST(RecordedSlots, AreTakenOneAfterTheOther) {
  recorded_slots slots = three_comings();
  EXPECT_EQ(slots.bring({0}, 0), incarnation_number{1});
  EXPECT_EQ(slots.bring({0}, 0), std::nullopt) << "it is on its way";
  EXPECT_TRUE(slots.was_brought({0}, {1}));
  slots.take({0}, {1});
  EXPECT_FALSE(slots.was_brought({0}, {1}));
  EXPECT_EQ(slots.bring({0}, 0), std::nullopt) << "the next one came after the switch";
  EXPECT_EQ(slots.bring({0}, 1), incarnation_number{2});
}

TEST(RecordedSlots, SayWhoComesBeforeTheNextSwitch) {
  recorded_slots slots = three_comings();
  EXPECT_TRUE(slots.any_due(0));
  slots.bring({0}, 0);
  slots.take({0}, {1});
  EXPECT_TRUE(slots.any_due(0)) << "worker 1 has no slot yet";
  EXPECT_EQ(slots.bring({1}, 0), incarnation_number{});
  EXPECT_TRUE(slots.any_due(0)) << "it has not taken it yet";
  slots.take({1}, {});
  EXPECT_FALSE(slots.any_due(0));
  EXPECT_TRUE(slots.any());
  EXPECT_TRUE(slots.any_due(1));
  slots.clear();
  EXPECT_FALSE(slots.any());
}

TEST(RecordedSlots, AreNotTakenByWhoWasNotBrought) {
  recorded_slots slots = three_comings();
  slots.take({0}, {1});
  slots.take({7}, {});
  EXPECT_EQ(slots.bring({0}, 0), incarnation_number{1});
  EXPECT_EQ(recorded_slots().bring({0}, 0), std::nullopt);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/engine/record/recorded_lives.hpp>

#include <gtest/gtest.h>

#include <optional>

namespace mailgrad {
namespace {

using kind = order_entry::kind;

/// Worker 0 comes back twice, the second time after a switch; worker 1 comes late.
recorded_seats three_comings() {
  recording r;
  r.header.workers = 1;
  r.header.seats = 2;
  r.batches.resize(2);
  r.turns = {{{kind::joined, {0}},
              {kind::left, {0}},
              order_entry::of(kind::joined, {0}, {1}),
              {kind::joined, {1}},
              order_entry::of(kind::left, {0}, {1}),
              {kind::switched, {}},
              order_entry::of(kind::joined, {0}, {2})}};
  return recorded_seats(recorded_lives(r));
}

TEST(RecordedSeats, AreTakenOneAfterTheOther) {
  recorded_seats seats = three_comings();
  EXPECT_EQ(seats.bring({0}, 0), incarnation{1});
  EXPECT_EQ(seats.bring({0}, 0), std::nullopt) << "it is on its way";
  EXPECT_TRUE(seats.was_brought({0}, {1}));
  seats.sit({0}, {1});
  EXPECT_FALSE(seats.was_brought({0}, {1}));
  EXPECT_EQ(seats.bring({0}, 0), std::nullopt) << "the next one came after the switch";
  EXPECT_EQ(seats.bring({0}, 1), incarnation{2});
}

TEST(RecordedSeats, SayWhoComesBeforeTheNextSwitch) {
  recorded_seats seats = three_comings();
  EXPECT_TRUE(seats.any_due(0));
  seats.bring({0}, 0);
  seats.sit({0}, {1});
  EXPECT_TRUE(seats.any_due(0)) << "worker 1 has no seat yet";
  EXPECT_EQ(seats.bring({1}, 0), incarnation{});
  EXPECT_TRUE(seats.any_due(0)) << "it has not sat down";
  seats.sit({1}, {});
  EXPECT_FALSE(seats.any_due(0));
  EXPECT_TRUE(seats.any());
  EXPECT_TRUE(seats.any_due(1));
  seats.clear();
  EXPECT_FALSE(seats.any());
}

TEST(RecordedSeats, AreNotTakenByWhoWasNotBrought) {
  recorded_seats seats = three_comings();
  seats.sit({0}, {1});
  seats.sit({7}, {});
  EXPECT_EQ(seats.bring({0}, 0), incarnation{1});
  EXPECT_EQ(recorded_seats().bring({0}, 0), std::nullopt);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/engine/shard/gradient_order.hpp>
#include <mailgrad/tests/engine/shard/noted_port.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using namespace ::testing;

using kind = order_entry::kind;

class GradientOrder : public ::testing::Test {
protected:
  gradient_order of_shard(std::uint32_t shard, bool led) {
    gradient_order order({shard}, 2, port_);
    order.begin_policy(led);
    return order;
  }
  /// Of the second shard, which follows the first.
  gradient_order followed() { return of_shard(1, true); }
  static order_entry entry_of(std::uint32_t worker, std::uint64_t step) {
    return {kind::gradient, {worker}, {step}};
  }
  static void arrive(gradient_order& order, std::uint32_t worker, std::uint64_t step) {
    order.arrive(testing::push_of(worker, step, 0, nullptr), 77);
  }
  /// All that can be judged: each entry, and the step of its gradient; 0 if that is lost, or there is none.
  static std::vector<std::pair<order_entry, std::uint64_t>> taken(gradient_order& order) {
    std::vector<std::pair<order_entry, std::uint64_t>> all;
    while (const auto next = order.next())
      all.emplace_back(next->entry, next->gradient ? next->gradient->header.id.step.value : 0);
    return all;
  }

  testing::noted_port port_;
};

/// Also of the first shard though others follow it, and of one that judges by itself whatever its number.
TEST_F(GradientOrder, OfItsOwnIsThatOfTheMailbox) {
  for (const auto& [shard, led] : {std::pair{0U, false}, {0U, true}, {1U, false}}) {
    gradient_order own = of_shard(shard, led);
    EXPECT_FALSE(own.is_followed()) << shard;
    EXPECT_THAT(taken(own), IsEmpty());
    own.join({1});
    arrive(own, 1, 4);
    own.leave({1});
    EXPECT_EQ(own.waiting({1}), 0U) << "it waits for no entry";
    EXPECT_THAT(taken(own), ElementsAre(Pair(order_entry{kind::joined, {1}}, 0),
                                        Pair(order_entry{kind::gradient, {1}, {4}, 0, 77}, 4),
                                        Pair(order_entry{kind::left, {1}}, 0)));
  }
}

TEST_F(GradientOrder, IsToldToTheOtherShardsOnlyIfTheyMustAgree) {
  gradient_order order = of_shard(0, false);
  order.announce(entry_of(0, 1));
  order.take_switch(false);
  EXPECT_THAT(port_.told, IsEmpty());
  order.begin_policy(true);
  EXPECT_FALSE(order.is_followed()) << "the first shard leads";
  order.announce(entry_of(0, 2));
  order.take_switch(false);
  EXPECT_THAT(port_.told, ElementsAre(entry_of(0, 2), order_entry{kind::switched, {}}));
}

TEST_F(GradientOrder, OfAShardThatFollowsIsThatOfTheFirst) {
  gradient_order order = followed();
  EXPECT_TRUE(order.is_followed());
  arrive(order, 1, 1);
  arrive(order, 0, 1);
  EXPECT_FALSE(order.next()) << "the first shard has said nothing";
  EXPECT_EQ(order.waiting({0}), 1U);
  order.expect(entry_of(0, 1));
  order.expect({kind::switched, {}});
  EXPECT_THAT(taken(order), ElementsAre(Pair(entry_of(0, 1), 1)));
  EXPECT_TRUE(order.switch_is_next());
  order.take_switch(true);
  EXPECT_FALSE(order.switch_is_next());
  EXPECT_FALSE(order.never_takes({{}, {1}, {}, {9}})) << "its entry may yet be told";
  order.announce(entry_of(0, 1));
  EXPECT_THAT(port_.told, IsEmpty()) << "who follows tells nobody";
}

/// A worker that was lost has entries for a part of what it did.
TEST_F(GradientOrder, OfAReplayIsThatOfTheRecordingUnderEveryPolicy) {
  const std::vector<order_entry> entries{entry_of(0, 1), entry_of(1, 1)};
  const recorded_order recorded{entries, {{{1}}, {}}};
  gradient_order order({0}, 2, port_, &recorded);
  order.begin_policy(false);
  EXPECT_TRUE(order.is_followed());
  arrive(order, 1, 1);
  EXPECT_FALSE(order.next());
  arrive(order, 0, 1);
  EXPECT_THAT(taken(order), ElementsAre(Pair(entry_of(0, 1), 1), Pair(entry_of(1, 1), 1)));
  EXPECT_FALSE(order.never_takes({{}, {1}, {}, {1}}));
  EXPECT_TRUE(order.never_takes({{}, {1}, {}, {2}})) << "the recording ends before";
  EXPECT_TRUE(order.was_cut({0}, {1}));
  EXPECT_FALSE(order.was_cut({0}, {0}));
  EXPECT_FALSE(order.was_cut({1}, {1}));
  EXPECT_FALSE(of_shard(0, false).was_cut({0}, {1})) << "it repeats no run";
}

/// The rank left while the shard judged in its own order, and joins again under a policy that leads it.
TEST_F(GradientOrder, KnowsUnderALedPolicyWhoLeftBefore) {
  gradient_order order = of_shard(1, false);
  order.join({0});
  order.leave({0});
  taken(order);
  order.begin_policy(true);
  order.join({0}, {1});
  order.expect(order_entry::of(kind::joined, {0}, {1}));
  order.expect(entry_of(0, 1));
  EXPECT_THAT(taken(order), SizeIs(1)) << "its gradient is under way, not lost";
  arrive(order, 0, 1);
  EXPECT_THAT(taken(order), ElementsAre(Pair(entry_of(0, 1), 1)));
}

TEST_F(GradientOrder, IsNotedForTheRecorderButForASwitchThatNoWorkerIsLeftFor) {
  gradient_order order({0}, 2, port_);
  order.announce(entry_of(0, 1));
  order.take_switch(false);
  order.take_switch(true);
  order.announce_kept(3);
  EXPECT_THAT(port_.notes, ElementsAre(entry_of(0, 1), order_entry{kind::switched, {}}));
  EXPECT_THAT(port_.kept, ElementsAre(3));
}

/// The gradient that the first shard took never came here.
TEST_F(GradientOrder, PassesTheEntriesOfAWorkerThatIsGone) {
  gradient_order order = followed();
  order.join({0});
  order.expect({kind::joined, {0}});
  order.expect(entry_of(0, 1));
  EXPECT_THAT(taken(order), SizeIs(1));
  order.leave({0});
  EXPECT_THAT(taken(order), ElementsAre(Pair(entry_of(0, 1), 0)))
      << "the first shard has not said that the worker left";
}

/// Each shard has entries of its own in a recording.
TEST_F(GradientOrder, OfAReplayIsThatOfItsShardAndTellsNobody) {
  const std::vector<order_entry> of_first{entry_of(0, 1), {kind::switched, {}}}, of_second{entry_of(1, 1)};
  const recorded_order recorded_of_first{of_first, {}}, recorded_of_second{of_second, {}};
  gradient_order first({0}, 2, port_, &recorded_of_first), second({1}, 2, port_, &recorded_of_second);
  for (gradient_order* order : {&first, &second}) {
    order->begin_policy(true);
    arrive(*order, 0, 1);
    arrive(*order, 1, 1);
  }
  EXPECT_THAT(taken(first), ElementsAre(Pair(entry_of(0, 1), 1)));
  EXPECT_THAT(taken(second), ElementsAre(Pair(entry_of(1, 1), 1)));
  EXPECT_TRUE(second.never_takes({{}, {0}, {}, {1}}));
  EXPECT_TRUE(first.switch_is_next());
  first.announce(entry_of(0, 1));
  first.take_switch(true);
  EXPECT_FALSE(first.switch_is_next());
  EXPECT_THAT(port_.told, IsEmpty());
  EXPECT_THAT(port_.notes, SizeIs(2)) << "a replay may be recorded by whoever wires it";
}

/// What a shard does in an order that the first one gives.
class OrderedGradients : public GradientOrder {
protected:
  void expect(kind what, std::uint32_t incarnation = 0) {
    order_.expect(order_entry::of(what, {0}, {incarnation}));
  }
  /// What can be judged.
  std::vector<kind> kinds() {
    std::vector<kind> all;
    for (const auto& [entry, step] : taken(order_)) all.push_back(entry.what);
    return all;
  }

  gradient_order order_ = followed();
};

TEST_F(OrderedGradients, AreTakenInTheOrderOfTheEntriesNotOfTheirArrival) {
  arrive(order_, 1, 1);
  order_.expect(entry_of(0, 4));
  order_.expect(entry_of(1, 1));
  arrive(order_, 0, 3);
  EXPECT_FALSE(order_.next()) << "worker 0 comes first, with its step 4";
  arrive(order_, 0, 4);
  EXPECT_THAT(taken(order_), ElementsAre(Pair(entry_of(0, 4), 4), Pair(entry_of(1, 1), 1)));
}

TEST_F(OrderedGradients, DoNotWaitForTheDead) {
  expect(kind::joined);
  order_.expect(entry_of(0, 1));
  expect(kind::left);
  EXPECT_FALSE(order_.next());
  order_.leave({0});
  EXPECT_THAT(taken(order_), ElementsAre(Pair(order_entry{kind::joined, {0}}, 0), Pair(entry_of(0, 1), 0),
                                         Pair(order_entry{kind::left, {0}}, 0)));
}

/// The second incarnation has joined before the entries of the first have come.
TEST_F(OrderedGradients, OfEachIncarnationHaveItsOwnEntries) {
  expect(kind::joined);
  order_.expect(entry_of(0, 1));
  expect(kind::left);
  expect(kind::joined, 1);
  order_.expect(entry_of(0, 1));
  order_.join({0});
  order_.leave({0});
  order_.join({0}, {1});
  EXPECT_THAT(kinds(), ElementsAre(kind::joined, kind::gradient, kind::left, kind::joined))
      << "the second incarnation has yet to send its gradient";
  arrive(order_, 0, 1);
  EXPECT_THAT(taken(order_), ElementsAre(Pair(entry_of(0, 1), 1)));
}

TEST_F(OrderedGradients, WaitForTheNextIncarnationToJoin) {
  expect(kind::left);
  expect(kind::joined, 1);
  order_.join({0});
  EXPECT_THAT(kinds(), ElementsAre(kind::left)) << "before the worker's end is known here";
  order_.leave({0});
  EXPECT_FALSE(order_.next());
  order_.join({0}, {1});
  EXPECT_THAT(kinds(), ElementsAre(kind::joined));
}

/// One incarnation died before the first shard heard of it, but not before this one did.
TEST_F(OrderedGradients, SkipAnIncarnationThatTheOrderDoesNotKnow) {
  expect(kind::joined);
  expect(kind::left);
  expect(kind::joined, 2);
  order_.join({0});
  order_.leave({0});
  order_.join({0}, {1});
  order_.leave({0}, {1});
  EXPECT_THAT(kinds(), ElementsAre(kind::joined, kind::left));
  order_.join({0}, {2});
  order_.expect(entry_of(0, 1));
  EXPECT_THAT(kinds(), ElementsAre(kind::joined)) << "its gradient is under way";
}

TEST_F(OrderedGradients, WithoutAnEntryAreGivenUpWhenTheirWorkerLeaves) {
  expect(kind::left);
  arrive(order_, 0, 3);
  EXPECT_EQ(order_.next()->gradient->header.id.step.value, 3U);
  EXPECT_EQ(order_.waiting({0}), 0U);
}

TEST_F(OrderedGradients, StopAtASwitchUntilItIsTaken) {
  order_.join({0});
  order_.expect({kind::switched, {}});
  expect(kind::joined);
  EXPECT_TRUE(order_.switch_is_next());
  EXPECT_FALSE(order_.next());
  order_.take_switch(true);
  EXPECT_FALSE(order_.switch_is_next());
  EXPECT_THAT(kinds(), ElementsAre(kind::joined));
}

} // namespace
} // namespace mailgrad

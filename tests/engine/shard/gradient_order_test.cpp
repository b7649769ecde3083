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
  gradient_order of_shard(std::uint32_t shard) { return {{shard}, 2, port_}; }
  static order_entry entry_of(std::uint32_t worker, std::uint64_t step) {
    return {kind::gradient, {worker}, {step}};
  }
  static void arrive(gradient_order& order, std::uint32_t worker, std::uint64_t step) {
    order.arrive(testing::push_of(worker, step, 0, nullptr), 77);
  }

  testing::noted_port port_;
};

TEST_F(GradientOrder, OfItsOwnIsThatOfTheMailbox) {
  gradient_order own = of_shard(0);
  own.begin_policy(false);
  EXPECT_FALSE(own.is_followed());
  EXPECT_FALSE(own.next());
  own.join({1});
  arrive(own, 1, 4);
  own.leave({1});
  EXPECT_EQ(own.next()->entry.what, kind::joined);
  const auto second = own.next();
  EXPECT_EQ(second->entry, (order_entry{kind::gradient, {1}, {4}, 0, 77}));
  EXPECT_EQ(second->gradient->header.id.step.value, 4U);
  EXPECT_EQ(own.next()->entry.what, kind::left);
  EXPECT_FALSE(own.next());
}

TEST_F(GradientOrder, IsToldToTheOtherShardsOnlyIfTheyMustAgree) {
  gradient_order order = of_shard(0);
  order.begin_policy(false);
  order.announce(entry_of(0, 1));
  EXPECT_THAT(port_.told, IsEmpty());
  order.begin_policy(true);
  EXPECT_FALSE(order.is_followed()) << "the first shard leads";
  order.announce(entry_of(0, 2));
  ASSERT_THAT(port_.told, SizeIs(1));
  EXPECT_EQ(port_.told[0], entry_of(0, 2));
}

TEST_F(GradientOrder, OfAShardThatFollowsIsThatOfTheFirst) {
  gradient_order order = of_shard(1);
  order.begin_policy(true);
  EXPECT_TRUE(order.is_followed());
  arrive(order, 1, 1);
  arrive(order, 0, 1);
  EXPECT_FALSE(order.next()) << "the first shard has said nothing";
  EXPECT_EQ(order.waiting({0}), 1U);
  order.expect(entry_of(0, 1));
  order.expect({kind::switched, {}});
  EXPECT_EQ(order.next()->entry, entry_of(0, 1));
  EXPECT_FALSE(order.next());
  EXPECT_TRUE(order.switch_is_next());
  order.take_switch(true);
  EXPECT_FALSE(order.switch_is_next());
  EXPECT_FALSE(order.never_takes({{}, {1}, {}, {9}})) << "its entry may yet be told";
  order.announce(entry_of(0, 1));
  EXPECT_THAT(port_.told, IsEmpty()) << "who follows tells nobody";
}

TEST_F(GradientOrder, OfAReplayIsThatOfTheRecordingUnderEveryPolicy) {
  const std::vector<order_entry> entries{entry_of(0, 1), entry_of(1, 1)};
  const recorded_order recorded{entries, {}};
  gradient_order order({0}, 2, port_, &recorded);
  order.begin_policy(false);
  EXPECT_TRUE(order.is_followed());
  arrive(order, 1, 1);
  EXPECT_FALSE(order.next());
  arrive(order, 0, 1);
  EXPECT_EQ(order.next()->entry, entry_of(0, 1));
  EXPECT_EQ(order.next()->entry, entry_of(1, 1));
  EXPECT_FALSE(order.never_takes({{}, {1}, {}, {1}}));
  EXPECT_TRUE(order.never_takes({{}, {1}, {}, {2}})) << "the recording ends before";
}

/// The rank left while the shard judged in its own order, and joins again under a policy that leads it.
TEST_F(GradientOrder, KnowsUnderALedPolicyWhoLeftBefore) {
  gradient_order order = of_shard(1);
  order.begin_policy(false);
  order.join({0});
  order.leave({0});
  while (order.next()) {
  }
  order.begin_policy(true);
  order.join({0}, {1});
  order.expect(order_entry::of(kind::joined, {0}, {1}));
  order.expect(entry_of(0, 1));
  EXPECT_EQ(order.next()->entry.what, kind::joined);
  EXPECT_FALSE(order.next()) << "its gradient is under way, not lost";
  arrive(order, 0, 1);
  EXPECT_TRUE(order.next()->gradient);
}

TEST_F(GradientOrder, IsNotedForTheRecorderButForASwitchThatNoWorkerIsLeftFor) {
  gradient_order order = of_shard(0);
  order.announce(entry_of(0, 1));
  order.take_switch(false);
  order.take_switch(true);
  order.announce_kept(3);
  EXPECT_THAT(port_.notes, ElementsAre(entry_of(0, 1), order_entry{kind::switched, {}}));
  EXPECT_THAT(port_.kept, ElementsAre(3));
}

/// A worker that was lost has entries for a part of what it did.
TEST_F(GradientOrder, OfAReplayKnowsWhoWasCut) {
  const std::vector<order_entry> entries{entry_of(0, 1)};
  const recorded_order recorded{entries, {{{1}}, {}}};
  const gradient_order order({0}, 2, port_, &recorded);
  EXPECT_TRUE(order.was_cut({0}, {1}));
  EXPECT_FALSE(order.was_cut({0}, {0}));
  EXPECT_FALSE(order.was_cut({1}, {1}));
  EXPECT_FALSE(of_shard(0).was_cut({0}, {1})) << "it repeats no run";
}

TEST_F(GradientOrder, OfTheFirstShardTellsOfASwitchToo) {
  gradient_order order = of_shard(0);
  order.begin_policy(true);
  order.take_switch(false);
  ASSERT_THAT(port_.told, SizeIs(1));
  EXPECT_EQ(port_.told[0].what, kind::switched);
  order.begin_policy(false);
  order.take_switch(false);
  EXPECT_THAT(port_.told, SizeIs(1)) << "the others judge by themselves";
}

TEST_F(GradientOrder, OfTheFirstShardIsItsOwnThoughOthersFollow) {
  gradient_order order = of_shard(0);
  order.begin_policy(true);
  order.join({1});
  arrive(order, 1, 4);
  order.leave({1});
  EXPECT_EQ(order.next()->entry, (order_entry{kind::joined, {1}}));
  EXPECT_EQ(order.next()->entry.step.value, 4U);
  EXPECT_EQ(order.next()->entry, (order_entry{kind::left, {1}}));
  EXPECT_EQ(order.waiting({1}), 0U);
}

TEST_F(GradientOrder, OfAShardThatJudgesByItselfIsItsOwnWhateverItsNumber) {
  gradient_order order = of_shard(1);
  order.begin_policy(false);
  EXPECT_FALSE(order.is_followed());
  arrive(order, 0, 1);
  EXPECT_EQ(order.waiting({0}), 0U) << "it waits for no entry";
  EXPECT_TRUE(order.next());
}

/// The gradient that the first shard took never came here.
TEST_F(GradientOrder, PassesTheEntriesOfAWorkerThatIsGone) {
  gradient_order order = of_shard(1);
  order.begin_policy(true);
  order.join({0});
  order.expect({kind::joined, {0}});
  EXPECT_TRUE(order.next());
  order.expect(entry_of(0, 1));
  EXPECT_FALSE(order.next());
  order.leave({0});
  const auto lost = order.next();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->entry, entry_of(0, 1));
  EXPECT_FALSE(lost->gradient);
  EXPECT_FALSE(order.next()) << "the first shard has not said that the worker left";
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
  EXPECT_EQ(first.next()->entry, entry_of(0, 1));
  EXPECT_EQ(second.next()->entry, entry_of(1, 1));
  EXPECT_TRUE(second.never_takes({{}, {0}, {}, {1}}));
  EXPECT_TRUE(first.switch_is_next());
  first.announce(entry_of(0, 1));
  first.take_switch(true);
  EXPECT_FALSE(first.switch_is_next());
  EXPECT_THAT(port_.told, IsEmpty());
  EXPECT_THAT(port_.notes, SizeIs(2)) << "a replay may be recorded by whoever wires it";
}

// What a shard does in an order that the first one gives.

push_gradient gradient_of(std::uint32_t worker, std::uint64_t step) {
  push_gradient x;
  x.header.id.worker = {worker};
  x.header.id.step.value = step;
  return x;
}

class OrderedGradients : public ::testing::Test {
protected:
  gradient_order of(std::uint32_t workers) {
    gradient_order followed({1}, workers, port_);
    followed.begin_policy(true);
    return followed;
  }

  testing::noted_port port_;
};

TEST_F(OrderedGradients, GivesGradientsInTheOrderOfTheEntriesNotOfTheirArrival) {
  gradient_order q = of(2);
  q.arrive(gradient_of(1, 1), 0);
  EXPECT_FALSE(q.next());
  q.expect({kind::gradient, {0}, 1});
  q.expect({kind::gradient, {1}, 1});
  EXPECT_FALSE(q.next()) << "worker 0 comes first";
  q.arrive(gradient_of(0, 1), 0);
  EXPECT_EQ(q.next()->gradient->header.id.worker, rank{0});
  EXPECT_EQ(q.next()->gradient->header.id.worker, rank{1});
  EXPECT_FALSE(q.next());
}

TEST_F(OrderedGradients, WaitsForTheStepThatIsMeant) {
  gradient_order q = of(1);
  q.arrive(gradient_of(0, 4), 0);
  q.expect({kind::gradient, {0}, 5});
  EXPECT_FALSE(q.next());
  q.arrive(gradient_of(0, 5), 0);
  EXPECT_EQ(q.next()->gradient->header.id.step.value, 5U);
}

TEST_F(OrderedGradients, DoesNotWaitForTheDead) {
  gradient_order q = of(2);
  q.expect({kind::joined, {0}});
  q.expect({kind::gradient, {0}, 1});
  q.expect({kind::left, {0}});
  EXPECT_FALSE(q.next());
  q.leave({0});
  EXPECT_EQ(q.next()->entry.what, kind::joined);
  EXPECT_FALSE(q.next()->gradient);
  EXPECT_EQ(q.next()->entry.what, kind::left);
}

order_entry entry_of(kind what, std::uint32_t incarnation) {
  return order_entry::of(what, {0}, {incarnation});
}

/// The second incarnation has joined before the entries of the first have come.
TEST_F(OrderedGradients, GivesEachIncarnationItsOwnEntries) {
  gradient_order q = of(1);
  for (const std::uint32_t incarnation : {0U, 1U}) {
    q.expect(entry_of(kind::joined, incarnation));
    q.expect({kind::gradient, {0}, {1}});
    if (incarnation == 0) q.expect(entry_of(kind::left, incarnation));
  }
  q.join({0});
  q.leave({0});
  q.join({0}, {1});
  EXPECT_EQ(q.next()->entry.what, kind::joined);
  EXPECT_FALSE(q.next()->gradient) << "it was lost";
  EXPECT_EQ(q.next()->entry.what, kind::left);
  EXPECT_EQ(q.next()->entry.what, kind::joined);
  EXPECT_FALSE(q.next()) << "the second incarnation has yet to send its gradient";
  q.arrive(gradient_of(0, 1), 0);
  EXPECT_TRUE(q.next()->gradient);
}

TEST_F(OrderedGradients, WaitsForTheNextIncarnationToJoin) {
  gradient_order q = of(1);
  q.expect(entry_of(kind::left, 0));
  q.expect(entry_of(kind::joined, 1));
  q.join({0});
  EXPECT_EQ(q.next()->entry.what, kind::left)
      << "the order knows of the end before the worker's end is known";
  EXPECT_FALSE(q.next());
  q.leave({0});
  EXPECT_FALSE(q.next());
  q.join({0}, {1});
  EXPECT_EQ(q.next()->entry.what, kind::joined);
}

/// One incarnation died before the first shard heard of it, but not before this one did.
TEST_F(OrderedGradients, SkipsAnIncarnationThatTheOrderDoesNotKnow) {
  gradient_order q = of(1);
  q.expect(entry_of(kind::joined, 0));
  q.expect(entry_of(kind::left, 0));
  q.expect(entry_of(kind::joined, 2));
  q.join({0});
  q.leave({0});
  q.join({0}, {1});
  q.leave({0}, {1});
  for (const kind what : {kind::joined, kind::left}) EXPECT_EQ(q.next()->entry.what, what);
  EXPECT_FALSE(q.next());
  q.join({0}, {2});
  EXPECT_EQ(q.next()->entry.what, kind::joined);
  q.expect({kind::gradient, {0}, {1}});
  EXPECT_FALSE(q.next()) << "it is under way";
}

TEST_F(OrderedGradients, GivesUpAGradientWithoutAnEntryWhenItsWorkerLeaves) {
  gradient_order q = of(1);
  q.expect({kind::left, {0}});
  q.arrive(gradient_of(0, 3), 0);
  EXPECT_EQ(q.next()->gradient->header.id.step.value, 3U);
  EXPECT_EQ(q.waiting({0}), 0U);
}

TEST_F(OrderedGradients, StopsAtASwitchUntilItIsTaken) {
  gradient_order q = of(1);
  q.join({0});
  q.expect({kind::switched, {}});
  q.expect({kind::joined, {0}});
  EXPECT_TRUE(q.switch_is_next());
  EXPECT_FALSE(q.next());
  q.take_switch(true);
  EXPECT_FALSE(q.switch_is_next());
  EXPECT_EQ(q.next()->entry.what, kind::joined);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/support/played_actor.hpp>

#include <mailgrad/actors/shard/gradient_order.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <gmock/gmock.h>

#include <optional>

namespace mailgrad {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using kind = order_entry::kind;

class GradientOrder : public testing::PlayedActorTest {
protected:
  gradient_order::options options(std::uint32_t shard) {
    return {self_,
            {shard},
            2,
            shard == 0 ? std::vector{follower_.actor()} : std::vector<caf::actor>(),
            recorder_.actor()};
  }
  static order_entry turn_of(std::uint32_t worker, std::uint64_t step) {
    return {kind::gradient, {worker}, {step}};
  }
  static void arrive(gradient_order& order, std::uint32_t worker, std::uint64_t step) {
    order.arrive(testing::push_of(worker, step, 0, nullptr), 77);
  }

  testing::listener<order_entry> follower_ = listen<order_entry>();
  testing::listener<order_noted> recorder_ = listen<order_noted>();
};

TEST_F(GradientOrder, OfItsOwnIsThatOfTheMailbox) {
  gradient_order own(options(0));
  own.begin_policy(false);
  EXPECT_FALSE(own.is_followed());
  EXPECT_FALSE(own.next());
  own.join({1});
  arrive(own, 1, 4);
  own.leave({1});
  EXPECT_EQ(own.next()->turn.what, kind::joined);
  const auto second = own.next();
  EXPECT_EQ(second->turn, (order_entry{kind::gradient, {1}, {4}, 0, 77}));
  EXPECT_EQ(second->gradient->header.id.step.value, 4U);
  EXPECT_EQ(own.next()->turn.what, kind::left);
  EXPECT_FALSE(own.next());
}

TEST_F(GradientOrder, IsToldToTheOtherShardsOnlyIfTheyMustAgree) {
  gradient_order order(options(0));
  order.begin_policy(false);
  act([&] { order.announce(turn_of(0, 1)); });
  EXPECT_THAT(follower_.heard<order_entry>(), IsEmpty());
  order.begin_policy(true);
  EXPECT_FALSE(order.is_followed()) << "the first shard leads";
  act([&] { order.announce(turn_of(0, 2)); });
  ASSERT_THAT(follower_.heard<order_entry>(), SizeIs(1));
  EXPECT_EQ(follower_.heard<order_entry>()[0], turn_of(0, 2));
}

TEST_F(GradientOrder, OfAShardThatFollowsIsThatOfTheFirst) {
  gradient_order order(options(1));
  order.begin_policy(true);
  EXPECT_TRUE(order.is_followed());
  arrive(order, 1, 1);
  arrive(order, 0, 1);
  EXPECT_FALSE(order.next()) << "the first shard has said nothing";
  EXPECT_EQ(order.waiting({0}), 1U);
  order.expect(turn_of(0, 1));
  order.expect({kind::switched, {}});
  EXPECT_EQ(order.next()->turn, turn_of(0, 1));
  EXPECT_FALSE(order.next());
  EXPECT_TRUE(order.switch_is_next());
  act([&] { order.take_switch(true); });
  EXPECT_FALSE(order.switch_is_next());
  EXPECT_FALSE(order.never_takes({{}, {1}, {}, {9}})) << "its turn may yet be told";
  act([&] { order.announce(turn_of(0, 1)); });
  EXPECT_THAT(follower_.heard<order_entry>(), IsEmpty()) << "who follows tells nobody";
}

TEST_F(GradientOrder, OfAReplayIsThatOfTheRecordingUnderEveryPolicy) {
  auto recorded = std::make_shared<recording>();
  recorded->header.workers = 2;
  recorded->batches.resize(2);
  recorded->turns = {{turn_of(0, 1), turn_of(1, 1)}};
  gradient_order::options o = options(0);
  o.replayed = recorded;
  gradient_order order(std::move(o));
  order.begin_policy(false);
  EXPECT_TRUE(order.is_followed());
  arrive(order, 1, 1);
  EXPECT_FALSE(order.next());
  arrive(order, 0, 1);
  EXPECT_EQ(order.next()->turn, turn_of(0, 1));
  EXPECT_EQ(order.next()->turn, turn_of(1, 1));
  EXPECT_FALSE(order.never_takes({{}, {1}, {}, {1}}));
  EXPECT_TRUE(order.never_takes({{}, {1}, {}, {2}})) << "the recording ends before";
}

/// The rank left while the shard judged in its own order, and joins again under a policy that leads it.
TEST_F(GradientOrder, KnowsUnderALedPolicyWhoLeftBefore) {
  gradient_order order(options(1));
  order.begin_policy(false);
  order.join({0});
  order.leave({0});
  while (order.next()) {
  }
  order.begin_policy(true);
  order.join({0}, {1});
  order.expect(order_entry::of(kind::joined, {0}, {1}));
  order.expect(turn_of(0, 1));
  EXPECT_EQ(order.next()->turn.what, kind::joined);
  EXPECT_FALSE(order.next()) << "its gradient is under way, not lost";
  arrive(order, 0, 1);
  EXPECT_TRUE(order.next()->gradient);
}

TEST_F(GradientOrder, TellsTheRecorderEverythingWhenItIsFlushed) {
  gradient_order order(options(0));
  act([&] {
    order.announce(turn_of(0, 1));
    order.take_switch(false);
    order.take_switch(true);
    order.flush();
  });
  ASSERT_THAT(recorder_.heard<order_noted>(), SizeIs(1));
  const auto& turns = recorder_.heard<order_noted>()[0].turns;
  ASSERT_THAT(turns, SizeIs(2)) << "a switch that no worker is left for is not recorded";
  EXPECT_EQ(turns[0], turn_of(0, 1));
  EXPECT_EQ(turns[1].what, kind::switched);
}

TEST_F(GradientOrder, OfTheFirstShardTellsOfASwitchToo) {
  gradient_order order(options(0));
  order.begin_policy(true);
  act([&] { order.take_switch(false); });
  ASSERT_THAT(follower_.heard<order_entry>(), SizeIs(1));
  EXPECT_EQ(follower_.heard<order_entry>()[0].what, kind::switched);
  order.begin_policy(false);
  act([&] { order.take_switch(false); });
  EXPECT_THAT(follower_.heard<order_entry>(), SizeIs(1)) << "the others judge by themselves";
}

TEST_F(GradientOrder, OfTheFirstShardIsItsOwnThoughOthersFollow) {
  gradient_order order(options(0));
  order.begin_policy(true);
  order.join({1});
  arrive(order, 1, 4);
  order.leave({1});
  EXPECT_EQ(order.next()->turn, (order_entry{kind::joined, {1}}));
  EXPECT_EQ(order.next()->turn.step.value, 4U);
  EXPECT_EQ(order.next()->turn, (order_entry{kind::left, {1}}));
  EXPECT_EQ(order.waiting({1}), 0U);
}

TEST_F(GradientOrder, OfAShardThatJudgesByItselfIsItsOwnWhateverItsNumber) {
  gradient_order order(options(1));
  order.begin_policy(false);
  EXPECT_FALSE(order.is_followed());
  arrive(order, 0, 1);
  EXPECT_EQ(order.waiting({0}), 0U) << "it waits for no turn";
  EXPECT_TRUE(order.next());
}

/// The gradient that the first shard took never came here.
TEST_F(GradientOrder, PassesTheTurnsOfAWorkerThatIsGone) {
  gradient_order order(options(1));
  order.begin_policy(true);
  order.join({0});
  order.expect({kind::joined, {0}});
  EXPECT_TRUE(order.next());
  order.expect(turn_of(0, 1));
  EXPECT_FALSE(order.next());
  order.leave({0});
  const auto lost = order.next();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->turn, turn_of(0, 1));
  EXPECT_FALSE(lost->gradient);
  EXPECT_FALSE(order.next()) << "the first shard has not said that the worker left";
}

/// Each shard has turns of its own in a recording.
TEST_F(GradientOrder, OfAReplayIsThatOfItsShardAndTellsNobody) {
  auto recorded = std::make_shared<recording>();
  recorded->header.workers = 2;
  recorded->batches.resize(2);
  recorded->turns = {{turn_of(0, 1), {kind::switched, {}}}, {turn_of(1, 1)}};
  const auto replayed = [&](std::uint32_t shard) {
    gradient_order::options o = options(shard);
    o.replayed = recorded;
    return gradient_order(std::move(o));
  };
  gradient_order first = replayed(0), second = replayed(1);
  for (gradient_order* order : {&first, &second}) {
    order->begin_policy(true);
    arrive(*order, 0, 1);
    arrive(*order, 1, 1);
  }
  EXPECT_EQ(first.next()->turn, turn_of(0, 1));
  EXPECT_EQ(second.next()->turn, turn_of(1, 1));
  EXPECT_TRUE(second.never_takes({{}, {0}, {}, {1}}));
  EXPECT_TRUE(first.switch_is_next());
  act([&] {
    first.announce(turn_of(0, 1));
    first.take_switch(true);
    first.flush();
  });
  EXPECT_FALSE(first.switch_is_next());
  EXPECT_THAT(follower_.heard<order_entry>(), IsEmpty());
  ASSERT_THAT(recorder_.heard<order_noted>(), SizeIs(1)) << "a replay may be recorded by whoever wires it";
  EXPECT_THAT(recorder_.heard<order_noted>()[0].turns, SizeIs(2));
}

TEST_F(GradientOrder, TellsTheRecorderWhichShardItIs) {
  gradient_order order(options(1));
  act([&] {
    order.announce(turn_of(0, 1));
    order.flush();
  });
  EXPECT_EQ(recorder_.heard<order_noted>()[0].shard, shard_index{1});
}

} // namespace
} // namespace mailgrad

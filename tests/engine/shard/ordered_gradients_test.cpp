#include <mailgrad/tests/engine/shard/noted_port.hpp>

#include <mailgrad/engine/shard/gradient_order.hpp>

#include <gtest/gtest.h>

#include <cstdint>

// What a shard does in an order that the first one gives.

namespace mailgrad {
namespace {

using kind = order_entry::kind;

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

TEST_F(OrderedGradients, GivesGradientsInTheOrderOfTheTurnsNotOfTheirArrival) {
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
  EXPECT_EQ(q.next()->turn.what, kind::joined);
  EXPECT_FALSE(q.next()->gradient);
  EXPECT_EQ(q.next()->turn.what, kind::left);
}

order_entry turn_of(kind what, std::uint32_t life) { return order_entry::of(what, {0}, {life}); }

/// The second incarnation has joined before the turns of the first have come.
TEST_F(OrderedGradients, GivesEachIncarnationItsOwnTurns) {
  gradient_order q = of(1);
  for (const std::uint32_t life : {0U, 1U}) {
    q.expect(turn_of(kind::joined, life));
    q.expect({kind::gradient, {0}, {1}});
    if (life == 0) q.expect(turn_of(kind::left, life));
  }
  q.join({0});
  q.leave({0});
  q.join({0}, {1});
  EXPECT_EQ(q.next()->turn.what, kind::joined);
  EXPECT_FALSE(q.next()->gradient) << "it was lost";
  EXPECT_EQ(q.next()->turn.what, kind::left);
  EXPECT_EQ(q.next()->turn.what, kind::joined);
  EXPECT_FALSE(q.next()) << "the second incarnation has yet to send its gradient";
  q.arrive(gradient_of(0, 1), 0);
  EXPECT_TRUE(q.next()->gradient);
}

TEST_F(OrderedGradients, WaitsForTheNextIncarnationToJoin) {
  gradient_order q = of(1);
  q.expect(turn_of(kind::left, 0));
  q.expect(turn_of(kind::joined, 1));
  q.join({0});
  EXPECT_EQ(q.next()->turn.what, kind::left) << "the order knows of the end before the worker's end is known";
  EXPECT_FALSE(q.next());
  q.leave({0});
  EXPECT_FALSE(q.next());
  q.join({0}, {1});
  EXPECT_EQ(q.next()->turn.what, kind::joined);
}

/// One incarnation died before the first shard heard of it, but not before this one did.
TEST_F(OrderedGradients, SkipsAnIncarnationThatTheOrderDoesNotKnow) {
  gradient_order q = of(1);
  q.expect(turn_of(kind::joined, 0));
  q.expect(turn_of(kind::left, 0));
  q.expect(turn_of(kind::joined, 2));
  q.join({0});
  q.leave({0});
  q.join({0}, {1});
  q.leave({0}, {1});
  for (const kind what : {kind::joined, kind::left}) EXPECT_EQ(q.next()->turn.what, what);
  EXPECT_FALSE(q.next());
  q.join({0}, {2});
  EXPECT_EQ(q.next()->turn.what, kind::joined);
  q.expect({kind::gradient, {0}, {1}});
  EXPECT_FALSE(q.next()) << "it is under way";
}

TEST_F(OrderedGradients, GivesUpAGradientWithoutATurnWhenItsWorkerLeaves) {
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
  EXPECT_EQ(q.next()->turn.what, kind::joined);
}

} // namespace
} // namespace mailgrad

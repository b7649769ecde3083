#include <mailgrad/actors/worker/device_actor.hpp>
#include <mailgrad/actors/worker/step_gate.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

begun_step step(bool pushed, std::uint64_t number = 1) { return {nullptr, number, 4, {}, false, pushed}; }

TEST(StepGate, LetsAsManyStepsBeginAsMayBeUnderWay) {
  step_gate g(2);
  EXPECT_TRUE(g.may_begin(false));
  g.steps().begin(step(true, 1));
  EXPECT_TRUE(g.may_begin(false));
  EXPECT_FALSE(g.may_begin(true)) << "its gradient is being added up with others";
  g.steps().begin(step(true, 2));
  EXPECT_FALSE(g.may_begin(false));
  EXPECT_EQ(g.steps().take_oldest().number, 1U);
  EXPECT_TRUE(g.may_begin(false));
  g.end();
  EXPECT_FALSE(g.may_begin(false));
}

TEST(StepGate, PausesBetweenTwoSteps) {
  step_gate g(2);
  g.ask_for_pause({{1}, false});
  g.steps().begin(step(false));
  EXPECT_FALSE(g.take_pause(false)) << "the gradient is not pushed";
  g.steps().newest().pushed = true;
  EXPECT_FALSE(g.take_pause(true));
  EXPECT_TRUE(g.take_pause(false)) << "the device may still compute it";
  EXPECT_FALSE(g.take_pause(false)) << "once";
  EXPECT_FALSE(g.may_end()) << "the loss is to come";
}

TEST(StepGate, PushesWhatIsKeptBeforeItPauses) {
  step_gate g(1);
  g.ask_for_pause({{1}, false});
  g.ask_for_flush({3});
  EXPECT_FALSE(g.take_pause(false));
  EXPECT_EQ(g.flush_due(false), step_number{3});
  EXPECT_FALSE(g.flush_due(true));
  g.flushed();
  EXPECT_FALSE(g.flush_due(false));
  EXPECT_TRUE(g.take_pause(false));
}

TEST(StepGate, StandsStillForACheckpointUntilItGoesOn) {
  step_gate g(1);
  EXPECT_FALSE(g.begin_hold(false, instant{5}));
  g.ask_for_hold(7);
  g.steps().begin(step(false));
  EXPECT_FALSE(g.begin_hold(false, instant{5}));
  g.steps().take_oldest();
  EXPECT_EQ(g.begin_hold(false, instant{6}), 7U);
  EXPECT_FALSE(g.begin_hold(false, instant{8})) << "once";
  EXPECT_FALSE(g.may_begin(false));
  EXPECT_EQ(g.end_hold(), instant{6});
  EXPECT_TRUE(g.may_begin(false));
}

TEST(StepGate, ExpectsNoBatchAfterTheLastOrWhenItLeaves) {
  step_gate data_ended(1), leaving(1);
  EXPECT_TRUE(data_ended.expects_batch());
  data_ended.end_data();
  leaving.ask_to_leave();
  EXPECT_FALSE(data_ended.expects_batch());
  EXPECT_FALSE(leaving.expects_batch());
}

TEST(MarkedParts, AreWholeWhenTheLossOfTheirLastStepIsKnown) {
  marked_parts parts;
  worker_report so_far;
  so_far.steps = 2;
  parts.add({1, nullptr, so_far});
  so_far.steps = 3;
  parts.add({2, nullptr, so_far});
  parts.note_loss(2, 0.5F, 4);
  const auto first = parts.take(2);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].checkpoint, 1U);
  EXPECT_EQ(first[0].report.last_losses.samples(), 4U);
  parts.note_loss(3, 0.25F, 4);
  parts.note_loss(4, 0.125F, 4); // of a step behind the marker
  const auto second = parts.take(4);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].report.last_losses.samples(), 8U);
  EXPECT_EQ(std::bit_cast<float>(second[0].report.loss_bits), 0.25F);
  EXPECT_TRUE(parts.empty());
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/actors/worker/stage_actor_fixture.hpp>

#include <mailgrad/graph/placement/placement.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

// What a stage says of a step that it cannot compute.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::small_model;
using testing::StageActor;

TEST_F(StageActor, SaysWhyItCannotCompute) {
  begin();
  const auto work = work_of(1, {6});
  const auto wrong = samples(0, 6);
  std::ranges::fill(wrong->labels.values<std::int32_t>(), 99);
  work->micro_batches[0].samples = wrong;
  ask<step_computed, stage_failed>(stages_[0], compute_step{work, nullptr});
  auto second = ask<step_computed, stage_failed>(stages_[1], compute_step{work, nullptr});
  ASSERT_THAT(second.heard<stage_failed>(), SizeIs(1));
  EXPECT_EQ(second.heard<stage_failed>()[0].stage, 1U);
  EXPECT_THAT(second.heard<stage_failed>()[0].why, HasSubstr("label 99"));
}

/// A model that is placed otherwise for two samples than for any other number.
model_outputs unevenly_placed(graph& g, const model_request& r) {
  if (r.batch != 2) return pipelined(small_model())(g, r);
  const device_scope scope(g, r.devices[0]);
  return small_model()(g, r);
}

TEST_F(StageActor, RefusesMicroBatchesThatArePlacedDifferentlyAndGoesOn) {
  begin(2, false, unevenly_placed);
  auto work = work_of(1, {3, 2});
  const std::weak_ptr<step_work> held = work;
  const auto track = std::make_shared<trace_track>("first", 4, instant{0});
  {
    auto first = ask<step_computed, stage_failed>(stages_[0], compute_step{work, track});
    EXPECT_THAT(first.heard<step_computed>(), IsEmpty());
    ASSERT_THAT(first.heard<stage_failed>(), SizeIs(1));
    EXPECT_EQ(first.heard<stage_failed>()[0].stage, 0U);
    EXPECT_THAT(first.heard<stage_failed>()[0].why,
                HasSubstr("micro-batches of two sizes are placed differently"));
    EXPECT_EQ(first.heard<stage_failed>()[0].trace, track);
  }
  work.reset();
  EXPECT_TRUE(held.expired()) << "it holds nothing of the step";
  gradient expected;
  EXPECT_EQ(loss_of(work_of(2, {6})), loss_of_one_replica(6, expected));
}

/// Which would be lost with it.
TEST_F(StageActor, LosesNoGpuOnACore) {
  begin(2, false, [](graph&, const model_request&) -> model_outputs {
    throw device_error(world_errc::device_failure, "onednn: no such layout");
  });
  auto first = ask<step_computed, stage_failed>(stages_[0], compute_step{work_of(1, {6}), nullptr});
  ASSERT_THAT(first.heard<stage_failed>(), SizeIs(1));
  EXPECT_EQ(first.heard<stage_failed>()[0].why, "onednn: no such layout");
  EXPECT_EQ(first.heard<stage_failed>()[0].by_device, std::nullopt);
}

/// The device works on, be it a core that lends memory which GPUs reach.
TEST_F(StageActor, TellsThatMemoryIsLacking) {
  begin(2, false,
        [](graph&, const model_request&) -> model_outputs { throw out_of_memory("2.0 GiB asked for"); });
  auto first = ask<step_computed, stage_failed>(stages_[0], compute_step{work_of(1, {6}), nullptr});
  ASSERT_THAT(first.heard<stage_failed>(), SizeIs(1));
  EXPECT_EQ(first.heard<stage_failed>()[0].why, "2.0 GiB asked for, for the values of a stage for 6 samples");
  EXPECT_EQ(first.heard<stage_failed>()[0].by_device, world_errc::out_of_memory);
}

TEST_F(StageActor, ComputesNothingOnceItHasGivenUp) {
  begin();
  tell(stages_[0], give_up{});
  auto first = ask<step_computed, stage_failed>(stages_[0], compute_step{work_of(1, {6}), nullptr});
  EXPECT_THAT(first.heard<step_computed>(), IsEmpty());
  EXPECT_THAT(first.heard<stage_failed>(), IsEmpty());
}

} // namespace
} // namespace mailgrad

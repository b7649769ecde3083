#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>
#include <mailgrad/tests/support/manual_time.hpp>

#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/engine/worker/delayed_runner.hpp>
#include <mailgrad/graph/graph.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

// One source for two GPUs: the simulated one, and a real one.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Keeps what is due for the test.
class kept_timer final : public step_timer {
public:
  void at(instant, notice tell) override { due.push_back(std::move(tell)); }
  std::vector<notice> due;
};

class GpuForesight : public testing::gpu_replica_test {};

TEST_F(GpuForesight, ChangesNoBitOfAStep) {
  build();
  gpu_step(samples(0, 8)); // compiles the program
  std::vector<std::shared_ptr<const batch>> batches;
  for (std::uint32_t i = 0; i < 6; ++i) batches.push_back(samples(8 * i, 8, i));
  const std::vector<result> ahead = foreseen_steps(batches);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const result alone = gpu_step(batches[i]);
    EXPECT_EQ(ahead[i].loss, alone.loss) << i;
    EXPECT_EQ(ahead[i].gradient, alone.gradient) << i;
    expect_close(alone, host_step(batches[i]));
  }
}

TEST_F(GpuForesight, LeavesTheNextStepFreeToTakeAnotherBatch) {
  build();
  const auto a = samples(0, 8), b = samples(8, 8), c = samples(16, 8);
  gpu_step(a);
  foreseeing_step(a, b);
  expect_close(gpu_step(c), host_step(c));
  expect_close(gpu_step(a), host_step(a));
  expect_close(gpu_step(b), host_step(b)); // it is still there
  foreseeing_step(b, a);
  expect_close(gpu_step(b), host_step(b));
}

TEST_F(GpuForesight, MayBeOfAnotherBatchThanBefore) {
  build();
  const auto a = samples(0, 8), b = samples(8, 8), c = samples(16, 8);
  gpu_step(a);
  for (const auto& next : {b, c, a}) {
    on_gpu_->begin_step(a, on_gpu_->make_gradient());
    on_gpu_->foresee(b, {});
    on_gpu_->foresee(c, {}); // nothing, if b is still being copied
    on_gpu_->foresee(c, {});
    await_end();
    on_gpu_->end_step();
    on_gpu_->foresee(c, {});
    expect_close(gpu_step(next), host_step(next));
  }
}

TEST_F(GpuForesight, KnowsBatchesOfTwoSizes) {
  build();
  gpu_step(samples(0, 8));
  gpu_step(samples(0, 3));
  std::vector<std::shared_ptr<const batch>> batches;
  for (std::uint32_t i = 0; i < 8; ++i) batches.push_back(samples(8 * (i % 4), i % 3 == 2 ? 3 : 8, i));
  const std::vector<result> ahead = foreseen_steps(batches);
  for (std::size_t i = 0; i < batches.size(); ++i) expect_close(ahead[i], host_step(batches[i]));
}

TEST_F(GpuForesight, LeavesABatchOfANewSizeToItsStep) {
  build();
  bool copied = false;
  const auto note = [&] { copied = true; };
  on_gpu_->foresee(samples(0, 8), note); // no step has been computed yet
  const auto small = samples(0, 3);
  gpu_step(samples(0, 8));
  foreseeing_step(samples(0, 8), small, note);
  EXPECT_EQ(watch_->watched(), 0U);
  EXPECT_FALSE(copied);
  expect_close(gpu_step(small), host_step(small));
}

TEST_F(GpuForesight, TellsOnceThatABatchHasBeenCopied) {
  build();
  const auto a = samples(0, 8), b = samples(8, 8);
  gpu_step(a);
  int copied = 0;
  on_gpu_->begin_step(a, on_gpu_->make_gradient());
  on_gpu_->foresee(b, [&] { ++copied; });
  on_gpu_->foresee(b, [&] { ++copied; });
  EXPECT_EQ(watch_->watched(), 2U);
  EXPECT_EQ(copied, 0);
  while (watch_->watched() > 0) watch_->ask();
  EXPECT_EQ(copied, 1);
  on_gpu_->end_step();
  expect_close(gpu_step(b), host_step(b));
  EXPECT_EQ(copied, 1);
}

TEST_F(GpuForesight, RefusesOtherSamplesAndLetsTheStepEnd) {
  build();
  const auto a = samples(0, 8), other = samples(0, 8);
  gpu_step(a);
  other->features = tensor({8, 5});
  on_gpu_->begin_step(a, on_gpu_->make_gradient());
  EXPECT_THAT([&] { on_gpu_->foresee(other, {}); },
              ThrowsMessage<graph_error>(HasSubstr("other samples than these")));
  await_end();
  on_gpu_->end_step();
  expect_close(gpu_step(a), host_step(a));
}

/// Whoever prescribes times to a replica hands on what it is told, and tells when a step has ended by them.
TEST_F(GpuForesight, IsHandedOnWhereTimesArePrescribed) {
  build();
  const auto time = std::make_shared<testing::manual_time>();
  const auto timer = std::make_shared<kept_timer>();
  delayed_runner delayed({std::shared_ptr<void>(), &*on_gpu_},
                         {delay_spec("constant:2", 1).law_of({0}, 1), time, timer, time->now()});
  EXPECT_TRUE(delayed.copies_ahead());
  EXPECT_FALSE(delayed.computes_at_once());
  int told = 0, copied = 0;
  delayed.on_end([&] { ++told; });
  const auto a = samples(0, 8), b = samples(8, 8);
  gpu_step(a); // compiles the program
  told = 0;
  timer->due.clear();
  const auto g = delayed.make_gradient();
  ASSERT_EQ(delayed.begin_step(a, g), step_state::under_way);
  delayed.foresee(b, [&] { ++copied; });
  while (watch_->watched() > 0) watch_->ask();
  EXPECT_EQ(copied, 1);
  EXPECT_EQ(told, 0) << "its time is not over";
  ASSERT_EQ(timer->due.size(), 1U);
  time->advance(std::chrono::seconds(2));
  timer->due.front()();
  EXPECT_EQ(told, 1);
  expect_close(result_of(delayed.end_step(), *g), host_step(a));
  EXPECT_FALSE(delayed.span()) << "a step takes as long as was prescribed, not as long as the GPU computed";
}

TEST_F(GpuForesight, MayBeOfNothing) {
  build();
  on_gpu_->foresee(nullptr, {});
  expect_close(gpu_step(samples(0, 8)), host_step(samples(0, 8)));
}

TEST_F(GpuForesight, EndsWithItsReplica) {
  build();
  gpu_step(samples(0, 8));
  on_gpu_->begin_step(samples(0, 8), on_gpu_->make_gradient());
  int copied = 0;
  on_gpu_->foresee(samples(8, 8), [&] { ++copied; });
  on_gpu_.reset(); // waits for the step and for the copy
  while (watch_->watched() > 0) watch_->ask();
  EXPECT_EQ(copied, 1);
}

} // namespace
} // namespace mailgrad

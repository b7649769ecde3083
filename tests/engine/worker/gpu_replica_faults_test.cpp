#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>

#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gmock/gmock.h>

// What only the simulated GPU can be asked for.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class GpuReplicaFaults : public testing::gpu_replica_test {
protected:
  void set_up(const simulated_gpu::faults& fail, bool may_wait = true) {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.fail = fail;
    s.may_wait = may_wait;
    simulated_gpu::set_up(s);
  }
  void TearDown() override {
    on_gpu_.reset();
    simulated_gpu::set_up(simulated_gpu::default_settings());
  }
};

TEST_F(GpuReplicaFaults, NeverWaitInAStep) {
  build();
  set_up({}, false); // a call that waits throws
  for (int i = 0; i < 3; ++i) {
    const auto g = on_gpu_->make_gradient();
    on_gpu_->begin_step(samples(0, 8), g);
    await_end();
    on_gpu_->end_step();
  }
  set_up({});
}

TEST_F(GpuReplicaFaults, ReadNothingOfAStepBeforeItHasRun) {
  simulated_gpu::settings late = simulated_gpu::default_settings();
  late.when = simulated_gpu::timing::late;
  simulated_gpu::set_up(late);
  build();
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto g = on_gpu_->make_gradient();
    on_gpu_->begin_step(samples(8 * i, 8), g);
    EXPECT_EQ(watch_->ask(), 0U) << "it is late";
    await_end();
    expect_close(result_of(on_gpu_->end_step(), *g), host_step(samples(8 * i, 8)));
  }
}

/// Whatever runs late: kernels of a step before the copy that they need, or a copy after its memory has
/// changed.
TEST_F(GpuReplicaFaults, ReadEachForeseenBatchWhenItsCopyHasRun) {
  for (std::uint64_t queries = 0; queries < 4; ++queries) {
    simulated_gpu::settings late = simulated_gpu::default_settings();
    late.when = simulated_gpu::timing::late;
    late.late_queries = queries;
    simulated_gpu::set_up(late);
    build();
    gpu_step(samples(0, 8));
    late.may_wait = false;
    simulated_gpu::set_up(late);
    std::vector<std::shared_ptr<const batch>> batches;
    for (std::uint32_t i = 0; i < 6; ++i) batches.push_back(samples(8 * i, 8, i));
    const std::vector<result> ahead = foreseen_steps(batches);
    for (std::size_t i = 0; i < batches.size(); ++i) expect_close(ahead[i], host_step(batches[i]));
    set_up({});
  }
}

/// The memory of a set is zeroed on the queue, and the copy runs first if it does not wait for that.
TEST_F(GpuReplicaFaults, KeepABatchThatIsCopiedBeforeTheQueueHasRun) {
  simulated_gpu::settings late = simulated_gpu::default_settings();
  late.when = simulated_gpu::timing::late;
  late.late_queries = 0;
  simulated_gpu::set_up(late);
  build();
  const auto b = samples(8, 8);
  const auto g = on_gpu_->make_gradient();
  on_gpu_->begin_step(samples(0, 8), g);
  on_gpu_->foresee(b, [] {});
  const std::uint64_t kernels = simulated_gpu::count().kernels;
  EXPECT_TRUE(watch_->ask_last());
  EXPECT_EQ(simulated_gpu::count().kernels, kernels) << "the copy has waited for the step";
  await_end();
  on_gpu_->end_step();
  expect_close(gpu_step(b), host_step(b));
  set_up({});
}

/// The copy that was foreseen runs only when somebody asks for it, and nobody does.
TEST_F(GpuReplicaFaults, OverwriteNoBatchThatIsStillBeingCopied) {
  simulated_gpu::settings late = simulated_gpu::default_settings();
  late.when = simulated_gpu::timing::late;
  late.late_queries = 4;
  simulated_gpu::set_up(late);
  build();
  const auto a = samples(0, 8), b = samples(8, 8), c = samples(16, 8);
  gpu_step(a);
  late.may_wait = false;
  simulated_gpu::set_up(late);
  foreseeing_step(a, b);
  expect_close(gpu_step(c), host_step(c));
  on_gpu_->begin_step(c, on_gpu_->make_gradient());
  on_gpu_->foresee(a, {}); // asks once whether b has been copied
  await_end();
  on_gpu_->end_step();
  expect_close(gpu_step(b), host_step(b));
  expect_close(gpu_step(a), host_step(a));
  set_up({});
}

TEST_F(GpuReplicaFaults, LeaveTheWeightsOfTheStepUnderWayAlone) {
  simulated_gpu::settings late = simulated_gpu::default_settings();
  late.when = simulated_gpu::timing::late;
  simulated_gpu::set_up(late);
  build();
  const auto g = on_gpu_->make_gradient();
  on_gpu_->begin_step(samples(0, 8), g);
  const shard_range range = layout_->shard(0);
  const auto others = std::make_shared<memory>(block(range.size() * sizeof(float)));
  on_gpu_->use_weights(0, snapshot(others));
  await_end();
  expect_close(result_of(on_gpu_->end_step(), *g), host_step(samples(0, 8)));
  std::fill_n(weights_.begin() + static_cast<std::ptrdiff_t>(range.begin), range.size(), 0.0F);
  expect_close(gpu_step(samples(0, 8)), host_step(samples(0, 8)));
}

TEST_F(GpuReplicaFaults, CopyEachBatchOnce) {
  build();
  const auto a = samples(0, 8), b = samples(8, 8);
  gpu_step(a);
  set_up({});
  gpu_step(a);
  const std::size_t bytes = simulated_gpu::count().bytes_to_gpu;
  foreseeing_step(a, b);
  foreseeing_step(b, a);
  gpu_step(a);
  EXPECT_EQ(simulated_gpu::count().bytes_to_gpu, 4 * bytes);
}

TEST_F(GpuReplicaFaults, LaunchAStepThatIsAGraphAsOne) {
  build();
  const auto a = samples(0, 8);
  for (int i = 0; i < 2; ++i) gpu_step(a);
  set_up({});
  gpu_step(a);
  EXPECT_EQ(simulated_gpu::count().launches, 2U) << "the step's number, and all kernels";
  EXPECT_GT(simulated_gpu::count().kernels, 5U);
  build(testing::small_model(), testing::small_data(), 0);
  for (int i = 0; i < 2; ++i) gpu_step(a);
  set_up({});
  gpu_step(a);
  EXPECT_GT(simulated_gpu::count().launches, 5U);
}

TEST_F(GpuReplicaFaults, AreThrownAtEveryCallOfAForeseenStep) {
  std::size_t refused = 0, ended = 0;
  for (std::uint64_t n = 1; n < 80; ++n) {
    build();
    gpu_step(samples(0, 8));
    const auto b = samples(8, 8);
    set_up({.lost_gpu_at = n});
    try {
      foreseeing_step(samples(0, 8), b);
      expect_close(foreseeing_step(b, samples(0, 8)), host_step(b));
      ++ended;
    } catch (const device_error&) {
      ++refused;
    }
    on_gpu_.reset();
    set_up({});
    while (watch_->watched() > 0) watch_->ask();
  }
  EXPECT_GT(refused, 30U);
  EXPECT_GT(ended, 1U);
}

TEST_F(GpuReplicaFaults, EndAStepOnALostGpu) {
  build();
  gpu_step(samples(0, 8));
  simulated_gpu::settings s = simulated_gpu::default_settings();
  s.when = simulated_gpu::timing::late;
  s.fail.launch_error_at = 3;
  simulated_gpu::set_up(s);
  on_gpu_->begin_step(samples(0, 8), on_gpu_->make_gradient());
  await_end();
  EXPECT_THROW(on_gpu_->end_step(), device_error);
  EXPECT_EQ(on_gpu_->give_up(), step_state::finished);
}

TEST_F(GpuReplicaFaults, AreThrownAtEveryCall) {
  build();
  gpu_step(samples(0, 8));
  std::size_t refused = 0;
  for (std::uint64_t n = 1; n < 60; ++n) {
    set_up({.lost_gpu_at = n});
    try {
      gpu_step(samples(0, 8));
    } catch (const device_error&) {
      ++refused;
    }
    on_gpu_.reset();
    set_up({});
    build();
  }
  EXPECT_GT(refused, 10U);
}

TEST_F(GpuReplicaFaults, SayWhatMemoryWasAskedForWhenAGpuIsFull) {
  std::size_t full = 0;
  for (std::uint64_t n = 1; n < 9; ++n) {
    set_up({.out_of_memory_at = n});
    try {
      build();
      gpu_step(samples(0, 8));
    } catch (const device_error& e) {
      ++full;
      EXPECT_THAT(e.what(), AllOf(HasSubstr("out of memory"), HasSubstr(", for "))) << n;
    }
    on_gpu_.reset();
  }
  EXPECT_GE(full, 5U) << "words, scratch memory, weights, gradient and loss";
}

TEST_F(GpuReplicaFaults, LeaveNothingUnderWayOfAStepThatCannotBeQueued) {
  build();
  gpu_step(samples(0, 8));
  set_up({.launch_error_at = 1});
  EXPECT_THROW(on_gpu_->begin_step(samples(0, 8), on_gpu_->make_gradient()), device_error);
  EXPECT_EQ(on_gpu_->give_up(), step_state::finished) << "nobody will tell of its end";
  EXPECT_EQ(watch_->watched(), 0U);
}

TEST_F(GpuReplicaFaults, LetAGpuThatDoesNotAnswerBeRefused) {
  set_up({});
  require_here({device_kind::cuda, 0});
  set_up({.silent_gpu = 0});
  EXPECT_THAT(
      [] {
        require_here({device_kind::cuda, 0});
      },
      ThrowsMessage<device_error>(HasSubstr("device cuda:0 does not answer")));
}

TEST_F(GpuReplicaFaults, LetAGpuThatIsTooOldBeRefused) {
  simulated_gpu::settings s = simulated_gpu::default_settings();
  s.capability_major = 8;
  simulated_gpu::set_up(s);
  require_here({device_kind::cuda, 0});
  s.capability_major = 7;
  simulated_gpu::set_up(s);
  EXPECT_THAT(
      [] {
        require_here({device_kind::cuda, 0});
      },
      ThrowsMessage<device_error>(HasSubstr("device cuda:0 has compute capability 7.0, and at least 8.0")));
}

} // namespace
} // namespace mailgrad

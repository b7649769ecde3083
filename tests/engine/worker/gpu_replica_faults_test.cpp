#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>
#include <mailgrad/tests/engine/worker/gpu_rows_fixture.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gmock/gmock.h>

// What only the simulated GPU can be asked for, and tells: how much a step copies.

namespace mailgrad {
namespace {

using testing::layout_of;
using testing::tall_recommender;
using testing::tall_sparse_data;
using testing::tall_tastes;
using namespace ::testing;

/// Work runs late, if `queries` are given only after so many of them.
void run_late(std::optional<std::uint64_t> queries = {}, bool may_wait = true) {
  simulated_gpu::settings s = simulated_gpu::default_settings();
  s.when = simulated_gpu::timing::late;
  if (queries) s.late_queries = *queries;
  s.may_wait = may_wait;
  simulated_gpu::set_up(s);
}

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
  run_late();
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
    run_late(queries);
    build();
    gpu_step(samples(0, 8));
    run_late(queries, false);
    std::vector<std::shared_ptr<const batch>> batches;
    for (std::uint32_t i = 0; i < 6; ++i) batches.push_back(samples(8 * i, 8, i));
    const std::vector<result> ahead = foreseen_steps(batches);
    for (std::size_t i = 0; i < batches.size(); ++i) expect_close(ahead[i], host_step(batches[i]));
    set_up({});
  }
}

/// The memory of a set is zeroed on the queue, and the copy runs first if it does not wait for that.
TEST_F(GpuReplicaFaults, KeepABatchThatIsCopiedBeforeTheQueueHasRun) {
  run_late(0);
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
  expect_as_on_host(b);
  set_up({});
}

/// The copy that was foreseen runs only when somebody asks for it, and nobody does.
TEST_F(GpuReplicaFaults, OverwriteNoBatchThatIsStillBeingCopied) {
  run_late(4);
  build();
  const auto a = samples(0, 8), b = samples(8, 8), c = samples(16, 8);
  gpu_step(a);
  run_late(4, false);
  foreseeing_step(a, b);
  expect_as_on_host(c);
  on_gpu_->begin_step(c, on_gpu_->make_gradient());
  on_gpu_->foresee(a, {}); // asks once whether b has been copied
  await_end();
  on_gpu_->end_step();
  expect_as_on_host(b);
  expect_as_on_host(a);
  set_up({});
}

TEST_F(GpuReplicaFaults, LeaveTheWeightsOfTheStepUnderWayAlone) {
  run_late();
  build();
  const auto g = on_gpu_->make_gradient();
  on_gpu_->begin_step(samples(0, 8), g);
  const shard_range range = layout_->shard(0);
  const auto others = std::make_shared<memory>(block(range.size() * sizeof(float)));
  on_gpu_->use_weights(0, snapshot(others));
  await_end();
  expect_close(result_of(on_gpu_->end_step(), *g), host_step(samples(0, 8)));
  std::fill_n(weights_.begin() + static_cast<std::ptrdiff_t>(range.begin), range.size(), 0.0F);
  expect_as_on_host(samples(0, 8));
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
  on_gpu_.reset();
  set_up({});
  build();
  gpu_step(samples(0, 8));
  set_up({.launch_error_at = 1});
  EXPECT_THROW(on_gpu_->begin_step(samples(0, 8), on_gpu_->make_gradient()), device_error);
  EXPECT_EQ(on_gpu_->give_up(), step_state::finished) << "nobody will tell of the end of what is not queued";
  EXPECT_EQ(watch_->watched(), 0U);
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

TEST_F(GpuReplicaFaults, LetAGpuBeRefusedThatDoesNotAnswerOrIsTooOld) {
  const auto require = [] { require_here(device{device_kind::cuda, 0}); };
  set_up({});
  require();
  set_up({.silent_gpu = 0});
  EXPECT_THAT(require, ThrowsMessage<device_error>(HasSubstr("device cuda:0 does not answer")));
  simulated_gpu::settings s = simulated_gpu::default_settings();
  s.capability_major = 8;
  simulated_gpu::set_up(s);
  require();
  s.capability_major = 7;
  simulated_gpu::set_up(s);
  EXPECT_THAT(require, ThrowsMessage<device_error>(
                           HasSubstr("device cuda:0 has compute capability 7.0, and at least 8.0")));
}

/// Local steps whose weights lie on a queue of their own beside that of the gradients. What is queued runs as
/// late as it may, so a forgotten wait for the other queue changes numbers.
class GpuLocalSteps : public ::testing::Test {
protected:
  void SetUp() override {
    run_late();
    steps_ = std::make_shared<cuda::gpu_queue>(0);
    computing_ = std::make_shared<cuda::gpu_queue>(0);
  }

  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  /// To be made first, since the release of the memory from which it is copied finishes all work of the GPU.
  snapshot filled(float value) const {
    const std::vector<float> values(layout_->size(), value);
    auto there = std::make_shared<memory>(steps_->allocate(values.size() * sizeof(float)));
    steps_->write(values, *there);
    steps_->finish();
    return snapshot(std::move(there), steps_->record());
  }
  /// A gradient that the other queue computes from `weights`, of which it is a copy.
  std::shared_ptr<gradient> computed_from(const snapshot& weights) const {
    const stream& s = computing_->where();
    auto g = std::make_shared<gradient>();
    g->dense = computing_->allocate(layout_->dense_size() * sizeof(float));
    computing_->wait_for(weights.ready());
    copy_bytes(s, g->dense.on<float>(s).data(), weights.on(s).data(), g->dense.bytes());
    g->ready = computing_->record();
    return g;
  }
  std::vector<float> read(const memory& m) const {
    std::vector<float> values(m.bytes() / sizeof(float));
    steps_->read(m, std::as_writable_bytes(std::span(values)));
    return values;
  }

  const std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<parameter_layout>(layout_of({{"w", {9, 17}}, {"b", {17}}}, 1));
  std::shared_ptr<cuda::gpu_queue> steps_, computing_;
};

/// The worker runs ahead: its gradient is pushed, and the shard has answered, before the GPU has computed
/// it. Others take the place of the worker's own weights at a switch.
TEST_F(GpuLocalSteps, ArePulledOrReplacedBehindTheStepThatReadsThem) {
  for (const bool replaced : {false, true}) {
    local_steps l(layout_, {1, testing::sgd(0.5), 0.25F}, steps_);
    const snapshot first = filled(10), slope = filled(4), met = filled(12), next = filled(replaced ? 6 : 7);
    l.receive(0, first);
    l.step(computed_from(slope), 1); // to 8
    const std::shared_ptr<gradient> g = computed_from(l.weights());
    l.hold(g, 1);
    l.difference();
    if (replaced) l.start_anew();
    l.receive(0, next, met);
    steps_->finish(); // and the other queue has run only as far as this one waits for it
    const float pulled = replaced ? 6 : 8 - 0.25F * (8 - 12);
    EXPECT_THAT(read(*l.weights().owner()), Each(FloatNear(pulled, 1e-5F)));
    l.go_on();
    EXPECT_THAT(read(*l.weights().owner()), Each(FloatNear(pulled - 0.5F * 8, 1e-5F)));
    EXPECT_THAT(read(g->dense), Each(8.0F)) << "of the weights before";
  }
}

class GpuRowCopies : public testing::gpu_rows_test {
protected:
  struct copied {
    std::size_t to_gpu, to_host, on_gpu;
    std::uint64_t launches;
    friend bool operator==(const copied&, const copied&) = default;
  };
  static copied count() {
    const simulated_gpu::counters c = simulated_gpu::count();
    return {c.bytes_to_gpu, c.bytes_to_host, c.bytes_on_gpu, c.launches};
  }
  copied copied_by_step(const std::shared_ptr<const batch>& b) {
    give_next(*b);
    const auto g = on_gpu_->make_gradient();
    gradients_.push_back(g);
    const copied before = count();
    on_gpu_->begin_step(b, g);
    await_end();
    on_gpu_->end_step();
    const copied after = count();
    return {after.to_gpu - before.to_gpu, after.to_host - before.to_host, after.on_gpu - before.on_gpu,
            after.launches - before.launches};
  }
};

TEST_F(GpuRowCopies, DoNotDependOnTheHeightOfTables) {
  for (const auto& [model, data_of] :
       {std::pair{tall_recommender, +[](std::size_t n) { return tall_tastes(n); }},
        {"softmax", +[](std::size_t n) { return tall_sparse_data(n); }}})
    for (const weight_place where : {weight_place::same_gpu, weight_place::host})
      for (const std::size_t shards : {1U, 3U}) {
        std::vector<copied> of_heights;
        for (const std::size_t height : {1000U, 100000U}) {
          build_with(find_model(model), data_of(height), shards, where);
          for (std::uint32_t i = 0; i < 3; ++i) copied_by_step(samples(8 * i, 8, i));
          of_heights.push_back(copied_by_step(samples(24, 8, 3)));
        }
        EXPECT_EQ(of_heights[0].to_gpu, of_heights[1].to_gpu);
        EXPECT_EQ(of_heights[0].to_host, of_heights[1].to_host);
        EXPECT_EQ(of_heights[0].on_gpu, of_heights[1].on_gpu);
        EXPECT_LT(of_heights[1].to_gpu + of_heights[1].on_gpu, 8000U) << "a tall table has more";
      }
}

/// A batch of each size has a program of its own, and all have the same tables.
TEST_F(GpuRowCopies, ReadNothingBeforeItIsThere) {
  for (const weight_place where : {weight_place::same_gpu, weight_place::host}) {
    run_late();
    build_with(find_model(tall_recommender), tall_tastes(500), 3, where);
    for (std::uint32_t i = 0; i < 6; ++i) expect_same_step(samples(8 * i, i % 3 == 2 ? 3 : 8, i));
    simulated_gpu::set_up(simulated_gpu::default_settings());
  }
}

} // namespace
} // namespace mailgrad

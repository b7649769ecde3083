#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

// Local steps whose weights lie on the simulated GPU, on a queue of their own beside that of the gradients.
// What is queued runs as late as it may, so a forgotten wait for the other queue changes numbers.

namespace mailgrad {
namespace {

using ::testing::Each;
using ::testing::FloatNear;
using testing::layout_of;

class GpuLocalSteps : public ::testing::Test {
protected:
  void SetUp() override {
    simulated_gpu::settings late = simulated_gpu::default_settings();
    late.when = simulated_gpu::timing::late;
    simulated_gpu::set_up(late);
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
/// it.
TEST_F(GpuLocalSteps, ArePulledBehindTheStepThatReadsThem) {
  local_steps l(layout_, {1, testing::sgd(0.5), 0.25F}, steps_);
  const snapshot first = filled(10), slope = filled(4), met = filled(12), next = filled(7);
  l.receive(0, first);
  l.step(computed_from(slope), 1); // to 8
  const std::shared_ptr<gradient> g = computed_from(l.weights());
  l.hold(g, 1);
  l.difference();
  l.receive(0, next, met);
  steps_->finish(); // and the other queue has run only as far as this one waits for it
  EXPECT_THAT(read(*l.weights().owner()), Each(FloatNear(8 - 0.25F * (8 - 12), 1e-5F)));
  l.go_on();
  EXPECT_THAT(read(*l.weights().owner()), Each(FloatNear(9 - 0.5F * 8, 1e-5F)));
  EXPECT_THAT(read(g->dense), Each(8.0F)) << "of the weights before the pull";
}

/// The same for weights that take the place of the worker's own.
TEST_F(GpuLocalSteps, AreReplacedBehindTheStepThatReadsThem) {
  local_steps l(layout_, {1, testing::sgd(0.5), 0.25F}, steps_);
  const snapshot first = filled(10), slope = filled(4), met = filled(12), next = filled(6);
  l.receive(0, first);
  l.step(computed_from(slope), 1);
  const std::shared_ptr<gradient> g = computed_from(l.weights());
  l.hold(g, 1);
  l.difference();
  l.start_anew();
  l.receive(0, next, met);
  steps_->finish();
  l.go_on();
  EXPECT_THAT(read(g->dense), Each(8.0F));
  EXPECT_THAT(read(*l.weights().owner()), Each(FloatNear(6 - 0.5F * 8, 1e-5F)));
}

} // namespace
} // namespace mailgrad

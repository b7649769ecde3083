#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>

#include <mailgrad/engine/shard/shard.hpp>

#include <gmock/gmock.h>

#include <deque>
#include <limits>

// A worker that runs ahead of its GPU: the next step is begun, and the gradient of this one given to shards
// on the same GPU, before this one has ended. One source for two GPUs: the simulated one, and a real one.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class GpuRunAhead : public testing::gpu_replica_test {
protected:
  /// The same shards on the host and on the GPU.
  void build_shards(std::size_t graphs = cuda::kept_graphs::most_kept, std::size_t run_ahead = 1) {
    build();
    on_gpu_.reset();
    model_request request = request_for(*data_, 8);
    request.devices = {{device_kind::cuda, 0}};
    on_gpu_.emplace(testing::small_model(), request, layout_, watch_, weight_place::same_gpu,
                    product_precision::float32, graphs, run_ahead);
    on_gpu_->on_end([this] { ++ended_; });
    ended_ = taken_ = 0;
    there_.clear();
    here_.clear();
    for (std::uint32_t s = 0; s < 2; ++s) {
      there_.emplace_back(*layout_, s, 5, testing::sgd(0.1), std::make_shared<cuda::gpu_queue>(0));
      here_.emplace_back(*layout_, s, 5, testing::sgd(0.1));
    }
  }
  /// Begins a step with the present weights of the shards.
  std::shared_ptr<gradient> begin(const std::shared_ptr<const batch>& b) {
    for (std::uint32_t s = 0; s < 2; ++s) on_gpu_->use_weights(s, there_[s].snapshot());
    auto g = on_gpu_->make_gradient();
    EXPECT_EQ(on_gpu_->begin_step(b, g), step_state::under_way);
    gradients_.push_back(g);
    return g;
  }
  void update(const std::shared_ptr<gradient>& g) {
    for (shard& s : there_) {
      s.wait_for(*g);
      const contribution one{g, 1};
      s.update({&one, 1});
    }
  }
  float host_step_and_update(const std::shared_ptr<const batch>& b) {
    for (std::uint32_t s = 0; s < 2; ++s) on_host_->use_weights(s, here_[s].snapshot());
    const auto g = on_host_->make_gradient();
    on_host_->begin_step(b, g);
    for (shard& s : here_) {
      const contribution one{g, 1};
      s.update({&one, 1});
    }
    return on_host_->end_step();
  }
  float end() {
    ++taken_;
    while (ended_ < taken_) watch_->ask();
    return on_gpu_->end_step();
  }
  snapshot copy_of(std::uint32_t s) {
    snapshot copy = there_[s].host_snapshot();
    while (!copy.ready().passed()) {
    }
    return copy;
  }
  void expect_same_weights() {
    for (std::uint32_t s = 0; s < 2; ++s) {
      const snapshot copy = copy_of(s);
      const auto found = copy.on_host(), expected = here_[s].snapshot().on_host();
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-5) << s << ' ' << i;
    }
  }

  std::deque<shard> there_, here_;
  int taken_ = 0; ///< steps that have ended, of those that the replica has told of
};

TEST_F(GpuRunAhead, ComesToTheLossesAndWeightsOfTheHost) {
  for (const std::size_t graphs : {std::size_t{0}, std::size_t{3}, cuda::kept_graphs::most_kept}) {
    build_shards(graphs);
    update(begin(samples(0, 8, 0)));
    EXPECT_NEAR(end(), host_step_and_update(samples(0, 8, 0)), 1e-5);
    std::deque<float> expected;
    for (std::uint32_t k = 1; k < 12; ++k) {
      const auto b = samples(8 * (k % 5), k % 4 == 3 ? 5 : 8, k); // of two sizes
      on_gpu_->foresee(b, {});
      update(begin(b));
      expected.push_back(host_step_and_update(b));
      if (expected.size() < 2) continue;
      EXPECT_NEAR(end(), expected.front(), 1e-5) << k;
      expected.pop_front();
    }
    EXPECT_NEAR(end(), expected.front(), 1e-5);
    expect_same_weights();
    EXPECT_EQ(on_gpu_->give_up(), step_state::finished);
  }
}

/// So a shard without other readers updates in place. It lets go of what an update read when it is asked for
/// something after that, and then has what is copied for whoever asked.
TEST_F(GpuRunAhead, LetsGoOfTheWeightsWhenTheStepHasEnded) {
  build_shards();
  const auto held = [](const snapshot& s) { return s.owner().use_count(); };
  const snapshot first = there_[0].snapshot();
  const long before = held(first);
  update(begin(samples(0, 8, 0)));
  const snapshot second = there_[0].snapshot();
  for (int ask = 0; ask < 2; ++ask) copy_of(0);
  const long copied = before + 1;
  EXPECT_EQ(held(first), before) << "the shard has let go, and the step has it";
  begin(samples(8, 8, 1));
  end();
  EXPECT_LT(held(first), before);
  EXPECT_GT(held(second), copied);
  end();
  EXPECT_EQ(held(second), copied);
}

TEST_F(GpuRunAhead, TellsWhenTheGpuComputedEachStep) {
  build_shards();
  EXPECT_FALSE(on_gpu_->span());
  instant last{0};
  for (std::uint32_t k = 0; k < 4; ++k) {
    update(begin(samples(8 * k, 8, k)));
    end();
    ASSERT_TRUE(on_gpu_->span());
    EXPECT_GE(on_gpu_->span()->begin, last);
    EXPECT_GE(on_gpu_->span()->end, on_gpu_->span()->begin);
    last = on_gpu_->span()->end;
  }
}

TEST_F(GpuRunAhead, TakesNoMoreStepsThanItMay) {
  build_shards();
  EXPECT_EQ(on_gpu_->most_under_way(), 2U);
  begin(samples(0, 8));
  begin(samples(8, 8));
  EXPECT_THAT([&] { on_gpu_->begin_step(samples(0, 8), on_gpu_->make_gradient()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("2 are under way already")));
  end();
  begin(samples(0, 8));
  build_shards(0, 0);
  EXPECT_EQ(on_gpu_->most_under_way(), 1U);
}

/// A batch that nobody has foreseen, another one that was, and two steps under way have a set of inputs each.
TEST_F(GpuRunAhead, KeepsEachBatchApart) {
  build_shards();
  update(begin(samples(0, 8, 0)));
  end();
  host_step_and_update(samples(0, 8, 0));
  const auto a = samples(0, 8, 1), b = samples(8, 8, 2), c = samples(16, 8, 3);
  update(begin(a));
  on_gpu_->foresee(c, {});
  update(begin(b));
  EXPECT_NEAR(end(), host_step_and_update(a), 1e-5);
  EXPECT_NEAR(end(), host_step_and_update(b), 1e-5);
  update(begin(c));
  EXPECT_NEAR(end(), host_step_and_update(c), 1e-5);
  expect_same_weights();
}

/// The step with a bad label says so when it ends, and the one behind it is as it should be.
TEST_F(GpuRunAhead, NamesTheFaultOfTheStepThatHasIt) {
  build_shards();
  const auto good = samples(0, 8, 0), bad = samples(8, 8, 1);
  bad->labels.values<std::int32_t>()[2] = 77;
  begin(good);
  begin(bad);
  EXPECT_TRUE(std::isfinite(end()));
  begin(good);
  EXPECT_THAT([&] { end(); }, ThrowsMessage<std::out_of_range>(HasSubstr("label 77")));
  EXPECT_EQ(on_gpu_->give_up(), step_state::under_way);
  EXPECT_TRUE(std::isfinite(end()));
  EXPECT_EQ(on_gpu_->give_up(), step_state::finished);
}

TEST_F(GpuRunAhead, HoldsTheWeightsOfAStepUntilItHasEnded) {
  build_shards();
  std::weak_ptr<const memory> first = there_[0].snapshot().owner();
  const auto g = begin(samples(0, 8, 0));
  update(g);
  update(begin(samples(8, 8, 1)));
  const long held = first.use_count();
  end();
  EXPECT_EQ(first.use_count(), held - 1);
  end();
}

} // namespace
} // namespace mailgrad

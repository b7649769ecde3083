#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/delayed_runner.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>
#include <mailgrad/tests/support/manual_time.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <deque>

// A worker on a GPU: its steps, weights of whose shards one lies on the host and one on the GPU, a worker
// that runs ahead of its GPU, and batches that are foreseen. One source for two GPUs: the simulated one, and
// a real one.

namespace mailgrad {
namespace {

using namespace ::testing;

class GpuReplica : public testing::gpu_replica_test {};

TEST_F(GpuReplica, ComputesTheLossAndTheGradientOfTheHostForAShortBatchToo) {
  build();
  const result before = gpu_step(samples(0, 8));
  expect_close(before, host_step(samples(0, 8)));
  expect_as_on_host(samples(8, 3));
  EXPECT_EQ(gpu_step(samples(0, 8)).gradient, before.gradient) << "the same bits again";
  EXPECT_EQ(ended_, 3);
}

TEST_F(GpuReplica, ReadsTheWeightsAtEachStep) {
  build();
  gpu_step(samples(0, 8));
  for (float& w : weights_) w += 0.125F; // where they lie
  expect_as_on_host(samples(0, 8));
  const std::vector<float> others(weights_.size(), 0.25F);
  on_gpu_->use_host_weights(1, others.data() + layout_->shard(1).begin, nullptr);
  on_host_->use_weights(1, others.data() + layout_->shard(1).begin);
  expect_as_on_host(samples(0, 8));
}

TEST_F(GpuReplica, CopiesASnapshotWhenItIsGivenOne) {
  build();
  const auto a = samples(0, 8);
  gpu_step(a);
  const auto given = [&](std::uint32_t shard, float plus) {
    const shard_range range = layout_->shard(shard);
    const auto values = std::make_shared<memory>(block(range.size() * sizeof(float)));
    for (std::size_t i = 0; i < range.size(); ++i)
      values->on_host<float>()[i] = weights_[range.begin + i] += plus;
    on_gpu_->use_weights(shard, snapshot(values));
    return values;
  };
  const auto first = given(0, 0.5F);
  expect_as_on_host(a); // the other shard's are where they were
  given(0, 0.25F);
  given(0, -0.75F); // the last one counts
  const auto second = given(1, 0);
  const result now = gpu_step(a);
  expect_close(now, host_step(a));
  on_gpu_->begin_step(a, on_gpu_->make_gradient());
  const auto third = given(1, 0.5F); // the step under way does not read it
  await_end();
  EXPECT_EQ(on_gpu_->end_step(), now.loss);
  expect_as_on_host(a);
  use_weights(1);
  for (float& w : weights_) w += 0.125F;
  use_weights(0);
  expect_as_on_host(a);
}

/// Other workers write to them until the step begins, and longer.
TEST_F(GpuReplica, CopiesRacingWeightsWhenTheStepBegins) {
  build();
  const auto a = samples(0, 8);
  on_gpu_->use_racing_weights(true);
  std::vector<std::shared_ptr<memory>> block_of;
  for (std::uint32_t s = 0; s < 2; ++s) {
    block_of.push_back(std::make_shared<memory>(block(layout_->shard(s).size() * sizeof(float))));
    on_gpu_->use_weights(s, snapshot(block_of[s]));
    std::ranges::copy(std::span(weights_).subspan(layout_->shard(s).begin, layout_->shard(s).size()),
                      block_of[s]->on_host<float>().begin());
  }
  expect_as_on_host(a);
}

TEST_F(GpuReplica, DropsWhatTheHostDrops) {
  build(find_model("mlp:hidden=32,dropout=0.5"));
  for (const std::uint64_t step : {1U, 2U}) expect_as_on_host(samples(0, 8, step));
}

/// A step is launched the first time, captured the second time, and a graph from then on; each batch size and
/// each set of inputs begins anew.
TEST_F(GpuReplica, ComputesTheSameBitsByLaunchesAndAsGraphs) {
  build();
  std::vector<std::shared_ptr<const batch>> batches;
  for (std::uint32_t i = 0; i < 16; ++i) batches.push_back(samples(8 * (i % 5), i % 4 == 3 ? 3 : 8, i));
  std::vector<std::vector<result>> all;
  for (const std::size_t graphs : {0, 2, 16}) {
    build(find_model("mlp:hidden=32,dropout=0.5"), testing::small_data(), graphs);
    all.push_back(foreseen_steps(batches));
  }
  for (std::size_t i = 0; i < batches.size(); ++i) {
    expect_close(all[0][i], host_step(batches[i]));
    for (const auto& others : {all[1], all[2]}) {
      EXPECT_EQ(all[0][i].loss, others[i].loss) << i;
      EXPECT_EQ(all[0][i].gradient, others[i].gradient) << i;
    }
  }
}

TEST_F(GpuReplica, SaysWhatItsGradientCovers) {
  build();
  const auto g = on_gpu_->make_gradient(), expected = on_host_->make_gradient();
  on_host_->begin_step(samples(0, 8), expected);
  on_gpu_->begin_step(samples(0, 8), g);
  await_end();
  on_gpu_->end_step();
  ASSERT_EQ(g->covered == nullptr, expected->covered == nullptr);
  EXPECT_EQ(squared_norm(*g) > 0, true);
  EXPECT_TRUE(g->sparse.empty());
  EXPECT_NE(g->source, nullptr);
}

TEST_F(GpuReplica, IsUnderWayUntilItsStepHasEnded) {
  build();
  EXPECT_EQ(on_gpu_->give_up(), step_state::finished);
  on_gpu_->begin_step(samples(0, 8), on_gpu_->make_gradient());
  EXPECT_EQ(on_gpu_->give_up(), step_state::under_way);
  EXPECT_EQ(ended_, 0) << "nobody has asked yet";
  await_end();
  EXPECT_EQ(ended_, 1);
  on_gpu_->end_step();
  EXPECT_EQ(on_gpu_->give_up(), step_state::finished);
  EXPECT_THAT(on_gpu_->waits_for(), HasSubstr("cuda:0"));
}

TEST_F(GpuReplica, RefusesALabelOrARowInTheWordsOfTheHost) {
  build();
  const auto of_no_class = samples(0, 8);
  std::ranges::fill(of_no_class->labels.values<std::int32_t>(), 7);
  expect_refused_as_by_host(of_no_class);
  expect_as_on_host(samples(0, 8)); // the queue goes on
  build(find_model("gpt:layers=1,width=8,heads=2"), testing::text());
  const auto of_no_row = samples(0, 8);
  of_no_row->features.values<std::int32_t>()[5] = 99;
  expect_refused_as_by_host(of_no_row);
  expect_as_on_host(samples(0, 8));
}

TEST_F(GpuReplica, RefusesWhatItCannotMean) {
  build();
  const auto g = on_gpu_->make_gradient();
  const auto other = samples(0, 8);
  other->features = tensor({8, 5});
  testing::expect_refused({
      {"no batch", [&] { on_gpu_->begin_step(nullptr, g); }, "no batch"},
      {"no gradient", [&] { on_gpu_->begin_step(samples(0, 8), nullptr); }, "no gradient"},
      {"no such shard", [&] { on_gpu_->use_host_weights(2, weights_.data(), nullptr); }, "shard 2 of 2"},
      {"no weights", [&] { on_gpu_->use_host_weights(0, nullptr, nullptr); }, "no values"},
      {"other samples", [&] { on_gpu_->begin_step(other, g); }, "other samples than these"},
  });
  expect_as_on_host(samples(0, 8));
}

TEST_F(GpuReplica, ComputesTheRowsOfTablesThatTheHostComputes) {
  const auto expect_same_rows = [this](std::size_t lists) {
    for (const std::size_t count : {8U, 3U, 8U}) {
      const auto b = samples(0, count);
      expect_as_on_host(b);
      const auto g = on_gpu_->make_gradient(), expected = on_host_->make_gradient();
      on_host_->begin_step(b, expected);
      on_gpu_->begin_step(b, g);
      await_end();
      on_gpu_->end_step();
      ASSERT_EQ(g->sparse.size(), lists);
      for (std::size_t i = 0; i < lists; ++i) {
        EXPECT_EQ(g->sparse[i].variable, expected->sparse[i].variable);
        EXPECT_TRUE(
            std::ranges::equal(listed_rows(g->sparse[i]).rows, listed_rows(expected->sparse[i]).rows));
      }
    }
  };
  build(find_model("softmax"), testing::sparse_data());
  expect_same_rows(1); // whose numbers the batch has
  build(find_model("dlrm:width=4,bottom=6,top=8"), testing::tastes());
  expect_same_rows(2); // whose numbers the program fetches
  const auto reused = on_gpu_->make_gradient();
  for (const std::size_t count : {3U, 8U, 2U}) {
    const auto b = samples(0, count);
    on_gpu_->begin_step(b, reused);
    await_end();
    expect_close(result_of(on_gpu_->end_step(), *reused), host_step(b));
  }
}

TEST_F(GpuReplica, TrainsATransformer) {
  build(find_model("gpt:layers=2,width=16,heads=2,dropout=0.2"), testing::text());
  for (const std::size_t count : {8U, 3U, 8U}) expect_as_on_host(samples(0, count, count));
}

TEST_F(GpuReplica, RefusesHeadsThatAreTooWideAndADeviceThatIsNoGpu) {
  build(find_model("gpt:layers=1,width=130,heads=1"), testing::text());
  EXPECT_THAT([&] { on_gpu_->begin_step(samples(0, 8), on_gpu_->make_gradient()); },
              ThrowsMessage<graph_error>(
                  HasSubstr("causal_attention: heads of 130 numbers; a GPU computes those of at most 128")));
  build();
  model_request request;
  request.devices = {{device_kind::cpu, 0}};
  EXPECT_THAT([&] { gpu_replica(testing::small_model(), request, layout_, watch_); },
              ThrowsMessage<device_error>(HasSubstr("cpu:0 is no GPU")));
}

TEST_F(GpuReplica, IsToldByTheWatchOfTheProcess) {
  build();
  model_request request;
  request.sample_dims = data_->train.sample_dims();
  request.classes = data_->train.classes();
  request.devices = {{device_kind::cuda, 0, 1}};
  gpu_replica other(testing::small_model(), request, layout_, watch_of_process());
  std::promise<void> ended;
  other.on_end([&] { ended.set_value(); });
  for (std::uint32_t s = 0; s < 2; ++s)
    other.use_host_weights(s, weights_.data() + layout_->shard(s).begin, nullptr);
  const auto g = other.make_gradient();
  other.begin_step(samples(0, 8), g);
  ended.get_future().wait();
  expect_close(result_of(other.end_step(), *g), host_step(samples(0, 8)));
}

class GpuPlaces : public testing::gpu_replica_test {
protected:
  /// Shard 0 lies on the host.
  void build_shards() {
    build();
    on_gpu_.reset();
    model_request request = request_for(*data_, 8);
    request.devices = {{device_kind::cuda, 0}};
    on_gpu_.emplace(testing::small_model(), request, layout_, watch_,
                    std::vector{weight_place::host, weight_place::same_gpu});
    on_gpu_->on_end([this] { ++ended_; });
    here_.emplace(*layout_, 0, 5, testing::sgd(0.1));
    there_.emplace(*layout_, 1, 5, testing::sgd(0.1), queue_ = std::make_shared<cuda::gpu_queue>(0));
    other_.emplace(*layout_, 1, 5, testing::sgd(0.1));
  }
  void update(shard& s, const std::shared_ptr<gradient>& g) {
    if (&s == &*there_) s.wait_for(*g);
    testing::update_once(s, g);
  }

  std::optional<shard> here_, there_, other_; ///< the last one is as that on the GPU, on the host
  std::shared_ptr<cuda::gpu_queue> queue_;
};

TEST_F(GpuPlaces, GiveEachShardItsPartOfTheGradient) {
  build_shards();
  EXPECT_THAT([&] { on_gpu_->use_weights(0, there_->snapshot()); },
              ThrowsMessage<device_error>(HasSubstr("shards on the host")));
  EXPECT_THAT([&] { on_gpu_->use_weights(1, here_->snapshot()); },
              ThrowsMessage<device_error>(HasSubstr("shards on cuda:0")));
  on_gpu_->use_norms();
  EXPECT_EQ(on_gpu_->most_under_way(), 1U) << "the host reads a part of each gradient";
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto b = samples(8 * i, 8, i);
    on_host_->use_weights(0, here_->snapshot());
    on_host_->use_weights(1, other_->snapshot());
    on_gpu_->use_weights(0, here_->snapshot());
    on_gpu_->use_weights(1, there_->snapshot());
    const auto g = on_gpu_->make_gradient(), expected = on_host_->make_gradient();
    on_host_->begin_step(b, expected);
    on_gpu_->begin_step(b, g);
    await_end();
    EXPECT_NEAR(on_gpu_->end_step(), on_host_->end_step(), 1e-5);
    EXPECT_NEAR(on_gpu_->squared_norm(*g), squared_norm(*expected), 1e-5);
    update(*here_, g);
    update(*there_, g);
    update(*other_, expected);
    const snapshot found = there_->host_snapshot();
    queue_->finish();
    for (std::size_t w = 0; w < found.size(); ++w)
      ASSERT_NEAR(found.on_host()[w], other_->snapshot().on_host()[w], 1e-5) << i << " at " << w;
    for (std::size_t w = 0; w < layout_->shard(0).size(); ++w)
      ASSERT_NEAR(g->dense.on_host<float>()[w], expected->dense.on_host<float>()[w], 1e-6)
          << i << " at " << w;
  }
}

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
      testing::update_once(s, g);
    }
  }
  float host_step_and_update(const std::shared_ptr<const batch>& b) {
    for (std::uint32_t s = 0; s < 2; ++s) on_host_->use_weights(s, here_[s].snapshot());
    const auto g = on_host_->make_gradient();
    on_host_->begin_step(b, g);
    for (shard& s : here_) testing::update_once(s, g);
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

TEST_F(GpuRunAhead, TakesNoMoreStepsThanItMayAndTellsWhenEachWasComputed) {
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

TEST_F(GpuForesight, LeavesTheNextStepFreeToTakeAnotherBatchAndMayBeOfAnotherThanBefore) {
  build();
  const auto a = samples(0, 8), b = samples(8, 8), c = samples(16, 8);
  gpu_step(a);
  foreseeing_step(a, b);
  expect_as_on_host(c);
  expect_as_on_host(a);
  expect_as_on_host(b); // it is still there
  foreseeing_step(b, a);
  expect_as_on_host(b);
  for (const auto& next : {b, c, a}) {
    on_gpu_->begin_step(a, on_gpu_->make_gradient());
    on_gpu_->foresee(b, {});
    on_gpu_->foresee(c, {}); // nothing, if b is still being copied
    on_gpu_->foresee(c, {});
    await_end();
    on_gpu_->end_step();
    on_gpu_->foresee(c, {});
    expect_as_on_host(next);
  }
}

TEST_F(GpuForesight, LeavesABatchOfANewSizeToItsStep) {
  build();
  on_gpu_->foresee(nullptr, {}); // of nothing
  bool copied = false;
  const auto note = [&] { copied = true; };
  on_gpu_->foresee(samples(0, 8), note); // no step has been computed yet
  const auto small = samples(0, 3);
  gpu_step(samples(0, 8));
  foreseeing_step(samples(0, 8), small, note);
  EXPECT_EQ(watch_->watched(), 0U);
  EXPECT_FALSE(copied);
  expect_as_on_host(small);
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
  expect_as_on_host(b);
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
  expect_as_on_host(a);
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

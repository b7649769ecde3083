#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/engine/worker/gpu_replica_fixture.hpp>

#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <algorithm>

// One source for two GPUs: the simulated one, and a real one.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class GpuReplica : public testing::gpu_replica_test {};

TEST_F(GpuReplica, ComputesTheLossAndTheGradientOfTheHost) {
  build();
  expect_close(gpu_step(samples(0, 8)), host_step(samples(0, 8)));
  expect_close(gpu_step(samples(8, 8)), host_step(samples(8, 8)));
  EXPECT_EQ(ended_, 2);
}

TEST_F(GpuReplica, TakesAShortBatchForWhatItIs) {
  build();
  const result before = gpu_step(samples(0, 8));
  expect_close(gpu_step(samples(8, 3)), host_step(samples(8, 3)));
  EXPECT_EQ(gpu_step(samples(0, 8)).gradient, before.gradient) << "the same bits again";
}

TEST_F(GpuReplica, ReadsTheWeightsAtEachStep) {
  build();
  gpu_step(samples(0, 8));
  for (float& w : weights_) w += 0.125F; // where they lie
  expect_close(gpu_step(samples(0, 8)), host_step(samples(0, 8)));
  const std::vector<float> others(weights_.size(), 0.25F);
  on_gpu_->use_host_weights(1, others.data() + layout_->shard(1).begin, nullptr);
  on_host_->use_weights(1, others.data() + layout_->shard(1).begin);
  expect_close(gpu_step(samples(0, 8)), host_step(samples(0, 8)));
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
  expect_close(gpu_step(a), host_step(a)); // the other shard's are where they were
  given(0, 0.25F);
  given(0, -0.75F); // the last one counts
  const auto second = given(1, 0);
  const result now = gpu_step(a);
  expect_close(now, host_step(a));
  on_gpu_->begin_step(a, on_gpu_->make_gradient());
  const auto third = given(1, 0.5F); // the step under way does not read it
  await_end();
  EXPECT_EQ(on_gpu_->end_step(), now.loss);
  expect_close(gpu_step(a), host_step(a));
  use_weights(1);
  for (float& w : weights_) w += 0.125F;
  use_weights(0);
  expect_close(gpu_step(a), host_step(a));
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
  expect_close(gpu_step(a), host_step(a));
}

TEST_F(GpuReplica, DropsWhatTheHostDrops) {
  build(find_model("mlp:hidden=32,dropout=0.5"));
  for (const std::uint64_t step : {1U, 2U})
    expect_close(gpu_step(samples(0, 8, step)), host_step(samples(0, 8, step)));
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

TEST_F(GpuReplica, EndsBeforeItsWatchSpeaks) {
  build();
  on_gpu_->begin_step(samples(0, 8), on_gpu_->make_gradient());
  on_gpu_.reset(); // waits for the GPU
  EXPECT_EQ(watch_->watched(), 1U);
  EXPECT_EQ(watch_->ask(), 1U);
}

TEST_F(GpuReplica, RefusesALabelInTheWordsOfTheHost) {
  build();
  const auto bad = samples(0, 8), good = samples(0, 8);
  std::ranges::fill(bad->labels.values<std::int32_t>(), 7);
  std::string words;
  try {
    host_step(bad);
    FAIL() << "the host takes it";
  } catch (const std::out_of_range& e) {
    words = e.what();
  }
  EXPECT_THAT([&] { gpu_step(bad); }, ThrowsMessage<std::out_of_range>(words));
  expect_close(gpu_step(good), host_step(good)); // the queue goes on
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
  expect_close(gpu_step(samples(0, 8)), host_step(samples(0, 8)));
}

TEST_F(GpuReplica, ComputesTheRowsOfTablesThatTheHostComputes) {
  const auto expect_same_rows = [this](std::size_t lists) {
    for (const std::size_t count : {8U, 3U, 8U}) {
      const auto b = samples(0, count);
      expect_close(gpu_step(b), host_step(b));
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
}

TEST_F(GpuReplica, ReusesAGradientForMoreRows) {
  build(find_model("dlrm:width=4,bottom=6,top=8"), testing::tastes());
  const auto g = on_gpu_->make_gradient();
  for (const std::size_t count : {3U, 8U, 2U}) {
    const auto b = samples(0, count);
    on_gpu_->begin_step(b, g);
    await_end();
    expect_close(result_of(on_gpu_->end_step(), *g), host_step(b));
  }
}

TEST_F(GpuReplica, TrainsATransformer) {
  build(find_model("gpt:layers=2,width=16,heads=2,dropout=0.2"), testing::text());
  for (const std::size_t count : {8U, 3U, 8U}) {
    const auto b = samples(0, count, count);
    expect_close(gpu_step(b), host_step(b));
  }
}

TEST_F(GpuReplica, RefusesARowThatATableLacksInTheWordsOfTheHost) {
  build(find_model("gpt:layers=1,width=8,heads=2"), testing::text());
  const auto bad = samples(0, 8), good = samples(0, 8);
  bad->features.values<std::int32_t>()[5] = 99;
  std::string words;
  try {
    host_step(bad);
    FAIL() << "the host takes it";
  } catch (const std::out_of_range& e) {
    words = e.what();
  }
  EXPECT_THAT([&] { gpu_step(bad); }, ThrowsMessage<std::out_of_range>(words));
  expect_close(gpu_step(good), host_step(good));
}

TEST_F(GpuReplica, RefusesHeadsThatAreTooWideForAGpu) {
  build(find_model("gpt:layers=1,width=130,heads=1"), testing::text());
  EXPECT_THAT([&] { on_gpu_->begin_step(samples(0, 8), on_gpu_->make_gradient()); },
              ThrowsMessage<graph_error>(
                  HasSubstr("causal_attention: heads of 130 numbers; a GPU computes those of at most 128")));
}

TEST_F(GpuReplica, RefusesADeviceThatIsNoGpu) {
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

} // namespace
} // namespace mailgrad

#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/actors/run/evaluator_fixture.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gmock/gmock.h>

#include <algorithm>

namespace mailgrad {
namespace {

using mailgrad::testing::only;
using ::testing::AllOf, ::testing::Each, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::Not,
    ::testing::SizeIs, ::testing::StartsWith;

/// An evaluator on the simulated GPU, of a model in two shards, which the test plays.
class GpuEvaluator : public testing::evaluator_test {
protected:
  GpuEvaluator() { set_up({}); }
  ~GpuEvaluator() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  static void set_up(const simulated_gpu::faults& fail) {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.when = simulated_gpu::timing::late;
    s.fail = fail;
    simulated_gpu::set_up(s);
  }
  evaluator_options options() {
    evaluator_options o = evaluator_test::options();
    o.gpu = device{device_kind::cuda, 0};
    o.on_tested = [this](const evaluation_made&, std::span<const float> w) {
      seen_.assign(w.begin(), w.end());
    };
    return o;
  }
  std::span<const float> part(std::uint32_t s) const {
    const shard_range range = plan_.layout->shard(s);
    return std::span(weights_).subspan(range.begin, range.size());
  }
  shard_read on_host(std::uint32_t s) const {
    const auto values = std::make_shared<memory>(block(part(s).size_bytes()));
    std::ranges::copy(part(s), values->on_host<float>().begin());
    return {{s}, {7}, false, snapshot(values)};
  }
  /// The GPU writes them when it is waited for.
  shard_read on_gpu(std::uint32_t s) {
    if (!queue_) queue_ = std::make_shared<cuda::gpu_queue>(0);
    const auto values = std::make_shared<memory>(queue_->allocate(part(s).size_bytes()));
    queue_->write(part(s), *values);
    return {{s}, {7}, false, snapshot(values, queue_->record())};
  }
  /// The GPUs that the last questions to the shards named.
  std::vector<std::optional<std::uint32_t>> gpus_asked() {
    std::vector<std::optional<std::uint32_t>> all;
    for (auto& s : shards_) all.push_back(s.heard<read_shard>().back().gpu);
    return all;
  }

  std::vector<float> seen_;
  bool failed_ = false;
  std::shared_ptr<cuda::gpu_queue> queue_;
};

TEST_F(GpuEvaluator, TestsWeightsOfShardsWhereverTheyAre) {
  const caf::actor tests = start<evaluator>(options());
  for (int where = 0; where < 4; ++where) {
    seen_.clear();
    auto asker = ask<weights_tested>(tests, test_weights{11});
    EXPECT_THAT(gpus_asked(), Each(std::optional<std::uint32_t>(0)));
    for (std::uint32_t s = 0; s < 2; ++s) tell(tests, (where >> s & 1) != 0 ? on_gpu(s) : on_host(s));
    const weights_tested& found = only(asker.heard<weights_tested>());
    EXPECT_TRUE(found.whole);
    EXPECT_EQ(found.what.steps, 11U);
    EXPECT_NEAR(found.what.loss, expected_loss(), 1e-5);
    EXPECT_TRUE(found.what.accuracy);
    EXPECT_THAT(found.what.why_on_host, IsEmpty());
    EXPECT_EQ(seen_, weights_) << where;
  }
}

/// A shard that updates meanwhile would need more memory.
TEST_F(GpuEvaluator, HoldsNoWeightsWhileItTestsNorAfterwards) {
  const shard_read first = on_gpu(0), second = on_gpu(1);
  std::vector<long> held;
  evaluator_options o = options();
  o.stop = [&] {
    held.push_back(first.values.owner().use_count() + second.values.owner().use_count());
    return false;
  };
  const caf::actor tests = start<evaluator>(std::move(o));
  auto asker = ask<weights_tested>(tests, test_weights{11});
  tell(tests, first);
  tell(tests, second);
  EXPECT_NEAR(only(asker.heard<weights_tested>()).what.loss, expected_loss(), 1e-5);
  EXPECT_THAT(held, AllOf(Not(IsEmpty()), Each(2 + 1))) << "the last message is the test's own";
  EXPECT_EQ(first.values.owner().use_count(), 1);
}

TEST_F(GpuEvaluator, TestsNoOldWeightsIfAShardHasNone) {
  const caf::actor tests = start<evaluator>(options());
  ask<weights_tested>(tests, test_weights{11});
  for (std::uint32_t s = 0; s < 2; ++s) tell(tests, on_host(s));
  seen_.clear();
  auto asker = ask<weights_tested>(tests, test_weights{12});
  tell(tests, on_host(0));
  tell(tests, shard_read{{1}, {8}, false, {}});
  EXPECT_FALSE(only(asker.heard<weights_tested>()).whole);
  EXPECT_EQ(asker.heard<weights_tested>()[0].why_left_out, "shard 1 gave no weights");
  EXPECT_THAT(seen_, IsEmpty());
  auto next = ask<weights_tested>(tests, test_weights{13});
  for (std::uint32_t s = 0; s < 2; ++s) tell(tests, on_host(s));
  EXPECT_TRUE(only(next.heard<weights_tested>()).whole);
  EXPECT_THAT(next.heard<weights_tested>()[0].why_left_out, IsEmpty());
  EXPECT_EQ(seen_, weights_);
}

/// Whichever call fails, each test is answered once, from then on by the host.
TEST_F(GpuEvaluator, TestsOnTheHostWhenTheGpuHasFailed) {
  std::size_t failed = 0;
  for (std::uint64_t n = 1; n < 60; ++n) {
    set_up({});
    queue_.reset();
    seen_.clear();
    const caf::actor tests = start<evaluator>(options());
    auto asker = ask<weights_tested>(tests, test_weights{5});
    const shard_read first = on_gpu(0), second = on_gpu(1);
    set_up({.lost_gpu_at = n});
    tell(tests, first);
    tell(tests, second);
    if (asker.heard<weights_tested>().empty()) {
      ++failed;
      EXPECT_THAT(gpus_asked(), Each(std::optional<std::uint32_t>())) << n;
      for (std::uint32_t s = 0; s < 2; ++s) tell(tests, on_host(s));
    }
    ASSERT_THAT(asker.heard<weights_tested>(), SizeIs(1)) << n;
    const weights_tested& found = asker.heard<weights_tested>()[0];
    EXPECT_TRUE(found.whole) << n;
    EXPECT_NEAR(found.what.loss, expected_loss(), 1e-5) << n;
    EXPECT_EQ(seen_, weights_);
    EXPECT_EQ(found.what.why_on_host.empty(), gpus_asked()[0].has_value()) << n;
  }
  EXPECT_GT(failed, 20U);
}

/// The GPU fails behind the first question, so each second of the test passes twice.
TEST_F(GpuEvaluator, CountsTheTimeOfWhatWasTriedInVain) {
  set_up({});
  evaluator_options o = options();
  o.stop = [this] {
    time_->advance(std::chrono::seconds{1});
    if (!failed_) set_up({.lost_gpu_at = 1});
    failed_ = true;
    return false;
  };
  const caf::actor tests = start<evaluator>(std::move(o));
  auto asker = ask<weights_tested>(tests, test_weights{5});
  for (std::uint32_t s = 0; s < 2; ++s) tell(tests, on_host(s));
  EXPECT_THAT(only(asker.heard<weights_tested>()).what.why_on_host, Not(IsEmpty()));
  EXPECT_DOUBLE_EQ(asker.heard<weights_tested>()[0].what.seconds, 2);
  auto next = ask<weights_tested>(tests, test_weights{6});
  for (std::uint32_t s = 0; s < 2; ++s) tell(tests, on_host(s));
  EXPECT_DOUBLE_EQ(next.heard<weights_tested>().at(0).what.seconds, 1) << "of that test alone";
}

TEST_F(GpuEvaluator, TestsAtOnceOnTheHostIfTheWeightsLieThere) {
  const caf::actor tests = start<evaluator>(options());
  auto asker = ask<weights_tested>(tests, test_weights{5});
  tell(tests, on_host(0));
  set_up({.out_of_memory_at = 3});
  tell(tests, on_host(1));
  EXPECT_DOUBLE_EQ(only(asker.heard<weights_tested>()).what.loss, expected_loss());
  EXPECT_THAT(asker.heard<weights_tested>()[0].what.why_on_host,
              AllOf(StartsWith("cuda:0: out of memory"), HasSubstr(", for ")));
}

} // namespace
} // namespace mailgrad

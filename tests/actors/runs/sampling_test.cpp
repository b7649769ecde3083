#include <mailgrad/tests/actors/runs/assembled_run.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

// Sampled gradients: how far the weights moved, and where a fresh gradient points.

namespace mailgrad {
namespace {

using testing::drawn_order;
using testing::drawn_orders;

/// What a run in a drawn order leaves behind.
struct sampled_run {
  training_report report;
  std::vector<float> weights;
  std::vector<std::uint64_t> produced; ///< by worker
};

sampled_run run_of(const testing::assembly& a, drawn_order order) {
  testing::deterministic_system system;
  const testing::assembled_run run(system.actors(), a, testing::small_data(),
                                   std::make_shared<testing::manual_time>());
  system.deliver(order);
  sampled_run result{report_of(run.outcome()), run.weights(), {}};
  for (const worker_report& w : run.outcome().workers) result.produced.push_back(w.produced);
  return result;
}

testing::assembly sampling(const std::string& policy, std::uint32_t workers, std::uint64_t sample_gap) {
  testing::assembly a;
  a.policy = policy;
  a.workers = workers;
  a.batches = 40;
  a.sample_gap = sample_gap;
  return a;
}

TEST(Sampling, FindsNoGapAndTheSameGradientWhereOneWorkerIsAlone) {
  for (const char* policy : {"async", "sync"}) {
    const training_report r = run_of(sampling(policy, 1, 5), drawn_order(1)).report;
    EXPECT_EQ(r.weight_gap.count(), 2 * 8U) << "on each of two shards";
    EXPECT_EQ(r.weight_gap.greatest(), 0.0);
    EXPECT_EQ(r.gradient_cosine.count(), 8U);
    EXPECT_EQ(r.gradient_cosine.least(), 1.0);
    EXPECT_EQ(r.gradient_cosine.greatest(), 1.0);
  }
}

TEST(Sampling, TakesEachNthGradientOfEachWorker) {
  for (const drawn_order& order : drawn_orders(10)) {
    const sampled_run run = run_of(sampling("async", 3, 4), order);
    std::uint64_t expected = 0;
    for (const std::uint64_t produced : run.produced) expected += produced / 4;
    EXPECT_EQ(run.report.gradient_cosine.count(), expected);
    EXPECT_EQ(run.report.weight_gap.count(), 2 * expected);
  }
}

TEST(Sampling, FindsAGapWhereOthersWereFaster) {
  const training_report r = run_of(sampling("async", 3, 1), drawn_order(2)).report;
  EXPECT_GT(r.weight_gap.greatest(), 0.0);
  EXPECT_LT(r.gradient_cosine.least(), 1.0);
  EXPECT_GE(r.gradient_cosine.least(), -1.0);
  EXPECT_GT(r.gradient_cosine.mean(), 0.5) << "a few steps do not turn a gradient round";
}

/// Each shard knows lag and gap, and the worker the cosine.
TEST(Sampling, KeepsLagGapAndCosineOfAGradientTogether) {
  const training_report r = run_of(sampling("async", 3, 1), drawn_order(2)).report;
  ASSERT_EQ(r.sampled.size(), r.weight_gap.count());
  double gaps = 0, cosines = 0;
  for (const sampled_figures& x : r.sampled) {
    ASSERT_TRUE(x.cosine) << "worker " << x.worker << ", step " << x.step;
    EXPECT_EQ(x.gap == 0, x.lag == 0);
    gaps += x.gap;
    cosines += *x.cosine;
  }
  EXPECT_NEAR(gaps / static_cast<double>(r.sampled.size()), r.weight_gap.mean(), 1e-12);
  EXPECT_NEAR(cosines / static_cast<double>(r.sampled.size()), r.gradient_cosine.mean(), 1e-12)
      << "each counts on two shards";
  for (std::size_t i = 0; i < r.sampled.size(); i += 2) {
    EXPECT_EQ(r.sampled[i].shard, 0U);
    EXPECT_EQ(r.sampled[i + 1].shard, 1U);
    EXPECT_EQ(r.sampled[i].step, r.sampled[i + 1].step);
  }
}

TEST(Sampling, KeepsOnlySomeOfVeryManyGradients) {
  testing::assembly a = sampling("async", 3, 1);
  a.batches = 2'000;
  const training_report r = run_of(a, drawn_order(2)).report;
  EXPECT_EQ(r.gradient_cosine.count(), 2'000U);
  EXPECT_EQ(r.sampled.size(), training_report::most_sampled);
  std::uint64_t last = 0;
  for (const sampled_figures& x : r.sampled) {
    EXPECT_TRUE(x.cosine) << "shards and workers keep the same gradients";
    if (x.worker == 0) last = x.step;
  }
  EXPECT_GT(last, 500U) << "they are from all of the run";
}

TEST(Sampling, FindsNoGapBehindABarrier) {
  const training_report r = run_of(sampling("sync", 3, 2), drawn_order(2)).report;
  EXPECT_GT(r.weight_gap.count(), 0U);
  EXPECT_EQ(r.weight_gap.greatest(), 0.0);
  EXPECT_EQ(r.gradient_cosine.least(), 1.0);
}

/// Looking must not change what is seen.
TEST(Sampling, LeavesTheWeightsAsTheyWouldBe) {
  for (const char* policy : {"sync", "async"}) {
    const std::uint32_t workers = std::string(policy) == "sync" ? 3 : 1;
    EXPECT_EQ(run_of(sampling(policy, workers, 2), drawn_order(5)).weights,
              run_of(sampling(policy, workers, 0), drawn_order(9)).weights);
  }
}

TEST(Sampling, EndsInEveryPolicyWithALedgerThatBalances) {
  for (const char* policy : {"ssp:1", "backup:1", "k-async:2", "k-batch-async:2", "rennala:2", "ringmaster:2",
                             "malenia:4", "ringleader", "async, sync@8, ssp:1@20"}) {
    for (const drawn_order& order : drawn_orders(10)) {
      const training_report r = run_of(sampling(policy, 3, 2), order).report;
      EXPECT_EQ(r.ended, "completed") << policy;
      EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
      EXPECT_GT(r.weight_gap.count(), 0U) << policy;
      EXPECT_GT(r.gradient_cosine.count(), 0U) << policy;
    }
  }
}

/// One shard of 8 weights, with a gap between two variables, and a worker that the test plays.
class SamplingShard : public testing::DeterministicTest {
protected:
  SamplingShard() {
    shard_ = start<parameter_actor>(parameter_actor_options{
        {std::make_shared<shard>(layout_, 0, 1, testing::sgd(1)), {"async", 1}, 1, time_}, tracker_.actor()});
    tell(shard_, join_shard{{0}, {}, device_.actor()});
  }
  /// 3 for each weight, and 0 between the variables as in the gradients of a replica.
  void push(std::uint64_t step, std::uint64_t version, snapshot read) {
    std::vector<float> values(layout_.dense_size());
    for (const placed_variable& v : layout_.variables())
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(v.offset), v.dims.size(), 3.0F);
    push_gradient x = testing::push_of(0, step, version, testing::dense_gradient(values));
    x.payload.read = std::move(read);
    tell(shard_, std::move(x));
  }
  std::vector<shard_weights>& answers() { return device_.heard<shard_weights>(); }

  const parameter_layout layout_ = testing::layout_of({{"w", {5}}, {"b", {3}}}, 1);
  testing::listener<staleness_observed> tracker_ = listen<staleness_observed>();
  testing::listener<shard_weights> device_ = listen<shard_weights>();
  caf::actor shard_;
};

TEST_F(SamplingShard, MeasuresTheRootMeanSquareOverWeightsAndNotOverGaps) {
  const auto first = answers()[0].payload.values;
  push(1, 0, {});
  push(2, 1, {});
  push(3, 0, first);
  const running_stat gap =
      ask<shard_report>(shard_, report_shard{}).heard<shard_report>().at(0).workers[0].weight_gap;
  EXPECT_EQ(gap.count(), 1U);
  EXPECT_NEAR(gap.mean(), 6, 1e-5) << "two steps of 3 for each weight";
}

TEST_F(SamplingShard, TellsTheWeightsThatASampledGradientMet) {
  push(1, 0, {});
  EXPECT_FALSE(answers().back().payload.met);
  const auto before = answers().back().payload.values;
  push(2, 0, answers()[0].payload.values);
  EXPECT_EQ(answers().back().header.met.value, 2U);
  EXPECT_EQ(answers().back().payload.met, before);
  push(3, 2, {});
  EXPECT_FALSE(answers().back().payload.met) << "it is told once";
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/plan/run_tester.hpp>
#include <mailgrad/graph/models/built_in.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

// The last test of a run, and its text, on a simulated GPU that fails.

namespace mailgrad {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

class GpuFinalTest : public ::testing::Test {
protected:
  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  static run_plan plan() {
    training_options o;
    o.batch = 8;
    o.devices = {{device_kind::cuda, 0}};
    o.text = {.length = 6, .seed = 3};
    return plan_run(*built_in_model("gpt:layers=1,width=16,heads=2"), testing::text(), o);
  }
  /// Of weights on a GPU of which this call is the first that fails; 0: none.
  training_report tested(std::uint64_t lost_at, const std::function<bool()>& stop) const {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    if (lost_at > 0) s.fail.lost_gpu_at = lost_at;
    simulated_gpu::set_up(s);
    training_report r;
    r.ended = "completed";
    test_trained(r, plan_, weights_, stop);
    return r;
  }

  const run_plan plan_ = plan();
  const std::vector<float> weights_ = first_weights(*plan_.layout, plan_.options.seed);
};

TEST_F(GpuFinalTest, IsRepeatedOnTheHostForItselfAlone) {
  int passes = 0;
  const auto count = [&passes] {
    ++passes;
    return false;
  };
  const training_report whole = tested(0, count);
  const std::uint64_t calls = simulated_gpu::count().calls;
  const int passes_of_one = std::exchange(passes, 0);
  EXPECT_EQ(whole.tested.value().device, "cuda:0");
  EXPECT_THAT(whole.tested->text_on_host, IsEmpty());
  int tests = 0, texts = 0;
  for (const std::uint64_t call : testing::spread_slice_of(calls)) {
    const std::uint64_t n = call + 1;
    passes = 0;
    const training_report r = tested(n, count);
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_NEAR(r.test_loss.value(), whole.test_loss.value(), 1e-5) << n;
    EXPECT_EQ(r.sample, whole.sample) << n;
    if (r.tested.value().device == "cpu:0") {
      ++tests;
      EXPECT_THAT(r.tested->why_on_host, Not(IsEmpty()));
      EXPECT_THAT(r.tested->text_on_host, IsEmpty()) << "the test says why";
    } else if (!r.tested->text_on_host.empty()) {
      ++texts;
      EXPECT_THAT(r.tested->why_on_host, IsEmpty());
      EXPECT_EQ(passes, passes_of_one) << "the test was not repeated";
    }
  }
  EXPECT_GT(tests, 0);
  EXPECT_GT(texts, 0);
}

/// The first try has found the loss of the samples held out, and the second is ended before it does.
TEST_F(GpuFinalTest, LeavesNoFiguresOfATryThatFailed) {
  const auto split = std::make_shared<data_split>(*testing::small_data());
  split->validation = testing::small_samples(24, 3);
  training_options o;
  o.batch = 8;
  o.devices = {{device_kind::cuda, 0}};
  const run_plan plan = plan_run(testing::small_model(), split, o);
  int passes = 0;
  const auto fail_then_stop = [&passes] {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.fail.lost_gpu_at = 1;
    if (++passes == 2) simulated_gpu::set_up(s);
    return passes > 2;
  };
  simulated_gpu::set_up(simulated_gpu::default_settings());
  training_report r;
  r.ended = "completed";
  test_trained(r, plan, first_weights(*plan.layout, 1), fail_then_stop);
  EXPECT_EQ(passes, 3);
  EXPECT_EQ(r.why, "the test was ended early");
  EXPECT_FALSE(r.validation_loss);
  EXPECT_FALSE(r.validation_accuracy);
  EXPECT_FALSE(r.test_loss);
}

} // namespace
} // namespace mailgrad

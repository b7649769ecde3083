#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/optim/plugins/custom_rules.hpp>

#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/optim/optimizer_options.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

// Workers on streams of a GPU whose run has a rule or a parameter actor of a user's own, or prescribed times.

namespace mailgrad {
namespace {

using testing::all_on_gpu;
using testing::gpu_options;
using testing::GpuRuns;
using testing::options_for;
using testing::weights_of;

void expect_close(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << i;
}

TEST_F(GpuRuns, UpdateByARuleOfAUsersOwn) {
  training_options there = gpu_options("sync", 2), here = options_for("sync", 2);
  there.optimizer.rule = make_custom_rule(rule_table<testing::own_momentum>);
  for (training_options* o : {&there, &here}) o->shards = 2;
  expect_close(weights_of(there), weights_of(here));
}

/// Ours under another name.
class namesake : public parameter_actor {
public:
  static constexpr const char* name = "test.namesake-of-cards";
  using parameter_actor::parameter_actor;
};

TEST_F(GpuRuns, PushToAParameterActorOfAUsersOwn) {
  training_options o = gpu_options("sync", 2);
  o.shards = 2;
  const std::vector<float> expected = weights_of(o);
  o.parameter_actor = make_custom_parameter_actor<namesake>();
  EXPECT_EQ(weights_of(o), expected);
}

/// Times are prescribed to steps, not bits.
TEST_F(GpuRuns, WithPrescribedTimesComeToTheSameBits) {
  for (const bool there : {false, true}) {
    training_options o = there ? all_on_gpu("sync", 2) : gpu_options("sync", 2);
    o.shards = 2;
    const std::vector<float> expected = weights_of(o);
    o.delays = "exp:mean=0.0005";
    EXPECT_EQ(weights_of(o), expected) << there;
  }
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/optim/custom_rule.hpp>
#include <mailgrad/optim/plugin.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

// Whatever ends a run early, its report says what it was and where.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::options_for;
using testing::small_data;
using testing::trained;

constexpr std::uint64_t bad_step = 5;

struct throwing_rule {
  static constexpr const char* name = "throwing";
  static constexpr std::size_t states = 0;
  float rate;
  explicit throwing_rule(const mailgrad_rule_step& s) : rate(static_cast<float>(s.learning_rate)) {
    if (s.step == bad_step) throw std::runtime_error("no table for step 5");
  }
  void operator()(float& w, float g) const { w -= rate * g; }
};

/// Spoils the weights in the update of its one setting.
struct spoiling_rule {
  static constexpr const char* name = "spoiling";
  static constexpr std::size_t states = 0;
  static constexpr mailgrad_rule_setting settings[] = {{"last", 5, 1, 1e9}};
  float rate;
  bool spoils;
  explicit spoiling_rule(const mailgrad_rule_step& s)
      : rate(static_cast<float>(s.learning_rate)), spoils(static_cast<double>(s.step) == s.settings[0]) {}
  void operator()(float& w, float g) const {
    w = spoils ? std::numeric_limits<float>::quiet_NaN() : w - rate * g;
  }
};

/// From its fifth update on the weights are so large that the loss, a finite number, says nothing.
struct inflating_rule {
  static constexpr const char* name = "inflating";
  static constexpr std::size_t states = 0;
  float rate;
  bool inflates;
  explicit inflating_rule(const mailgrad_rule_step& s)
      : rate(static_cast<float>(s.learning_rate)), inflates(s.step >= bad_step) {}
  void operator()(float& w, float g) const { w = inflates ? std::copysign(1e6F, w - g) : w - rate * g; }
};

template <class Rule>
training_options with_rule(const std::string& policy, std::uint32_t workers) {
  training_options o = options_for(policy, workers);
  o.optimizer.rule = make_custom_rule(rule_table<Rule>);
  return o;
}

TEST(TrainingFailures, NameTheRuleTheShardAndTheUpdateOfARuleThatThrows) {
  for (const char* policy : {"async", "sync", "k-batch-async:2"}) {
    const training_report r = trained(with_rule<throwing_rule>(policy, 2));
    EXPECT_EQ(r.ended, "failed") << policy;
    EXPECT_EQ(r.why,
              "shard 0 is lost: update 5 by rule 'throwing': no table for step 5; lost with shard 0: its "
              "weights, and what it had made of " +
                  std::to_string(r.ledger.produced) + " gradients")
        << policy;
    EXPECT_THAT(r.lost_shards, ::testing::ElementsAre(0));
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  }
}

TEST(TrainingFailures, NameTheRuleAndTheStepWhereWorkersUpdateThemselves) {
  training_options o = with_rule<throwing_rule>("hogwild", 1);
  training_report r = trained(o);
  EXPECT_EQ(r.ended, "failed");
  EXPECT_EQ(r.why, "worker 0 at its step 5: rule 'throwing': no table for step 5");
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);

  o.policy = "async";
  o.local_steps = 3;
  r = trained(o);
  EXPECT_EQ(r.ended, "failed");
  EXPECT_EQ(r.why, "worker 0 at its step 5: rule 'throwing': no table for step 5");

  o.cure = "easgd:0.3";
  r = trained(o);
  EXPECT_EQ(r.ended, "failed");
  EXPECT_THAT(r.why, HasSubstr("rule 'throwing': no table for step 5"));
}

/// The last update: no loss is ever computed from what it leaves.
TEST(TrainingFailures, NameTheWeightThatTheLastUpdateSpoiled) {
  training_options o = with_rule<spoiling_rule>("async", 1);
  o.steps = bad_step;
  const training_report r = trained(o);
  EXPECT_EQ(r.ended, "diverged");
  EXPECT_THAT(r.why,
              AllOf(HasSubstr("weight 0 of '"), HasSubstr("' on shard 0 is nan after 5 updates by rule "
                                                          "'spoiling'")));
  EXPECT_FALSE(r.test_accuracy);
}

TEST(TrainingFailures, NameTheWeightBesideTheLossThatItSpoiled) {
  const training_report r = trained(with_rule<spoiling_rule>("async", 1));
  EXPECT_EQ(r.ended, "diverged");
  EXPECT_THAT(r.why, AllOf(HasSubstr("the loss of worker 0 at its step 6 is not finite"),
                           HasSubstr("on shard 0 is nan after 5 updates by rule 'spoiling'")));
}

TEST(TrainingFailures, EndARunAtOnceWhoseLossHasGrownToNonsense) {
  for (const std::uint32_t workers : {1U, 2U}) {
    training_options o = with_rule<inflating_rule>("async", workers);
    o.epochs = 1'000'000'000;
    const training_report r = trained(o);
    EXPECT_EQ(r.ended, "diverged");
    EXPECT_THAT(r.why, AllOf(HasSubstr("the loss has grown to nonsense"), HasSubstr("steps in a row")));
    EXPECT_FALSE(r.test_loss) << "nobody tests such weights";
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  }
}

TEST(TrainingFailures, EndInNonsenseThatTheLastUpdateLeft) {
  training_options o = with_rule<inflating_rule>("async", 1);
  o.steps = bad_step;
  const training_report r = trained(o);
  EXPECT_EQ(r.ended, "diverged");
  EXPECT_THAT(r.why, HasSubstr("the loss has grown to nonsense: that of the test is "));
  EXPECT_GT(r.test_loss.value_or(0), 1000);
  o.steps = bad_step - 1;
  EXPECT_EQ(trained(o).ended, "completed");
}

TEST(TrainingFailures, AreNoneWhereNonsenseIsAskedFor) {
  training_options o = with_rule<inflating_rule>("async", 1);
  o.when_diverged = on_divergence::go_on;
  const training_report r = trained(o);
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_GT(r.test_loss.value_or(0), 1000);
}

/// A parameter actor that cannot even be born, as under a cure that is too big.
struct unborn {
  static constexpr const char* name = "test.unborn";
  unborn(caf::event_based_actor*, parameter_actor_options) { throw std::bad_alloc(); }
  caf::behavior make_behavior() { return {}; }
};

TEST(TrainingFailures, KeepTheLastWordsOfAnActorThatIsNotBorn) {
  training_options o = options_for("async", 2);
  o.parameter_actor = make_custom_parameter_actor<unborn>();
  const training_report r = trained(o);
  EXPECT_EQ(r.ended, "failed");
  EXPECT_THAT(r.why, HasSubstr("shard 0 is lost: std::bad_alloc; lost with shard 0: its weights, "));
}

/// Builds for training, and throws when it is to be tested.
model_function untestable() {
  return [](graph& g, const model_request& r) {
    if (r.purpose == phase::evaluation) throw std::runtime_error("no model for a test");
    return testing::small_model()(g, r);
  };
}

TEST(TrainingFailures, KeepTheReportOfARunWhoseTestThrows) {
  const training_report r = train(untestable(), small_data(), options_for("sync", 2));
  EXPECT_EQ(r.ended, "failed");
  EXPECT_EQ(r.why, "the test of the trained weights failed: no model for a test");
  EXPECT_EQ(r.ledger.produced, 24U);
  EXPECT_FALSE(r.parameters_sha256.empty());
  EXPECT_FALSE(r.test_accuracy);
}

} // namespace
} // namespace mailgrad

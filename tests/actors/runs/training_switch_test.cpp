#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

// Whole runs that change their policy on the way, on threads of their own. Nothing here depends on who is how
// fast.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::options_for;
using testing::small_data;
using testing::small_model;
using ::testing::ThrowsMessage;
using testing::trained;

TEST(Training, SwitchesAtAPlannedStepAndSaysWhen) {
  training_options o = options_for("async, sync@20, ssp:1@60", 2);
  o.shards = 2;
  const training_report r = trained(o, small_data(1000));
  EXPECT_EQ(r.ended, "completed") << r.why;
  ASSERT_EQ(r.switches.size(), 2U);
  EXPECT_EQ(r.switches[0].from, "async");
  EXPECT_EQ(r.switches[0].to, "sync");
  EXPECT_THAT(r.switches[0].why, HasSubstr("step 20"));
  EXPECT_LE(r.switches[0].step, 20U) << "what comes after it is trained after it";
  EXPECT_GE(r.switches[0].step + 2, 20U) << "each worker may hold one batch, dealt ahead";
  EXPECT_GT(r.ledger.applied, 0U);
  EXPECT_GT(r.ledger.merged, 0U);
}

TEST(Training, SwitchesToHogwildAndBack) {
  for (const char* policy : {"sync, hogwild@40, async@80", "hogwild, sync@60", "async, hogwild@60"})
    for (const std::uint32_t shards : {1U, 3U}) {
      SCOPED_TRACE(std::string(policy) + ", shards " + std::to_string(shards));
      training_options o = options_for(policy, 2);
      o.shards = shards;
      const training_report r = trained(o, small_data(1000));
      EXPECT_EQ(r.ended, "completed") << r.why;
      EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
      EXPECT_EQ(r.ledger.produced, r.steps);
      EXPECT_EQ(r.ledger.discarded_in_all() + r.ledger.lost, 0U);
      EXPECT_FALSE(r.switches.empty());
      EXPECT_GT(*r.test_accuracy, 0.8);
    }
}

// Alone, a worker makes the same steps whoever keeps the weights.
TEST(Training, LosesNothingOnItsWayToHogwildAndBack) {
  training_options plain = options_for("async", 1);
  plain.optimizer = parse_optimizer("sgd");
  const std::string expected = trained(plain).parameters_sha256;
  for (const char* policy : {"async, hogwild@5, sync@9", "hogwild, async@7", "sync, hogwild@8"}) {
    training_options o = plain;
    o.policy = policy;
    o.shards = 2;
    const training_report r = trained(o);
    EXPECT_EQ(r.parameters_sha256, expected) << policy;
    EXPECT_EQ(r.updates, r.steps) << policy;
  }
}

// A rule without state: nothing but the schedule could tell who made an update.
TEST(Training, FollowsOneScheduleOnItsWayToHogwildAndBack) {
  const auto dense = small_data();
  const auto sparse = testing::sparse_data();
  for (const char* schedule :
       {"constant:warmup=8", "step:every=5,factor=0.5", "step:every=8,factor=0", "cosine:total=20"})
    for (const auto& data : {dense, sparse}) {
      training_options o = options_for("async", 1, "sgd");
      o.optimizer.schedule = parse_schedule(schedule);
      o.optimizer.clip_norm = 0.5;
      o.optimizer.l2 = 0.01;
      o.optimizer.weight_decay = 0.02;
      const std::string expected = trained(o, data).parameters_sha256;
      for (const char* policy :
           {"hogwild", "async, hogwild@6", "async, hogwild@6, async@13", "sync, hogwild@3, ssp:1@9"}) {
        o.policy = policy;
        o.shards = 2;
        EXPECT_EQ(trained(o, data).parameters_sha256, expected)
            << policy << ", " << schedule << ", " << data->name;
      }
    }
}

// The learning rate is 0 from the 21st update on, and two workers in step make the first 20 in every run.
TEST(Training, LearnsNoLongerThanItsScheduleLastsWithSeveralWorkers) {
  for (const auto& data : {small_data(400), testing::sparse_data(400)}) {
    training_options o = options_for("sync", 2);
    o.optimizer.schedule = parse_schedule("step:every=20,factor=0");
    const std::string expected = trained(o, data).parameters_sha256;
    for (const char* policy : {"sync, hogwild@60", "sync, hogwild@60, async@90"}) {
      o.policy = policy;
      EXPECT_EQ(trained(o, data).parameters_sha256, expected) << policy << ", " << data->name;
    }
  }
}

TEST(Training, SwitchesARunInProgressWhenItIsAsked) {
  training_options o = options_for("async", 2);
  o.epochs = 1'000'000'000;
  training run(small_model(), small_data(), o);
  while (run.progress().steps == 0) run.wait_for(std::chrono::milliseconds{5});
  run.switch_policy("sync", "to see what happens");
  EXPECT_THROW(run.switch_policy("backup:2", ""), std::invalid_argument);
  EXPECT_THROW(run.switch_policy("hogwild", ""), std::invalid_argument);
  const std::uint64_t steps = run.progress().steps;
  while (run.progress().steps < steps + 1000) run.wait_for(std::chrono::milliseconds{5});
  run.stop("enough");
  const training_report r = run.report();
  ASSERT_EQ(r.switches.size(), 1U);
  EXPECT_EQ(r.switches[0].why, "to see what happens");
  EXPECT_GT(r.ledger.merged, 0U);
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
}

TEST(Training, StaysUnderThePolicyThatIsAskedForAgain) {
  training_options o = options_for("async", 2);
  o.epochs = 1'000'000'000;
  training run(small_model(), small_data(), o);
  const auto ask_again = [&](const std::string& policy) {
    EXPECT_THAT([&] { run.switch_policy(policy, "once more"); },
                ThrowsMessage<std::invalid_argument>("policy '" + policy + "': the run is under " + policy +
                                                     " already"));
  };
  ask_again("async");
  run.switch_policy("sync", "to see what happens");
  ask_again("sync");
  const std::uint64_t steps = run.progress().steps;
  while (run.progress().steps < steps + 1000) run.wait_for(std::chrono::milliseconds{5});
  ask_again("sync");
  run.stop("enough");
  EXPECT_EQ(run.report().switches.size(), 1U);
}

TEST(Training, SwitchesNoPolicyAfterItsEnd) {
  training run(small_model(), small_data(), options_for("async", 2));
  while (!run.wait_for(std::chrono::milliseconds{100})) {
  }
  EXPECT_THAT([&] { run.switch_policy("sync", "a wish"); },
              ThrowsMessage<std::invalid_argument>("policy 'sync': the run has ended, and switches no more"));
  EXPECT_THAT(run.report().switches, IsEmpty());
}

} // namespace
} // namespace mailgrad

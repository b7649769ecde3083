#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PolicySchedule, OfOnePolicyBeginsWithTheRun) {
  EXPECT_THAT(parse_policy_schedule("async", 2), ElementsAre(scheduled_policy{0, {"async", 2}}));
  EXPECT_THAT(parse_policy_schedule("hogwild", 2), ElementsAre(scheduled_policy{0, {"hogwild", 2}}));
}

TEST(PolicySchedule, TellsTheCommaOfAListFromThatOfTwoNumbers) {
  EXPECT_THAT(parse_policy_schedule("dssp:1, 4", 2).size(), 1U);
  EXPECT_THAT(parse_policy_schedule("quorum:1, grace=0.5, sync@9", 2),
              ElementsAre(scheduled_policy{0, {"quorum:1,grace=0.5", 2}}, scheduled_policy{9, {"sync", 2}}));
  EXPECT_THAT(parse_policy_schedule("async, sync@1000,dssp:1,4@2000 , ssp:3 @ 3000", 2),
              ElementsAre(scheduled_policy{0, {"async", 2}}, scheduled_policy{1000, {"sync", 2}},
                          scheduled_policy{2000, {"dssp:1,4", 2}}, scheduled_policy{3000, {"ssp:3", 2}}));
}

TEST(PolicySchedule, SwitchesAtEveryStepButTheFirst) {
  EXPECT_THAT(switch_steps(parse_policy_schedule("async, sync@5, ssp:1@9", 2)), ElementsAre(5, 9));
  EXPECT_THAT(switch_steps(parse_policy_schedule("async", 2)), ElementsAre());
}

std::string refusal(const char* text) {
  try {
    parse_policy_schedule(text, 4);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "taken";
}

TEST(PolicySchedule, RefusesASwitchThatDoesNotLieAfterTheOneBefore) {
  EXPECT_THAT(refusal("async, sync@1000, ssp:3@500"), HasSubstr("begins at step 1000; give a later one"));
  EXPECT_THAT(refusal("async, sync@1000, ssp:3@1000"), HasSubstr("begins at step 1000; give a later one"));
}

TEST(PolicySchedule, OfARuleBeginsInStep) {
  EXPECT_TRUE(is_automatic(" auto"));
  EXPECT_TRUE(is_automatic("auto:window=50"));
  EXPECT_FALSE(is_automatic("async"));
  EXPECT_THAT(parse_policy_schedule("auto", 4), ElementsAre(scheduled_policy{0, {"sync", 4}}));
  EXPECT_THAT(parse_policy_schedule("auto:window=50,wait=0.2 ", 4),
              ElementsAre(scheduled_policy{0, {"sync", 4}}));
  EXPECT_THAT(refusal("async, auto@5"), HasSubstr("take it alone"));
  EXPECT_THAT(refusal("async, auto:window=5@5"), HasSubstr("take it alone"));
  EXPECT_THAT(refusal("auto:window=5, sync@5"), HasSubstr("take it alone"));
  EXPECT_THAT(refusal("auto:wnidow=5"), HasSubstr("window"));
}

TEST(PolicySchedule, RefusesAMissingOrSenselessStep) {
  EXPECT_THAT(refusal("async, sync"), HasSubstr("sync@1000"));
  EXPECT_THAT(refusal("async@5"), HasSubstr("takes no step"));
  for (const char* text :
       {"async, sync@", "async, sync@x", "async, sync@0", "async, sync@-5", "async, sync@1.5"})
    EXPECT_THAT(refusal(text), HasSubstr("whole number from 1 on")) << text;
}

TEST(PolicySchedule, RefusesWhatIsNoPolicy) {
  EXPECT_THAT(refusal("async, snyc@10"), HasSubstr("did you mean 'sync'"));
  EXPECT_THAT(refusal("a sync"), HasSubstr("is unknown"));
  EXPECT_THAT(refusal("ssp:1 0"), HasSubstr("whole number"));
  EXPECT_THAT(refusal("async,, sync@10"), HasSubstr("is unknown"));
  EXPECT_THAT(refusal("async, backup:4@10"), HasSubstr("with 4 workers"));
}

TEST(PolicySchedule, TakesHogwildBesideOthers) {
  EXPECT_TRUE(has_hogwild(parse_policy_schedule("hogwild, sync@10", 2)));
  EXPECT_TRUE(has_hogwild(parse_policy_schedule("sync, hogwild@10, async@20", 2)));
  EXPECT_FALSE(has_hogwild(parse_policy_schedule("sync, async@10", 2)));
}

TEST(PolicySchedule, IsNotWhatASwitchTakes) {
  for (const char* one : {"ssp:2", "dssp:1,4", "sync", "./libmine.so:1"})
    EXPECT_NO_THROW(require_one_policy(one));
  for (const char* more : {"async, sync@1000", "async,sync", "sync@1000", "auto", "auto:window=100"})
    EXPECT_THAT([&] { require_one_policy(more); },
                ::testing::ThrowsMessage<std::invalid_argument>(::testing::HasSubstr(
                    std::string("policy '") + more + "': a switch takes one policy, such as ssp:2")));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/optim/plugins/custom_rules.hpp>

#include <mailgrad/optim/custom_rule.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

// What is said of rules that declare or do what they must not; each is a good one but for that.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using testing::own_adam;
using testing::own_momentum;
using testing::own_sgd;

using step = mailgrad_rule_step;

std::string complaint_of(const mailgrad_rule& table) {
  try {
    make_custom_rule(table);
  } catch (const std::invalid_argument& e) {
    const std::string text = e.what();
    EXPECT_THAT(text, HasSubstr("optimizer 'your own rule' "));
    EXPECT_EQ(std::ranges::count(text, '\n'), 0) << text;
    return text;
  }
  return "none";
}

std::string complaint_of(void (*update)(const step*)) {
  mailgrad_rule table = rule_table<own_momentum>;
  table.update = update;
  table.prepares = 0;
  return complaint_of(table);
}

std::string complaint_of(const std::vector<mailgrad_rule_setting>& settings) {
  mailgrad_rule table = rule_table<own_sgd>;
  table.settings = settings.data();
  table.setting_count = settings.size();
  return complaint_of(table);
}

TEST(RuleCheck, TakesRulesThatWorkElementByElement) {
  EXPECT_EQ(complaint_of(rule_table<own_sgd>), "none");
  EXPECT_EQ(complaint_of(rule_table<own_momentum>), "none");
  EXPECT_EQ(complaint_of(rule_table<own_adam>), "none");
  EXPECT_EQ(complaint_of([](const step* s) { // makes nothing but NaN
              for (std::size_t i = 0; i < s->count; ++i)
                s->updated[i] = std::numeric_limits<float>::quiet_NaN();
            }),
            "none");
}

TEST(RuleCheck, RefusesARuleThatLooksAtANeighbour) {
  EXPECT_THAT(complaint_of([](const step* s) {
                for (std::size_t i = 0; i < s->count; ++i)
                  s->updated[i] = s->weights[i] - 0.1F * s->gradient[i > 0 ? i - 1 : 0];
              }),
              HasSubstr("not from a neighbour"));
}

TEST(RuleCheck, RefusesARuleThatDividesByTheNumberOfWeights) {
  EXPECT_THAT(complaint_of([](const step* s) {
                for (std::size_t i = 0; i < s->count; ++i)
                  s->updated[i] = s->weights[i] - s->gradient[i] / static_cast<float>(s->count);
              }),
              HasSubstr("than in two, of 23 and 41"));
}

TEST(RuleCheck, RefusesARuleThatCountsItsCalls) {
  EXPECT_THAT(complaint_of([](const step* s) {
                static float calls = 0;
                ++calls;
                for (std::size_t i = 0; i < s->count; ++i)
                  s->updated[i] = s->weights[i] - s->gradient[i] / calls;
              }),
              HasSubstr("must not keep anything between calls"));
}

TEST(RuleCheck, RefusesARuleThatRemembersWeightsByTheirAddress) {
  EXPECT_THAT(complaint_of([](const step* s) {
                static std::map<const float*, float> velocity;
                for (std::size_t i = 0; i < s->count; ++i) {
                  float& v = velocity[s->weights + i];
                  v = 0.9F * v + s->gradient[i];
                  s->updated[i] = s->weights[i] - 0.1F * v;
                }
              }),
              HasSubstr("must not keep anything between calls"));
}

TEST(RuleCheck, RefusesARuleWhoseStatesAloneDependOnTheCut) {
  EXPECT_THAT(complaint_of([](const step* s) {
                for (std::size_t i = 0; i < s->count; ++i) {
                  s->updated[i] = s->weights[i];
                  s->states[0][i] = static_cast<float>(i);
                }
              }),
              HasSubstr("than in two, of 23 and 41"));
}

TEST(RuleCheck, RefusesARuleThatReadsAWeightAfterWritingIt) {
  EXPECT_THAT(complaint_of([](const step* s) {
                for (std::size_t i = 0; i < s->count; ++i) {
                  s->updated[i] = s->weights[i] - 0.1F * s->gradient[i];
                  s->updated[i] -= 0.01F * s->weights[i];
                }
              }),
              HasSubstr("in place than in memory apart"));
}

TEST(RuleCheck, LooksAtEveryState) {
  mailgrad_rule table = rule_table<own_adam>;
  table.prepares = 0;
  table.update = [](const step* s) {
    for (std::size_t i = 0; i < s->count; ++i) {
      s->updated[i] = s->weights[i] - s->gradient[i];
      s->states[1][i] = static_cast<float>(s->count);
    }
  };
  EXPECT_THAT(complaint_of(table), HasSubstr("makes other weights of 64 in one range than in two"));
}

TEST(RuleCheck, RefusesARuleThatThrows) {
  EXPECT_THAT(complaint_of([](const step*) { throw std::runtime_error("no licence"); }),
              HasSubstr("throws in an update: no licence"));
}

TEST(RuleCheck, RefusesARuleThatSaysItPreparesAndDoesNot) {
  mailgrad_rule table = rule_table<own_sgd>;
  table.update = [](const step* s) {
    for (std::size_t i = 0; i < s->count; ++i) s->updated[i] = s->weights[i] - s->gradient[i];
  };
  EXPECT_THAT(complaint_of(table), HasSubstr("says that it prepares its gradients, and makes other weights"));
  table.prepares = 0;
  EXPECT_EQ(complaint_of(table), "none");
}

TEST(RuleCheck, TriesTheSettingsOfItsUserToo) {
  mailgrad_rule table = rule_table<own_momentum>; // its setting mixes neighbours, at 0.5 no longer by default
  constexpr mailgrad_rule_setting mix[] = {{"mix", 0, 0, 1}};
  table.settings = mix;
  table.prepares = 0;
  table.update = [](const step* s) {
    for (std::size_t i = 0; i < s->count; ++i)
      s->updated[i] = s->weights[i] - static_cast<float>(s->settings[0]) * s->gradient[i > 0 ? i - 1 : 0];
  };
  custom_rule rule = make_custom_rule(table);
  EXPECT_NO_THROW(require_valid(rule));
  rule.settings = {0.5};
  EXPECT_THROW(require_valid(rule), std::invalid_argument);
}

TEST(RuleCheck, RefusesSettingsThatNobodyCouldTellApartOrWrite) {
  EXPECT_EQ(complaint_of({{"a", 0, 0, 1}, {"b-1_C", 0, 0, 1}}), "none");
  EXPECT_THAT(complaint_of({{"a", 0, 0, 1}, {"b", 0, 0, 1}, {"a", 0, 0, 1}}),
              HasSubstr("has two settings 'a'"));
  EXPECT_THAT(complaint_of({{"a", 0, 0, 1}, {nullptr, 0, 0, 1}}), HasSubstr("a setting without a name"));
  EXPECT_THAT(complaint_of({{"", 0, 0, 1}}), HasSubstr("a setting without a name"));
  for (const char* name : {"a=b", "a,b", "a:b", "a b", "a\n"})
    EXPECT_THAT(complaint_of({{name, 0, 0, 1}}),
                HasSubstr("has a name for setting 1 that is not of letters"));
}

TEST(RuleCheck, RefusesCountsAndRatesThatMakeNoSense) {
  mailgrad_rule table = rule_table<own_sgd>;
  table.setting_count = 1U << 30;
  EXPECT_THAT(complaint_of(table), HasSubstr("has 1073741824 settings; 64 are the most"));
  table = rule_table<own_sgd>;
  for (const double rate : {std::nan(""), -1.0, HUGE_VAL}) {
    table.learning_rate = rate;
    EXPECT_THAT(complaint_of(table), HasSubstr("has a learning rate of "));
  }
}

} // namespace
} // namespace mailgrad

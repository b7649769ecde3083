#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

TEST(MakePolicy, KnowsEveryFormItLists) {
  for (const char* text :
       {"async", "sync", "ssp:3", "dssp:1,4", "backup:1", "k-async:2", "k-batch-async:4", "k-batch-sync:4",
        "rennala:4", "malenia:4", "ringleader", "ringmaster:4", "queue:2,3", "quorum:3,grace=0.5"}) {
    const std::string whole = text;
    EXPECT_EQ(make_policy(text, 4)->name(), whole.substr(0, whole.find(':')));
  }
  const std::vector<policy_form> forms = policy_forms();
  const std::vector<std::string_view> names = policy_names(); // those of users' own stand behind them
  ASSERT_GE(names.size(), forms.size());
  for (std::size_t i = 0; i < forms.size(); ++i)
    EXPECT_EQ(names[i], forms[i].text.substr(0, forms[i].text.find(':')));
}

struct refused {
  const char* text;
  const char* says;
};

class RefusedPolicy : public ::testing::TestWithParam<refused> {};

TEST_P(RefusedPolicy, SaysWhatWouldBeRight) {
  try {
    policy_spec(GetParam().text, 4);
    FAIL() << GetParam().text << " was taken";
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr(GetParam().says));
    EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("\n")));
  }
}

INSTANTIATE_TEST_SUITE_P(
    MakePolicy, RefusedPolicy,
    ::testing::Values(refused{"asnyc", "did you mean 'async'"}, refused{"", "is unknown"},
                      refused{"ssp:-1", "whole number from 0 on, such as ssp:3"},
                      refused{"ssp", "takes 1 number"}, refused{"ssp:", "whole number"},
                      refused{"ssp:1,2", "takes 1 number"}, refused{"sync:2", "takes no number"},
                      refused{"backup:4", "with 4 workers"}, refused{"k-async:5", "at most 4"},
                      refused{"k-async:0", "from 1 on"}, refused{"rennala:0", "from 1 on, such as rennala:4"},
                      refused{"ringmaster:0", "from 1 on"}, refused{"dssp:4,1", "no less than the first"},
                      refused{"dssp:4", "takes 2 numbers"}, refused{"queue:4,3", "no less than the first"},
                      refused{"queue:1,18446744073709551615", "at most 1000000"},
                      refused{"quorum:5", "at most 4"}, refused{"quorum:0,grace=1", "from 1 on"},
                      refused{"quorum:2,grace=-1", "no time; write it as quorum:4,grace=0.5"},
                      refused{"quorum:2,1", "no time"}, refused{"quorum:2,grace=1e9", "from 0 to 1000000"},
                      refused{"quorum:2,grace", "no time"}, refused{"quorum:grace=1", "from 1 on"},
                      refused{"queue:0,3", "from 1 on, such as queue:2,8"},
                      refused{"ssp:99999999999999999999", "whole number"}));

TEST(MakePolicy, SaysWhatFitsOneWorkerAlone) {
  try {
    make_policy("k-async:2", 1);
    FAIL() << "taken";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "policy 'k-async:2': with 1 worker the number K of workers can be at most 1");
  }
}

TEST(MakePolicy, HasNoObjectForHogwild) {
  EXPECT_EQ(policy_spec(hogwild_policy::policy_name, 1).make(), nullptr);
  EXPECT_FALSE(policy_spec(hogwild_policy::policy_name, 1).traits().needs_shards);
  EXPECT_THROW(make_policy(hogwild_policy::policy_name, 1), std::invalid_argument);
}

} // namespace
} // namespace mailgrad

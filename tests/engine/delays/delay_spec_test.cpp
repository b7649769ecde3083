#include <mailgrad/tests/engine/delays/delay_samples.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

using testing::steps_of;

/// The texts that a user sees in --help have the defaults.
TEST(DelaySpec, ReadsEveryFormThatIsListed) {
  for (const delay_form& form : delay_forms()) {
    const std::string text(form.text);
    if (text == "constant:T" || text == "trace:FILE") continue;
    const std::string name = text.substr(0, text.find(':'));
    const std::vector<double> written = steps_of(delay_spec(text, 3), {2}, 20);
    if (name == "list" || name == "by-class") continue;
    EXPECT_EQ(written, steps_of(delay_spec(name, 3), {2}, 20)) << text;
  }
}

TEST(DelaySpec, TakesFormulasForSeconds) {
  EXPECT_EQ(steps_of(delay_spec("exp:mean=3*i", 4), {1}, 5), steps_of(delay_spec("exp:mean=6", 4), {1}, 5));
}

TEST(DelaySpec, SaysWhatWouldBeRight) {
  const auto of = [](const std::string& text) { return [text] { delay_spec(text, 2); }; };
  testing::expect_refused({
      {"an unknown law", of("expo"), "delays 'expo' are unknown; did you mean 'exp'?"},
      {"no law", of(""), "are unknown; "},
      {"an unknown setting", of("gamma:vc=1"),
       "delays 'gamma:vc=1': there is no setting 'vc'; did you mean 'cv'?"},
      {"a negative cv", of("gamma:cv=-1"), "delays 'gamma:cv=-1': cv must be at least 1e-06"},
      {"no number", of("pareto:alpha=heavy"), "alpha must be at least 0, not 'heavy'"},
      {"no tail", of("pareto:alpha=0"), "alpha must be above 0"},
      {"a mean of nothing", of("exp:mean=0"),
       "delays 'exp:mean=0': mean must be above 0 seconds and at most 1e+06, found 0 for worker 0"},
      {"a mean that falls", of("exp:mean=2-i"), "found 0 for worker 1"},
      {"an endless mean", of("exp:mean=1/(2-i)"), "found inf for worker 1"},
      {"no formula", of("exp:mean=j"), "delays 'exp:mean=j': 'j' is no formula of i"},
      {"no probability", of("slowdown:p=1.5"), "p is a probability, from 0 to 1, not 1.5"},
      {"an outage without end", of("outages:every=10,lasts=10"),
       "an outage lasts at most 99.9 % of every=10 seconds, not 10 seconds"},
      {"a constant of nothing", of("constant"), "write it as constant:2 or constant:sqrt(i)"},
      {"a list for others", of("list:1,2,3"), "expected a number for each of 2 workers, found 3"},
      {"a list with a word", of("list:1,two"), "'two' is no number of seconds above 0"},
      {"a trace of nothing", of("trace"), "write it as trace:FILE"},
      {"an unknown worker", [] { delay_spec("exp", 2).law_of({2}, 1); }, "there is no worker 2 of 2"},
  });
}

} // namespace
} // namespace mailgrad

#include <mailgrad/cli/live/live_page.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mailgrad {
namespace {

/// Of two workers of which each made half of the updates.
training_report half_each() {
  training_report r;
  r.ended = "running";
  r.workers = 2;
  r.updates = 10;
  r.policy = "async, sync@100";
  r.present_policy = "async";
  for (const std::uint32_t worker : {0U, 1U}) {
    exchange_figures x{0, worker, {}, {}, {}};
    x.gaps.count(1, 5);
    r.exchanges.push_back(x);
  }
  return r;
}

TEST(StateEvent, ExpectsWhatThePolicyOfNowLetsExpectUntilItIsSwitched) {
  training_report r = half_each();
  EXPECT_EQ(nlohmann::json::parse(state_event(r, {}))["expected"][1]["mean"], 1.0)
      << "a switch is still to come";
  r.present_policy = "sync";
  r.switches = {{100, "async", "sync", "planned for step 100"}};
  EXPECT_TRUE(nlohmann::json::parse(state_event(r, {}))["expected"][1]["mean"].is_null())
      << "gaps are of both";
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/engine/plan/parameter_place.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

/// Weights and two workers on one card.
training_options on_one_card(const std::string& policy) {
  training_options o;
  o.devices.assign(2, {device_kind::cuda, 0});
  o.parameters = {{device_kind::cuda, 0}};
  o.policy = policy;
  return o;
}

std::string words_of_refusal_of(const training_options& o, const parameter_layout& layout) {
  const std::vector<scheduled_policy> policies{{0, policy_spec("async", 2)}, {9, policy_spec(o.policy, 2)}};
  return testing::words_of_refusal([&] { require_parameter_place(o, policies, layout); });
}

/// Ringleader adds up rows of gradients on the host.
TEST(ParameterPlace, RefusesTablesOnACardUnderRingleaderInOneLine) {
  const parameter_layout tables = testing::layout_of({{"w", {8}}, {"words", {20, 4}, true}}, 1);
  const std::string why = words_of_refusal_of(on_one_card("ringleader"), tables);
  EXPECT_THAT(why,
              HasSubstr("--parameters: cuda:0: policy 'ringleader' needs the gradient of table 'words' on "
                        "the host; leave one of both out"));
  EXPECT_EQ(std::ranges::count(why, '\n'), 0);
  EXPECT_EQ(words_of_refusal_of(on_one_card("malenia:4"), tables), "");
}

TEST(ParameterPlace, TakesRingleaderWithoutTablesOrWithoutACard) {
  const parameter_layout dense = testing::layout_of({{"w", {8}}}, 1);
  EXPECT_EQ(words_of_refusal_of(on_one_card("ringleader"), dense), "");
  const parameter_layout tables = testing::layout_of({{"words", {20, 4}, true}}, 1);
  training_options on_host = on_one_card("ringleader");
  on_host.parameters.clear();
  EXPECT_EQ(words_of_refusal_of(on_host, tables), "");
}

} // namespace
} // namespace mailgrad

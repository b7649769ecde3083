#include <mailgrad/tests/optim/plugins/custom_whole_rules.hpp>

#include <mailgrad/optim/custom_rule.hpp>
#include <mailgrad/optim/optimizer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

// Users' rules of whole variables, and those of older versions of the interface.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using testing::own_lars;
using testing::tells_layout;
using ::testing::ThrowsMessage;

std::string library(const std::string& name) { return MAILGRAD_TEST_PLUGINS "/" + name + ".so"; }

std::vector<shard_variable> two_variables() { return {{"a", {2, 3}, 0}, {"b", {4}, 16}}; }

/// 32 weights after five updates.
std::vector<float> trained_whole(const optimizer_options& options, double decay = 0) {
  optimizer_options o = options;
  o.learning_rate = 0.5;
  o.weight_decay = decay;
  o.l2 = 0.1;
  host_queue here;
  const auto made = make_optimizer(o, 32, here, two_variables());
  std::vector<float> w(32), g(32);
  for (std::size_t i = 0; i < 32; ++i)
    w[i] = i % 16 < (i < 16 ? 6U : 4U) ? static_cast<float>(i % 5) - 1.5F : 0;
  for (std::uint64_t step = 1; step <= 5; ++step) {
    for (std::size_t i = 0; i < 32; ++i) g[i] = w[i] == 0 ? 0 : static_cast<float>((i + step) % 7) - 3;
    const scaled_gradient half{g.data(), 0.5F};
    made->update(host_stream{}, {w, w, {&half, 1}, step});
  }
  return w;
}

TEST(WholeRule, OfAUserMakesTheStepsOfTheBuiltInOne) {
  const std::vector<float> ours = trained_whole(parse_optimizer("lars:trust=0.02"));
  const std::vector<float> functor = trained_whole({.rule = make_custom_rule(rule_table<own_lars>)});
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(functor[i], ours[i], 1e-6) << i;
  EXPECT_EQ(trained_whole(parse_optimizer(library("own_lars"))), functor);
}

TEST(WholeRule, OfAUserFindsNameShapeAndPlace) {
  host_queue here;
  const auto o =
      make_optimizer({.rule = make_custom_rule(rule_table<tells_layout>)}, 32, here, two_variables());
  std::vector<float> w(32);
  const scaled_gradient one{w.data()};
  o->update(host_stream{}, {w, w, {&one, 1}, 1});
  EXPECT_THAT(std::vector<float>(w.begin(), w.begin() + 4), ::testing::ElementsAre(2, 6, 0, 'a'));
  EXPECT_THAT(std::vector<float>(w.begin() + 16, w.begin() + 20), ::testing::ElementsAre(1, 4, 16, 'b'));
}

TEST(WholeRule, OfAUserFindsItsWeightsDecayed) {
  const std::vector<float> plain = trained_whole({.rule = make_custom_rule(rule_table<own_lars>)});
  const std::vector<float> decayed = trained_whole({.rule = make_custom_rule(rule_table<own_lars>)}, 0.5);
  double of_plain = 0, of_decayed = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    of_plain += std::abs(static_cast<double>(plain[i]));
    of_decayed += std::abs(static_cast<double>(decayed[i]));
  }
  EXPECT_LT(of_decayed, 0.5 * of_plain); // 0.75 to the fifth power, and some steps
}

TEST(WholeRule, OfAUserIsRefusedIfItPreparesOrForgets) {
  mailgrad_rule table = rule_table<own_lars>;
  table.prepares = 1;
  EXPECT_THAT([&] { make_custom_rule(table); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("leave 'prepares' at 0")));
  table = rule_table<own_lars>;
  table.update = [](const mailgrad_rule_step* s) {
    static float calls = 0;
    for (std::size_t i = 0; i < s->count; ++i) s->updated[i] = calls;
    ++calls;
  };
  EXPECT_THAT([&] { make_custom_rule(table); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("when it begins anew")));
}

TEST(OldPlugin, OfEachVersionMakesTheStepsOfTheBuiltInRule) {
  optimizer_options expected = parse_optimizer("momentum:momentum=0.75");
  expected.l2 = 0.125;
  expected.learning_rate = 0.25;
  expected.weight_decay = 0.5;
  const auto trained_by = [&](const optimizer_options& rule) {
    optimizer_options o = expected;
    o.rule = rule.rule;
    const auto made = make_optimizer(o, 8);
    std::vector<float> w{1, 2, 3, 4, -1, -2, -3, -4};
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const std::vector<float> g(8, static_cast<float>(step));
      const scaled_gradient half{g.data(), 0.5F};
      made->update(host_stream{}, {w, w, {&half, 1}, step});
    }
    return w;
  };
  const std::vector<float> wanted = trained_by(expected);
  for (const char* name : {"old_version_1", "old_version_2"}) {
    const optimizer_options o = parse_optimizer(library(name) + ":momentum=0.75");
    EXPECT_FALSE(sees_whole_variables(o)) << name;
    EXPECT_EQ(std::get<custom_rule>(o.rule).table->interface_version, MAILGRAD_PLUGIN_VERSION) << name;
    EXPECT_EQ(trained_by(o), wanted) << name;
    EXPECT_EQ(std::get<custom_rule>(parse_optimizer(library(name)).rule).table,
              std::get<custom_rule>(o.rule).table)
        << "one copy serves every load";
  }
}

TEST(OldPlugin, HasATableThatIsReadNoFurtherThanItIsLong) {
  mailgrad_rule told = rule_table<own_lars>; // its later fields are not 0
  told.prepares = 7;
  told.interface_version = 1;
  EXPECT_EQ(as_of_today(told).prepares, 0U);
  EXPECT_EQ(as_of_today(told).whole_variables, 0U);
  told.interface_version = 2;
  EXPECT_EQ(as_of_today(told).prepares, 7U);
  EXPECT_EQ(as_of_today(told).whole_variables, 0U);
  told.interface_version = 3;
  EXPECT_EQ(&as_of_today(told), &told);
  told.interface_version = 4;
  EXPECT_EQ(&as_of_today(told), &told);
}

} // namespace
} // namespace mailgrad

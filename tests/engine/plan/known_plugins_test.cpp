#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/optim/plugins/custom_rules.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/engine/plan/terms.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

// Rules, policies and cures of the user's own in terms that go to another process.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::own_momentum;
using testing::small_data;
using testing::small_model;
using ::testing::ThrowsMessage;

std::string plugin(const std::string& name) { return MAILGRAD_TEST_PLUGINS "/" + name + ".so"; }

training_options options_with(optimizer_options rule) {
  training_options o;
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 0}};
  o.optimizer = std::move(rule);
  o.batch = 8;
  return o;
}

std::string terms_of_shard(const training_options& o) {
  return write_terms({terms_of(plan_run(small_model(), small_data(), o), shard_index{0}, {})});
}

const custom_rule& custom_rule_in(const std::vector<shard_terms>& terms) {
  return std::get<custom_rule>(terms.front().rule.rule);
}

TEST(KnownPlugins, GiveARuleOfTheProgramItsTable) {
  optimizer_options momentum{.rule = make_custom_rule(rule_table<own_momentum>)};
  std::get<custom_rule>(momentum.rule).settings[0] = 0.25;
  const std::string told = terms_of_shard(options_with(momentum));
  known_plugins here;
  here.add(make_custom_rule(rule_table<own_momentum>));
  const std::vector<shard_terms> read = read_shard_terms(told, here);
  EXPECT_EQ(custom_rule_in(read).table, &rule_table<own_momentum>);
  EXPECT_EQ(custom_rule_in(read).settings, std::vector{0.25}) << "of the run, and not the defaults";
  EXPECT_THAT([&] { read_shard_terms(told); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("'own-momentum'"), HasSubstr("expected a program with this update rule"))));
}

TEST(KnownPlugins, GiveTheRuleOfTheSameFileWhereverItLies) {
  const scratch_folder folder;
  const std::string copy = (folder.path() / "elsewhere.so").string();
  std::filesystem::copy_file(plugin("own_momentum"), copy);
  const std::string told =
      terms_of_shard(options_with(parse_optimizer(plugin("own_momentum") + ":momentum=0.5")));
  known_plugins here;
  here.load(plugin("own_sgd"));
  EXPECT_THAT(
      [&] { read_shard_terms(told, here); },
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("'own-momentum'"), HasSubstr(plugin_digest(copy)),
                                                 HasSubstr("name it by --plugin"))));
  here.load(copy);
  const std::vector<shard_terms> read = read_shard_terms(told, here);
  EXPECT_NE(custom_rule_in(read).table, nullptr);
  EXPECT_EQ(custom_rule_in(read).settings, std::vector{0.5});
}

/// The file may be built anew, or go, while a run uses what was loaded from it.
TEST(KnownPlugins, AreKnownByTheFileThatWasLoaded) {
  const scratch_folder folder;
  const std::string file = (folder.path() / "mine.so").string();
  std::filesystem::copy_file(plugin("own_sgd"), file);
  const optimizer_options mine = parse_optimizer(file);
  const std::string told = terms_of_shard(options_with(mine));
  std::filesystem::remove(file);
  EXPECT_EQ(terms_of_shard(options_with(mine)), told);
  std::filesystem::copy_file(plugin("factor_2"), file);
  EXPECT_EQ(terms_of_shard(options_with(mine)), told);
  EXPECT_EQ(plugin_digest(file), plugin_digest(plugin("own_sgd")));
}

TEST(KnownPlugins, GiveNoRuleOfTheSameNameFromAnotherFile) {
  const std::string told = terms_of_shard(options_with(parse_optimizer(plugin("factor_2"))));
  known_plugins here;
  here.load(plugin("factor_3"));
  EXPECT_THAT([&] { read_shard_terms(told, here); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(plugin_digest(plugin("factor_2")))));
}

TEST(KnownPlugins, GiveTheRuleOfLocalSteps) {
  training_options o = options_with({.rule = make_custom_rule(rule_table<own_momentum>)});
  o.local_steps = 2;
  const run_plan plan = plan_run(small_model(), small_data(), o);
  const std::string told = write_terms(plan, terms_of(plan, rank{0}));
  known_plugins here;
  here.add(make_custom_rule(rule_table<own_momentum>));
  const given_terms read = read_terms(told, {}, here);
  EXPECT_EQ(std::get<custom_rule>(read.terms.local->optimizer.rule).table, &rule_table<own_momentum>);
  EXPECT_THAT([&] { read_terms(told); }, ThrowsMessage<std::invalid_argument>(HasSubstr("'own-momentum'")));
}

/// Another process names the policy by a file that is not here.
TEST(KnownPlugins, AreCalledAsTheServerCallsThem) {
  const std::string file = plugin("fair_turns");
  const named_plugin wanted{"/at/the/server/fair.so", plugin_digest(file)};
  EXPECT_THAT(
      [&] { known_plugins().take(wanted); },
      ThrowsMessage<std::invalid_argument>(AllOf(
          HasSubstr("plug-in '/at/the/server/fair.so' of the run: expected"), HasSubstr(wanted.sha256))));
  EXPECT_THROW(require_loaded("/at/the/server/fair.so:1"), std::invalid_argument);
  known_plugins here;
  here.load(file);
  here.take(wanted);
  EXPECT_EQ(policy_spec("/at/the/server/fair.so:1", 2).make()->name(), "fair-turns");
  EXPECT_NO_THROW(require_loaded("/at/the/server/fair.so:1"));
}

/// However it is written: a text passes only if its policy is made without a look at any file.
TEST(KnownPlugins, AreNotLoadedForWhoeverElseNamesThem) {
  for (const std::string file : {"x@y.so", " x.so", "@scope/x.so", "./known.so, y", "async, x.so",
                                 "async@5, ./x.so@6", "./x.so:1,2", ".so"}) {
    EXPECT_THROW(require_loaded(file), std::invalid_argument) << file;
    EXPECT_THROW(policy_spec(file, 2), std::invalid_argument) << file;
  }
  for (const char* harmless : {"ssp:3", "async:x.so", "async"}) EXPECT_NO_THROW(require_loaded(harmless));
}

TEST(KnownPlugins, GiveTheCureOfTheSameFile) {
  const std::string file = plugin("fading");
  known_plugins here;
  here.load(file);
  here.take({"./another/fading.so", plugin_digest(file)});
  EXPECT_NO_THROW(cure_spec("./another/fading.so:2", 2));
}

TEST(KnownPlugins, AreCalledByNoWordThatIsNoFile) {
  known_plugins here;
  here.load(plugin("fair_turns"));
  EXPECT_THAT(
      [&] {
        here.take({"sync", plugin_digest(plugin("fair_turns"))});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("this is no file of a plug-in")));
}

TEST(KnownPlugins, AreRefusedIfTheyAreNone) {
  known_plugins here;
  EXPECT_THAT([&] { here.load(plugin("no_entry")); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("it has no function mailgrad_plugin_rule, ")));
  EXPECT_THAT([&] { here.load("./not-there.so"); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("plug-in './not-there.so': cannot be read: No such file")));
}

} // namespace
} // namespace mailgrad

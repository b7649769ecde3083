#include <mailgrad/tests/optim/plugins/custom_rules.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/optim/optimizer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::own_adam;
using testing::own_momentum;
using testing::own_sgd;
using ::testing::ThrowsMessage;

std::string plugin(const std::string& name) { return MAILGRAD_TEST_PLUGINS "/" + name + ".so"; }

/// What loading `path` has to complain of: one line that names it.
std::string complaint_of(const std::string& path) {
  try {
    load_plugin(path);
  } catch (const std::invalid_argument& e) {
    std::string text = e.what();
    EXPECT_THAT(text, HasSubstr("optimizer '" + path + "'"));
    EXPECT_EQ(std::ranges::count(text, '\n'), 0) << text;
    return text;
  }
  ADD_FAILURE() << path << " was loaded";
  return {};
}

TEST(CustomRule, DescribesAFunctor) {
  const custom_rule adam = make_custom_rule(rule_table<own_adam>);
  EXPECT_EQ(adam.label, "own-adam");
  EXPECT_EQ(adam.table->states, 2U);
  EXPECT_THAT(adam.settings, ElementsAre(0.9, 0.999, 1e-8));
  const optimizer_options o{.rule = make_custom_rule(rule_table<own_sgd>)};
  EXPECT_EQ(name(o), "own-sgd");
  EXPECT_EQ(base_learning_rate(o), 0.25);
  EXPECT_EQ(base_learning_rate({.rule = adam}), 1e-3) << "a rule that says nothing";
  EXPECT_EQ(base_weight_decay(o), 0.0);
}

// clang-format off
struct fields_1 { float a; };
struct fields_2 { float a, b; };
struct fields_3 { float a, b, c; };
struct fields_4 { float a, b, c, d; };
struct fields_5 { float a, b, c, d, e; };
struct fields_6 { float a, b, c, d, e, f; };
struct fields_7 { float a, b, c, d, e, f, g; };
struct fields_8 { float a, b, c, d, e, f, g, h; };
struct fields_9 { float a, b, c, d, e, f, g, h, i; };
// clang-format on

/// The letters of all names.
template <class Fields>
std::string names_of() {
  std::string text;
  for (const std::string_view name : field_names<Fields, sizeof(Fields) / sizeof(float)>()) text += name;
  return text;
}

TEST(CustomRule, HasFieldsWhoseNamesAreKnownWhileItCompiles) {
  EXPECT_EQ(names_of<fields_1>(), "a");
  EXPECT_EQ(names_of<fields_2>(), "ab");
  EXPECT_EQ(names_of<fields_3>(), "abc");
  EXPECT_EQ(names_of<fields_4>(), "abcd");
  EXPECT_EQ(names_of<fields_5>(), "abcde");
  EXPECT_EQ(names_of<fields_6>(), "abcdef");
  EXPECT_EQ(names_of<fields_7>(), "abcdefg");
  EXPECT_EQ(names_of<fields_8>(), "abcdefgh");
  EXPECT_EQ(names_of<fields_9>(), "abcdefghi");
}

TEST(CustomRule, IsUpdatedByOneThread) {
  EXPECT_FALSE(make_optimizer({.rule = make_custom_rule(rule_table<own_sgd>)}, 1)->divides());
  EXPECT_TRUE(make_optimizer({}, 1)->divides());
}

TEST(CustomRule, IsKnownByASlashOrByItsEnding) {
  EXPECT_TRUE(names_a_plugin("./mine"));
  EXPECT_TRUE(names_a_plugin("libmine.so"));
  EXPECT_FALSE(names_a_plugin("adam"));
  EXPECT_FALSE(names_a_plugin("libmine.so.1"));
}

TEST(CustomRule, ComesFromALibraryThatTheCommandLineNames) {
  const optimizer_options o = parse_optimizer(plugin("own_momentum") + ":momentum=0.5");
  const auto& rule = std::get<custom_rule>(o.rule);
  EXPECT_STREQ(rule.table->name, "own-momentum");
  EXPECT_THAT(rule.settings, ElementsAre(0.5));
  EXPECT_THAT(std::string(name(o)), AllOf(HasSubstr("own-momentum ("), EndsWith("own_momentum.so)")));
  EXPECT_NO_THROW(require_valid(o));
}

TEST(CustomRule, LiesInTheWorkingFolderIfItsPathSaysNothingElse) {
  const scratch_folder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::copy(plugin("own_sgd"), folder.path() / "bare.so");
  std::filesystem::current_path(folder.path());
  const custom_rule rule = load_plugin("bare.so");
  std::filesystem::current_path(before);
  EXPECT_EQ(rule.label, "own-sgd (bare.so)");
}

TEST(CustomRule, NamesTheNearestSettingAndItsRange) {
  const auto reading = [](const std::string& settings) {
    return [settings] { parse_optimizer(plugin("own_momentum") + ":" + settings); };
  };
  EXPECT_THAT(reading("momentun=0.5"), ThrowsMessage<std::invalid_argument>(
                                           EndsWith("no setting 'momentun'; did you mean 'momentum'?")));
  EXPECT_THAT(reading("momentum=1"), ThrowsMessage<std::invalid_argument>(HasSubstr("less than 1, not '1'")));
}

TEST(CustomRule, IsNotMistakenForItsNamesakeInAnotherLibrary) {
  EXPECT_THAT(load_plugin(plugin("factor_2")).settings, ElementsAre(2.0));
  EXPECT_THAT(load_plugin(plugin("factor_3")).settings, ElementsAre(3.0));
}

TEST(CustomRule, OfAnotherVersionIsRefusedWithBothNamed) {
  EXPECT_THAT(complaint_of(plugin("version_7")), AllOf(HasSubstr("has version 7 of the plug-in interface"),
                                                       HasSubstr("this mailgrad has versions 1 to 3")));
}

TEST(CustomRule, SaysWhatIsWrongWithALibrary) {
  EXPECT_THAT(complaint_of("./no_such_file.so"), EndsWith("cannot be read: No such file or directory"));
  EXPECT_THAT(complaint_of(plugin("no_entry")),
              EndsWith("is no plug-in: it has no function mailgrad_plugin_rule"));
  EXPECT_THAT(complaint_of(plugin("no_table")), EndsWith("its mailgrad_plugin_rule returns nothing"));
  EXPECT_THAT(complaint_of(plugin("no_update")), EndsWith("has no update function in its table"));
  EXPECT_THAT(complaint_of(plugin("looks_at_neighbours")), EndsWith("not from a neighbour or the count"));
  EXPECT_THAT(complaint_of(plugin("nine_states")), EndsWith("keeps 9 floats for a weight; 8 are the most"));
  const scratch_folder folder;
  EXPECT_THAT(
      complaint_of(folder.write("text.so", "no library, but longer than the header of one is\n").string()),
      HasSubstr("cannot be loaded: "));
}

TEST(CustomRule, IsCheckedWhoeverMadeIt) {
  const auto refuse = [](const custom_rule& rule, const char* why) {
    EXPECT_THAT([&] { require_valid(optimizer_options{.rule = rule}); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(why)));
  };
  refuse({}, "no table");
  custom_rule momentum = make_custom_rule(rule_table<own_momentum>);
  momentum.settings = {1.5};
  refuse(momentum, "momentum = 1.5");
  momentum.settings.clear();
  refuse(momentum, "has 1 settings, not 0");

  mailgrad_rule table = rule_table<own_momentum>;
  table.name = "";
  EXPECT_THROW(make_custom_rule(table), std::invalid_argument);
  table = rule_table<own_momentum>;
  table.settings = nullptr;
  EXPECT_THROW(make_custom_rule(table), std::invalid_argument);
  constexpr mailgrad_rule_setting out_of_range[] = {{"beta", 2, 0, 1}};
  table.settings = out_of_range;
  EXPECT_THAT([&] { make_custom_rule(table); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'beta' out of its own range")));
}

} // namespace
} // namespace mailgrad

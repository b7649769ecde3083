#include <mailgrad/optim/custom_rule.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/optim/plugins/custom_rules.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

namespace mailgrad {
namespace {

using namespace ::testing;
using testing::own_adam;
using testing::own_lars;
using testing::own_momentum;
using testing::own_sgd;
using testing::tells_layout;

std::string plugin(const std::string& name) { return MAILGRAD_TEST_PLUGINS "/" + name + ".so"; }

/// What `make` has to complain of the rule that goes by `who`: one line that names it.
template <class Make>
std::string complaint_of(const std::string& who, Make make) {
  try {
    make();
  } catch (const std::invalid_argument& e) {
    const std::string text = e.what();
    EXPECT_THAT(text, HasSubstr("optimizer '" + who + "'"));
    EXPECT_EQ(std::ranges::count(text, '\n'), 0) << text;
    return text;
  }
  return "none";
}

std::string complaint_of_file(const std::string& path) {
  return complaint_of(path, [&] { load_plugin(path); });
}

std::string complaint_of(const mailgrad_rule& table) {
  return complaint_of("your own rule", [&] { make_custom_rule(table); });
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
  const auto refuses = [](const char* setting, const char* why) {
    EXPECT_THAT([&] { parse_optimizer(plugin("own_momentum") + ":" + setting); },
                ThrowsMessage<std::invalid_argument>(EndsWith(why)));
  };
  refuses("momentun=0.5", "no setting 'momentun'; did you mean 'momentum'?");
  refuses("momentum=1", "less than 1, not '1'");
}

TEST(CustomRule, IsNotMistakenForItsNamesakeInAnotherLibrary) {
  EXPECT_THAT(load_plugin(plugin("factor_2")).settings, ElementsAre(2.0));
  EXPECT_THAT(load_plugin(plugin("factor_3")).settings, ElementsAre(3.0));
}

TEST(CustomRule, SaysWhatIsWrongWithALibrary) {
  const auto says = [](const std::string& path, const char* why) {
    EXPECT_THAT(complaint_of_file(path), EndsWith(why));
  };
  says("./no_such_file.so", "cannot be read: No such file or directory");
  says(plugin("no_entry"), "is no plug-in: it has no function mailgrad_plugin_rule");
  says(plugin("no_table"), "its mailgrad_plugin_rule returns nothing");
  says(plugin("no_update"), "has no update function in its table");
  says(plugin("looks_at_neighbours"), "not from a neighbour or the count");
  says(plugin("nine_states"), "keeps 9 floats for a weight; 8 are the most");
  EXPECT_THAT(complaint_of_file(plugin("version_7")),
              AllOf(HasSubstr("has version 7 of the plug-in interface"),
                    HasSubstr("this mailgrad has versions 1 to 3")));
  const scratch_folder folder;
  EXPECT_THAT(
      complaint_of_file(folder.write("text.so", "no library, but longer than the header of one is\n")),
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
  EXPECT_THAT(complaint_of(table), HasSubstr("'beta' out of its own range"));
}

// What is said of rules that declare or do what they must not; each is a good one but for that.

std::string complaint_of(void (*update)(const mailgrad_rule_step*)) {
  mailgrad_rule table = rule_table<own_momentum>;
  table.update = update;
  table.prepares = 0;
  return complaint_of(table);
}

/// What is said of a rule that does what `Element` does to each element.
template <class Element>
std::string complaint_of_each(Element) {
  return complaint_of([](const mailgrad_rule_step* s) {
    for (std::size_t i = 0; i < s->count; ++i) Element{}(*s, i);
  });
}

std::string complaint_of(const std::vector<mailgrad_rule_setting>& settings) {
  mailgrad_rule table = rule_table<own_sgd>;
  table.settings = settings.data();
  table.setting_count = settings.size();
  return complaint_of(table);
}

TEST(RuleCheck, TakesRulesThatWorkElementByElement) {
  for (const auto& table : {rule_table<own_sgd>, rule_table<own_momentum>, rule_table<own_adam>})
    EXPECT_EQ(complaint_of(table), "none");
  EXPECT_EQ(complaint_of_each([](const mailgrad_rule_step& s, std::size_t i) {
              s.updated[i] = std::numeric_limits<float>::quiet_NaN();
            }),
            "none");
}

TEST(RuleCheck, RefusesARuleThatLooksAtANeighbour) {
  EXPECT_THAT(complaint_of_each([](const mailgrad_rule_step& s, std::size_t i) {
                s.updated[i] = s.weights[i] - 0.1F * s.gradient[i > 0 ? i - 1 : 0];
              }),
              HasSubstr("not from a neighbour"));
}

TEST(RuleCheck, RefusesARuleThatDividesByTheNumberOfWeights) {
  EXPECT_THAT(complaint_of_each([](const mailgrad_rule_step& s, std::size_t i) {
                s.updated[i] = s.weights[i] - s.gradient[i] / static_cast<float>(s.count);
              }),
              HasSubstr("than in two, of 23 and 41"));
}

TEST(RuleCheck, RefusesARuleThatCountsItsCalls) {
  EXPECT_THAT(complaint_of([](const mailgrad_rule_step* s) {
                static float calls = 0;
                ++calls;
                for (std::size_t i = 0; i < s->count; ++i)
                  s->updated[i] = s->weights[i] - s->gradient[i] / calls;
              }),
              HasSubstr("must not keep anything between calls"));
}

TEST(RuleCheck, RefusesARuleThatRemembersWeightsByTheirAddress) {
  EXPECT_THAT(complaint_of_each([](const mailgrad_rule_step& s, std::size_t i) {
                static std::map<const float*, float> velocity;
                float& v = velocity[s.weights + i];
                v = 0.9F * v + s.gradient[i];
                s.updated[i] = s.weights[i] - 0.1F * v;
              }),
              HasSubstr("must not keep anything between calls"));
}

TEST(RuleCheck, RefusesARuleThatReadsAWeightAfterWritingIt) {
  EXPECT_THAT(complaint_of_each([](const mailgrad_rule_step& s, std::size_t i) {
                s.updated[i] = s.weights[i] - 0.1F * s.gradient[i];
                s.updated[i] -= 0.01F * s.weights[i];
              }),
              HasSubstr("in place than in memory apart"));
}

TEST(RuleCheck, LooksAtEveryState) {
  mailgrad_rule table = rule_table<own_adam>;
  table.prepares = 0;
  table.update = [](const mailgrad_rule_step* s) {
    for (std::size_t i = 0; i < s->count; ++i) {
      s->updated[i] = s->weights[i] - s->gradient[i];
      s->states[1][i] = static_cast<float>(s->count);
    }
  };
  EXPECT_THAT(complaint_of(table), HasSubstr("makes other weights of 64 in one range than in two"));
}

TEST(RuleCheck, RefusesARuleThatThrows) {
  EXPECT_THAT(complaint_of([](const mailgrad_rule_step*) { throw std::runtime_error("no licence"); }),
              HasSubstr("throws in an update: no licence"));
}

TEST(RuleCheck, RefusesARuleThatSaysItPreparesAndDoesNot) {
  mailgrad_rule table = rule_table<own_sgd>;
  table.update = [](const mailgrad_rule_step* s) {
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
  table.update = [](const mailgrad_rule_step* s) {
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

// A rule of one's own beside the built-in one of the same formula.

constexpr std::size_t size = 2500; // several tiles and a rest

std::vector<float> wave(int seed) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 37 + seed * 101) % 29 - 14) / 9;
  return values;
}

/// The weights after a few steps, each from `gradients` gradients of different scales.
std::vector<float> trained(const optimizer_options& options, std::size_t gradients) {
  const auto o = make_optimizer(options, size);
  std::vector<float> w = wave(0);
  const std::vector<float> values[] = {wave(1), wave(2), wave(3)};
  for (std::uint64_t step = 1; step <= 5; ++step) {
    std::vector<scaled_gradient> sum;
    for (std::size_t i = 0; i < gradients; ++i)
      sum.push_back({values[i].data(), 1.0F / static_cast<float>(step + i)});
    o->update(host_stream{}, {w, w, sum, step});
  }
  return w;
}

/// Where a formula adds two products, which of them is fused with the sum is the compiler's choice.
void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-6F * std::max(1.0F, std::abs(b[i]))) << i;
}

TEST(CustomUpdate, GivesTheBitsOfTheSameFormulaBuiltIn) {
  for (const std::size_t gradients : {0U, 1U, 3U})
    EXPECT_EQ(trained({.rule = make_custom_rule(rule_table<own_sgd>), .learning_rate = 0.1}, gradients),
              trained({.rule = sgd_options{}, .learning_rate = 0.1}, gradients));
}

TEST(CustomUpdate, FollowsScheduleAndPenaltiesAsEveryRule) {
  optimizer_options ours{.rule = momentum_options{},
                         .learning_rate = 0.1,
                         .schedule = parse_schedule("step:every=2,factor=0.5"),
                         .l2 = 0.01,
                         .weight_decay = 0.02};
  const std::vector<float> expected = trained(ours, 2);
  ours.rule = make_custom_rule(rule_table<own_momentum>);
  expect_near(trained(ours, 2), expected);
}

TEST(CustomUpdate, KnowsTheStepOfABiasCorrection) {
  expect_near(trained({.rule = make_custom_rule(rule_table<own_adam>)}, 1),
              trained({.rule = adam_options{}}, 1));
}

/// Moves by the learning rate, whatever the size of the gradient: a row updated twice would move twice.
struct sign_descent {
  static constexpr const char* name = "sign";
  static constexpr std::size_t states = 0;

  float learning_rate;
  void operator()(float& w, float g) const { w -= learning_rate * static_cast<float>((g > 0) - (g < 0)); }
};

TEST(CustomUpdate, GivesTheSameWhetherTheRulePreparesItsGradientsOrNot) {
  static mailgrad_rule prepared_for = rule_table<own_momentum>;
  prepared_for.prepares = 0;
  ASSERT_EQ(rule_table<own_momentum>.prepares, 1U);
  for (const double l2 : {0.0, 0.1})
    for (const double decay : {0.0, 0.2})
      for (const std::size_t gradients : {0U, 1U, 3U}) {
        optimizer_options options{.rule = make_custom_rule(rule_table<own_momentum>),
                                  .learning_rate = 0.1,
                                  .l2 = l2,
                                  .weight_decay = decay};
        const std::vector<float> itself = trained(options, gradients);
        options.rule = make_custom_rule(prepared_for);
        expect_near(itself, trained(options, gradients));
      }
}

TEST(CustomUpdate, CallsARuleThatPreparesOnceForAGradient) {
  static std::size_t calls = 0;
  static mailgrad_rule counted = rule_table<own_sgd>;
  counted.update = [](const mailgrad_rule_step* s) {
    ++calls;
    rule_table<own_sgd>.update(s);
  };
  const optimizer_options options{
      .rule = make_custom_rule(counted), .learning_rate = 0.1, .l2 = 0.5, .weight_decay = 0.1};
  const auto o = make_optimizer(options, size);
  std::vector<float> w = wave(0);
  const std::vector<float> g = wave(1);
  const scaled_gradient clipped{g.data(), 0.5F};
  calls = 0;
  o->update(host_stream{}, {w, w, {&clipped, 1}, 1});
  EXPECT_EQ(calls, 1U);
}

/// Counts how often it is made and from what. Its weights become the number of the step.
struct counted_rule {
  static constexpr const char* name = "counted";
  static constexpr std::size_t states = 0;
  static constexpr mailgrad_rule_setting settings[] = {{"share", 0.5, 0, 1}};
  static inline std::vector<std::array<double, 3>> made_of;

  float step;
  explicit counted_rule(const mailgrad_rule_step& s) : step(static_cast<float>(s.step)) {
    made_of.push_back({static_cast<double>(s.step), s.learning_rate, s.settings[0]});
    EXPECT_EQ(s.weights, nullptr);
    EXPECT_EQ(s.updated, nullptr);
    EXPECT_EQ(s.gradient, nullptr);
    EXPECT_EQ(s.states, nullptr);
    EXPECT_EQ(s.count, 0U);
  }
  void operator()(float& w, float) const { w = step; }
};

TEST(CustomUpdate, MakesARuleOnceForAStepAndAgainForAnother) {
  optimizer_options options{
      .rule = make_custom_rule(rule_table<counted_rule>), .learning_rate = 0.1, .l2 = 0.5};
  const auto first = make_optimizer(options, size);
  std::get<custom_rule>(options.rule).settings[0] = 0.25;
  const auto other = make_optimizer(options, size);
  std::vector<float> w = wave(0);
  const std::vector<float> g = wave(1);
  const scaled_gradient gradients[] = {{g.data(), 1}, {g.data(), 1}}; // their sum is made a range at a time
  const auto update = [&](optimizer& o, std::uint64_t step, double scale) {
    o.update(host_stream{}, {w, w, gradients, step, 0, scale});
    EXPECT_EQ(w.front(), static_cast<float>(step));
    EXPECT_EQ(w.back(), static_cast<float>(step));
  };
  counted_rule::made_of.clear();
  update(*first, 1, 1);
  update(*first, 2, 1);
  update(*other, 2, 1);
  update(*first, 3, 1);
  update(*other, 3, 0.5);
  EXPECT_THAT(counted_rule::made_of,
              ElementsAre(ElementsAre(1, 0.1, 0.5), ElementsAre(2, 0.1, 0.5), ElementsAre(2, 0.1, 0.25),
                          ElementsAre(3, 0.1, 0.5), ElementsAre(3, 0.05, 0.25)));
}

TEST(CustomUpdate, RefusesRowsThatTheTableDoesNotHave) {
  const custom_rule mine = make_custom_rule(rule_table<own_sgd>);
  const custom_update rule{.table = mine.table, .settings = mine.settings, .learning_rate = 1};
  std::vector<float> w(8, 1.0F);
  const std::vector<float> values(4, 1.0F);
  for (const std::vector<std::uint32_t>& rows : {std::vector<std::uint32_t>{0, 4}, {0, 1, 2}})
    EXPECT_THROW(update_rows(host_stream{}, rule, {}, {w, 2, rows, values}, {}), shape_error);
  EXPECT_THAT(w, Each(1.0F));
}

TEST(CustomUpdate, SeesARepeatedRowOnceFromItsSum) {
  const std::vector<std::int32_t> rows{2, 0, 2, 5};
  const std::vector<float> values{1, -2, 10, 20, -100, 200, 7, 7}; // row 5 is another shard's
  std::vector<float> w(6);
  const auto o = make_optimizer({.rule = make_custom_rule(rule_table<sign_descent>), .learning_rate = 1}, 6);
  o->update_rows(host_stream{}, {.weights = w, .width = 2, .rows = rows, .values = values, .row_end = 3});
  EXPECT_THAT(w, ElementsAre(-1, -1, 0, 0, 1, -1));
}

/// Expects own_momentum to update rows as its built-in twin does, and gives the weights, of `floats`, and the
/// velocity of a shard of `range` after three of the same updates.
std::vector<float> updated_as_its_twin(std::size_t floats, std::size_t range, sparse_update update) {
  const auto after = [&](const optimizer_options& options) {
    const auto o = make_optimizer(options, range);
    std::vector<float> w(floats, 1);
    update.weights = w;
    update.scale = 0.5F;
    for (std::uint64_t step = 1; step <= 3; ++step) {
      update.step = step;
      o->update_rows(host_stream{}, update);
    }
    w.insert(w.end(), o->state()[0].values.begin(), o->state()[0].values.end());
    return w;
  };
  const std::vector<float> w = after({.rule = make_custom_rule(rule_table<own_momentum>)});
  expect_near(w, after({.rule = momentum_options{}}));
  return w;
}

TEST(CustomUpdate, UpdatesRowsAsItsBuiltInTwin) {
  const std::vector<std::int32_t> rows{2, 0, 2};
  const std::vector<float> values{1, 2, 10, 20, 100, 200};
  updated_as_its_twin(6, 10, {.width = 2, .rows = rows, .values = values, .first = 4, .row_end = 3});
}

TEST(CustomUpdate, UpdatesManyRowsOfAnyWidthAndNoOther) {
  constexpr std::size_t height = 401;
  for (const std::size_t width : {1U, 3U, 128U, 129U, 300U}) {
    std::vector<std::int32_t> rows;
    for (std::int32_t i = 0; i < 300; ++i) rows.push_back(i * 7 % 400); // row 400 is never among them
    std::vector<float> values;
    for (std::size_t i = 0; i < rows.size() * width; ++i) values.push_back(static_cast<float>(i % 23) - 11);
    const std::vector<float> w = updated_as_its_twin(
        height * width, height * width, {.width = width, .rows = rows, .values = values, .row_end = height});
    EXPECT_EQ(w[height * width - 1], 1) << "a row that has no gradient";
  }
}

// Users' rules of whole variables, and those of older versions of the interface.

std::vector<shard_variable> two_variables() { return {{"a", {2, 3}, 0}, {"b", {4}, 16}}; }

/// 32 weights after five updates.
std::vector<float> trained_whole(optimizer_options o, double decay = 0) {
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
  EXPECT_EQ(trained_whole(parse_optimizer(plugin("own_lars"))), functor);
}

TEST(WholeRule, OfAUserFindsNameShapeAndPlace) {
  host_queue here;
  const auto o =
      make_optimizer({.rule = make_custom_rule(rule_table<tells_layout>)}, 32, here, two_variables());
  std::vector<float> w(32);
  const scaled_gradient one{w.data()};
  o->update(host_stream{}, {w, w, {&one, 1}, 1});
  EXPECT_THAT(std::vector<float>(w.begin(), w.begin() + 4), ElementsAre(2, 6, 0, 'a'));
  EXPECT_THAT(std::vector<float>(w.begin() + 16, w.begin() + 20), ElementsAre(1, 4, 16, 'b'));
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
  EXPECT_THAT(complaint_of(table), HasSubstr("leave 'prepares' at 0"));
  table = rule_table<own_lars>;
  table.update = [](const mailgrad_rule_step* s) {
    static float calls = 0;
    for (std::size_t i = 0; i < s->count; ++i) s->updated[i] = calls;
    ++calls;
  };
  EXPECT_THAT(complaint_of(table), HasSubstr("when it begins anew"));
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
    const optimizer_options o = parse_optimizer(plugin(name) + ":momentum=0.75");
    EXPECT_FALSE(sees_whole_variables(o)) << name;
    EXPECT_EQ(std::get<custom_rule>(o.rule).table->interface_version, MAILGRAD_PLUGIN_VERSION) << name;
    EXPECT_EQ(trained_by(o), wanted) << name;
    EXPECT_EQ(std::get<custom_rule>(parse_optimizer(plugin(name)).rule).table,
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
  for (const unsigned version : {3U, 4U}) {
    told.interface_version = version;
    EXPECT_EQ(&as_of_today(told), &told);
  }
}

} // namespace
} // namespace mailgrad

#include <mailgrad/lab/sweep/sweep_file.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

namespace mailgrad::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* small_grid =
    R"({"run": {"epochs": 2}, "grid": {"policy": ["async", "ssp:3"], "lr": [0.1, 1e-3], "seed": [1, 2, 3]},
        "tune": "lr", "target": {"test_loss": 0.5}, "tests": 7})";

TEST(SweepFile, CountsItsCellsWithTheLastAxisFastest) {
  const sweep s = parse_sweep(small_grid);
  ASSERT_EQ(s.cells(), 12U);
  EXPECT_THAT(s.values_of(0), ElementsAre("async", "0.1", "1"));
  EXPECT_THAT(s.values_of(1), ElementsAre("async", "0.1", "2"));
  EXPECT_THAT(s.values_of(3), ElementsAre("async", "0.001", "1"));
  EXPECT_THAT(s.values_of(11), ElementsAre("ssp:3", "0.001", "3"));
}

TEST(SweepFile, GivesEachSeedItsOwnDelays) {
  using setting = sweep_setting;
  const sweep s = parse_sweep(small_grid);
  EXPECT_THAT(s.settings_of(1),
              ElementsAre(setting{"epochs", "2"}, setting{"policy", "async"}, setting{"lr", "0.1"},
                          setting{"seed", "2"}, setting{"delays-seed", "2"}));
  const sweep prescribed = parse_sweep(R"({"run": {"delays-seed": 5}, "grid": {"seed": [1, 2]}})");
  EXPECT_THAT(prescribed.settings_of(1), ElementsAre(setting{"delays-seed", "5"}, setting{"seed", "2"}));
}

TEST(SweepFile, TakesTrueAndFalseForFlags) {
  using setting = sweep_setting;
  const sweep s = parse_sweep(R"({"run": {"own-samples": true}, "grid": {"interrupt": [false, true]}})");
  EXPECT_THAT(s.settings_of(0), ElementsAre(setting{"own-samples", "true"}, setting{"interrupt", "false"}));
  EXPECT_EQ(to_json(parse_sweep(to_json(s))), to_json(s));
}

TEST(SweepFile, ReadsTheRest) {
  const sweep s = parse_sweep(small_grid);
  EXPECT_EQ(s.tune, "lr");
  EXPECT_EQ(s.tests, 7U);
  ASSERT_TRUE(s.target);
  EXPECT_TRUE(s.target->reached_by(0.4));
  EXPECT_FALSE(s.target->reached_by(0.6));
  const sweep of_accuracy = parse_sweep(R"({"grid": {"lr": [1]}, "target": {"test_accuracy": 0.9}})");
  EXPECT_TRUE(of_accuracy.target->reached_by(0.95));
  EXPECT_FALSE(of_accuracy.target->reached_by(0.85));
  EXPECT_EQ(of_accuracy.tests, 20U);
}

TEST(SweepFile, TestsARunNoMoreOftenThanAsked) {
  for (const std::uint64_t tests : {1U, 7U, 20U})
    for (std::uint64_t steps = 0; steps < 100; ++steps) {
      const std::uint64_t every = steps_between_tests(steps, tests);
      ASSERT_GE(every, 1U);
      const std::uint64_t before_the_end = steps == 0 ? 0 : (steps - 1) / every;
      EXPECT_LT(before_the_end, tests) << steps;
    }
  EXPECT_EQ(steps_between_tests(39, 20), 2U);
  EXPECT_EQ(steps_between_tests(60, 20), 3U);
}

TEST(SweepFile, LeavesCellsOut) {
  const sweep s =
      parse_sweep(R"({"grid": {"policy": ["async", "sync"], "cure": ["none", "inverse"], "lr": [1, 2]},
                                  "without": [{"policy": "sync", "cure": "inverse"}, {"lr": 2, "cure": "none"}]})");
  EXPECT_THAT(s.kept_cells(), ElementsAre(0U, 2U, 3U, 4U));
  EXPECT_EQ(parse_sweep(to_json(s)).kept_cells(), s.kept_cells());
}

TEST(SweepFile, HasOneFormByWhichTwoAreCompared) {
  EXPECT_EQ(to_json(parse_sweep(small_grid)), to_json(parse_sweep(to_json(parse_sweep(small_grid)))));
  EXPECT_NE(to_json(parse_sweep(R"({"grid": {"lr": [1]}})")),
            to_json(parse_sweep(R"({"grid": {"lr": [2]}})")));
}

TEST(SweepFile, SaysInOneLineWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "line 1 is no JSON"},
      {"{\n\"run\": {},\n grid\n}", "line 3 is no JSON"},
      {"[]", "this is no JSON object"},
      {R"({"gird": {}})", "key 'gird' is unknown; did you mean 'grid'?"},
      {R"({"run": {}})", "'grid' is missing"},
      {R"({"grid": {}})", "'grid' is empty"},
      {R"({"grid": []})", "'grid' is no object"},
      {R"({"run": 1, "grid": {"lr": [1]}})", "'run' is no object"},
      {R"({"grid": {"lr": []}})", "grid: 'lr' has no value"},
      {R"({"grid": {"lr": 0.1}})", "grid: 'lr' is no list"},
      {R"({"grid": {"lr": [0.1, 0.10]}})", "grid: 'lr' has 0.1 twice"},
      {R"({"grid": {"lr": [1], "lr": [2]}})", "'lr' is there twice"},
      {R"({"grid": {"lr": [null]}})",
       "'lr' has null, which is no text, no number, and neither true nor false"},
      {R"({"grid": {"policy": ["a\nb"]}})", "'policy' has a line break"},
      {R"({"run": {"lr": 1}, "grid": {"lr": [1]}})", "'lr' is in 'run' and in 'grid'"},
      {R"({"grid": {"lr": [1]}, "tune": "batch"})", "tune: 'batch' is no option of 'grid'"},
      {R"({"grid": {"seed": [1]}, "tune": "seed"})", "tune: seeds are not tuned"},
      {R"({"grid": {"lr": [1]}, "target": {"test_acuracy": 1}})", "did you mean 'test_accuracy'?"},
      {R"({"grid": {"lr": [1]}, "target": {"test_loss": "x"}})", "target: 'test_loss' is no number"},
      {R"({"grid": {"lr": [1]}, "target": 0.9})", "'target' is no object"},
      {R"({"grid": {"lr": [1]}, "without": {}})", "'without' is no list"},
      {R"({"grid": {"lr": [1]}, "without": [{}]})", "'without' has an entry"},
      {R"({"grid": {"lr": [1]}, "without": [{"cure": "none"}]})", "without: 'cure' is no option of 'grid'"},
      {R"({"grid": {"lr": [1]}, "without": [{"lr": 2}]})", "without: 'lr' has no value 2 in 'grid'"},
      {R"({"grid": {"lr": [1]}, "without": [{"lr": 1}]})", "'without' leaves no cell"},
      {R"({"grid": {"lr": [1]}, "tests": 0})", "'tests' is no whole number"},
      {R"({"grid": {"lr": [1]}, "tests": 2.5})", "'tests' is no whole number"},
  };
  for (const auto& [text, says] : wrong)
    EXPECT_THAT(testing::words_of_refusal([&text = text] { parse_sweep(text); }), HasSubstr(says)) << text;
  std::string values = "1";
  for (int i = 2; i <= 1000; ++i) values += ',' + std::to_string(i);
  const std::string many = "{\"grid\": {\"lr\": [" + values + "], \"seed\": [" + values + "]}}";
  EXPECT_THAT(testing::words_of_refusal([&] { parse_sweep(many); }), HasSubstr("more than 100000 cells"));
}

} // namespace
} // namespace mailgrad::lab

#include <mailgrad/lab/sweep/sweep_summary.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace mailgrad::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr double infinite = std::numeric_limits<double>::infinity();

TEST(Quartiles, AreInterpolatedAsNumpyDoes) {
  const quartiles q = quartiles_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(q.low, 1.75);
  EXPECT_DOUBLE_EQ(q.median, 2.5);
  EXPECT_DOUBLE_EQ(q.high, 3.25);
  EXPECT_EQ(quartiles_of({7}).low, 7);
  EXPECT_THROW(quartiles_of({}), std::invalid_argument);
}

TEST(Quartiles, TakeInfiniteNumbers) {
  const quartiles worst_high = quartiles_of({1, 2, infinite, infinite, infinite});
  EXPECT_EQ(worst_high.low, 2);
  EXPECT_EQ(worst_high.median, infinite);
  const quartiles worst_low = quartiles_of({-infinite, 1, 2});
  EXPECT_EQ(worst_low.low, -infinite);
  EXPECT_EQ(worst_low.median, 1);
}

/// The accuracy of a run falls with each digit of its cell's number, unless `edit` says otherwise.
template <class Edit>
std::vector<sweep_row> rows_for(const sweep& s, Edit edit) {
  std::vector<sweep_row> rows;
  for (std::size_t cell = 0; cell < s.cells(); ++cell) {
    sweep_row row;
    row.cell = cell;
    row.values = s.values_of(cell);
    row.ended = "completed";
    row.test_accuracy = 0.5;
    edit(row);
    rows.push_back(row);
  }
  return rows;
}

const char* two_policies = R"({"grid": {"policy": ["async", "sync"], "lr": [0.1, 1, 10], "seed": [1, 2, 3]},
                               "tune": "lr"})";

TEST(SweepSummary, TakesTheTunedValueWithTheBestMedian) {
  const sweep s = parse_sweep(two_policies);
  // async: 1 is best in the median, although 0.1 has the best run. sync: 10 is best.
  const std::vector<double> accuracy{0.99, 0.2, 0.3, 0.6, 0.7, 0.8, 0.1, 0.1, 0.1,
                                     0.4,  0.4, 0.4, 0.5, 0.5, 0.5, 0.6, 0.9, 0.7};
  const std::vector<sweep_row> rows = rows_for(s, [&](sweep_row& r) { r.test_accuracy = accuracy[r.cell]; });
  const judged_figure judged = judged_by(rows);
  ASSERT_EQ(judged, judged_figure::test_accuracy);
  const std::vector<sweep_summary> methods = tuned(s, summaries_of(s, rows), judged);
  ASSERT_EQ(methods.size(), 2U);
  EXPECT_THAT(methods[0].values, ElementsAre("async", "1", ""));
  EXPECT_THAT(methods[0].cells, ElementsAre(3U, 4U, 5U));
  EXPECT_DOUBLE_EQ(methods[0].test_accuracy->median, 0.7);
  EXPECT_DOUBLE_EQ(methods[0].test_accuracy->low, 0.65);
  EXPECT_THAT(methods[1].values, ElementsAre("sync", "10", ""));
  EXPECT_EQ(median_cell(methods[1], rows, judged), 17U);
  EXPECT_THAT(summary_csv(s, methods),
              StartsWith("policy,lr,runs,completed,reached_target,test_accuracy_median"));
  EXPECT_THAT(summary_csv(s, methods), HasSubstr("\nasync,1,3,3,0,0.7,"));
}

TEST(SweepSummary, TellsHowManyRunsAreMissing) {
  const sweep s = parse_sweep(two_policies);
  std::vector<sweep_row> rows = rows_for(s, [](sweep_row&) {});
  rows.resize(4);
  EXPECT_THAT(summary_csv(s, summaries_of(s, rows)),
              ::testing::AllOf(HasSubstr(",speed_up,missing_runs\n"), HasSubstr("\nasync,0.1,3,"),
                               HasSubstr(",0\nasync,1,1,"), ::testing::EndsWith(",2\n")));
}

TEST(SweepSummary, CountsRunsThatDivergedAsTheWorst) {
  const sweep s = parse_sweep(two_policies);
  const std::vector<sweep_row> rows = rows_for(s, [](sweep_row& r) {
    r.test_accuracy = 0.9;
    if (r.values[1] != "0.1") return;
    r.test_accuracy = 0.99;
    if (r.values[2] == "1") return;
    r.ended = "diverged";
    r.test_accuracy.reset();
  });
  const std::vector<sweep_summary> methods = tuned(s, summaries_of(s, rows), judged_by(rows));
  EXPECT_EQ(methods[0].values[1], "1") << "two in three runs with 0.1 diverged";
  EXPECT_EQ(methods[0].completed, 3U);
}

TEST(SweepSummary, MeasuresSpeedUpsAgainstTheFewestWorkers) {
  const sweep s = parse_sweep(
      R"({"grid": {"policy": ["async", "sync"], "workers": [4, 1, 2]}, "target": {"test_accuracy": 0.4}})");
  const std::vector<sweep_row> rows = rows_for(s, [](sweep_row& r) {
    const double workers = std::stod(r.values[1]);
    if (r.values[0] == "async") r.time_to_target = 100 / workers;
    if (r.values[0] == "sync" && workers == 2) r.time_to_target = 50;
  });
  const std::vector<sweep_summary> methods = tuned(s, summaries_of(s, rows), judged_by(rows));
  ASSERT_EQ(methods.size(), 6U);
  EXPECT_EQ(methods[0].speed_up, 4);
  EXPECT_EQ(methods[1].speed_up, 1);
  EXPECT_EQ(methods[2].speed_up, 2);
  EXPECT_FALSE(methods[5].speed_up) << "one worker never reached the target";
  EXPECT_EQ(methods[3].time_to_target->median, infinite);
}

TEST(SweepFigures, ShowWhatWasVaried) {
  const sweep s = parse_sweep(
      R"({"grid": {"policy": ["async", "sync"], "workers": [1, 4], "lr": [0.1, 1], "cure": ["none"]},
          "tune": "lr", "target": {"test_accuracy": 0.4}})");
  const std::vector<sweep_row> rows = rows_for(s, [](sweep_row& r) { r.time_to_target = 8; });
  const std::vector<curve_point> curves{{0, 1, 10, 10, {}, 2.0}, {0, 2, 20, 20, {}, 1.0}};
  const std::vector<figure> figures = figures_of(s, rows, curves);
  std::vector<std::string> names;
  for (const figure& f : figures) names.push_back(f.name);
  EXPECT_THAT(names, ElementsAre("lr", "workers", "time-to-target", "speed-up", "loss-time"));
  ASSERT_EQ(figures[0].series.size(), 4U);
  EXPECT_EQ(figures[0].series[1].name, "async, workers 4");
  EXPECT_EQ(figures[0].series[0].points.size(), 2U);
  EXPECT_EQ(figures[0].x.scale, axis_scale::logarithmic);
  EXPECT_EQ(figures[1].series[1].name, "sync");
  EXPECT_EQ(figures[3].series.back().points.back().y, 4) << "the ideal";
  EXPECT_THAT(figures[3].caption, HasSubstr("may have different values of lr"));
}

TEST(SweepFigures, NameAFlagWhereItIsSet) {
  const sweep s = parse_sweep(
      R"({"grid": {"policy": ["async"], "overlap": [true, false], "cure": ["none", "dc-asgd"],
          "workers": [1, 2]}})");
  const std::vector<figure> figures = figures_of(s, rows_for(s, [](sweep_row&) {}), {});
  std::vector<std::string> names;
  for (const figure_series& one : figures.front().series) names.push_back(one.name);
  EXPECT_THAT(names, ElementsAre("overlap, cure none", "overlap, dc-asgd", "without overlap, cure none",
                                 "without overlap, dc-asgd"));
}

TEST(SweepFigures, HaveNoSpeedUpWhereNoMethodHasOne) {
  const sweep s = parse_sweep(
      R"({"grid": {"policy": ["async", "sync"], "workers": [1, 4]}, "target": {"test_accuracy": 0.9}})");
  const auto names = [&](const std::vector<sweep_row>& rows) {
    std::vector<std::string> all;
    for (const figure& f : figures_of(s, rows, {})) all.push_back(f.name);
    return all;
  };
  EXPECT_THAT(names(rows_for(s, [](sweep_row&) {})), ElementsAre("workers"));
  EXPECT_THAT(names(rows_for(s,
                             [](sweep_row& r) {
                               if (r.values[1] == "1") r.time_to_target = 8;
                             })),
              ElementsAre("workers", "time-to-target"))
      << "one worker against itself";
  EXPECT_THAT(names(rows_for(s,
                             [](sweep_row& r) {
                               if (r.values[0] == "sync") r.time_to_target = 8;
                             })),
              ElementsAre("workers", "time-to-target", "speed-up"));
}

TEST(SweepFigures, LeaveTheWorstMethodsOutAndSaySo) {
  const sweep s = parse_sweep(R"({"grid": {"batch": [1, 2, 3, 4, 5, 6, 7, 8], "workers": [1, 2]}})");
  const std::vector<sweep_row> rows =
      rows_for(s, [](sweep_row& r) { r.test_accuracy = 1 - std::stod(r.values[0]) / 10; });
  const std::vector<figure> figures = figures_of(s, rows, {});
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(figures[0].series.size(), 6U);
  EXPECT_THAT(figures[0].caption, HasSubstr("Left out, since they did no better: batch 7; batch 8."));
}

TEST(SweepFigures, AreNoneWithoutAFigure) {
  const sweep s = parse_sweep(R"({"grid": {"lr": [1, 2]}, "tune": "lr"})");
  EXPECT_THAT(figures_of(s, rows_for(s, [](sweep_row& r) { r.test_accuracy.reset(); }), {}), IsEmpty());
}

} // namespace
} // namespace mailgrad::lab

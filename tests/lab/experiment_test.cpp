#include <mailgrad/lab/experiment.hpp>
#include <mailgrad/tests/lab/lab_runs.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace mailgrad::lab {
namespace {

using namespace ::testing;
using mailgrad::testing::lab_case;

claim measured(double value, relation how = relation::equals) {
  claim c{"x, \"y\"", "s", "closed form", 2, value};
  c.tolerance = 0.5;
  c.how = how;
  return c;
}

TEST(Claim, HoldsWithinItsTolerance) {
  for (const double near : {1.5, 2.0, 2.5}) EXPECT_TRUE(measured(near).holds()) << near;
  for (const double far : {1.4, 2.6}) EXPECT_FALSE(measured(far).holds()) << far;
  EXPECT_TRUE(measured(-9, relation::at_most).holds());
  EXPECT_FALSE(measured(2.6, relation::at_most).holds());
  EXPECT_TRUE(measured(9, relation::at_least).holds());
  EXPECT_FALSE(measured(1.4, relation::at_least).holds());
  for (const relation how : {relation::equals, relation::at_most, relation::at_least})
    EXPECT_FALSE(measured(claim::unknown, how).holds());
}

TEST(ExperimentResult, HoldsIfAllItsClaimsDo) {
  experiment_result r;
  EXPECT_FALSE(r.holds()) << "one that was stopped before its first claim";
  r.claims = {measured(2), measured(2.1)};
  EXPECT_TRUE(r.holds());
  r.claims.push_back(measured(9));
  EXPECT_FALSE(r.holds());
}

TEST(ExperimentResult, IsATidyTable) {
  experiment_result r{{measured(2.25)}, {}};
  r.figures.push_back(
      {"f", "title", "caption", {"x"}, {"y"}, {{"a, b", series_look::points, {{1, 2, 0.5}}}}});
  EXPECT_EQ(claims_csv("e", r),
            "experiment,claim,unit,relation,expected,expected_from,measured,spread,seeds,tolerance,holds\n"
            "e,\"x, \"\"y\"\"\",s,equals,2,closed form,2.25,,1,0.5,yes\n");
  EXPECT_EQ(points_csv("e", r), "experiment,figure,series,x,y,spread\ne,f,\"a, b\",1,2,0.5\n");
}

TEST(Experiments, HaveNamesOfTheirOwnAndAClaimInOneLine) {
  std::set<std::string_view> names;
  for (const experiment& e : experiments()) {
    EXPECT_TRUE(names.insert(e.name).second) << e.name;
    EXPECT_FALSE(e.paper.empty()) << e.name;
    EXPECT_EQ(e.claim.find('\n'), std::string_view::npos);
    EXPECT_LE(e.claim.size(), 110U) << e.name;
  }
}

TEST(Experiments, KeepNothingIfTheyAreStoppedAtOnce) {
  experiment_options stopped;
  stopped.stop = [] { return true; };
  for (const experiment& e : experiments()) {
    experiment_result r;
    EXPECT_THROW(e.run(stopped, r), experiment_stopped) << e.name;
    EXPECT_TRUE(r.claims.empty()) << e.name;
  }
}

/// As with Ctrl-C after the first claim of many.
TEST(Experiments, KeepTheClaimsThatWereFinished) {
  const auto found = std::ranges::find(experiments(), "staleness-laws", &experiment::name);
  experiment_result r;
  experiment_options stopped;
  stopped.quick = true;
  stopped.stop = [&] { return !r.claims.empty(); };
  EXPECT_THROW(found->run(stopped, r), experiment_stopped);
  EXPECT_EQ(r.claims.size(), 1U);
}

figure drawn(const lab_case& c, double until) {
  training_options o = testing::lively_options(c);
  o.trace_events = 1000;
  virtual_run run(testing::small_model(), testing::small_data(), o, {c.workers});
  run.run();
  run.report();
  return timeline_figure(run.trace(), c.workers, until, "t", "title");
}

/// From and to of each bar or line in the row of a worker.
std::vector<std::pair<double, double>> spans(const figure& f, std::string_view series, double row) {
  std::vector<std::pair<double, double>> all;
  for (const figure_series& s : f.series)
    for (std::size_t i = 0; s.name == series && i + 1 < s.points.size(); i += 3) {
      EXPECT_TRUE(std::isnan(s.points[i + 2].y)) << "the line breaks off";
      if (s.points[i].y == row) all.emplace_back(s.points[i].x, s.points[i + 1].x);
    }
  return all;
}

TEST(TimelineFigure, ShowsWhoComputesAndWhoWaits) {
  const figure f = drawn({2, "list:1,3", "sync", 8}, 5);
  EXPECT_THAT(f.y.marks, ElementsAre("1", "0")) << "worker 0 is on top";
  EXPECT_THAT(spans(f, "computes", 2), ElementsAre(Pair(0, 1), Pair(3, 4)));
  EXPECT_THAT(spans(f, "waits at a barrier", 2), ElementsAre(Pair(1, 3), Pair(4, 5)));
  EXPECT_THAT(spans(f, "computes", 1), ElementsAre(Pair(0, 3), Pair(3, 5)));
  EXPECT_THAT(spans(f, "waits at a barrier", 1), IsEmpty());
  EXPECT_THAT(spans(drawn({2, "list:1,4", "ssp:1", 12}, 8), "waits under a bound", 2),
              ElementsAre(Pair(2, 4), Pair(5, 8)));
}

TEST(TimelineFigure, MarksWhatWasDiscarded) {
  const figure f = drawn({3, "list:1,1,2.5", "backup:1", 12}, 4);
  const figure_series& marks = f.series.at(1);
  EXPECT_EQ(marks.name, "discarded");
  ASSERT_THAT(marks.points, Not(IsEmpty()));
  EXPECT_DOUBLE_EQ(marks.points[0].x, 2.5);
  EXPECT_DOUBLE_EQ(marks.points[0].y, 1) << "worker 2 is at the bottom";
}

} // namespace
} // namespace mailgrad::lab

#include <mailgrad/tests/lab/lab_runs.hpp>

#include <mailgrad/lab/experiment.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using mailgrad::testing::lab_case;

figure drawn(const lab_case& c, double until) {
  training_options o = mailgrad::testing::lively_options(c);
  o.trace_events = 1000;
  virtual_run run(mailgrad::testing::small_model(), mailgrad::testing::small_data(), o, {c.workers});
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
}

TEST(TimelineFigure, ShowsWaitsUnderABound) {
  const figure f = drawn({2, "list:1,4", "ssp:1", 12}, 8);
  EXPECT_THAT(spans(f, "waits under a bound", 2), ElementsAre(Pair(2, 4), Pair(5, 8)));
}

TEST(TimelineFigure, MarksWhatWasDiscarded) {
  const figure f = drawn({3, "list:1,1,2.5", "backup:1", 12}, 4);
  const figure_series& marks = f.series.at(1);
  EXPECT_EQ(marks.name, "discarded");
  ASSERT_THAT(marks.points, ::testing::Not(IsEmpty()));
  EXPECT_DOUBLE_EQ(marks.points[0].x, 2.5);
  EXPECT_DOUBLE_EQ(marks.points[0].y, 1) << "worker 2 is at the bottom";
}

} // namespace
} // namespace mailgrad::lab

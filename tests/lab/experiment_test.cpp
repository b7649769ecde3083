#include <mailgrad/lab/experiment.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace mailgrad::lab {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
}

TEST(Claim, DoesNotHoldOfWhatIsNoNumber) {
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

} // namespace
} // namespace mailgrad::lab

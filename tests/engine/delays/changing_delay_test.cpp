#include <mailgrad/tests/engine/delays/delay_samples.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/data/batch.hpp>
#include <mailgrad/engine/delays/delay_law.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using testing::steps_of;

constexpr std::size_t steps = 100'000;

TEST(MarkovDelay, IsSlowForItsLongRunShareOfTheSteps) {
  const std::vector<double> all = steps_of("markov:to-slow=0.05,to-fast=0.2,factor=10,time=2", steps);
  const auto slow = static_cast<double>(std::ranges::count(all, 20.0));
  EXPECT_NEAR(slow / steps, 0.05 / 0.25, 0.01);
  EXPECT_EQ(std::ranges::count(all, 2.0) + std::ranges::count(all, 20.0), std::ssize(all));
}

TEST(MarkovDelay, StaysInAStateForSomeSteps) {
  const std::vector<double> all = steps_of("markov:to-slow=0.05,to-fast=0.2", steps);
  std::size_t spells = 0;
  for (std::size_t i = 1; i < all.size(); ++i) spells += all[i] > 1 && all[i - 1] == 1;
  const auto slow = static_cast<double>(std::ranges::count(all, 10.0));
  EXPECT_NEAR(slow / static_cast<double>(spells), 5, 0.3) << "1 / to-fast steps";
}

TEST(MarkovDelay, NeverChangesWithoutAProbabilityTo) {
  EXPECT_THAT(steps_of("markov:to-slow=0,to-fast=0", 3), ElementsAre(1, 1, 1));
  EXPECT_THAT(steps_of("markov:to-slow=1,to-fast=0", 3), ElementsAre(10, 10, 10));
}

TEST(ClassDelay, IsTheMeanOverTheSamplesOfABatch) {
  const dataset samples(float_features{{1}, std::vector<float>(4)}, std::vector<std::int32_t>{0, 2, 1, 2}, 3);
  const delay_spec law("by-class:1,2,6", 2);
  law.require_fits(samples);
  const auto times = law.law_of({1}, 1);
  batch inputs;
  const auto seconds = [&](std::vector<std::uint32_t> chosen) {
    fill_batch(samples, chosen, inputs);
    return times->seconds_on(inputs, 1, 0);
  };
  EXPECT_DOUBLE_EQ(seconds({0}), 1);
  EXPECT_DOUBLE_EQ(seconds({1, 3}), 6);
  EXPECT_DOUBLE_EQ(seconds({0, 1, 2}), 3);
  EXPECT_DOUBLE_EQ(slowed_delay(law.law_of({0}, 1), 2).seconds_on(inputs, 1, 0), 6);
}

TEST(ClassDelay, IsRefusedForOtherClasses) {
  const dataset three(float_features{{1}, {0}}, std::vector<std::int32_t>{0}, 3);
  const dataset numbers(float_features{{1}, {0}}, std::vector<float>{0.5F});
  const auto fits = [](const char* law, const dataset& samples) {
    return [law, &samples] { delay_spec(law, 2).require_fits(samples); };
  };
  testing::expect_refused({
      {"too few", fits("by-class:1,2", three), "expected a number for each of 3 classes, found 2"},
      {"numbers", fits("by-class:1", numbers), "no classes"},
      {"no number", fits("by-class:1,x,3", three), "'x' is no number of seconds"},
  });
  delay_spec("exp", 2).require_fits(numbers);
}

TEST(OutageDelay, AddsTheOutagesThatAStepMeets) {
  const delay_spec law("outages:every=10,lasts=4,time=1", 1);
  const std::unique_ptr<delay_law> times = law.law_of({0}, 1);
  double begun = 0; // the outage
  while (times->seconds(1, begun) != 5) begun += 0.001;
  while (times->seconds(1, begun) == 5) begun += 0.001; // a step that began up to a second before
  EXPECT_NEAR(times->seconds(1, begun + 0.2), 4.8, 0.01) << "the rest of the outage, and the step";
  EXPECT_NEAR(times->seconds(1, begun + 2), 3, 0.01);
  EXPECT_NEAR(times->seconds(1, begun + 4.5), 1, 1e-9);
  EXPECT_NEAR(times->seconds(1, begun + 9.5), 5, 1e-9) << "a half of the step before the outage";
  const std::unique_ptr<delay_law> longer = delay_spec("outages:every=10,lasts=4,time=12", 1).law_of({0}, 1);
  EXPECT_NEAR(longer->seconds(1, begun + 9.5), 12 + 4 + 4, 1e-9);
}

TEST(OutageDelay, BeginsForEachWorkerAtAnotherTime) {
  const delay_spec law("outages", 100);
  std::size_t out = 0;
  for (std::uint32_t r = 0; r < 100; ++r) out += law.law_of({r}, 1)->seconds(1, 50) > 1;
  EXPECT_GT(out, 2U);
  EXPECT_LT(out, 25U);
}

class DelayTrace : public ::testing::Test {
protected:
  std::string law(const std::string& text) const { return "trace:" + folder_.write("t.csv", text).string(); }
  auto reading(const std::string& text) const {
    return [this, text] { delay_spec(law(text), 2); };
  }
  scratch_folder folder_;
};

TEST_F(DelayTrace, SaysHowLongAStepTakesThatBeginsThen) {
  const delay_spec read(law("t,worker,duration\n0,0,1\n0,1,7\n2,0,0.5\n3,0,10\n"), 2);
  EXPECT_THAT(steps_of(read, {0}, 6), ElementsAre(1, 1, 0.5, 0.5, 10, 10));
  EXPECT_THAT(steps_of(read, {1}, 2), ElementsAre(7, 7));
}

TEST_F(DelayTrace, NamesTheLineThatIsWrong) {
  testing::expect_refused({
      {"backwards", reading("0,0,1\n5,1,1\n4.5,0,2\n"),
       "t.csv: line 3: expected a time no earlier than 5, found '4.5'"},
      {"an unknown worker", reading("0,0,1\n0,2,1\n"),
       "t.csv: line 2: expected a worker from 0 to 1, found '2'"},
      {"no worker", reading("0,zero,1\n"), "expected a worker from 0 to 1, found 'zero'"},
      {"a negative duration", reading("0,0,-1\n"), "expected a duration in seconds from 0 to 1e+07"},
      {"no duration", reading("0,0,nan\n"), "found 'nan'"},
      {"no time", reading("t,0,1\n"), "expected a time in seconds"},
      {"two columns", reading("0,0\n"), "t.csv: line 1: expected t,worker,duration, found '0,0'"},
      {"a worker without a line", reading("0,0,1\n"),
       "expected a line for each of 2 workers, found none for worker 1"},
      {"an empty file", reading(""), "found none for worker 0"},
      {"no file", [] { delay_spec("trace:/nowhere/t.csv", 2); }, "/nowhere/t.csv: cannot be read"},
  });
}

TEST(ListedDelay, BeginsAnewBehindItsLastStep) {
  const auto list = std::make_shared<const std::vector<double>>(std::vector{1.0, 2.0, 3.0});
  listed_delay from_front(list, 0);
  listed_delay from_second(list, 1);
  std::vector<double> one, other;
  for (std::uint64_t step = 1; step <= 5; ++step) {
    one.push_back(from_front.seconds(step, 0));
    other.push_back(from_second.seconds(step, 0));
  }
  EXPECT_THAT(one, ElementsAre(1, 2, 3, 1, 2));
  EXPECT_THAT(other, ElementsAre(2, 3, 1, 2, 3));
}

TEST(SlowedDelay, TakesItsFactorOfAnotherLaw) {
  const delay_spec law("list:2,3", 2);
  slowed_delay slow(law.law_of({1}, 1), 1.5);
  EXPECT_EQ(slow.seconds(1, 0), 4.5);
  slowed_delay beyond(law.law_of({1}, 1), 1e9);
  EXPECT_EQ(beyond.seconds(1, 0), delay_law::longest);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/data/batch.hpp>
#include <mailgrad/engine/delays/delay_law.hpp>
#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>
#include <string_view>

namespace mailgrad {
namespace {

using testing::expect_refused;
using namespace ::testing;

/// The first steps of one worker, each begun when the last has ended.
std::vector<double> steps_of(const delay_spec& law, rank worker, std::size_t count, std::uint64_t seed = 1) {
  const std::unique_ptr<delay_law> times = law.law_of(worker, seed);
  std::vector<double> all;
  double now = 0;
  for (std::uint64_t step = 1; step <= count; ++step) {
    all.push_back(times->seconds(step, now));
    now += all.back();
  }
  return all;
}
std::vector<double> steps_of(std::string_view law, std::size_t count, std::uint64_t seed = 1) {
  return steps_of(delay_spec(law, 1), {0}, count, seed);
}

double mean_of(const std::vector<double>& all) {
  double sum = 0;
  for (const double x : all) sum += x;
  return sum / static_cast<double>(all.size());
}

/// The standard deviation by the mean.
double variation_of(const std::vector<double>& all) {
  const double mean = mean_of(all);
  double squares = 0;
  for (const double x : all) squares += (x - mean) * (x - mean);
  return std::sqrt(squares / static_cast<double>(all.size())) / mean;
}

double quantile_of(std::vector<double> all, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(all.size()));
  std::ranges::nth_element(all, all.begin() + at);
  return all[static_cast<std::size_t>(at)];
}

/// The texts that a user sees in --help have the defaults.
TEST(DelaySpec, ReadsEveryFormThatIsListed) {
  for (const delay_form& form : delay_forms()) {
    const std::string text(form.text);
    if (text == "constant:T" || text == "trace:FILE") continue;
    const std::string name = text.substr(0, text.find(':'));
    const std::vector<double> written = steps_of(delay_spec(text, 3), {2}, 20);
    if (name == "list" || name == "by-class") continue;
    EXPECT_EQ(written, steps_of(delay_spec(name, 3), {2}, 20)) << text;
  }
  EXPECT_EQ(steps_of(delay_spec("exp:mean=3*i", 4), {1}, 5), steps_of(delay_spec("exp:mean=6", 4), {1}, 5));
}

TEST(DelaySpec, SaysWhatWouldBeRight) {
  const auto of = [](const std::string& text) { return [text] { delay_spec(text, 2); }; };
  expect_refused({
      {"an unknown law", of("expo"), "delays 'expo' are unknown; did you mean 'exp'?"},
      {"no law", of(""), "are unknown; "},
      {"an unknown setting", of("gamma:vc=1"),
       "delays 'gamma:vc=1': there is no setting 'vc'; did you mean 'cv'?"},
      {"a negative cv", of("gamma:cv=-1"), "delays 'gamma:cv=-1': cv must be at least 1e-06"},
      {"no number", of("pareto:alpha=heavy"), "alpha must be at least 0, not 'heavy'"},
      {"no tail", of("pareto:alpha=0"), "alpha must be above 0"},
      {"a mean of nothing", of("exp:mean=0"),
       "delays 'exp:mean=0': mean must be above 0 seconds and at most 1e+06, found 0 for worker 0"},
      {"a mean that falls", of("exp:mean=2-i"), "found 0 for worker 1"},
      {"an endless mean", of("exp:mean=1/(2-i)"), "found inf for worker 1"},
      {"no formula", of("exp:mean=j"), "delays 'exp:mean=j': 'j' is no formula of i"},
      {"no probability", of("slowdown:p=1.5"), "p is a probability, from 0 to 1, not 1.5"},
      {"an outage without end", of("outages:every=10,lasts=10"),
       "an outage lasts at most 99.9 % of every=10 seconds, not 10 seconds"},
      {"a constant of nothing", of("constant"), "write it as constant:2 or constant:sqrt(i)"},
      {"a list for others", of("list:1,2,3"), "expected a number for each of 2 workers, found 3"},
      {"a list with a word", of("list:1,two"), "'two' is no number of seconds above 0"},
      {"a trace of nothing", of("trace"), "write it as trace:FILE"},
      {"an unknown worker", [] { delay_spec("exp", 2).law_of({2}, 1); }, "there is no worker 2 of 2"},
  });
}

TEST(WorkerFormula, CountsWorkersFromOneAndBindsAsArithmeticDoes) {
  struct row {
    const char* text;
    std::uint32_t worker, workers;
    double value;
  };
  for (const row& r : {row{"i", 0, 8, 1}, row{"sqrt(i)", 3, 8, 2}, row{"i^2", 3, 8, 16},
                       row{"1+4*i", 2, 8, 13}, row{"n-i", 2, 8, 5}, row{"2+3*4^2/6-1", 0, 1, 9},
                       row{"8-3-2", 0, 1, 3}, row{"-2^2", 0, 1, -4}, row{"2^3^2", 0, 1, 512},
                       row{"2*-3", 0, 1, -6}, row{"1+sqrt(i-1)", 9, 10, 4}, row{"(1+.5)*1e-3", 0, 1, 0.0015}})
    EXPECT_DOUBLE_EQ(worker_formula(r.text).of(r.worker, r.workers), r.value) << r.text;
  EXPECT_TRUE(std::isinf(worker_formula("1/(i-1)").of(0, 1))) << "its user judges what is no number";
  EXPECT_TRUE(std::isnan(worker_formula("sqrt(i-2)").of(0, 1)));
}

TEST(WorkerFormula, RefusesOtherTexts) {
  const auto of = [](const std::string& text) { return [text] { worker_formula{text}; }; };
  expect_refused({
      {"nothing", of(""), "expected a number, i, n, sqrt() or '(', found its end"},
      {"a name", of("2*x"), "'2*x' is no formula of i, as sqrt(i) or 1+4*i are: expected a number"},
      {"infinity", of("inf"), "expected an operator, found 'n'"},
      {"no number", of("nan"), "expected an operator, found 'a'"},
      {"an open parenthesis", of("(1+i"), "expected ')', found its end"},
      {"a second number", of("1 2"), "expected an operator, found ' '"},
      {"a sign alone", of("i-"), "found its end"},
      {"great depth", of(std::string(100'000, '(')), "expected less depth"},
      {"many signs", of(std::string(100'000, '-')), "expected less depth"},
  });
}

constexpr std::size_t many = 200'000;

TEST(DrawnDelay, IsConstantOrListed) {
  EXPECT_THAT(steps_of("constant:2.5", 3), ElementsAre(2.5, 2.5, 2.5));
  EXPECT_THAT(steps_of(delay_spec("constant:i^2", 4), {3}, 2), ElementsAre(16, 16));
  const delay_spec listed("list:1,1,4", 3);
  EXPECT_THAT(steps_of(listed, {2}, 2), ElementsAre(4, 4));
  EXPECT_THAT(steps_of(listed, {0}, 1), ElementsAre(1));
}

TEST(DrawnDelay, HasTheMomentsOfAnExponential) {
  std::vector<double> all = steps_of("exp:mean=2", many);
  EXPECT_NEAR(mean_of(all), 2, 0.02);
  EXPECT_NEAR(variation_of(all), 1, 0.02);
  EXPECT_NEAR(quantile_of(all, 0.5), 2 * std::numbers::ln2, 0.02);
  EXPECT_NEAR(quantile_of(all, 0.99), 2 * std::log(100), 0.15);
  all = steps_of("shifted-exp:shift=3,mean=0.5", many);
  EXPECT_NEAR(mean_of(all), 3.5, 0.01);
  EXPECT_GE(quantile_of(all, 0), 3);
  EXPECT_NEAR(quantile_of(all, 0.5), 3 + 0.5 * std::numbers::ln2, 0.01);
}

/// Its variance is infinite, so its quantiles are compared.
TEST(DrawnDelay, HasTheQuantilesOfAPareto) {
  const std::vector<double> all = steps_of("pareto:alpha=1.5,least=2", many);
  EXPECT_GE(quantile_of(all, 0), 2);
  EXPECT_NEAR(quantile_of(all, 0.5), 2 * std::pow(2, 1 / 1.5), 0.03);
  EXPECT_NEAR(quantile_of(all, 0.99), 2 * std::pow(100, 1 / 1.5), 2);
}

TEST(DrawnDelay, HasTheMomentsOfAGamma) {
  for (const double cv : {0.1, 0.6, 2.0}) {
    const std::vector<double> all = steps_of("gamma:mean=3,cv=" + std::to_string(cv), many);
    EXPECT_NEAR(mean_of(all), 3, 0.02 * std::max(cv, 0.2) * 3) << cv;
    EXPECT_NEAR(variation_of(all), cv, 0.03 * cv) << cv;
  }
}

/// CVB of Ali et al., 2000: a machine draws its mean once.
TEST(DrawnDelay, DrawsTheMeanOfAMachineOnce) {
  constexpr std::uint32_t machines = 4000;
  const delay_spec law("gamma:cv=0.1,machines=0.6", machines);
  std::vector<double> means;
  std::vector<double> all;
  for (std::uint32_t r = 0; r < machines; ++r) {
    const std::vector<double> steps = steps_of(law, {r}, 50);
    means.push_back(mean_of(steps));
    all.insert(all.end(), steps.begin(), steps.end());
    EXPECT_LT(variation_of(steps), 0.2);
  }
  EXPECT_NEAR(mean_of(means), 1, 0.04);
  EXPECT_NEAR(variation_of(means), 0.6, 0.03);
  EXPECT_NEAR(variation_of(all), std::sqrt(1.36 * 1.01 - 1), 0.03);
}

TEST(DrawnDelay, HasTheMomentsOfALognormal) {
  const std::vector<double> all = steps_of("lognormal:sigma=0.5,mean=2", many);
  EXPECT_NEAR(mean_of(all), 2, 0.02);
  EXPECT_NEAR(quantile_of(all, 0.5), 2 * std::exp(-0.125), 0.02);
  EXPECT_NEAR(variation_of(all), std::sqrt(std::exp(0.25) - 1), 0.02);
}

/// Source  the times of the Ringmaster paper's script: 1 + sqrt(i) + |N(0, sqrt(i + 1))|, with i from 0.
TEST(DrawnDelay, HasTheMomentsOfAHalfNormal) {
  const delay_spec law("half-normal:base=1+sqrt(i-1),sigma=sqrt(i)", 10);
  const std::vector<double> all = steps_of(law, {9}, many);
  const double sigma = std::sqrt(10.0);
  EXPECT_GE(quantile_of(all, 0), 4);
  EXPECT_NEAR(mean_of(all), 4 + sigma * std::sqrt(2 / std::numbers::pi), 0.02);
  EXPECT_NEAR(quantile_of(all, 0.5), 4 + sigma * 0.67449, 0.03);
}

TEST(DrawnDelay, SlowsSomeStepsDown) {
  const std::vector<double> all = steps_of("slowdown:p=0.05,factor=10,time=2", many);
  EXPECT_NEAR(mean_of(all), 2 * (0.95 + 0.5), 0.05);
  EXPECT_THAT(all, Each(AnyOf(2.0, 20.0)));
  EXPECT_EQ(quantile_of(steps_of("pareto:alpha=0.01", 1000), 0.999), delay_law::longest)
      << "a tail may be too heavy for any clock";
}

TEST(DrawnDelay, DependsOnSeedWorkerAndStepAlone) {
  const delay_spec law("exp", 3);
  const std::vector<double> of_1 = steps_of(law, {1}, 4);
  EXPECT_EQ(of_1, steps_of(law, {1}, 4));
  EXPECT_NE(of_1, steps_of(law, {2}, 4));
  EXPECT_NE(of_1, steps_of(law, {1}, 4, 2));
  EXPECT_EQ(law.law_of({1}, 1)->seconds(4, 0), of_1[3]) << "without the steps before";
  EXPECT_NEAR(steps_of("exp", 1)[0], 0.668074373098, 1e-11) << "by any compiler";
  EXPECT_NEAR(steps_of(law, {2}, 7)[6], 0.143776811302, 1e-11);
  EXPECT_NEAR(steps_of("half-normal", 1)[0], 1.751355154163, 1e-11);
}

TEST(MarkovDelay, IsSlowForItsShareOfTheStepsAndForSomeAtATime) {
  constexpr std::size_t steps = 100'000;
  const std::vector<double> all = steps_of("markov:to-slow=0.05,to-fast=0.2,factor=10,time=2", steps);
  const auto slow = static_cast<double>(std::ranges::count(all, 20.0));
  EXPECT_NEAR(slow / steps, 0.05 / 0.25, 0.01);
  EXPECT_EQ(std::ranges::count(all, 2.0) + std::ranges::count(all, 20.0), std::ssize(all));
  std::size_t spells = 0;
  for (std::size_t i = 1; i < all.size(); ++i) spells += all[i] > 2 && all[i - 1] == 2;
  EXPECT_NEAR(slow / static_cast<double>(spells), 5, 0.3) << "1 / to-fast steps";
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
  expect_refused({
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
  expect_refused({
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
  const auto from = [&](std::size_t first) {
    listed_delay listed(list, first);
    std::vector<double> all;
    for (std::uint64_t step = 1; step <= 5; ++step) all.push_back(listed.seconds(step, 0));
    return all;
  };
  EXPECT_THAT(from(0), ElementsAre(1, 2, 3, 1, 2));
  EXPECT_THAT(from(1), ElementsAre(2, 3, 1, 2, 3));
}

TEST(SlowedDelay, TakesItsFactorOfAnotherLaw) {
  const delay_spec law("list:2,3", 2);
  EXPECT_EQ(slowed_delay(law.law_of({1}, 1), 1.5).seconds(1, 0), 4.5);
  EXPECT_EQ(slowed_delay(law.law_of({1}, 1), 1e9).seconds(1, 0), delay_law::longest);
}

} // namespace
} // namespace mailgrad

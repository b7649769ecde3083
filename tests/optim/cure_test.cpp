#include <mailgrad/tests/optim/simulated_workers.hpp>

#include <mailgrad/optim/cures/cure_spec.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

double factor(const std::string& text, std::uint64_t gap, std::uint32_t workers = 8) {
  return make_cure(text, {workers})->factor(gap);
}

TEST(StepScale, FollowsThePapersFormulas) {
  EXPECT_DOUBLE_EQ(factor("inverse", 0), 1);
  EXPECT_DOUBLE_EQ(factor("inverse", 1), 1);
  EXPECT_DOUBLE_EQ(factor("inverse", 4), 0.25);
  EXPECT_DOUBLE_EQ(factor("dynsgd", 4), 0.2);
  EXPECT_DOUBLE_EQ(factor("polynomial", 3), 0.5);
  EXPECT_DOUBLE_EQ(factor("polynomial:1", 3), 0.25);
  EXPECT_DOUBLE_EQ(factor("hinge", 4), 1);
  EXPECT_NEAR(factor("hinge:10,4", 5), 0.0909, 1e-4);
  EXPECT_NEAR(factor("hinge", 14), 0.0099, 1e-4);
  EXPECT_DOUBLE_EQ(factor("mishchenko", 8), 1);
  EXPECT_DOUBLE_EQ(factor("mishchenko", 16), 0.5);
  EXPECT_DOUBLE_EQ(factor("koloskova", 8), 1);
  EXPECT_DOUBLE_EQ(factor("koloskova", 10), 0.1);
  EXPECT_DOUBLE_EQ(factor("rescaled", 7), 1);
  EXPECT_DOUBLE_EQ(factor("rescaled", 1), 0.25);
  EXPECT_DOUBLE_EQ(factor("rescaled", 15), 2);
}

TEST(StepScale, LeavesAFreshGradientAlone) {
  for (const cure_form& form : cure_forms()) {
    const std::string name(form.text.substr(0, form.text.find(':')));
    if (name != "rescaled") { // it is short for fresh ones, and long for those of slow workers
      EXPECT_EQ(factor(name, 0), 1) << name;
    }
    EXPECT_EQ(make_cure(name, {4})->has_factor(), factor(name, 9, 1) != 1) << name;
    EXPECT_EQ(make_cure(name, {4})->name(), name);
  }
  EXPECT_EQ(make_cure("none", {4}), nullptr);
}

// With memoryless workers staleness is geometric, and the mean factor has a closed form.
TEST(StepScale, HasTheMeanThatMemorylessWorkersGiveIt) {
  for (const std::uint32_t workers : {4U, 8U, 16U}) {
    const auto p = make_policy("async", workers);
    testing::simulated_workers s(*p, workers, testing::exponential());
    s.run(200'000);
    const auto mean = [&](const std::string& text) {
      const auto cure = make_cure(text, {workers});
      double sum = 0;
      for (std::size_t i = 0; i < s.versions_applied.size(); ++i)
        sum += cure->factor(i - s.versions_applied[i]);
      return sum / static_cast<double>(s.versions_applied.size());
    };
    const double m = workers;
    EXPECT_NEAR(mean("dynsgd"), std::log(m) / (m - 1), 0.003);
    EXPECT_NEAR(mean("inverse"), (1 + std::log(m)) / m, 0.003);
    if (workers == 8) {
      EXPECT_NEAR(mean("polynomial:0.5"), 0.4882, 0.003);
      EXPECT_NEAR(mean("mishchenko"), 0.8747, 0.003);
    }
  }
}

/// Whether gradient descent on x^2 / 2 with a fixed delay comes to rest.
bool settles(double rate, std::uint64_t delay) {
  std::vector<double> x(delay + 1, 1.0);
  for (int t = 0; t < 20'000; ++t) x.push_back(x.back() - rate * x[x.size() - 1 - delay]);
  return std::abs(x.back()) < 1e-3;
}

// x' = x - a x(t - tau) is stable below 2 sin(pi / (2 (2 tau + 1))): a rate that fits no delay beyond 1 fits
// every delay under these cures.
TEST(StepScale, MakesOneLearningRateFitEveryDelay) {
  for (const std::uint64_t delay : {2U, 4U, 8U, 16U, 32U}) {
    const double limit = 2 * std::sin(std::numbers::pi / (2.0 * (2.0 * static_cast<double>(delay) + 1)));
    EXPECT_TRUE(settles(0.95 * limit, delay)) << "delay " << delay;
    EXPECT_FALSE(settles(1.05 * limit, delay)) << "delay " << delay;
    EXPECT_FALSE(settles(0.95, delay)) << "no cure, delay " << delay;
    EXPECT_TRUE(settles(0.95 * factor("inverse", delay), delay)) << "delay " << delay;
    EXPECT_TRUE(settles(1.5 * factor("dynsgd", delay), delay)) << "delay " << delay;
  }
}

using policies = std::vector<std::string_view>;

/// Four workers under these policies.
cure_setting under(const policies& names) {
  cure_setting setting{{}, 4};
  for (const std::string_view name : names) setting.policies.emplace_back(name, setting.workers);
  return setting;
}

std::string refusal(const std::string& text, const cure_setting& setting = under({"async"})) {
  try {
    cure_spec(text, setting.workers).require_fits(setting);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "taken";
}

TEST(Cure, SaysWhatWouldBeRight) {
  EXPECT_THAT(refusal("invers"), HasSubstr("did you mean 'inverse'"));
  EXPECT_THAT(refusal("polynomial:x"), HasSubstr("write it as polynomial:A"));
  EXPECT_THAT(refusal("polynomial:-1"), HasSubstr("from 0 on"));
  EXPECT_THAT(refusal("hinge:1"), HasSubstr("hinge:A,B"));
  EXPECT_THAT(refusal("hinge:1,2,3"), HasSubstr("hinge:A,B"));
  EXPECT_THAT(refusal("inverse:2"), HasSubstr("write it as inverse"));
  EXPECT_EQ(refusal("hinge:1,2"), "taken");
}

TEST(Cure, IsRefusedWhereItCanDoNothing) {
  EXPECT_THAT(refusal("inverse", under({"sync"})), HasSubstr("nothing to cure"));
  EXPECT_THAT(refusal("inverse", under({"sync", "rennala:4", "backup:1"})), HasSubstr("nothing to cure"));
  EXPECT_THAT(refusal("inverse", under({"ringmaster:1", "k-async:4"})), HasSubstr("nothing to cure"));
  EXPECT_THAT(refusal("rescaled", under({"malenia:4"})), HasSubstr("nothing to cure"));
  for (const char* cure : {"inverse", "rescaled", "fedbuff", "dc-asgd", "easgd"})
    EXPECT_THAT(refusal(cure, under({"async", "ringleader"})),
                HasSubstr("under ringleader a gradient is part of several updates"));
  EXPECT_THAT(refusal("inverse", under({"hogwild"})), HasSubstr("no shard sees a gradient"));
  EXPECT_EQ(refusal("inverse", under({"sync", "async"})), "taken");
  EXPECT_EQ(refusal("none", under({"sync"})), "taken");
}

TEST(Cure, IsRefusedWhereItsPaperDefinesNothing) {
  const auto with = [](const char* optimizer, const policies& names = {"async"}, std::uint64_t local = 0,
                       double rate = 1) {
    cure_setting s = under(names);
    s.optimizer = parse_optimizer(optimizer);
    s.local_steps = local;
    s.optimizer.learning_rate = rate;
    return s;
  };
  EXPECT_EQ(refusal("dana-zero", with("sgd")), "taken");
  EXPECT_EQ(refusal("dana-slim:0.5", with("sgd", {"ssp:2", "async"})), "taken");
  EXPECT_THAT(refusal("dana-zero", with("momentum")), HasSubstr("take --optimizer sgd, not momentum"));
  EXPECT_THAT(refusal("dana-dc", with("sgd", {"async", "sync"})),
              HasSubstr("under sync an update is no single"));
  EXPECT_THAT(refusal("dana-zero:1", with("sgd")), HasSubstr("below 1"));
  EXPECT_EQ(refusal("easgd", with("sgd", {"async"}, 4)), "taken");
  EXPECT_THAT(refusal("easgd", with("sgd")), HasSubstr("as --local-steps 4"));
  EXPECT_THAT(refusal("easgd", with("sgd", {"async"}, 4, 0.1)),
              HasSubstr("take --outer-optimizer sgd --outer-lr 1"));
  EXPECT_THAT(refusal("dana-zero", with("momentum", {"async"}, 4)),
              HasSubstr("take --outer-optimizer sgd, not momentum"));
  EXPECT_THAT(refusal("easgd", with("sgd", {"k-async:2"}, 4)), HasSubstr("take async or sync"));
  EXPECT_THAT(refusal("easgd", with("sgd", {"async", "ringmaster:2"}, 4)),
              HasSubstr("not define it under ring"));
  EXPECT_EQ(refusal("easgd", with("sgd", {"sync"}, 4)), "taken");
  EXPECT_EQ(refusal("easgd", with("sgd", {"async", "sync"}, 4)), "taken");
  EXPECT_EQ(refusal("gap-aware", with("nesterov")), "taken");
  EXPECT_THAT(refusal("gap-aware", with("adam")), HasSubstr("not of adam"));
  EXPECT_THAT(refusal("gap-aware", with("sgd", {"k-async:2"})), HasSubstr("no single gradient"));
  EXPECT_THAT(refusal("momentum-compensation", with("momentum", {"sync", "async"})),
              HasSubstr("nothing would bring it back"));
  EXPECT_EQ(refusal("momentum-compensation", with("momentum")), "taken");
  EXPECT_THAT(refusal("momentum-compensation", with("adam")), HasSubstr("not adam"));
}

TEST(Cure, OfOuterStepsIsRefusedWhereThereAreNone) {
  const auto with = [](const char* optimizer, const policies& names = {"async"}, std::uint64_t local = 4) {
    cure_setting s = under(names);
    s.optimizer = parse_optimizer(optimizer);
    s.local_steps = local;
    return s;
  };
  for (const char* cure : {"mla", "heloco"}) {
    for (const char* outer : {"nesterov", "momentum"}) EXPECT_EQ(refusal(cure, with(outer)), "taken");
    EXPECT_EQ(refusal(cure, with("nesterov", {"k-batch-async:2"})), "taken");
    EXPECT_THAT(refusal(cure, with("nesterov", {"async"}, 0)), HasSubstr("as --local-steps 4"));
    EXPECT_THAT(refusal(cure, with("adam")), HasSubstr("take --outer-optimizer nesterov or momentum, not"));
    EXPECT_THAT(refusal(cure, with("nesterov", {"sync"})), HasSubstr("nothing to cure"));
  }
  EXPECT_THAT(refusal("mla", with("nesterov", {"async", "sync"})),
              HasSubstr("under sync workers would begin ahead of weights that nobody moves meanwhile"));
  for (const char* outer : {"adam", "adamw"}) EXPECT_EQ(refusal("cgad", with(outer)), "taken");
  EXPECT_THAT(refusal("cgad", with("adam", {"async"}, 0)), HasSubstr("as --local-steps 4"));
  EXPECT_THAT(refusal("cgad:0.1,1", with("adam")), HasSubstr("every stale difference would be dropped"));
  EXPECT_EQ(refusal("cgad:0.1,2", with("adam")), "taken");
  EXPECT_THAT(refusal("cgad", with("nesterov")), HasSubstr("adam or adamw, not nesterov"));
  EXPECT_THAT(refusal("cgad", with("adam", {"sync"})), HasSubstr("nothing to cure"));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <gmock/gmock.h>

#include <functional>
#include <memory>

namespace mailgrad {
namespace {

using testing::expect_refused;
using ::testing::SizeIs;
using testing::small_data;
using change = std::function<void(training_options&)>;

training_options with(const change& c) {
  training_options o;
  o.devices.assign(2, {device_kind::cpu, 0});
  o.batch = 8;
  c(o);
  return o;
}

std::vector<scheduled_policy> checked(const training_options& o) {
  return checked_policies(o, cure_spec(o.cure, workers_of(o)));
}

std::function<void()> checking(const change& c) {
  return [c] { checked(with(c)); };
}

TEST(CheckedOptions, GiveThePoliciesInTheirOrder) {
  const auto policies = checked(with([](auto& o) { o.policy = "async, ssp:2@5, sync@9"; }));
  ASSERT_THAT(policies, SizeIs(3));
  EXPECT_EQ(policies[1].policy.text(), "ssp:2");
  EXPECT_EQ(policies[1].from_step, 5U);
}

TEST(CheckedOptions, RefuseOptionsThatContradictEachOther) {
  expect_refused({
      {"local steps in a block", checking([](auto& o) {
         o.policy = "hogwild";
         o.local_steps = 2;
       }),
       "under hogwild workers write into one block at every step"},
      {"samples of differences", checking([](auto& o) {
         o.local_steps = 2;
         o.sample_gap = 5;
       }),
       "leave one of both out"},
      {"samples in a block", checking([](auto& o) {
         o.policy = "hogwild";
         o.sample_gap = 5;
       }),
       "under hogwild no version stays"},
      {"samples at predicted weights", checking([](auto& o) {
         o.cure = "dana-zero:0.9";
         o.optimizer = parse_optimizer("sgd");
         o.sample_gap = 5;
       }),
       "dana-zero"},
      {"a replay that records", checking([](auto& o) {
         o.record = "file";
         o.replay = std::make_shared<recording>();
       }),
       "makes none of its own"},
      {"no shards", checking([](auto& o) { o.shards = 0; }), "shards: 0"},
  });
}

TEST(CheckedOptions, RefuseWhatAUsersParameterActorCannotDo) {
  const auto with_own = [](bool switches, const change& c) {
    return checking([=](training_options& o) {
      o.parameter_actor = std::make_shared<parameter_actor_kind>("mine", switches);
      c(o);
    });
  };
  EXPECT_NO_THROW(with_own(false, [](auto&) {})());
  EXPECT_NO_THROW(with_own(true, [](auto& o) { o.policy = "async, sync@3"; })());
  expect_refused({
      {"a switch", with_own(false, [](auto& o) { o.policy = "async, sync@3"; }),
       "parameter actor 'mine' switches no policy"},
      {"the rule that switches", with_own(false, [](auto& o) { o.policy = "auto"; }), "switches no policy"},
      {"hogwild", with_own(true, [](auto& o) { o.policy = "hogwild"; }), "hogwild has no parameter actors"},
      {"a cure that draws",
       with_own(true,
                [](auto& o) {
                  o.cure = "easgd:0.1";
                  o.local_steps = 2;
                }),
       "would be drawn to what parameter actor 'mine' knows nothing of"},
      {"a recording", with_own(true, [](auto& o) { o.record = "file"; }), "does not tell the order"},
  });
}

TEST(CheckedOptions, RequireDataThatTheRunCanUse) {
  const auto required = [](const change& c, const data_split& data) {
    return [=] {
      const training_options o = with(c);
      require_data_for(o, checked(o), data);
    };
  };
  const data_split data = *small_data();
  const std::uint64_t batches = data.train.size() / 8;
  const auto switch_at = [](std::uint64_t step) {
    return [step](training_options& o) { o.policy = "async, sync@" + std::to_string(step); };
  };
  EXPECT_NO_THROW(required(switch_at(batches - 1), data)());
  expect_refused({
      {"a switch after the end", required(switch_at(batches), data), "before the switch at step"},
      {"no sample", required([](auto&) {}, data_split{}), "holds no sample"},
      {"a batch of more", required([](auto& o) { o.batch = 1000; }, data), "batch: 1000 samples"},
      {"no samples at a time", required([](auto& o) { o.batch = 0; }, data), "batch: 0"},
      {"nothing", required([](auto& o) { o.epochs = 0; }, data), "nothing to do"},
  });
}

TEST(CheckedOptions, LetARunSwitchOnlyToWhatItsCureAllows) {
  const training_options o = with([](auto& x) { x.cure = "dana-zero:0.9"; });
  const cure_spec cure("dana-zero:0.9", 2);
  EXPECT_NO_THROW(require_switch(o, checked(o), cure, "ssp:4"));
  expect_refused({
      {"no such policy", [&] { require_switch(o, checked(o), cure, "asink"); }, "asink"},
      {"one of batches", [&] { require_switch(o, checked(o), cure, "sync"); }, "dana-zero:0.9"},
  });
}

TEST(CheckedOptions, RequireDenseGradientsForLocalStepsAndCompensation) {
  const parameter_layout table = testing::layout_of({{"t", {8, 2}, true}, {"w", {4}}}, 1);
  const auto needs = [&](const std::string& cure, std::uint64_t local_steps) {
    return [&table, cure, local_steps] {
      training_options o;
      o.cure = cure;
      o.local_steps = local_steps;
      require_dense_if_needed(o, cure_spec(cure, 1), table);
    };
  };
  EXPECT_NO_THROW(needs("none", 0)());
  EXPECT_NO_THROW(needs("inverse", 0)());
  expect_refused({
      {"local steps", needs("none", 2), "local steps: the gradient of table 't' comes in rows"},
      {"a cure", needs("dc-asgd:1", 0), "cure 'dc-asgd:1': the gradient of table 't'"},
  });
}

TEST(CheckedOptions, DealWithoutEndIfStepsAreGiven) {
  const training_options o = with([](auto& x) {
    x.steps = 1000;
    x.epochs = 2;
  });
  EXPECT_EQ(dealer(deal_of(o, *small_data(), {"async", 2})).batches(), 1000U);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/actors/runs/card_orders.hpp>
#include <mailgrad/tests/actors/runs/ordered_policies.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/actors/runs/spoiling_runner.hpp>
#include <mailgrad/tests/support/test_name.hpp>
#include <mailgrad/tests/support/words_of_forms.hpp>

#include <mailgrad/optim/cures/cure_spec.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

// Whole runs whose workers compute on lanes of the simulated card, which runs what is queued as late as it
// may, or in drawn orders. No call may wait for it. Messages arrive and marks are asked for in drawn orders.

namespace mailgrad {
namespace {

using messaging::send_anonymously;
using ::testing::AnyOf;
using testing::asked_watch;
using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using ::testing::HasSubstr;
using testing::on_card;
using testing::orders_on_card;

constexpr std::uint64_t orders = 16; // scripts/endurance tries 2,500

struct card_case {
  const char* policy;
  std::uint64_t local_steps = 0;
  std::uint64_t sample_gap = 0;
  const char* cure = "none";
  bool weights_there = false; ///< on the card
  double clip_norm = 0;
  std::uint64_t run_ahead = most_run_ahead;
  bool mixed = false; ///< shards at several places, and a worker on a core
};

std::string name_of(const ::testing::TestParamInfo<card_case>& info) {
  return testing::test_name(
      std::string(info.param.policy) + (info.param.local_steps > 0 ? " local" : "") +
      (info.param.sample_gap > 0 ? " sampled" : "") +
      (std::string_view(info.param.cure) == "none" ? "" : info.param.cure) +
      (info.param.clip_norm > 0 ? " clipped" : "") + (info.param.weights_there ? " with weights there" : "") +
      (info.param.run_ahead == 0 ? " not ahead" : "") + (info.param.mixed ? " mixed" : ""));
}

assembly assembly_of(const card_case& c) {
  assembly a;
  a.policy = c.policy;
  a.local_steps = c.local_steps;
  a.sample_gap = c.sample_gap;
  a.cure = c.cure;
  a.clip_norm = c.clip_norm;
  a.run_ahead = c.run_ahead;
  if (c.mixed) a.shards = 3;
  if (c.local_steps > 0 || a.cure != "none") a.optimizer = "sgd";
  if (a.cure == "momentum-compensation") a.optimizer = "momentum";
  if (a.cure == "cgad") a.outer_optimizer = "adam";
  if (a.cure == "mla" || a.cure == "heloco") a.outer_optimizer = "nesterov";
  return a;
}

/// The run on the card, with or without its weights.
assembly placed(const card_case& c, assembly a, const std::shared_ptr<const data_split>& data,
                const std::shared_ptr<mark_watch>& watch = std::make_shared<testing::prompt_watch>()) {
  if (!c.weights_there) return on_card(std::move(a), data, watch);
  a.parameters = {{device_kind::cuda, 0}};
  a.watch = watch;
  if (!c.mixed) return a;
  a.parameters = {{device_kind::cuda, 0}, {}, {device_kind::cuda, 1}};
  a.devices = {{device_kind::cuda, 0}, {}, {device_kind::cuda, 1}};
  return a;
}

class CardSteps : public testing::CardRun, public ::testing::WithParamInterface<card_case> {};

TEST_P(CardSteps, EndOnceWithABalancedLedgerAndEveryBatchTrained) {
  const auto make = [&](const auto& watch) {
    return placed(GetParam(), assembly_of(GetParam()), data_, watch);
  };
  in_every_order(orders, make, [](const assembled_run& run) {
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    EXPECT_EQ(std::ranges::count(run.outcome().lost, true), 0)
        << "a worker has failed, and others did its work";
    testing::expect_balanced(run);
    EXPECT_EQ(report_of(run.outcome(), run.written()).samples, 48U);
  });
}

TEST_P(CardSteps, EndWhenTheyLikeAfterTheRunWasStopped) {
  for (drawn_order& order : drawn_orders(orders_on_card(orders))) {
    set_up();
    const auto watch = std::make_shared<asked_watch>();
    {
      const assembled_run run = assemble(placed(GetParam(), assembly_of(GetParam()), data_, watch));
      play(order, *watch, order.below(150));
      for (const caf::actor& device : run.devices) send_anonymously(device, give_up{});
      deliver(order);
      // The report waits for weights that come from the card, but nobody waits for a step that nobody wants.
      while (GetParam().weights_there && run.times_ended() == 0 && watch->watched() > 0) {
        watch->ask();
        deliver(order);
      }
      ASSERT_EQ(run.times_ended(), 1U);
      while (watch->watched() > 0) watch->ask();
      system_.run();
      testing::expect_balanced(run);
    }
    system_.run();
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryWayOfAGradient, CardSteps,
    ::testing::Values(
        card_case{"async"}, card_case{"sync"}, card_case{"hogwild"}, card_case{"ssp:1"},
        card_case{"backup:1"}, card_case{"async, hogwild@4, sync@8"}, card_case{"async", 2},
        card_case{"async", 0, 2}, card_case{"async", 0, 0, "dana-zero"},
        card_case{"async", 0, 0, "none", true, 0.5}, card_case{"async", 0, 0, "none", true},
        card_case{"async", 0, 0, "none", true, 0, 0}, card_case{"sync", 0, 0, "none", true},
        card_case{"sync", 0, 0, "none", true, 0, 0}, card_case{"ssp:1", 0, 0, "dc-asgd-a", true},
        card_case{"backup:1", 0, 0, "none", true}, card_case{"k-async:2", 0, 0, "none", true},
        card_case{"async, sync@4, ssp:2@8", 0, 0, "none", true}, card_case{"async", 0, 0, "dana-zero", true},
        card_case{"async", 2, 0, "none", true}, card_case{"async", 2, 0, "none", true, 0, 0},
        card_case{"async", 2, 0, "none", true, 0.5}, card_case{"sync", 3, 0, "none", true},
        card_case{"async", 0, 2, "none", true}, card_case{"async, sync@4", 0, 1, "none", true},
        card_case{"async", 2, 0, "easgd", true}, card_case{"async, ssp:2@8", 2, 0, "none", true},
        card_case{"async, sync@8", 2, 0, "easgd", true}, card_case{"async", 0, 0, "none", true, 0, 1, true},
        card_case{"sync", 0, 0, "none", true, 0.5, 1, true},
        card_case{"async", 0, 2, "none", true, 0, 1, true},
        card_case{"async", 0, 0, "dana-zero", true, 0, 1, true},
        card_case{"async, sync@8", 2, 0, "easgd", true, 0, 1, true}),
    name_of);

#ifndef __SANITIZE_THREAD__ // whose reports of that race would be right
INSTANTIATE_TEST_SUITE_P(OfHogwildsRace, CardSteps,
                         ::testing::Values(card_case{"hogwild", 0, 0, "none", true},
                                           card_case{"hogwild", 0, 0, "none", true, 0.5},
                                           card_case{"async, hogwild@4, sync@8", 0, 0, "none", true},
                                           card_case{"hogwild, async@6", 0, 0, "none", true}),
                         name_of);
#endif

/// A run on processors is recorded, and repeated on the card.
class RecordedOnProcessors : public CardSteps {};

TEST_P(RecordedOnProcessors, HasTheSameStalenessOnTheCard) {
  for (const drawn_order& order : drawn_orders(orders_on_card((orders + 3) / 4))) {
    assembly a = assembly_of(GetParam());
    const auto was = finish(a, order.seed());
    ASSERT_TRUE(was);
    a.replayed = std::make_shared<const recording>(was->order);
    const auto is = finish(placed(GetParam(), a, data_), order.seed() + 1);
    ASSERT_TRUE(is);
    EXPECT_EQ(was->report.ledger, is->report.ledger);
    EXPECT_EQ(was->report.samples, is->report.samples);
    EXPECT_EQ(was->report.weight_gap.count(), is->report.weight_gap.count());
    EXPECT_NEAR(was->report.weight_gap.mean(), is->report.weight_gap.mean(), 1e-6);
    EXPECT_EQ(was->report.gradient_cosine.count(), is->report.gradient_cosine.count());
    EXPECT_NEAR(was->report.gradient_cosine.mean(), is->report.gradient_cosine.mean(), 1e-4);
    for (std::size_t s = 0; s < was->outcome.shards.size(); ++s)
      for (std::size_t w = 0; w < was->outcome.shards[s].workers.size(); ++w)
        EXPECT_EQ(was->outcome.shards[s].workers[w].gaps.buckets(),
                  is->outcome.shards[s].workers[w].gaps.buckets());
    ASSERT_EQ(was->weights.size(), is->weights.size());
    for (std::size_t i = 0; i < was->weights.size(); ++i)
      EXPECT_NEAR(was->weights[i], is->weights[i], 1e-5) << i;
  }
}

TEST_P(RecordedOnProcessors, OrOnTheCardIsRepeatedThereBitForBit) {
  for (const drawn_order& order : drawn_orders(orders_on_card((orders + 3) / 4))) {
    assembly a = placed(GetParam(), assembly_of(GetParam()), data_);
    const auto was = finish(a, order.seed());
    ASSERT_TRUE(was);
    a.replayed = std::make_shared<const recording>(was->order);
    const auto is = finish(a, order.seed() + 7);
    ASSERT_TRUE(is);
    expect_same(*was, *is);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, RecordedOnProcessors,
    ::testing::Values(card_case{"async"}, card_case{"sync"}, card_case{"ssp:1"}, card_case{"async", 2},
                      card_case{"async", 0, 0, "dana-zero"}, card_case{"async", 0, 0, "none", true, 0.5},
                      card_case{"async", 0, 0, "none", true}, card_case{"async", 0, 0, "none", true, 0, 0},
                      card_case{"sync", 0, 0, "none", true}, card_case{"k-async:2", 0, 0, "none", true},
                      card_case{"async", 0, 0, "gap-aware", true},
                      card_case{"async", 0, 0, "dana-slim", true}, card_case{"async", 2, 0, "none", true},
                      card_case{"async", 2, 0, "none", true, 0.5}, card_case{"async", 2, 0, "easgd", true},
                      card_case{"async", 2, 0, "easgd", true, 0, 0}, card_case{"async", 0, 2, "none", true},
                      card_case{"async", 0, 0, "none", true, 0, 1, true},
                      card_case{"ssp:1", 0, 0, "dc-asgd-a", true, 0, 1, true}),
    name_of);

std::vector<card_case> with_every_policy() {
  std::vector<card_case> all;
  for (const char* policy : testing::ordered_policies)
    for (const bool there : {false, true}) all.push_back({.policy = policy, .weights_there = there});
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, RecordedOnProcessors, ::testing::ValuesIn(with_every_policy()),
                         name_of);

std::vector<card_case> with_every_cure() {
  static const std::vector<std::string> cures = testing::words_of_forms(cure_forms());
  std::vector<card_case> all;
  for (const std::string& cure : cures)
    for (const bool there : {false, true}) {
      if (there && cure == "heloco") continue; // it looks at whole variables on the host
      const bool local = cure == "easgd" || cure == "cgad" || cure == "mla" || cure == "heloco";
      all.push_back({"async", local ? 2U : 0U, 0, cure.c_str(), there});
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryCure, RecordedOnProcessors, ::testing::ValuesIn(with_every_cure()), name_of);

class CardSync : public CardSteps {};

/// In `sync` the order makes no difference, so neither may a step that runs before the copy of its batch, nor
/// a batch that comes while the step before still reads.
TEST_F(CardSync, ComesToTheWeightsOfTheProcessorsInEveryOrder) {
  assembly a;
  a.policy = "sync";
  a.batches = 36;
  const auto expected = finish(a, 1);
  ASSERT_TRUE(expected);
  expect_weights_in_every_order(expected->weights, orders,
                                [&](const auto& watch) { return on_card(a, data_, watch); });
}

/// Nor may what a worker or a shard queues before that has run which it reads.
TEST_F(CardSync, WithWeightsThereComesToTheWeightsOfTheProcessorsInEveryOrder) {
  std::vector<card_case> cases{{"sync", 0, 0, "none", true},
                               {"sync", 3, 0, "none", true},
                               {"sync", 2, 0, "easgd", true},
                               {"sync", 0, 0, "none", true, 0, 1, true},
                               {"sync", 2, 0, "easgd", true, 0, 1, true}};
#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
  cases.push_back({"async, hogwild@8, async@16", 0, 0, "none", true}); // of one worker, which loses no update
#endif
  for (const card_case& c : cases) {
    SCOPED_TRACE(name_of(::testing::TestParamInfo<card_case>(c, 0)));
    assembly a = assembly_of(c);
    if (std::string_view(c.policy) != "sync") {
      a.workers = 1;
      a.optimizer = "sgd"; // without a state, which would tell who made how many of the updates
    }
    a.batches = 24;
    const auto expected = finish(a, 1);
    ASSERT_TRUE(expected);
    expect_weights_in_every_order(expected->weights, orders / 5,
                                  [&](const auto& watch) { return placed(c, a, data_, watch); });
  }
}

/// Only batches cross the bus in a step if the weights lie on the card. The records of steps are written by
/// kernels.
TEST_F(CardSteps, WithWeightsThereCopyNothingButTheBatch) {
  const auto copied = [&](std::uint64_t batches) {
    set_up();
    assembly a;
    a.batches = batches;
    a.shards = 1;
    EXPECT_TRUE(finish(placed({.policy = "async", .weights_there = true}, a, data_), 3));
    return simulated_card::count();
  };
  const simulated_card::counters few = copied(6), many = copied(12);
  const std::size_t labels = 4 * sizeof(std::int32_t);
  const std::size_t features = 4 * data_->train.sample_dims().size() * sizeof(float);
  const auto aligned_to_lines = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  EXPECT_EQ(many.bytes_to_card - few.bytes_to_card,
            6 * (aligned_to_lines(features) + aligned_to_lines(labels)));
  EXPECT_EQ(many.bytes_to_host, few.bytes_to_host);
  assembly one_shard;
  one_shard.shards = 1;
  const std::size_t weights = testing::plan_of(one_shard, data_).layout->size() * sizeof(float);
  EXPECT_EQ(many.bytes_on_card - few.bytes_on_card, 6 * weights);
}

/// A step that a graph runs makes no event, takes no memory, and asks the runtime for the same each time.
TEST_F(CardSteps, WithWeightsThereMakeNothingNew) {
  const auto counted = [&](std::uint64_t batches) {
    set_up();
    assembly a;
    a.workers = 1;
    a.batches = batches;
    a.shards = 1;
    EXPECT_TRUE(finish(placed({.policy = "async", .weights_there = true}, a, data_), 3));
    return simulated_card::count();
  };
  const simulated_card::counters few = counted(60), many = counted(80);
  EXPECT_EQ(many.events, few.events);
  EXPECT_EQ(many.allocations, few.allocations);
  EXPECT_EQ(many.launches - few.launches, 20U * 3) << "the step's number, its graph, the update";
  EXPECT_LE(many.calls - few.calls, 20U * 14);
}

/// The steps behind the one that fails may have begun, and their gradients may have been applied.
TEST_F(CardSteps, WithWeightsThereNameTheStepThatFails) {
  for (drawn_order& order : drawn_orders(orders_on_card(orders))) {
    set_up();
    const auto watch = std::make_shared<asked_watch>();
    {
      assembly a = placed({.policy = "async", .weights_there = true}, {}, data_, watch);
      a.workers = 1;
      a.runner = [](rank, std::shared_ptr<step_runner> own) {
        return std::make_shared<testing::spoiling_runner>(std::move(own), 4);
      };
      const assembled_run run = assemble(a);
      forbid_waits(order);
      play(order, *watch);
      set_up();
      ASSERT_EQ(run.times_ended(), 1U);
      EXPECT_EQ(run.outcome().how, run_outcome::ending::failed);
      EXPECT_THAT(run.outcome().why, HasSubstr("step 5: "));
      EXPECT_THAT(run.outcome().why, HasSubstr("label 99"));
      testing::expect_balanced(run);
    }
    system_.run();
  }
}

/// A worker alone has at most one step under way besides the one that its lane runs, and it has that one.
TEST_F(CardSteps, WithWeightsThereRunAheadByOneStep) {
  for (const std::uint64_t ahead : {0U, 1U}) {
    set_up({}, 1000); // no step ends as long as this test asks
    const auto watch = std::make_shared<asked_watch>();
    assembly a = placed({.policy = "async", .weights_there = true}, {}, data_, watch);
    a.workers = 1;
    a.run_ahead = ahead;
    {
      const assembled_run run = assemble(a);
      drawn_order order(ahead);
      for (std::size_t ended = 0; ended < 4; ++ended) {
        deliver(order);
        EXPECT_EQ(watch->watched(), 1 + ahead) << ended;
        while (watch->ask() == 0) {
        }
      }
      play(order, *watch);
    }
    system_.run();
  }
}

/// Their gradients come when they are computed, unless the options say otherwise.
TEST_F(CardSteps, WithWeightsThereDoNotRunAheadWhereThePolicyLooksAtWhatComesFirst) {
  const auto steps_under_way = [&](const char* policy, std::optional<std::uint64_t> asked) {
    set_up({}, 1000); // no step ends as long as this test asks
    const auto watch = std::make_shared<asked_watch>();
    assembly a = placed({.policy = policy, .weights_there = true}, {}, data_, watch);
    a.policy = policy;
    a.workers = 1;
    a.run_ahead = asked;
    std::size_t found = 0;
    {
      const assembled_run run = assemble(a);
      drawn_order order(1);
      deliver(order);
      found = watch->watched();
      play(order, *watch);
    }
    system_.run();
    return found;
  };
  for (const char* policy : {"async", "sync", "ssp:1", "async, sync@4"})
    EXPECT_EQ(steps_under_way(policy, {}), 2U) << policy;
  for (const char* policy :
       {"quorum:1,grace=0.5", "backup:0", "k-async:1", "k-batch-async:1", "k-batch-sync:1", "dssp:1,4",
        "auto", "ringmaster:4", "ringleader", "rennala:1", "malenia:1", "queue:1,4", "async, k-async:1@4"})
    EXPECT_EQ(steps_under_way(policy, {}), 1U) << policy;
  EXPECT_EQ(steps_under_way("k-async:1", 1), 2U) << "it was asked for";
  EXPECT_EQ(steps_under_way("async", 0), 1U);
}

class CardFaultsInRuns : public CardSteps {};

/// The card is lost at each call in turn.
TEST_P(CardFaultsInRuns, EndTheRunInOrderAtEveryCall) {
  std::size_t failed = 0;
  for (std::uint64_t n = 1; n < 400; n += 7) {
    set_up();
    const auto watch = std::make_shared<asked_watch>();
    drawn_order order(n);
    {
      const assembled_run run = assemble(placed(GetParam(), assembly_of(GetParam()), data_, watch));
      set_up({.lost_card_at = n});
      play(order, *watch);
      ASSERT_EQ(run.times_ended(), 1U) << n;
      if (run.outcome().how == run_outcome::ending::failed) {
        ++failed;
        EXPECT_THAT(run.outcome().why, AnyOf(HasSubstr("worker"), HasSubstr("shard"))) << n;
      }
      testing::expect_balanced(run);
      set_up();
    }
    system_.run();
  }
  EXPECT_GT(failed, 20U);
}

INSTANTIATE_TEST_SUITE_P(Weights, CardFaultsInRuns,
                         ::testing::Values(card_case{"async"}, card_case{"async", 0, 0, "none", true},
                                           card_case{"async", 2, 0, "none", true}),
                         name_of);

} // namespace
} // namespace mailgrad

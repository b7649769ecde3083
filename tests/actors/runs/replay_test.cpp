#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/ordered_policies.hpp>
#include <mailgrad/tests/actors/runs/recorded_runs.hpp>
#include <mailgrad/tests/actors/runs/treated_runs.hpp>

#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

// Whole runs, recorded in one order of delivery and repeated in others, under every policy: a replay must
// come to the same weights, ledgers and histograms, and record the same again.

namespace mailgrad {
using messaging::kill, messaging::send_anonymously;

namespace {

using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::finished_run;
using testing::RecordedRun;

constexpr std::uint64_t recorded_orders = 150;
/// So many that something rare happens in some of them.
const bool many_orders = drawn_orders(recorded_orders).count() == recorded_orders;

class Replay : public RecordedRun, public ::testing::WithParamInterface<const char*> {
protected:
  static assembly small_run() {
    assembly a;
    a.policy = GetParam();
    return a;
  }
};

TEST_P(Replay, ComesToTheSameWeightsInAnyOrder) {
  for (const std::uint32_t shards : {1U, 3U})
    for (drawn_order& order : drawn_orders(recorded_orders)) {
      assembly a = small_run();
      a.shards = shards;
      a.batches = 15; // more than an epoch
      const auto was = finish(a, order.seed());
      ASSERT_TRUE(was);
      expect_repeatable(a, *was, order.seed());
    }
}

/// Of policies under which a gradient is stale once; for others a run with a cure is refused.
class ReplayOfStaleGradients : public Replay {};

TEST_P(ReplayOfStaleGradients, RepeatsACure) {
  assembly a = small_run();
  a.cure = "dynsgd";
  for (drawn_order& order : drawn_orders(recorded_orders)) {
    const auto was = finish(a, order.seed());
    ASSERT_TRUE(was);
    expect_repeatable(a, *was, order.seed());
  }
}

TEST_F(RecordedRun, IsRepeatedWithEveryCureAndLocalSteps) {
  for (const testing::treated_run& t : testing::treated_runs)
    for (drawn_order& order : drawn_orders((recorded_orders + 4) / 5)) {
      const auto was = finish(testing::treated(t), order.seed());
      ASSERT_TRUE(was);
      expect_repeatable(testing::treated(t), *was, order.seed());
    }
}

/// Also where a worker has ended before the switch, or makes no step after it.
TEST_P(Replay, RepeatsSwitchesThatCameAtAnyMoment) {
  const std::vector<std::string> wanted{"ssp:1", "backup:1", "sync", "async", "k-batch-async:2", "dssp:0,2"};
  std::size_t switched = 0;
  std::size_t with_one_gone = 0;
  for (drawn_order& order : drawn_orders(3 * recorded_orders)) {
    const auto was = finish(small_run(), order, [&](const assembled_run& run) {
      for (std::uint64_t i = 0; i <= order.seed() % 3; ++i) {
        deliver(order, order.below(120));
        send_anonymously(run.coordinator_actor,
                         request_switch{wanted[order.below(wanted.size())], "by hand"});
      }
    });
    ASSERT_TRUE(was);
    for (const recorded_switch& s : was->order.end.switches) {
      ++switched;
      if (std::ranges::count(s.present, 0) > 0) ++with_one_gone;
    }
    expect_repeatable(small_run(), *was, order.seed());
  }
  if (!many_orders) return;
  EXPECT_GT(switched, recorded_orders);
  EXPECT_GT(with_one_gone, 0U) << "the orders should have tried it";
}

TEST_P(Replay, RepeatsARunThatSomebodyStopped) {
  std::size_t stopped = 0;
  for (drawn_order& order : drawn_orders(recorded_orders)) {
    const auto was = finish(small_run(), order, [&](const assembled_run& run) {
      deliver(order, order.below(150));
      if (order.seed() % 3 == 0) send_anonymously(run.coordinator_actor, request_switch{"ssp:1", "by hand"});
      send_anonymously(run.coordinator_actor, stop_training{"enough"});
    });
    ASSERT_TRUE(was);
    stopped += was->report.ledger.produced < 12 ? 1U : 0U;
    expect_repeatable(small_run(), *was, order.seed());
  }
  if (many_orders) {
    EXPECT_GT(stopped, recorded_orders / 4);
  }
}

TEST_P(Replay, RepeatsARunThatDiverged) {
  data_split split = *testing::small_data();
  auto features = std::get<float_features>(split.train.features());
  // Its logits, or those after its gradient, are beyond what a float holds.
  std::fill_n(features.values.begin() + 20 * testing::small_features, testing::small_features,
              std::numeric_limits<float>::max());
  split.train = dataset(features, {split.train.labels().begin(), split.train.labels().end()}, 3);
  data_ = std::make_shared<data_split>(std::move(split));
  assembly a = small_run();
  a.model = [](graph& g, const model_request& r) { return build_classifier(g, {dense_layer{}}, r); };
  a.batches = 20; // whoever drops the gradient that is no number may never diverge
  std::size_t diverged = 0;
  for (drawn_order& order : drawn_orders(recorded_orders)) {
    const auto was = finish(a, order.seed());
    ASSERT_TRUE(was);
    diverged += was->report.ended == "diverged" ? 1U : 0U;
    expect_repeatable(a, *was, order.seed());
  }
  if (many_orders) {
    EXPECT_GT(diverged, 0U);
  }
}

void expect_equal(const running_stat& was, const running_stat& is) {
  EXPECT_EQ(was.count(), is.count());
  EXPECT_EQ(was.mean(), is.mean());
  EXPECT_EQ(was.least(), is.least());
  EXPECT_EQ(was.greatest(), is.greatest());
}

void expect_same_samples(const finished_run& was, const finished_run& is) {
  expect_equal(was.report.weight_gap, is.report.weight_gap);
  expect_equal(was.report.gradient_cosine, is.report.gradient_cosine);
  ASSERT_EQ(was.report.sampled.size(), is.report.sampled.size());
  for (std::size_t i = 0; i < was.report.sampled.size(); ++i) {
    const sampled_figures &a = was.report.sampled[i], &b = is.report.sampled[i];
    EXPECT_EQ(std::tuple(a.shard, a.worker, a.step, a.lag, a.gap, a.cosine),
              std::tuple(b.shard, b.worker, b.step, b.lag, b.gap, b.cosine));
  }
  ASSERT_EQ(was.report.exchanges.size(), is.report.exchanges.size());
  for (std::size_t i = 0; i < was.report.exchanges.size(); ++i)
    expect_equal(was.report.exchanges[i].weight_gap, is.report.exchanges[i].weight_gap);
}

/// Also where a pause comes between the push of a gradient and the answers.
TEST_P(Replay, SamplesTheGapsThatItsRunHadOrWouldHaveHad) {
  for (drawn_order& order : drawn_orders(recorded_orders))
    for (const std::uint64_t sampled_in_run : {0U, 2U}) {
      assembly a = small_run();
      a.sample_gap = sampled_in_run;
      const auto was = finish(a, order, [&](const assembled_run& run) {
        deliver(order, order.below(150));
        send_anonymously(run.coordinator_actor, request_switch{"async", "by hand"});
      });
      ASSERT_TRUE(was);
      a.sample_gap = 2;
      a.replayed = std::make_shared<const recording>(was->order);
      std::optional<finished_run> first;
      for (std::uint64_t i = 1; i <= replays_of_each; ++i) {
        auto is = finish(a, order.seed() * 1000 + i);
        ASSERT_TRUE(is);
        expect_same(*was, *is);
        EXPECT_FALSE(is->report.weight_gap.empty());
        if (!first)
          first = std::move(is);
        else
          expect_same_samples(*first, *is);
      }
      if (sampled_in_run > 0) expect_same_samples(*was, *first);
    }
}

/// Of policies under which the weights depend on the order of gradients: for these a replay proves something.
class ReplayOfOrderedUpdates : public Replay {};

TEST_P(Replay, EndsInGoodOrderWheneverSomebodyStopsItOrDies) {
  for (drawn_order& order : drawn_orders(3 * recorded_orders)) {
    const auto was = finish(small_run(), order, [&](const assembled_run& run) {
      deliver(order, order.below(120));
      send_anonymously(run.coordinator_actor, request_switch{"backup:1", "by hand"});
    });
    ASSERT_TRUE(was);
    assembly a = small_run();
    a.replayed = std::make_shared<const recording>(was->order);
    drawn_order other(order.seed() + 1);
    const auto is = finish(a, other, [&](const assembled_run& run) {
      deliver(other, other.below(150));
      if (order.seed() % 2 == 0)
        send_anonymously(run.coordinator_actor, stop_training{"enough"});
      else
        kill(run.devices[other.below(3)]);
    });
    ASSERT_TRUE(is);
    EXPECT_TRUE(is->report.ledger.balances()) << to_string(is->report.ledger);
  }
}

TEST_P(ReplayOfOrderedUpdates, IsOfARunThatOtherOrdersWouldChange) {
  const auto first = finish(small_run(), 0);
  ASSERT_TRUE(first);
  for (const drawn_order& order : drawn_orders(20))
    if (finish(small_run(), order.seed())->weights != first->weights) return;
  FAIL() << "twenty orders, the same weights";
}

TEST(EveryPolicyThatCanBeReplayed, IsTried) {
  for (const policy_form& form : policy_forms()) { // a user's own are not among them
    const std::string_view name = form.text.substr(0, form.text.find(':'));
    const bool tried = std::ranges::any_of(testing::ordered_policies, [&](std::string_view text) {
      return text.substr(0, text.find(':')) == name;
    });
    EXPECT_EQ(tried, name != "hogwild") << name;
  }
}

std::vector<const char*> policies_with_stale_gradients() {
  const std::uint32_t workers = assembly{}.workers;
  std::vector<const char*> some;
  for (const char* policy : testing::ordered_policies) {
    const std::vector<scheduled_policy> all = parse_policy_schedule(policy, workers);
    const auto is_stale = [](const scheduled_policy& p) { return !p.policy.traits().always_fresh; };
    const auto has_rounds = [](const scheduled_policy& p) { return p.policy.traits().has_rounds; };
    if (std::ranges::any_of(all, is_stale) && std::ranges::none_of(all, has_rounds)) some.push_back(policy);
  }
  return some;
}

/// Under the barrier of `sync` every order makes the same weights.
std::vector<const char*> policies_with_ordered_updates() {
  std::vector<const char*> some;
  std::ranges::copy_if(testing::ordered_policies, std::back_inserter(some),
                       [](std::string_view policy) { return policy != "sync"; });
  return some;
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, Replay, ::testing::ValuesIn(testing::ordered_policies),
                         [](const auto& policy) { return testing::test_name(policy.param); });
INSTANTIATE_TEST_SUITE_P(EveryPolicy, ReplayOfStaleGradients,
                         ::testing::ValuesIn(policies_with_stale_gradients()),
                         [](const auto& policy) { return testing::test_name(policy.param); });
INSTANTIATE_TEST_SUITE_P(EveryPolicy, ReplayOfOrderedUpdates,
                         ::testing::ValuesIn(policies_with_ordered_updates()),
                         [](const auto& policy) { return testing::test_name(policy.param); });

} // namespace
} // namespace mailgrad

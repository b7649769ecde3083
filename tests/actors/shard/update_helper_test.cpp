#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
using messaging::kill, messaging::on, messaging::send, messaging::send_anonymously, messaging::spawn;

namespace {

using testing::assembled_run, testing::assembly, testing::drawn_order, testing::drawn_orders,
    testing::expect_balanced, testing::small_data;

// Updates that several threads compute: in every order of messages, and whoever dies.

constexpr std::uint64_t helper_orders = 500;

/// Enough weights for an update of three parts.
model_function wide_model() {
  return [](graph& g, const model_request& request) {
    return build_classifier(g, {dense_layer{9'000, activation::tanh}, dense_layer{}}, request);
  };
}

class UpdateHelper : public testing::DrawnRuns {
protected:
  static assembly of_wide_model(const std::string& policy, std::uint32_t helpers) {
    assembly a;
    a.policy = policy;
    a.model = wide_model();
    a.workers = 2;
    a.shards = 1;
    a.batches = 4;
    a.helpers = helpers;
    return a;
  }
  std::vector<float> weights_without_help(const std::string& policy) {
    drawn_order order(0);
    const assembled_run run = assemble(of_wide_model(policy, 0));
    deliver(order);
    return run.weights();
  }
};

TEST_F(UpdateHelper, HelpsWithoutAnotherBitInEveryOrderOfMessages) {
  const std::vector<float> alone = weights_without_help("sync");
  for (drawn_order& order : drawn_orders(helper_orders)) {
    const assembled_run run = assemble(of_wide_model("sync", 1 + order.seed() % 2));
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    ASSERT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    expect_balanced(run);
    ASSERT_EQ(run.weights(), alone);
  }
}

TEST_F(UpdateHelper, KeepsTheLedgerUnderEveryPolicyAndSwitch) {
  for (const char* policy : {"async", "ssp:1", "backup:1", "k-async:2", "async, sync@2", "sync, async@2"}) {
    SCOPED_TRACE(policy);
    for (drawn_order& order : drawn_orders(helper_orders / 10)) {
      assembly a = of_wide_model(policy, 2);
      a.shards = 2;
      a.model = [](graph& g, const model_request& request) {
        return build_classifier(g, {dense_layer{36'000, activation::tanh}, dense_layer{}}, request);
      };
      const assembled_run run = assemble(a);
      deliver(order);
      ASSERT_EQ(run.times_ended(), 1U);
      EXPECT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
      expect_balanced(run);
    }
  }
}

TEST_F(UpdateHelper, IsNotWaitedForWhenItDies) {
  const std::vector<float> alone = weights_without_help("sync");
  for (drawn_order& order : drawn_orders(helper_orders)) {
    const assembled_run run = assemble(of_wide_model("sync", 2));
    deliver(order, order.below(80));
    kill(run.helpers[order.below(2)]);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    ASSERT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    ASSERT_EQ(run.weights(), alone);
  }
}

TEST_F(UpdateHelper, FinishesItsPartOfAnUpdateWhoseShardDies) {
  for (drawn_order& order : drawn_orders(helper_orders)) {
    const assembled_run run = assemble(of_wide_model("sync", 2));
    deliver(order, order.below(80));
    kill(run.shards[0]);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
  }
}

/// A helper that counts how often it is asked, and computes nothing.
class counting_helper {
public:
  static constexpr const char* name = "mailgrad.counting-helper";

  counting_helper(caf::event_based_actor* self, std::shared_ptr<std::size_t> asked, bool fails)
      : self_(self), asked_(std::move(asked)), fails_(fails) {}
  caf::behavior make_behavior() {
    return {on(self_, [this](const help_update& x) {
      ++*asked_;
      if (fails_) send(self_, x.shard, update_failed{"the test wants it"});
    })};
  }

private:
  caf::event_based_actor* self_;
  std::shared_ptr<std::size_t> asked_;
  bool fails_;
};

class AskedForHelp : public testing::DeterministicTest {
protected:
  void serve(const std::string& policy, std::uint32_t workers, std::size_t weights) {
    layout_.emplace(testing::layout_of({{"w", {weights}}}, 1));
    parameter_actor_options options{
        {std::make_shared<shard>(*layout_, 0, 1, testing::sgd(1)), {policy, workers}, workers, time_},
        tracker_.actor()};
    options.helpers = {start<counting_helper>(asked_, false)};
    shard_ = start<parameter_actor>(std::move(options));
    for (std::uint32_t r = 0; r < workers; ++r) {
      devices_.push_back(listen<shard_weights>());
      tell(shard_, join_shard{{r}, {}, devices_[r].actor()});
    }
  }
  push_gradient gradient_of(std::uint32_t worker, std::uint64_t step) const {
    return testing::push_of(worker, step, 0, testing::constant_gradient(*layout_, 1));
  }
  void push(std::uint32_t worker, std::uint64_t step) { tell(shard_, gradient_of(worker, step)); }

  static constexpr std::size_t several_parts = 2 * parallel_update::part_size;
  std::optional<parameter_layout> layout_;
  testing::listener<staleness_observed> tracker_ = listen<staleness_observed>();
  std::vector<testing::listener<shard_weights>> devices_;
  caf::actor shard_;
  const std::shared_ptr<std::size_t> asked_ = std::make_shared<std::size_t>(0);
};

TEST_F(AskedForHelp, WhereTheBarrierHasEverybody) {
  serve("sync", 2, several_parts);
  push(0, 1);
  EXPECT_EQ(*asked_, 0U);
  push(1, 1);
  EXPECT_EQ(*asked_, 1U);
  EXPECT_EQ(devices_[0].heard<shard_weights>().back().header.version.value, 1U)
      << "who does not help is not waited for";
}

TEST_F(UpdateHelper, EndsTheShardWhoseUpdateItCannotCompute) {
  const parameter_layout layout = testing::layout_of({{"w", {8 * parallel_update::part_size}}}, 1);
  const drawn_orders tried(50);
  std::size_t ended = 0;
  for (drawn_order& order : tried) {
    caf::actor_system& actors = system_.actors();
    testing::listener<shard_weights> device(actors);
    testing::listener<staleness_observed> tracker(actors);
    parameter_actor_options options{
        {std::make_shared<shard>(layout, 0, 1, testing::sgd(1)), {"async", 1}, 1, time_}, tracker.actor()};
    options.helpers = {spawn<counting_helper>(actors, std::make_shared<std::size_t>(0), true)};
    const caf::actor helper = options.helpers[0];
    const caf::actor shard = spawn<parameter_actor>(actors, std::move(options));
    send_anonymously(shard, join_shard{{0}, {}, device.actor()});
    deliver(order);
    send_anonymously(shard, testing::push_of(0, 1, 0, testing::constant_gradient(layout, 1)));
    deliver(order);
    if (device.heard<shard_weights>().size() == 1) ++ended; // else it was through before the helper said so
    for (const caf::actor& a : {shard, helper, device.actor(), tracker.actor()}) kill(a);
    deliver(order);
  }
  EXPECT_GT(ended, tried.count() / 5);
}

TEST_F(AskedForHelp, WhereTheOnlyWorkerWaitsForSeveralParts) {
  serve("async", 1, parallel_update::part_size);
  push(0, 1);
  EXPECT_EQ(*asked_, 0U);
  serve("async", 1, several_parts);
  push(0, 1);
  EXPECT_EQ(*asked_, 1U);
}

TEST_F(AskedForHelp, NotWhileAWorkerComputes) {
  serve("async", 2, several_parts);
  push(0, 1);
  push(1, 1);
  EXPECT_EQ(*asked_, 0U);
  serve("backup:1", 2, several_parts);
  push(1, 1);
  EXPECT_EQ(*asked_, 0U);
}

} // namespace
} // namespace mailgrad

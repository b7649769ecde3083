#include <mailgrad/tests/actors/run_checks.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/shard/parameter_actor.hpp>

#include <gmock/gmock.h>

#include <random>

// Updates that several threads compute: in every order of messages, and whoever dies.

namespace mailgrad {
namespace {

using testing::assembled_run;
using testing::assembly;
using testing::expect_balanced;
using testing::small_data;

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t schedules = 10;
#else
constexpr std::uint64_t schedules = 500;
#endif

/// Enough weights for an update of three parts.
model_function wide_model() {
  return [](graph& g, const model_request& request) {
    return build_classifier(g, {dense_layer{9'000, activation::tanh}, dense_layer{}}, request);
  };
}

class UpdateHelper : public ::testing::Test {
protected:
  static assembly of_wide_model(const std::string& policy, std::uint32_t hands) {
    assembly a;
    a.policy = policy;
    a.model = wide_model();
    a.workers = 2;
    a.shards = 1;
    a.batches = 4;
    a.hands = hands;
    return a;
  }
  void deliver(std::mt19937_64& random) {
    while (system_.step_any(random)) time_->advance(instant{static_cast<instant::rep>(random() % 1000)});
  }
  std::vector<float> weights_without_help(const std::string& policy) {
    std::mt19937_64 random(0);
    const assembled_run run(system_.actors(), of_wide_model(policy, 0), data_, time_);
    deliver(random);
    return run.weights();
  }

  testing::deterministic_system system_;
  const std::shared_ptr<const data_split> data_ = small_data();
  const std::shared_ptr<testing::manual_time> time_ = std::make_shared<testing::manual_time>();
};

TEST_F(UpdateHelper, HelpsWithoutAnotherBitInEveryOrderOfMessages) {
  const std::vector<float> alone = weights_without_help("sync");
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), of_wide_model("sync", 1 + seed % 2), data_, time_);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    ASSERT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    expect_balanced(run);
    ASSERT_EQ(run.weights(), alone);
  }
}

TEST_F(UpdateHelper, KeepsTheLedgerUnderEveryPolicyAndSwitch) {
  for (const char* policy : {"async", "ssp:1", "backup:1", "k-async:2", "async, sync@2", "sync, async@2"}) {
    for (std::uint64_t seed = 0; seed < schedules / 10; ++seed) {
      SCOPED_TRACE(std::string(policy) + ", schedule " + std::to_string(seed));
      std::mt19937_64 random(seed);
      assembly a = of_wide_model(policy, 2);
      a.shards = 2;
      a.model = [](graph& g, const model_request& request) {
        return build_classifier(g, {dense_layer{36'000, activation::tanh}, dense_layer{}}, request);
      };
      const assembled_run run(system_.actors(), a, data_, time_);
      deliver(random);
      ASSERT_EQ(run.times_ended(), 1U);
      EXPECT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
      expect_balanced(run);
    }
  }
}

TEST_F(UpdateHelper, IsNotWaitedForWhenItDies) {
  const std::vector<float> alone = weights_without_help("sync");
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), of_wide_model("sync", 2), data_, time_);
    for (std::uint64_t n = random() % 80; n > 0 && system_.step_any(random); --n) {
    }
    kill(run.hands[random() % 2]);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    ASSERT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    ASSERT_EQ(run.weights(), alone);
  }
}

TEST_F(UpdateHelper, FinishesItsPartOfAnUpdateWhoseShardDies) {
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), of_wide_model("sync", 2), data_, time_);
    for (std::uint64_t n = random() % 80; n > 0 && system_.step_any(random); --n) {
    }
    kill(run.shards[0]);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
  }
}

/// A hand that counts how often it is asked, and computes nothing.
class counting_hand {
public:
  static constexpr const char* name = "mailgrad.counting-hand";

  counting_hand(caf::event_based_actor* self, std::shared_ptr<std::size_t> asked, bool fails)
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
    parameter_actor_options options{std::make_shared<shard>(*layout_, 0, 1, testing::sgd(1)), policy, workers,
                                    tracker_.actor(), time_};
    options.hands = {start<counting_hand>(asked_, false)};
    shard_ = start<parameter_actor>(std::move(options));
    for (std::uint32_t r = 0; r < workers; ++r) {
      devices_.push_back(listen<shard_weights>());
      tell(shard_, join_shard{{r}, devices_[r].actor()});
    }
  }
  push_gradient gradient_of(std::uint32_t worker, std::uint64_t step) const {
    return {
        {worker}, step, 0, 0, std::bit_cast<std::uint32_t>(1.0F), testing::constant_gradient(*layout_, 1)};
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
  EXPECT_EQ(devices_[0].heard<shard_weights>().back().version, 1U) << "who does not help is not waited for";
}

TEST_F(UpdateHelper, EndsTheShardWhoseUpdateItCannotCompute) {
  const parameter_layout layout = testing::layout_of({{"w", {8 * parallel_update::part_size}}}, 1);
  std::size_t ended = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    caf::actor_system& actors = system_.actors();
    testing::listener<shard_weights> device(actors);
    testing::listener<staleness_observed> tracker(actors);
    parameter_actor_options options{std::make_shared<shard>(layout, 0, 1, testing::sgd(1)), "async", 1,
                                    tracker.actor(), time_};
    options.hands = {spawn<counting_hand>(actors, std::make_shared<std::size_t>(0), true)};
    const caf::actor hand = options.hands[0];
    const caf::actor shard = spawn<parameter_actor>(actors, std::move(options));
    send_anonymously(shard, join_shard{{0}, device.actor()});
    deliver(random);
    const auto one = std::bit_cast<std::uint32_t>(1.0F);
    send_anonymously(shard, push_gradient{{0}, 1, 0, 0, one, testing::constant_gradient(layout, 1)});
    deliver(random);
    if (device.heard<shard_weights>().size() == 1) ++ended; // else it was through before the hand said so
    for (const caf::actor& a : {shard, hand, device.actor(), tracker.actor()}) kill(a);
    deliver(random);
  }
  EXPECT_GT(ended, 10U);
}

TEST_F(AskedForHelp, WhereTheOnlyWorkerWaits) {
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

TEST_F(AskedForHelp, NotForOnePart) {
  serve("async", 1, parallel_update::part_size);
  push(0, 1);
  EXPECT_EQ(*asked_, 0U);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <gmock/gmock.h>

#include <bit>
#include <map>
#include <stdexcept>

namespace mailgrad {
using messaging::on, messaging::send;

namespace {

using ::testing::HasSubstr, ::testing::ThrowsMessage;
using testing::options_for, testing::small_data, testing::small_model, testing::trained;

// Whole runs whose shards are served by an actor that is not ours.

/// Applies every other gradient of a worker and refuses the rest: no policy does that.
class every_other {
public:
  static constexpr const char* name = "test.every-other";

  every_other(caf::event_based_actor* self, parameter_actor_options options)
      : self_(self), weights_(std::move(options.weights)), devices_(options.workers),
        accounts_(options.workers) {}

  caf::behavior make_behavior() {
    return {
        on(self_,
           [this](const join_shard& x) {
             devices_[x.worker.value] = x.device;
             answer(x.worker);
           }),
        on(self_, [this](const push_gradient& x) { take(x); }),
        on(self_, [](const worker_left&) {}),
        on(self_,
           [this](const report_shard&) {
             return shard_report{weights_->index(), weights_->version(), accounts_, weights_->snapshot()};
           }),
        on(self_, [](const list_wait_reasons&) {}),
        on(self_, [this](const give_up&) { self_->quit(); }),
    };
  }

private:
  void take(const push_gradient& x) {
    worker_account& account = accounts_[x.header.id.worker.value];
    account.last_step = x.header.id.step;
    ++account.ledger.produced;
    if (x.header.id.step.value % 2 == 0) {
      ++account.ledger.discarded["every other"];
    } else {
      account.gaps.count(weights_->version() - x.header.version_read);
      const contribution gradient{x.payload.values, std::bit_cast<float>(x.header.scale_bits)};
      weights_->update({&gradient, 1});
      ++account.ledger.applied;
    }
    answer(x.header.id.worker);
  }

  void answer(rank worker) {
    shard_weights reply;
    reply.header.shard = weights_->index();
    reply.header.version = weights_->version();
    reply.payload.values = weights_->snapshot();
    send(self_, devices_[worker.value], reply);
  }

  caf::event_based_actor* self_;
  std::shared_ptr<shard> weights_;
  std::vector<caf::actor> devices_;
  std::vector<worker_account> accounts_;
};

/// The same from the base.
class every_other_by_base : public custom_parameter_actor {
public:
  static constexpr const char* name = "test.every-other";
  using custom_parameter_actor::custom_parameter_actor;

private:
  void on_gradient(const push_gradient& x) override {
    if (x.header.id.step.value % 2 == 0)
      discard(x, "every other");
    else
      apply(x);
    send_weights(x.header.id.worker);
  }
};

/// A barrier from the base: the mean of the gradients of all workers that take part.
class mean_of_all : public custom_parameter_actor {
public:
  static constexpr const char* name = "test.mean-of-all";
  using custom_parameter_actor::custom_parameter_actor;

private:
  void on_gradient(const push_gradient& x) override {
    came_.emplace(x.header.id.worker.value, x);
    update_if_all_came();
  }
  void on_leave(rank) override { update_if_all_came(); }

  void update_if_all_came() {
    for (std::uint32_t w = 0; w < workers(); ++w)
      if (takes_part(rank{w}) && !came_.contains(w))
        return; // a barrier: nobody starts before all have pushed
    std::vector<push_gradient> all;
    for (const auto& [worker, x] : std::exchange(came_, {})) all.push_back(x);
    if (all.empty()) return;
    std::vector<contribution> made;
    for (const push_gradient& x : all) {
      made.push_back(contribution_of(x));
      made.back().scale /= static_cast<float>(all.size());
    }
    merge(all, made);
    for (const push_gradient& x : all) send_weights(x.header.id.worker);
  }

  std::map<std::uint32_t, push_gradient> came_;
};

/// Drops gradients without a word.
class forgetful : public custom_parameter_actor {
public:
  static constexpr const char* name = "test.forgetful";
  using custom_parameter_actor::custom_parameter_actor;

private:
  void on_gradient(const push_gradient& x) override { send_weights(x.header.id.worker); }
};

/// Ours, so that it can do all that ours can.
class namesake : public parameter_actor {
public:
  static constexpr const char* name = "test.namesake";
  using parameter_actor::parameter_actor;
};

TEST(CustomParameterActor, DecidesWhatBecomesOfEveryGradient) {
  training_options o = options_for("async", 1);
  o.parameter_actor = make_custom_parameter_actor<every_other>();
  for (const std::uint32_t shards : {1U, 2U}) {
    o.shards = shards;
    const training_report r = trained(o);
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_EQ(r.policy, "async by test.every-other");
    EXPECT_EQ(r.ledger, (gradient_ledger{24, 12, 0, {{"every other", 12}}, 0}));
    EXPECT_EQ(r.updates, 12U);
    EXPECT_EQ(r.staleness.total(), 12U * shards);
    EXPECT_EQ(r.staleness.max(), 0U) << "nobody else was there";
  }
}

TEST(CustomParameterActor, MakesOfTheBaseWhatItWouldMakeAlone) {
  training_options o = options_for("async", 1);
  o.parameter_actor = make_custom_parameter_actor<every_other>();
  const training_report alone = trained(o);
  o.parameter_actor = make_custom_parameter_actor<every_other_by_base>();
  const training_report by_base = trained(o);
  EXPECT_EQ(by_base.ended, "completed") << by_base.why;
  EXPECT_EQ(by_base.parameters_sha256, alone.parameters_sha256);
  EXPECT_EQ(by_base.ledger, alone.ledger);
  EXPECT_EQ(by_base.staleness.total(), alone.staleness.total());
}

TEST(CustomParameterActor, MayWaitForAllWorkersOfTheBase) {
  training_options o = options_for("sync", 3);
  o.batch = 4;
  o.shards = 2;
  o.parameter_actor = make_custom_parameter_actor<mean_of_all>();
  const training_report r = trained(o, small_data(120));
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_EQ(r.ledger.merged, 120U) << "30 of each epoch";
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  EXPECT_EQ(r.staleness.max(), 0U) << "all begin from the same weights";
}

TEST(CustomParameterActor, FailsTheRunIfItLeavesAGradientOut) {
  training_options o = options_for("async", 1);
  o.parameter_actor = make_custom_parameter_actor<forgetful>();
  const training_report r = trained(o);
  EXPECT_EQ(r.ended, "failed");
  EXPECT_FALSE(r.ledger.balances());
}

TEST(CustomParameterActor, ServesSeveralWorkers) {
  training_options o = options_for("async", 3);
  o.parameter_actor = make_custom_parameter_actor<every_other>();
  const training_report r = trained(o, small_data(1000));
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_EQ(r.steps, 500U);
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
}

TEST(CustomParameterActor, MayObeyThePolicyItIsHandedAndSwitch) {
  training_options o = options_for("sync, async@12", 2);
  o.shards = 2;
  o.parameter_actor = make_custom_parameter_actor<namesake>(true);
  const training_report r = trained(o);
  EXPECT_EQ(r.ended, "completed") << r.why;
  ASSERT_EQ(r.switches.size(), 1U);
  EXPECT_EQ(r.switches[0].to, "async");
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
}

TEST(CustomParameterActor, MakesOurWeightsIfItDoesWhatOursDoes) {
  training_options o = options_for("sync", 2);
  const std::string ours = trained(o).parameters_sha256;
  o.parameter_actor = make_custom_parameter_actor<namesake>();
  EXPECT_EQ(trained(o).parameters_sha256, ours);
}

TEST(CustomParameterActor, IsRefusedWhatItCannotDo) {
  training_options o = options_for("async, sync@12", 2);
  o.parameter_actor = make_custom_parameter_actor<every_other>();
  EXPECT_THAT([&] { training(small_model(), small_data(), o); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'test.every-other' switches no policy")));
  o.policy = "hogwild";
  EXPECT_THAT([&] { training(small_model(), small_data(), o); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("hogwild has no parameter actors")));
  o.policy = "async";
  training run(small_model(), small_data(), o);
  EXPECT_THAT([&] { run.switch_policy("sync", "a wish"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'test.every-other' switches no policy")));
  EXPECT_EQ(run.report().ended, "completed");
}

} // namespace
} // namespace mailgrad

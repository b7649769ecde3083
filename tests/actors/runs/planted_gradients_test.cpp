#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <mailgrad/actors/shard/custom_parameter_actor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// A gradient that vanishes on its way to a shard, or counts twice there, fails the run that it happens in.

namespace mailgrad {
using messaging::on, messaging::send, messaging::sender_of, messaging::spawn;

namespace {

using ::testing::HasSubstr;
using testing::options_for;
using testing::trained;

/// Stands between one worker and one shard, as the worker's device to the shard: every push gets one answer,
/// whatever becomes of it on the way, and every policy begins with one.
class answers {
public:
  static constexpr const char* name = "test.answers";

  answers(caf::event_based_actor* self, caf::actor device) : self_(self), device_(std::move(device)) {}

  caf::behavior make_behavior() {
    return {
        on(self_,
           [this](const shard_weights& x) {
             const bool next_policy = x.header.epoch.value != std::exchange(last_, x).header.epoch.value;
             if (std::exchange(awaited_, false) || next_policy) send(self_, device_, x);
           }),
        on(self_, [this](const push_gradient&) { awaited_ = true; }),
        on(self_, [this](const go_on&) { send(self_, device_, last_); }), // its push is gone
        on(self_,
           [this](const give_up&) {
             device_ = nullptr;
             self_->quit();
           }),
    };
  }

private:
  caf::event_based_actor* self_;
  caf::actor device_;
  shard_weights last_;
  bool awaited_ = true; ///< the first weights answer that the worker joined
};

enum class fault { none, loss, repeat };

/// Hands everything on to a parameter actor of ours, but for one gradient at the first shard.
template <fault Fault>
class faulty_shard {
public:
  static constexpr const char* name = "test.faulty-shard";

  faulty_shard(caf::event_based_actor* self, parameter_actor_options options)
      : self_(self), faulty_(options.weights->index() == shard_index{0}), lines_(options.workers),
        repeats_(options.workers), shard_(spawn<parameter_actor>(self_->home_system(), std::move(options))) {}

  caf::behavior make_behavior() {
    return {
        on(self_,
           [this](const join_shard& x) {
             lines_[x.worker.value] = spawn<answers>(self_->home_system(), x.device);
             send(self_, shard_, join_shard{x.worker, x.incarnation, lines_[x.worker.value]});
           }),
        on(self_, [this](const push_gradient& x) { push(x); }),
        on(self_, [this](const worker_left& x) { send(self_, shard_, x); }),
        on(self_, [this](const order_entry& x) { send(self_, shard_, x); }),
        on(self_, [this](const switch_policy& x) { ask(x); }),
        on(self_, [this](const policy_switched& x) { send(self_, asker_, x); }),
        on(self_, [this](const report_shard& x) { ask(x); }),
        on(self_, [this](const shard_report& x) { send(self_, asker_, x); }),
        on(self_, [](const list_wait_reasons&) {}),
        on(self_,
           [this](const give_up& x) {
             for (const caf::actor& line : lines_)
               if (line) send(self_, line, x);
             send(self_, shard_, x);
             self_->quit();
           }),
    };
  }

private:
  static constexpr std::uint64_t bad_push = 3; ///< of all workers together

  void push(push_gradient x) {
    const caf::actor& line = lines_[x.header.id.worker.value];
    const bool bad = faulty_ && ++pushes_ == bad_push;
    if (bad && Fault == fault::loss) return send(self_, line, go_on{});
    send(self_, line, x);
    x.header.id.step.value += repeats_[x.header.id.worker.value];
    send(self_, shard_, x);
    if (!bad || Fault != fault::repeat) return;
    ++repeats_[x.header.id.worker.value];
    ++x.header.id.step.value;
    send(self_, shard_, x);
  }

  template <class Request>
  void ask(const Request& x) {
    asker_ = sender_of(self_);
    send(self_, shard_, x);
  }

  caf::event_based_actor* self_;
  bool faulty_;
  std::uint64_t pushes_ = 0;
  std::vector<caf::actor> lines_;      ///< by rank
  std::vector<std::uint64_t> repeats_; ///< by rank: steps that were counted twice so far
  caf::actor shard_;
  caf::actor asker_;
};

class PlantedGradients : public ::testing::TestWithParam<const char*> {
protected:
  /// Then a second shard would wait for ever for the entry of a gradient that the first has not seen.
  static bool shards_agree() {
    const std::string policy = GetParam();
    return policy.find('@') == std::string::npos && make_policy(policy, 2)->shards_agree();
  }

  template <fault Fault>
  static training_report run_with() {
    training_options o = options_for(GetParam(), 2);
    o.shards = shards_agree() ? 1 : 2;
    o.parameter_actor = make_custom_parameter_actor<faulty_shard<Fault>>(true);
    return trained(o);
  }
};

TEST_P(PlantedGradients, AreNoneIfEverythingIsHandedOn) {
  const training_report r = run_with<fault::none>();
  EXPECT_EQ(r.ended, "completed");
  EXPECT_EQ(r.why, "");
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
}

TEST_P(PlantedGradients, FailTheRunIfOneVanishes) {
  const training_report r = run_with<fault::loss>();
  EXPECT_EQ(r.ended, "failed");
  EXPECT_THAT(r.why, HasSubstr("the ledger does not balance: shard 0 took "));
  EXPECT_THAT(r.why, HasSubstr(" of worker "));
  EXPECT_FALSE(r.ledger.balances()) << to_string(r.ledger);
}

TEST_P(PlantedGradients, FailTheRunIfOneCountsTwice) {
  const training_report r = run_with<fault::repeat>();
  EXPECT_EQ(r.ended, "failed");
  EXPECT_THAT(r.why, HasSubstr("the ledger does not balance: shard 0 took "));
  EXPECT_FALSE(r.ledger.balances()) << to_string(r.ledger);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, PlantedGradients,
                         ::testing::Values("async", "sync", "ssp:1", "dssp:0,2", "backup:1", "k-async:2",
                                           "k-batch-async:2", "k-batch-sync:2", "rennala:3", "ringmaster:2",
                                           "malenia:4", "ringleader", "sync, ssp:1@8, async@16"),
                         [](const auto& policy) { return testing::test_name(policy.param); });

} // namespace
} // namespace mailgrad

#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/optim/custom_rule.hpp>
#include <mailgrad/optim/plugin.hpp>
#include <mailgrad/optim/policies/custom_policy.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <cmath>
#include <limits>
#include <mutex>
#include <new>

namespace mailgrad::testing {
namespace {

using messaging::on, messaging::send, messaging::sender_of, messaging::spawn;
using ::testing::AllOf, ::testing::HasSubstr;

// ---- a policy that has rounds

/// One update a round, from the mean of each worker's mean, when every worker has sent a gradient. Nobody
/// waits: what a worker sends besides is for the next round.
class custom_rounds final : public policy {
public:
  static constexpr std::string_view policy_name = "own-rounds";

  std::string_view name() const noexcept override { return policy_name; }
  bool shards_agree() const noexcept override { return true; }
  bool makes_batches() const noexcept override { return true; }
  weighing weighs() const noexcept override { return weighing::workers; }
  bool has_rounds() const noexcept override { return true; }
  std::uint64_t rounds_over() const noexcept override { return rounds_; }

  void join(rank worker) override { at(worker).present = true; }
  void leave(rank worker) override { at(worker).present = false; }
  decision judge(const gradient_stamp& g) override {
    if (!may_start(g.worker)) return {verdict::discard, "not awaited"};
    entry& sender = at(g.worker);
    if (std::exchange(sender.sent, true)) {
      sender.sent_early = true;
      return {verdict::defer};
    }
    return {verdict::merge};
  }
  bool batch_complete() const override {
    return std::ranges::any_of(workers_, &entry::sent) &&
           std::ranges::all_of(workers_, [](const entry& w) { return w.sent || !w.present; });
  }
  void batch_applied() override {
    ++rounds_;
    for (entry& w : workers_) w.sent = std::exchange(w.sent_early, false);
  }
  bool may_start(rank worker) const override {
    return worker.value < workers_.size() && workers_[worker.value].present;
  }
  void keep(archive& a) override {
    const std::size_t joined = workers_.size();
    a.version(1);
    a.field("workers", workers_);
    a.field("rounds", rounds_);
    workers_.resize(std::max(joined, workers_.size()));
  }

private:
  struct entry {
    bool present = false;
    bool sent = false;       ///< a gradient of this round
    bool sent_early = false; ///< one of the next

    void keep(archive& a) {
      a.field("present", present);
      a.field("sent", sent);
      a.field("sent_early", sent_early);
    }
  };

  entry& at(rank worker) {
    if (workers_.size() <= worker.value) workers_.resize(worker.value + 1);
    return workers_[worker.value];
  }

  std::vector<entry> workers_; ///< by rank
  std::uint64_t rounds_ = 0;
};

training_options in_rounds() { return options_for(custom_policy<custom_rounds>(), 3, {.shards = 2}); }

TEST(CustomRounds, MergeEveryGradientAndLoseNone) {
  const training_report r = completed(in_rounds());
  EXPECT_EQ(r.ledger, (gradient_ledger{r.steps, 0, r.steps, {}, 0}));
  EXPECT_LE(r.updates, r.steps) << "and fewer, if several gradients of a worker are in one round";
}

TEST(CustomRounds, AreReplayedBitForBit) {
  training_options o = in_rounds();
  o.policy += ", sync@10, own-rounds@20";
  expect_repeatable(o);
}

TEST(CustomRounds, GoOnFromACheckpoint) {
  const scratch_folder folder;
  training_options o = in_rounds();
  o.checkpoints = {.folder = folder.path().string(), .every_steps = 7};
  completed(o);
  for (const auto& file : checkpoints_in(folder.path())) {
    training_options on = in_rounds();
    on.resume = std::make_shared<const checkpoint>(checkpoint::read(file));
    const training_report r = completed(on);
    EXPECT_EQ(r.ledger, (gradient_ledger{r.steps, 0, r.steps, {}, 0}));
  }
}

// ---- rules that look at whole variables

training_options whole_run(std::string_view rule, const std::string& policy, small_options s = {}) {
  s.optimizer = rule;
  s.shards = 3;
  return options_for(policy, 2, s);
}

TEST(RunOfWholeVariables, LearnsUnderEveryRule) {
  for (const std::string_view rule : whole_variable_rules()) {
    const training_options o = whole_run(rule, "sync", {.rate = rule == "lars" ? 30 : 0.05, .epochs = 40});
    EXPECT_GT(completed(o).test_accuracy.value_or(0), 0.8) << rule;
  }
}

TEST(RunOfWholeVariables, EndsWithTheSameWeightsInAnyNumberOfShards) {
  for (const std::string_view rule : whole_variable_rules()) {
    training_options o = whole_run(rule, "sync");
    const std::string three = trained(o).parameters_sha256;
    o.shards = 1;
    EXPECT_EQ(trained(o).parameters_sha256, three) << rule;
  }
}

TEST(RunOfWholeVariables, IsReplayedBitForBit) {
  for (const std::string_view rule : whole_variable_rules()) {
    SCOPED_TRACE(rule);
    expect_repeatable(whole_run(rule, "ssp:2", {.cure = "dynsgd"}));
  }
}

TEST(RunOfWholeVariables, GoesOnFromACheckpointAsIfItHadNotEnded) {
  for (const std::string_view rule : whole_variable_rules()) {
    const scratch_folder folder;
    const training_options o = whole_run(rule, "sync");
    EXPECT_EQ(trained(resumed(o, folder.path(), 4)).parameters_sha256, trained(o).parameters_sha256) << rule;
  }
}

/// Ours, which notes what it is told of the layout.
class told_of_layout : public parameter_actor {
public:
  static constexpr const char* name = "test.told-of-layout";
  static constexpr bool whole_variables = true;
  static inline std::mutex mutex{}; ///< guards cuts, which the actors of two shards write
  static inline std::vector<std::string> cuts{};

  told_of_layout(caf::event_based_actor* self, parameter_actor_options options)
      : parameter_actor(self, noted(std::move(options))) {}

private:
  static parameter_actor_options noted(parameter_actor_options options) {
    const parameter_layout& layout = *options.layout;
    const std::lock_guard guard(mutex);
    for (std::size_t v = 0; v < layout.variables().size(); ++v)
      for (const variable_piece& p : layout.pieces(v))
        if (p.shard == options.weights->index().value)
          cuts.push_back(layout.variables()[v].name + to_string(layout.variables()[v].dims) + " at " +
                         std::to_string(p.offset_in_shard));
    return options;
  }
};

TEST(CustomParameterActorOfWholeVariables, IsToldNamesShapesAndPlaces) {
  training_options o = options_for("sync", 2, {.shards = 2});
  o.parameter_actor = make_custom_parameter_actor<told_of_layout>();
  EXPECT_TRUE(o.parameter_actor->whole_variables);
  EXPECT_EQ(trained(o).ended, "completed");
  std::ranges::sort(told_of_layout::cuts);
  EXPECT_THAT(told_of_layout::cuts, ::testing::SizeIs(4)); // each of four variables in one shard
}

// ---- a gradient that vanishes on its way to a shard, or counts twice there, fails the run that it happens in

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
    training_options o = options_for(GetParam(), 2, {.shards = shards_agree() ? 1U : 2U});
    o.parameter_actor = make_custom_parameter_actor<faulty_shard<Fault>>(true);
    return trained(o);
  }
};

TEST_P(PlantedGradients, AreNoneIfEverythingIsHandedOn) {
  expect_ended("completed", "", run_with<fault::none>());
}

void expect_failed(const training_report& r) {
  EXPECT_EQ(r.ended, "failed");
  EXPECT_THAT(r.why,
              AllOf(HasSubstr("the ledger does not balance: shard 0 took "), HasSubstr(" of worker ")));
  EXPECT_FALSE(r.ledger.balances()) << to_string(r.ledger);
}

TEST_P(PlantedGradients, FailTheRunIfOneVanishes) { expect_failed(run_with<fault::loss>()); }
TEST_P(PlantedGradients, FailTheRunIfOneCountsTwice) { expect_failed(run_with<fault::repeat>()); }

INSTANTIATE_TEST_SUITE_P(EveryPolicy, PlantedGradients,
                         ::testing::Values("async", "sync", "ssp:1", "dssp:0,2", "backup:1", "k-async:2",
                                           "k-batch-async:2", "k-batch-sync:2", "rennala:3", "ringmaster:2",
                                           "malenia:4", "ringleader", "sync, ssp:1@8, async@16"),
                         name_of_policy);

// ---- whatever ends a run early, its report says what it was and where

constexpr std::uint64_t bad_step = 5;

struct throwing_rule {
  static constexpr const char* name = "throwing";
  static constexpr std::size_t states = 0;
  float rate;
  explicit throwing_rule(const mailgrad_rule_step& s) : rate(static_cast<float>(s.learning_rate)) {
    if (s.step == bad_step) throw std::runtime_error("no table for step 5");
  }
  void operator()(float& w, float g) const { w -= rate * g; }
};

/// Spoils the weights in the update of its one setting.
struct spoiling_rule {
  static constexpr const char* name = "spoiling";
  static constexpr std::size_t states = 0;
  static constexpr mailgrad_rule_setting settings[] = {{"last", 5, 1, 1e9}};
  float rate;
  bool spoils;
  explicit spoiling_rule(const mailgrad_rule_step& s)
      : rate(static_cast<float>(s.learning_rate)), spoils(static_cast<double>(s.step) == s.settings[0]) {}
  void operator()(float& w, float g) const {
    w = spoils ? std::numeric_limits<float>::quiet_NaN() : w - rate * g;
  }
};

/// From its fifth update on the weights are so large that the loss, a finite number, says nothing.
struct inflating_rule {
  static constexpr const char* name = "inflating";
  static constexpr std::size_t states = 0;
  float rate;
  bool inflates;
  explicit inflating_rule(const mailgrad_rule_step& s)
      : rate(static_cast<float>(s.learning_rate)), inflates(s.step >= bad_step) {}
  void operator()(float& w, float g) const { w = inflates ? std::copysign(1e6F, w - g) : w - rate * g; }
};

template <class Rule>
training_options with_rule(const std::string& policy, std::uint32_t workers, const small_options& s = {}) {
  training_options o = options_for(policy, workers, s);
  o.optimizer.rule = make_custom_rule(rule_table<Rule>);
  return o;
}

TEST(TrainingFailures, NameTheRuleTheShardAndTheUpdateOfARuleThatThrows) {
  for (const char* policy : {"async", "sync", "k-batch-async:2"}) {
    SCOPED_TRACE(policy);
    const training_report r = trained(with_rule<throwing_rule>(policy, 2));
    expect_ended("failed",
                 "shard 0 is lost: update 5 by rule 'throwing': no table for step 5; lost with shard 0: its "
                 "weights, and what it had made of " +
                     std::to_string(r.ledger.produced) + " gradients",
                 r);
    EXPECT_THAT(r.lost_shards, ::testing::ElementsAre(0));
  }
}

TEST(TrainingFailures, NameTheRuleAndTheStepWhereWorkersUpdateThemselves) {
  training_options o = with_rule<throwing_rule>("hogwild", 1);
  expect_ended("failed", "worker 0 at its step 5: rule 'throwing': no table for step 5", trained(o));
  o.policy = "async";
  o.local_steps = 3;
  expect_ended("failed", "worker 0 at its step 5: rule 'throwing': no table for step 5", trained(o));
  o.cure = "easgd:0.3";
  expect_ended("failed", HasSubstr("rule 'throwing': no table for step 5"), trained(o));
}

/// The last update: no loss is ever computed from what it leaves.
TEST(TrainingFailures, NameTheWeightThatTheLastUpdateSpoiled) {
  const auto why =
      AllOf(HasSubstr("weight 0 of '"), HasSubstr("' on shard 0 is nan after 5 updates by rule 'spoiling'"));
  EXPECT_FALSE(
      expect_ended("diverged", why, trained(with_rule<spoiling_rule>("async", 1, {.steps = bad_step})))
          .test_accuracy);
}

TEST(TrainingFailures, NameTheWeightBesideTheLossThatItSpoiled) {
  expect_ended("diverged",
               AllOf(HasSubstr("the loss of worker 0 at its step 6 is not finite"),
                     HasSubstr("on shard 0 is nan after 5 updates by rule 'spoiling'")),
               trained(with_rule<spoiling_rule>("async", 1)));
}

TEST(TrainingFailures, EndARunAtOnceWhoseLossHasGrownToNonsense) {
  for (const std::uint32_t workers : {1U, 2U}) {
    const training_options o = with_rule<inflating_rule>("async", workers, {.epochs = for_ever});
    const auto why = AllOf(HasSubstr("the loss has grown to nonsense"), HasSubstr("steps in a row"));
    EXPECT_FALSE(expect_ended("diverged", why, trained(o)).test_loss) << "nobody tests such weights";
  }
}

TEST(TrainingFailures, EndInNonsenseThatTheLastUpdateLeft) {
  training_options o = with_rule<inflating_rule>("async", 1, {.steps = bad_step});
  const training_report r =
      expect_ended("diverged", HasSubstr("the loss has grown to nonsense: that of the test is "), trained(o));
  EXPECT_GT(r.test_loss.value_or(0), 1000);
  o.steps = bad_step - 1;
  EXPECT_EQ(trained(o).ended, "completed");
}

TEST(TrainingFailures, AreNoneWhereNonsenseIsAskedFor) {
  training_options o = with_rule<inflating_rule>("async", 1);
  o.when_diverged = on_divergence::go_on;
  EXPECT_GT(completed(o).test_loss.value_or(0), 1000);
}

/// A parameter actor that cannot even be born, as under a cure that is too big.
struct unborn {
  static constexpr const char* name = "test.unborn";
  unborn(caf::event_based_actor*, parameter_actor_options) { throw std::bad_alloc(); }
  caf::behavior make_behavior() { return {}; }
};

TEST(TrainingFailures, KeepTheLastWordsOfAnActorThatIsNotBorn) {
  training_options o = options_for("async", 2);
  o.parameter_actor = make_custom_parameter_actor<unborn>();
  expect_ended("failed", HasSubstr("shard 0 is lost: std::bad_alloc; lost with shard 0: its weights, "),
               trained(o));
}

/// Builds for training, and throws when it is to be tested.
model_outputs untestable(graph& g, const model_request& r) {
  if (r.purpose == phase::evaluation) throw std::runtime_error("no model for a test");
  return small_model()(g, r);
}

TEST(TrainingFailures, KeepTheReportOfARunWhoseTestThrows) {
  const training_report r =
      expect_ended("failed", "the test of the trained weights failed: no model for a test",
                   train(untestable, small_data(), options_for("sync", 2)));
  EXPECT_EQ(r.ledger.produced, 24U);
  EXPECT_FALSE(r.parameters_sha256.empty());
  EXPECT_FALSE(r.test_accuracy);
}

} // namespace
} // namespace mailgrad::testing

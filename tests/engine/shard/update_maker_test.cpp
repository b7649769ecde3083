#include <mailgrad/engine/shard/policy_machine.hpp>
#include <mailgrad/engine/shard/update_maker.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/noted_port.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/support/manual_time.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <optional>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

/// A shard of 16 weights, all of which plain SGD of learning rate 1 moves alike.
class UpdateMaker : public ::testing::Test {
protected:
  void make(const std::string& cure) {
    updates_.emplace(update_maker::options{weights_, {cure, 2}, time_}, workers_, port_, timeline_);
  }
  push_gradient gradient_of(std::uint32_t worker, std::uint64_t step, std::uint64_t version_read, float value,
                            float scale = 1) const {
    return testing::push_of(worker, step, version_read, testing::constant_gradient(layout_, value), scale);
  }
  void apply(const push_gradient& x) { EXPECT_TRUE(updates_->make(updates_->add(x))); }
  float moved() const { return begin_ - weights_->snapshot().on_host()[0]; }

  const parameter_layout layout_ = testing::layout_of({{"w", {16}}}, 1);
  const std::shared_ptr<shard> weights_ = std::make_shared<shard>(layout_, 0, 1, testing::sgd(1));
  const float begin_ = weights_->snapshot().on_host()[0];
  const std::shared_ptr<testing::manual_time> time_ = std::make_shared<testing::manual_time>();
  const std::shared_ptr<trace_track> track_ = std::make_shared<trace_track>("shard 0", 9, time_->now());
  worker_slots workers_{2, 2, {}};
  testing::noted_port port_;
  shard_timeline timeline_{time_, track_};
  std::optional<update_maker> updates_;
};

TEST_F(UpdateMaker, CountsTheGapOfAGradientThatIsAppliedAlone) {
  make("none");
  apply(gradient_of(0, 1, 0, 1));
  apply(gradient_of(1, 1, 0, 2, 0.5F));
  EXPECT_FLOAT_EQ(moved(), 2);
  EXPECT_THAT(workers_[{0}].account.gaps.buckets(), ElementsAre(Pair(0, 1)));
  EXPECT_THAT(workers_[{1}].account.gaps.buckets(), ElementsAre(Pair(1, 1)));
  EXPECT_THAT(port_.gaps, ElementsAre(0, 1));
  EXPECT_EQ(workers_[{1}].account.ledger.applied, 1U);
  EXPECT_EQ(workers_[{1}].account.ledger.merged, 0U);
  ASSERT_EQ(track_->events().size(), 2U);
  EXPECT_EQ(track_->events()[1].version, 2U);
}

TEST_F(UpdateMaker, MakesOneUpdateOfTheMeanOfABatch) {
  make("none");
  updates_->add_waiting(gradient_of(1, 1, 0, 1), waits_in::batch);
  updates_->add_waiting(gradient_of(0, 1, 0, 5), waits_in::batch);
  EXPECT_FALSE(updates_->nothing_waits());
  EXPECT_EQ(updates_->waiting({1}), 1U);
  EXPECT_TRUE(workers_[{1}].merged);
  EXPECT_TRUE(workers_[{1}].account.gaps.empty()) << "it counts when its version is made";
  EXPECT_TRUE(updates_->update(waits_in::batch, 0));
  EXPECT_FLOAT_EQ(moved(), 3);
  EXPECT_TRUE(updates_->nothing_waits());
  for (std::uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(workers_[{r}].account.ledger.merged, 1U);
    EXPECT_EQ(workers_[{r}].account.gaps.total(), 1U);
    EXPECT_EQ(workers_[{r}].account.times.apply.count(), 1U);
  }
  updates_->weigh(weighing::samples);
  updates_->add_waiting(gradient_of(0, 2, 1, 1), waits_in::batch, 6);
  updates_->add_waiting(gradient_of(1, 2, 1, 5), waits_in::batch, 2);
  updates_->update(waits_in::batch, 0);
  EXPECT_FLOAT_EQ(moved(), 3 + (6 * 1.0F + 2 * 5.0F) / 8);
}

TEST_F(UpdateMaker, MakesAnUpdateOfTheFirstInTheQueue) {
  make("inverse");
  for (std::uint64_t step = 1; step <= 3; ++step)
    updates_->add_waiting(gradient_of(step == 2 ? 1 : 0, step, 0, static_cast<float>(step)), waits_in::queue);
  EXPECT_EQ(updates_->waiting({0}), 2U);
  EXPECT_TRUE(updates_->update(waits_in::queue, 2));
  EXPECT_FLOAT_EQ(moved(), 1.5F);
  EXPECT_EQ(updates_->waiting({0}), 1U);
  EXPECT_FALSE(updates_->nothing_waits());
  updates_->add_waiting(gradient_of(1, 4, 0, 5), waits_in::queue);
  updates_->update(waits_in::queue, 2);
  EXPECT_FLOAT_EQ(moved(), 1.5F + 4) << "of gaps of 1 in both";
  EXPECT_THAT(workers_[{1}].account.gaps.buckets(), ElementsAre(Pair(0, 1), Pair(1, 1)));
  EXPECT_TRUE(updates_->nothing_waits());
}

/// The cure's factor on a gradient that is applied alone goes to the learning rate.
TEST_F(UpdateMaker, WeighsEachGradientByItsOwnStaleness) {
  make("inverse");
  EXPECT_EQ(updates_->add(gradient_of(0, 1, 0, 0)), 1);
  updates_->make(1);
  apply(gradient_of(0, 2, 1, 0));
  updates_->add_waiting(gradient_of(0, 3, 2, 4), waits_in::batch);
  updates_->add_waiting(gradient_of(1, 1, 0, 4), waits_in::batch);
  updates_->update(waits_in::batch, 0);
  EXPECT_FLOAT_EQ(moved(), 0.5F * 4 + 0.5F * 4 / 2) << "gaps of 0 and 2";
  EXPECT_EQ(updates_->add(gradient_of(1, 2, 1, 1)), 0.5) << "a gap of 2";
}

TEST_F(UpdateMaker, KeepsTheWeightsThatASampledGradientMet) {
  make("none");
  const snapshot read = weights_->snapshot();
  apply(gradient_of(0, 1, 0, 3));
  const snapshot met = weights_->snapshot();
  push_gradient sampled = gradient_of(1, 1, 0, 1);
  sampled.payload.read = read;
  apply(sampled);
  EXPECT_EQ(workers_[{1}].met.step.value, 1U);
  EXPECT_EQ(workers_[{1}].met.values, met);
  EXPECT_EQ(workers_[{1}].account.weight_gap.count(), 1U);
  EXPECT_NEAR(workers_[{1}].account.weight_gap.mean(), 3, 1e-6);
  ASSERT_EQ(workers_[{1}].account.sampled_gaps.all().size(), 1U);
  EXPECT_EQ(workers_[{1}].account.sampled_gaps.all()[0].step, step_number{1});
  EXPECT_EQ(workers_[{1}].account.sampled_gaps.all()[0].lag, 1U);
  EXPECT_NEAR(workers_[{1}].account.sampled_gaps.all()[0].gap, 3, 1e-6);
  EXPECT_FALSE(workers_[{0}].met.values) << "it was not sampled";
}

TEST_F(UpdateMaker, TellsNoIncarnationOfTheWeightsThatAnEarlierOneMet) {
  make("none");
  for (push_gradient x : {gradient_of(0, 1, 0, 1), gradient_of(1, 5, 0, 1)}) {
    x.payload.read = weights_->snapshot();
    updates_->add_waiting(x, waits_in::batch);
  }
  workers_.join({1}, {1});
  workers_[{1}].merged = false;
  updates_->update(waits_in::batch, 0);
  EXPECT_EQ(workers_[{0}].met.step.value, 1U);
  EXPECT_TRUE(workers_[{0}].met.values);
  EXPECT_EQ(workers_[{1}].met.step.value, 0U) << "the present one has taken no step";
  EXPECT_FALSE(workers_[{1}].met.values);
  EXPECT_EQ(workers_[{1}].account.ledger.merged, 1U) << "the rank has";
}

/// A shard of several parts, and workers that all wait for it.
class DividedUpdate : public UpdateMaker {
protected:
  static constexpr std::size_t floats = 5 * parallel_update::part_size;

  /// With so many helpers.
  void make(std::size_t helpers) {
    updates_.emplace(update_maker::options{large_, {"none", 2}, time_, helpers}, workers_, port_, timeline_);
    for (std::uint32_t r = 0; r < 2; ++r) workers_.wait({r}, time_->now());
    updates_->may_divide(true);
  }
  /// Gradients 1, 3 and 5, each counting a quarter. Returns whether their version is made.
  bool make_of_three() {
    for (const std::uint64_t k : {0U, 1U, 2U})
      updates_->add(testing::push_of(0, k + 1, large_->version().value,
                                     testing::constant_gradient(wide_, static_cast<float>(1 + 2 * k)),
                                     0.25F));
    return updates_->make(1);
  }
  float moved() const { return first_ - large_->snapshot().on_host().back(); }
  static constexpr float moved_by_three = (1 + 3 + 5) / 4.0F;

  const parameter_layout wide_ = testing::layout_of({{"w", {floats}}}, 1);
  const std::shared_ptr<shard> large_ = std::make_shared<shard>(wide_, 0, 1, testing::sgd(1));
  const float first_ = large_->snapshot().on_host().back();
};

TEST_F(DividedUpdate, MakesTheSameVersionWithHelp) {
  using progress = parallel_update::progress;
  for (const std::size_t helpers : {1U, 7U}) {
    make(helpers);
    const float before = moved();
    ASSERT_FALSE(make_of_three());
    EXPECT_TRUE(updates_->is_updating());
    const std::shared_ptr<parallel_update> work = updates_->work();
    EXPECT_EQ(work->parts(), 5U);
    progress done = progress::computed;
    for (bool here = true; done == progress::computed; here = !here)
      done = here ? updates_->compute_part() : work->compute_part();
    EXPECT_EQ(done, progress::complete);
    EXPECT_FALSE(updates_->end()) << "its gradients have not waited";
    EXPECT_FALSE(updates_->is_updating());
    EXPECT_NEAR(moved() - before, moved_by_three, 1e-5) << helpers << " helpers";
  }
  EXPECT_EQ(large_->version().value, 2U);
}

TEST_F(DividedUpdate, IsForAnUpdateThatEveryWorkerWaitsFor) {
  make(0);
  EXPECT_TRUE(make_of_three()) << "nobody is there to help";
  EXPECT_NEAR(moved(), moved_by_three, 1e-5);
  make(1);
  workers_[{1}].waits_since.reset();
  EXPECT_TRUE(make_of_three()) << "worker 1 may be computing";
  workers_.wait({1}, time_->now());
  updates_->may_divide(false);
  EXPECT_TRUE(make_of_three());
}

TEST_F(DividedUpdate, DividesItsTimeAmongItsGradients) {
  make(1);
  ASSERT_FALSE(make_of_three());
  while (updates_->compute_part() == parallel_update::progress::computed) time_->advance(1s);
  time_->advance(2s);
  updates_->end();
  EXPECT_EQ(workers_[{0}].account.times.apply.count(), 3U);
  EXPECT_EQ(workers_[{0}].account.times.apply.total(), 6s);
  const auto& events = track_->events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[1].begin - events[0].begin, 2s);
  ASSERT_FALSE(make_of_three()) << "those of the update before count once";
  while (updates_->compute_part() != parallel_update::progress::complete) {
  }
  updates_->end();
  EXPECT_EQ(workers_[{0}].account.times.apply.count(), 6U);
}

/// Writes down what the machine has done.
class noted_side final : public policy_machine::side {
public:
  version_number version() const override { return version_; }
  bool nothing_waits() const override { return waiting + deferred == 0; }
  bool is_updating() const override { return updating; }
  bool update(waits_in where, std::size_t first) override {
    const std::size_t taken = where == waits_in::queue ? std::min(waiting, first) : waiting;
    done.push_back("update of " + std::to_string(taken));
    waiting -= taken;
    ++version_;
    updating = has_helpers;
    return !has_helpers;
  }
  void update_of_nothing() override {
    done.push_back("update of nothing");
    ++version_;
  }
  void add_lost(waits_in where) override {
    if (where != waits_in::batch) add(where);
  }
  void begin_round(std::uint64_t over) override {
    if (rounds_ < over) done.push_back("round " + std::to_string(over));
    for (; rounds_ < over; ++rounds_) turn_over();
  }
  void skip_to_waiting() override {
    if (waiting == 0) turn_over();
  }
  void clear_rounds() override { rounds_ = 0; }

  void add(waits_in where) { ++(where == waits_in::next_round ? deferred : waiting); }

  std::vector<std::string> done;
  std::size_t waiting = 0, deferred = 0;
  bool has_helpers = false, updating = false;

private:
  void turn_over() { waiting = std::exchange(deferred, 0); }

  version_number version_;
  std::uint64_t rounds_ = 0;
};

class PolicyMachine : public ::testing::Test {
protected:
  void begin(const std::string& policy, std::uint32_t workers) {
    machine_.begin(make_policy(policy, workers));
    for (std::uint32_t r = 0; r < workers; ++r) machine_.rule().join({r});
  }
  verdict judge(std::uint32_t worker, std::uint64_t step) {
    return machine_.judge({order_entry::kind::gradient, {worker}, {step}}, side_.version()).what;
  }
  void take(std::uint32_t worker, std::uint64_t step) {
    const verdict what = judge(worker, step);
    if (what == verdict::merge || what == verdict::defer) side_.add(machine_.place(what));
    if (what == verdict::merge) machine_.update_if_due();
  }

  noted_side side_;
  policy_machine machine_{side_, make_policy("async", 1)};
};

TEST_F(PolicyMachine, HasAnUpdateMadeOfACompleteBatch) {
  begin("sync", 2);
  EXPECT_EQ(machine_.place(), waits_in::batch);
  take(0, 1);
  EXPECT_THAT(side_.done, IsEmpty());
  EXPECT_FALSE(machine_.may_start({0}));
  take(1, 1);
  EXPECT_THAT(side_.done, ElementsAre("update of 2"));
  EXPECT_TRUE(machine_.may_start({0}));
  EXPECT_TRUE(machine_.renews({0}));
}

TEST_F(PolicyMachine, HasAsManyUpdatesMadeOfAQueueAsAreDue) {
  begin("queue:2,3", 3);
  EXPECT_EQ(machine_.place(), waits_in::queue);
  for (std::uint32_t r = 0; r < 3; ++r) take(r, 1);
  for (std::uint32_t r = 0; r < 3; ++r) {
    EXPECT_THAT(side_.done, IsEmpty()) << "a fourth may come";
    machine_.leave({r});
  }
  EXPECT_THAT(side_.done, ElementsAre("update of 2", "update of 1"));
}

TEST_F(PolicyMachine, WaitsForAnUpdateThatIsUnderWay) {
  begin("sync", 1);
  side_.has_helpers = true;
  take(0, 1);
  EXPECT_FALSE(machine_.may_start({0})) << "the version is not made yet";
  machine_.update_if_due();
  EXPECT_THAT(side_.done, ElementsAre("update of 1"));
  side_.updating = false;
  machine_.updated();
  EXPECT_TRUE(machine_.may_start({0}));
}

/// Of a batch, where it has no place, or applied alone, where it makes a version of nothing.
TEST_F(PolicyMachine, CountsALostGradientAndClosesABatchThatOthersCouldFill) {
  begin("sync", 2);
  take(0, 1);
  machine_.take_lost(judge(1, 1));
  EXPECT_THAT(side_.done, ElementsAre("update of 1"));
  begin("async", 1);
  machine_.take_lost(judge(0, 1));
  EXPECT_THAT(side_.done, ElementsAre("update of 1", "update of nothing"));
  begin("quorum:1,grace=1", 2);
  take(0, 1);
  EXPECT_THAT(side_.done, SizeIs(2));
  machine_.close();
  EXPECT_EQ(side_.done.back(), "update of 1");
  EXPECT_THAT(side_.done, SizeIs(3));
}

TEST_F(PolicyMachine, LeavesNothingBehindOfAPolicyThatEnds) {
  begin("ringleader", 2);
  EXPECT_EQ(machine_.place(), waits_in::round);
  EXPECT_EQ(machine_.place(verdict::defer), waits_in::next_round);
  take(0, 1);
  side_.add(waits_in::next_round);
  machine_.finish();
  EXPECT_TRUE(side_.nothing_waits());
}

} // namespace
} // namespace mailgrad

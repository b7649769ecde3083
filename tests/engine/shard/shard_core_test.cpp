#include <mailgrad/engine/shard/shard_core.hpp>
#include <mailgrad/engine/shard/shard_timeline.hpp>
#include <mailgrad/engine/shard/worker_slots.hpp>
#include <mailgrad/optim/policies/custom_policy.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/noted_port.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/support/manual_time.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>

// The core of a shard without an actor. What a policy does with gradients is tested by way of
// parameter_actor.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

class WorkerSlots : public ::testing::Test {
protected:
  bool join(std::uint32_t worker, std::uint32_t incarnation = 0) {
    return slots_.join({worker}, {incarnation});
  }
  bool admit(std::uint32_t worker, std::uint64_t step, std::uint32_t incarnation = 0, run_id run = {5}) {
    push_gradient x = testing::push_of(worker, step, 0, nullptr);
    x.header.id.run = run;
    x.header.id.incarnation = {incarnation};
    if (!slots_.awaits(x.header.id)) return false;
    slots_.admit(x, 10s);
    return true;
  }

  worker_slots slots_{2, 2, run_id{5}};
};

TEST_F(WorkerSlots, AdmitEachGradientOfAWorkerThatHasJoinedOnce) {
  EXPECT_FALSE(admit(0, 1)) << "it has not joined";
  EXPECT_TRUE(join(0));
  EXPECT_TRUE(admit(0, 1));
  EXPECT_FALSE(admit(0, 1));
  EXPECT_TRUE(admit(0, 3)) << "step 2 was lost on the way";
  EXPECT_FALSE(admit(0, 2));
  EXPECT_FALSE(admit(0, 4, 0, {6})) << "of another run";
  EXPECT_FALSE(admit(2, 1)) << "there is no such rank";
  EXPECT_FALSE(join(2));
  EXPECT_FALSE(slots_.leave({2}, {}));
  EXPECT_FALSE(slots_.is_replaced_by({2}, {1}));
}

TEST_F(WorkerSlots, LetTheNextIncarnationCountItsStepsAnew) {
  join(0);
  admit(0, 7);
  EXPECT_FALSE(slots_.is_replaced_by({0}, {0})) << "the same once more";
  EXPECT_TRUE(slots_.is_replaced_by({0}, {1}));
  EXPECT_TRUE(slots_.leave({0}, {0}));
  EXPECT_FALSE(slots_.is_replaced_by({0}, {1})) << "it has left";
  EXPECT_TRUE(join(0, 1));
  EXPECT_FALSE(slots_[{0}].left);
  EXPECT_FALSE(admit(0, 8, 0)) << "of the one before";
  EXPECT_TRUE(admit(0, 1, 1));
  EXPECT_FALSE(join(0, 0));
}

TEST_F(WorkerSlots, LetAnIncarnationLeaveOnce) {
  join(0);
  EXPECT_TRUE(slots_.leave({0}, {0}));
  EXPECT_FALSE(slots_.leave({0}, {0}));
  EXPECT_FALSE(join(0, 0)) << "it has left";
  EXPECT_FALSE(admit(0, 1));
  EXPECT_TRUE(slots_.leave({0}, {2})) << "its join is still under way";
  EXPECT_FALSE(join(0, 2));
  EXPECT_TRUE(join(0, 3));
}

TEST_F(WorkerSlots, HaveSlotsThatAreEmptyUntilSomebodyJoins) {
  slots_ = worker_slots(2, 4, run_id{5});
  EXPECT_EQ(slots_.used(), 2U);
  EXPECT_FALSE(slots_[{2}].in_policy);
  EXPECT_TRUE(slots_[{2}].left) << "nothing may wait for it";
  EXPECT_FALSE(admit(2, 1));
  EXPECT_TRUE(join(2));
  EXPECT_FALSE(slots_[{2}].left);
  EXPECT_TRUE(admit(2, 1));
  EXPECT_EQ(slots_.used(), 3U);
  EXPECT_FALSE(slots_.is_replaced_by({3}, {0}));
  EXPECT_TRUE(slots_.leave({3}, {0})) << "its join is still under way";
  EXPECT_FALSE(join(3));
  EXPECT_TRUE(join(3, 1));
}

TEST_F(WorkerSlots, CountWhatEachIncarnationSent) {
  join(0);
  admit(0, 1);
  admit(0, 2);
  EXPECT_EQ(slots_[{0}].heard, 2U);
  slots_[{0}].batches = 2;
  slots_.leave({0}, {0});
  join(0, 1);
  EXPECT_EQ(slots_[{0}].heard, 0U);
  EXPECT_EQ(slots_[{0}].batches, 0U);
  push_gradient x = testing::push_of(0, 1, 0, nullptr);
  x.header.id.run = {5};
  x.header.id.incarnation = {1};
  x.payload.sent = 4s; // and taken from the mailbox at 10 s
  slots_.admit(x, 10s);
  EXPECT_EQ(slots_[{0}].in_mailbox, 6s);
  EXPECT_EQ(slots_[{0}].account.times.mailbox.total(), 6s);
}

TEST_F(WorkerSlots, AllWaitOnlyIfEveryWorkerOfThePolicyDoes) {
  join(0);
  EXPECT_FALSE(slots_.all_wait());
  slots_[{0}].waits_since = 1s;
  EXPECT_FALSE(slots_.all_wait()) << "rank 1 may be computing, or has yet to join";
  slots_.leave({1}, {});
  EXPECT_TRUE(slots_.all_wait());
}

TEST_F(WorkerSlots, BeginAPolicyWithThoseThatArePresent) {
  join(0);
  join(1);
  slots_[{0}].merged = true;
  slots_.begin_policy(std::vector<std::uint8_t>{1, 0}, 20s);
  EXPECT_EQ(slots_[{0}].waits_since, 20s);
  EXPECT_FALSE(slots_[{0}].merged);
  EXPECT_TRUE(slots_[{0}].in_policy);
  EXPECT_FALSE(slots_[{1}].in_policy);
  EXPECT_FALSE(slots_[{1}].waits_since);
}

TEST_F(WorkerSlots, VisitThoseThatWaitByRank) {
  worker_slots many(200, 200, run_id{5});
  const auto waiting = [&many] {
    std::vector<std::uint32_t> ranks;
    many.each_waiting([&](rank r) { ranks.push_back(r.value); });
    return ranks;
  };
  EXPECT_THAT(waiting(), IsEmpty());
  for (const std::uint32_t r : {199U, 3U, 64U, 63U}) many.wait({r}, 1s);
  EXPECT_THAT(waiting(), ElementsAre(3, 63, 64, 199));
  EXPECT_THAT(waiting(), ElementsAre(3, 63, 64, 199)) << "they still wait";
  many[{63}].waits_since.reset();
  many.each_waiting([&](rank r) {
    if (r.value == 199) many[r].waits_since.reset();
  });
  EXPECT_THAT(waiting(), ElementsAre(3, 64));
  many.wait({63}, 2s);
  EXPECT_THAT(waiting(), ElementsAre(3, 63, 64));
}

/// A gradient that arrived at 10 s from a mailbox of 2 s, was judged at 11 s and answered at 15 s.
TEST_F(WorkerSlots, DivideAStayIntoItsSpans) {
  const auto stay = [&](bool merged, bool by_others, instant opened) {
    join(0);
    worker_slot w;
    w.arrived = 10s;
    w.in_mailbox = 2s;
    w.waits_since = 11s;
    w.waiting_step = {4};
    w.merged = merged;
    return w.end_wait(15s, by_others, opened).value();
  };
  const stay_at_shard alone = stay(false, false, 0s);
  EXPECT_EQ(instant{alone.in_mailbox}, 2s);
  EXPECT_EQ(instant{alone.until_answered}, 5s);
  EXPECT_EQ(alone.until_barrier, 0);
  EXPECT_EQ(alone.under_bound, 0);
  EXPECT_EQ(instant{stay(true, true, 14s).until_barrier}, 3s);
  EXPECT_EQ(stay(true, true, 14s).under_bound, 0);
  EXPECT_EQ(stay(true, true, 9s).until_barrier, 0) << "that barrier was another one";
  EXPECT_EQ(stay(true, false, 14s).until_barrier, 0) << "its own gradient opened it";
  EXPECT_EQ(instant{stay(false, true, 0s).under_bound}, 4s);
  worker_slot begins;
  begins.waits_since = 1s;
  EXPECT_FALSE(begins.end_wait(2s, true, 0s)) << "it has sent no gradient";
  EXPECT_FALSE(begins.waits_since);
}

TEST_F(WorkerSlots, CountADiscardedGradientOnce) {
  slots_.discard({1}, 3, "late", {});
  slots_.discard_unjudged({1}, 4, "other epoch");
  const worker_account& of = slots_[{1}].account;
  EXPECT_THAT(of.ledger.discarded, ElementsAre(Pair("late", 1), Pair("other epoch", 1)));
  EXPECT_EQ(of.ledger.produced, 1U) << "the first was counted when it was judged";
  EXPECT_THAT(of.discarded_gaps.buckets(), ElementsAre(Pair(3, 1), Pair(4, 1)));
}

TEST_F(WorkerSlots, TellNoIncarnationOfADiscardedGradientOfAnother) {
  worker_slot& w = slots_[{0}];
  w.begin({1});
  w.waiting_step = {3};
  slots_.discard({0}, 3, "late", {});
  EXPECT_EQ(w.discarded.value, 0U) << "its own gradient of step 3 has not been judged";
  slots_.discard({0}, 3, "late", {1});
  EXPECT_EQ(w.discarded.value, 3U);
  EXPECT_EQ(w.account.ledger.discarded["late"], 2U);
}

TEST_F(WorkerSlots, AddUpTheLedgersOfAllWorkers) {
  for (const std::uint32_t r : {0U, 1U, 1U}) slots_.produce({r});
  slots_.apply({0});
  slots_.merge({1});
  slots_.discard({1}, 3, "late", {});
  slots_.lose_unjudged({0});
  EXPECT_THAT(slots_.counts({2}, {7}), FieldsAre(shard_index{2}, version_number{7}, 4, 1, 1, 1))
      << "produced, discarded, applied, merged";
  EXPECT_EQ(slots_[{0}].account.ledger.lost, 1U);
}

using kind = order_entry::kind;

/// A shard of plain SGD with learning rate 1, and workers that have joined.
class ShardCore : public ::testing::Test {
protected:
  void serve(const std::string& policy, std::uint32_t workers, std::size_t floats = 16,
             std::size_t helpers = 0) {
    layout_.emplace(testing::layout_of({{"w", {floats}}}, 1));
    shard_core_options o{.weights = std::make_shared<shard>(*layout_, 0, 1, testing::sgd(1)),
                         .policy = {policy, workers},
                         .workers = workers,
                         .time = time_};
    first_ = o.weights->snapshot().on_host()[0];
    core_.emplace(std::move(o), port_, helpers);
    core_->begin();
    for (std::uint32_t r = 0; r < workers; ++r) {
      ASSERT_TRUE(core_->give_slot({r}, {}));
      core_->join({r});
    }
  }
  bool push(std::uint32_t worker, std::uint64_t step, std::uint64_t version_read, float value = 1) {
    return core_->push(
        testing::push_of(worker, step, version_read, testing::constant_gradient(*layout_, value)));
  }
  /// To whom the answers went since the last call.
  std::vector<std::uint32_t> answered() {
    std::vector<std::uint32_t> ranks;
    for (const auto& a : port_.answers) ranks.push_back(a.worker.value);
    port_.answers.clear();
    return ranks;
  }

  const std::shared_ptr<testing::manual_time> time_ = std::make_shared<testing::manual_time>();
  testing::noted_port port_;
  std::optional<parameter_layout> layout_;
  std::optional<shard_core> core_;
  float first_ = 0;
};

TEST_F(ShardCore, AnswersAGradientWithTheVersionThatItMade) {
  serve("async", 2);
  EXPECT_THAT(answered(), ElementsAre(0, 1)) << "each has its first weights";
  EXPECT_TRUE(push(0, 1, 0, 2));
  ASSERT_THAT(port_.answers, SizeIs(1));
  const shard_weights& told = port_.answers[0].weights;
  EXPECT_EQ(told.header.version.value, 1U);
  EXPECT_FLOAT_EQ(first_ - told.payload.values.on_host()[0], 2);
  EXPECT_TRUE(push(1, 1, 0));
  EXPECT_THAT(port_.gaps, ElementsAre(0, 1));
  EXPECT_FALSE(push(1, 1, 0)) << "it came before";
  EXPECT_EQ(core_->counts().applied, 2U);
}

TEST_F(ShardCore, NotesEachEntryAndTellsNobodyWhereShardsNeedNotAgree) {
  serve("async", 1);
  push(0, 1, 0);
  core_->leave({0}, {});
  EXPECT_THAT(port_.notes, ElementsAre(order_entry::of(kind::joined, {0}, {}),
                                       order_entry{kind::gradient, {0}, {1}, 0, time_->now().count()},
                                       order_entry::of(kind::left, {0}, {})));
  EXPECT_THAT(port_.told, IsEmpty());
}

TEST_F(ShardCore, HoldsWorkersAtABarrierUntilNobodyIsAwaited) {
  serve("sync", 3);
  answered();
  push(2, 1, 0);
  EXPECT_EQ(core_->first_awaited(), rank{0});
  push(0, 1, 0);
  EXPECT_THAT(answered(), IsEmpty());
  core_->free_credit();
  EXPECT_EQ(core_->first_awaited(), std::nullopt);
  EXPECT_TRUE(core_->leave({1}, {}));
  EXPECT_FALSE(core_->leave({1}, {})) << "once is enough";
  EXPECT_THAT(answered(), ElementsAre(0, 2));
  EXPECT_EQ(core_->version().value, 1U);
}

TEST_F(ShardCore, SaysWhenItsBatchCloses) {
  serve("quorum:1,grace=0.25", 2);
  EXPECT_EQ(core_->closes_at(), std::nullopt);
  push(1, 1, 0);
  const std::int64_t moment = (time_->now() + 250ms).count();
  EXPECT_EQ(core_->closes_at(), moment);
  core_->close(moment + 1);
  EXPECT_EQ(core_->version().value, 0U) << "that was another batch";
  core_->close(moment);
  EXPECT_EQ(core_->version().value, 1U);
  EXPECT_EQ(core_->closes_at(), std::nullopt);
  EXPECT_EQ(port_.told.back(), (order_entry{kind::closed, {}, {}, {}, moment}));
}

TEST_F(ShardCore, BeginsAPolicyWhenAllGradientsOfTheOldOneAreTaken) {
  serve("async", 2);
  push(0, 1, 0);
  EXPECT_FALSE(core_->switch_to({{1}, "sync", {{1}}, {1}})) << "of a run with one worker";
  EXPECT_TRUE(core_->switch_to({{1}, "sync", {{1}, {1}}, {1, 1}}));
  EXPECT_EQ(core_->take_switched(), std::nullopt);
  EXPECT_EQ(core_->next_policy()->policy, "sync");
  answered();
  push(1, 1, 0);
  EXPECT_EQ(core_->take_switched(), policy_epoch{1});
  EXPECT_EQ(core_->take_switched(), std::nullopt) << "it is told once";
  EXPECT_EQ(core_->policy_name(), "sync");
  EXPECT_THAT(answered(), ElementsAre(1, 0, 1)) << "worker 1 by the old policy, and then both";
  EXPECT_FALSE(push(0, 2, 2)) << "of the epoch before";
}

TEST_F(ShardCore, LetsAnIncarnationLeaveBeforeTheNextOneJoins) {
  serve("async", 1);
  EXPECT_EQ(core_->replaced_by({0}, {}), std::nullopt);
  EXPECT_EQ(core_->replaced_by({1}, {1}), std::nullopt) << "there is no such rank";
  EXPECT_EQ(core_->replaced_by({0}, {1}), incarnation_number{});
  EXPECT_TRUE(core_->leave({0}, {}));
  EXPECT_EQ(core_->replaced_by({0}, {1}), std::nullopt);
  EXPECT_TRUE(core_->give_slot({0}, {1}));
  core_->join({0});
  EXPECT_THAT(answered(), ElementsAre(0, 0));
  EXPECT_FALSE(core_->give_slot({0}, {}));
}

TEST_F(ShardCore, LeavesAnUpdateThatHelpersMayShareToItsOwner) {
  serve("sync", 2, 2 * parallel_update::part_size, 1);
  push(0, 1, 0, 1);
  EXPECT_EQ(core_->work(), nullptr);
  push(1, 1, 0, 3);
  ASSERT_NE(core_->work(), nullptr);
  answered();
  EXPECT_EQ(core_->compute_part(), parallel_update::progress::computed);
  EXPECT_EQ(core_->work()->compute_part(), parallel_update::progress::complete);
  EXPECT_EQ(core_->version().value, 0U);
  core_->end_update();
  EXPECT_EQ(core_->work(), nullptr);
  ASSERT_THAT(port_.answers, SizeIs(2));
  EXPECT_FLOAT_EQ(first_ - port_.answers[1].weights.payload.values.on_host()[0], 2);
}

/// Nobody goes on until the gradients of all workers are applied, one after the other.
class in_turn final : public policy {
public:
  static constexpr std::string_view policy_name = "in-turn";

  std::string_view name() const noexcept override { return policy_name; }
  bool makes_batches() const noexcept override { return true; }
  std::size_t takes_first() const noexcept override { return 1; }
  std::size_t queue_length() const noexcept override { return members_; }
  void join(rank) override { ++members_; }
  void leave(rank) override { --members_; }
  decision judge(const gradient_stamp&) override {
    ++waiting_;
    return {verdict::merge};
  }
  bool batch_complete() const override { return waiting_ > 0 && (applies_ || waiting_ >= members_); }
  void batch_applied() override { applies_ = --waiting_ > 0; }
  bool may_start(rank) const override { return waiting_ == 0; }

private:
  std::size_t members_ = 0, waiting_ = 0;
  bool applies_ = false;
};

TEST_F(ShardCore, MakesWhatElseIsDueWhenASharedUpdateHasEnded) {
  serve(custom_policy<in_turn>(), 2, 2 * parallel_update::part_size, 1);
  push(0, 1, 0, 1);
  push(1, 1, 0, 3);
  ASSERT_NE(core_->work(), nullptr);
  answered();
  while (core_->compute_part() != parallel_update::progress::complete) {
  }
  core_->end_update();
  EXPECT_EQ(core_->version().value, 2U);
  EXPECT_THAT(answered(), ElementsAre(0, 1));
}

TEST_F(ShardCore, GivesItsPartOfACheckpointOnce) {
  serve("async", 2);
  EXPECT_TRUE(core_->mark_cut(1, {0}, {}));
  EXPECT_FALSE(core_->mark_cut(1, {2}, {})) << "there is no such rank";
  push(0, 1, 0);
  EXPECT_THAT(port_.kept, ElementsAre(1)) << "that gradient does not belong";
  EXPECT_FALSE(core_->finished_cut());
  EXPECT_TRUE(core_->mark_cut(1, {1}, {}));
  const auto part = core_->finished_cut();
  ASSERT_TRUE(part);
  EXPECT_EQ(part->number, 1U);
  EXPECT_TRUE(part->fields);
  EXPECT_FALSE(core_->finished_cut());
  EXPECT_FALSE(core_->begin_cut(1));
}

TEST_F(ShardCore, TakesNoGradientAnyMoreWhenItHasFailed) {
  serve("sync", 2);
  answered();
  push(0, 1, 0);
  EXPECT_EQ(core_->fail(), std::nullopt);
  EXPECT_FALSE(push(1, 1, 0));
  EXPECT_THAT(answered(), IsEmpty());
  const shard_report r = core_->report({});
  EXPECT_EQ(r.version.value, 0U);
  for (const worker_account& w : r.workers) {
    EXPECT_EQ(w.ledger.produced, 1U);
    EXPECT_EQ(w.ledger.lost, 1U);
  }
}

class ShardTimeline : public ::testing::Test {
protected:
  const std::shared_ptr<testing::manual_time> time_ = std::make_shared<testing::manual_time>();
  const std::shared_ptr<trace_track> track_ = std::make_shared<trace_track>("shard 0", 9, time_->now());
  shard_timeline timeline_{time_, track_};
  const gradient_header header_{{{}, {3}, {}, {8}}, {40}};
};

TEST_F(ShardTimeline, DrawsWorkWaitsAndMoments) {
  const instant begin = time_->now();
  timeline_.idle(true, begin + 2s, false);
  timeline_.applied(header_, {43}, begin + 3s, 1s);
  timeline_.moment(trace_kind::discard, header_, "late");
  const auto& events = track_->events();
  ASSERT_GE(events.size(), 3U);
  EXPECT_EQ(events.front().what, trace_kind::rest_of_batch);
  const auto applied = std::ranges::find(events, trace_kind::apply, &trace_event::what);
  ASSERT_NE(applied, events.end());
  EXPECT_THAT(*applied, FieldsAre(trace_kind::apply, begin + 3s, begin + 4s, 3, 8, 40, 43, ""));
  EXPECT_EQ(events.back().what, trace_kind::discard);
  EXPECT_EQ(events.back().word, "late");
  shard_timeline silent(time_, nullptr);
  silent.idle(false, time_->now(), false);
  silent.applied(header_, {1}, time_->now(), 1s);
  silent.moment(trace_kind::discard, header_, "late");
  EXPECT_EQ(silent.take(), nullptr) << "it draws nothing";
  EXPECT_EQ(timeline_.take(), track_);
}

} // namespace
} // namespace mailgrad

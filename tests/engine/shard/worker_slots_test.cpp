#include <mailgrad/engine/shard/worker_slots.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>

#include <gmock/gmock.h>

#include <chrono>

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

} // namespace
} // namespace mailgrad

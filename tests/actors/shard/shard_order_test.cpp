#include <mailgrad/optim/cures/custom_cure.hpp>
#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>
#include <mailgrad/tests/support/played_actor.hpp>

#include <gmock/gmock.h>

#include <span>
#include <stdexcept>

// A shard that judges in the order of the first, of a recording or of the moments at which batches close.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre, ::testing::Field, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::SizeIs,
    ::testing::ThrowsMessage;
using testing::only;
using kind = order_entry::kind;

/// The second of two shards; the test plays the first.
class LedShard : public testing::ParameterActor {
protected:
  LedShard() : ParameterActor(2) {}

  void serve(const std::string& policy, std::uint32_t workers) {
    ParameterActor::serve(policy, workers);
    for (std::uint32_t r = 0; r < workers; ++r) tell(shard_, order_entry{kind::joined, {r}});
  }
  /// The first shard has judged this gradient, which was so many versions late.
  void lead(std::uint32_t worker, std::uint64_t step, std::uint64_t gap) {
    tell(shard_, order_entry{kind::gradient, {worker}, {step}, gap});
  }
  /// A gradient of version 0 comes, and its turn.
  void push_in_turn(std::uint32_t worker, std::uint64_t step, float value = 1) {
    push(worker, step, 0, value);
    lead(worker, step, 0);
  }
};

/// Otherwise the next gradients would be older on the first shard than here, and one discarded there counts
/// here.
TEST_F(LedShard, MakesAVersionAlsoOfAGradientThatItNeverGets) {
  serve("ringmaster:2", 3);
  tell(shard_, worker_left{{0}});
  lead(0, 1, 0);
  EXPECT_EQ(report().version.value, 1U);
  push_in_turn(2, 1);
  push_in_turn(1, 1);
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 2U);
  EXPECT_EQ(r.workers[1].ledger.discarded_in_all(), 1U);
}

/// A policy without one order let the shards make different numbers of versions before it.
TEST_F(LedShard, JudgesAGradientThatItNeverGetsByItsGapAndNotByItsVersion) {
  serve("ringmaster:2", 3);
  for (const std::uint32_t worker : {0U, 1U}) tell(shard_, worker_left{{worker}});
  for (std::uint64_t step = 1; step <= 3; ++step) lead(0, step, 0);
  EXPECT_EQ(report().version.value, 3U);
  lead(1, 1, 2);
  EXPECT_EQ(report().version.value, 3U) << "the first shard has discarded it";
  lead(1, 2, 1);
  EXPECT_EQ(report().version.value, 4U);
}

/// A worker died between its pushes to the two shards, amid a round. The first shard has its gradient in the
/// table, and this one has an empty place.
TEST_F(LedShard, MakesTheUpdatesOfARoundInWhichAGradientIsMissing) {
  serve("ringleader", 3);
  tell(shard_, worker_left{{2}});
  push_in_turn(0, 1, 2);
  lead(2, 1, 0);
  tell(shard_, order_entry{kind::left, {2}});
  EXPECT_EQ(weights_of(0).back().header.version.value, 0U);
  push_in_turn(1, 1, 4);
  EXPECT_FLOAT_EQ(moved(weights_of(1).back()), (2 + 4) / 2.0F) << "of those that are here";
  push_in_turn(0, 2, 6);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 3 + ((2 + 6) / 2.0F + 4) / 2) << "another of the round";
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 2U);
  EXPECT_EQ(r.workers[2].ledger, gradient_ledger{}) << "the worker or the other shard counts it";
  EXPECT_EQ(r.workers[0].ledger, (gradient_ledger{2, 0, 2, {}, 0}));
}

/// The place is that of the one who is served, so the update is made without a gradient of its own.
TEST_F(LedShard, ServesAWorkerOfWhichTheGradientIsMissing) {
  serve("ringleader", 2);
  push_in_turn(0, 1, 2);
  tell(shard_, worker_left{{1}});
  lead(1, 1, 0);
  tell(shard_, order_entry{kind::left, {1}});
  push_in_turn(0, 2, 6);
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 2U) << "as on the first shard";
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 2 + (2 + 6) / 2.0F);
}

/// The first shard has lost its worker, or is slow: nothing of its order has come for what is here.
TEST_F(LedShard, NamesTheOrderAndThenTheGradientThatItWaitsFor) {
  serve("k-async:2", 3);
  push(0, 1, 0);
  time_->advance(2s);
  const wait_reason wait = only(waits());
  EXPECT_EQ(wait.what, "shard 1 holds worker 0 after step 1, k-async policy, until shard 0 tells its turn");
  EXPECT_EQ(instant{wait.span}, 2s);
  lead(2, 1, 0);
  lead(0, 1, 0);
  EXPECT_EQ(only(waits()).what, "shard 1 holds worker 0 after step 1, k-async policy, until it has the "
                                "gradient of worker 2's step 1, whose turn is first");
}

/// A gradient that is here and not judged is none that it has to hear of.
TEST_F(LedShard, AwaitsNobodyWhoseGradientIsHere) {
  serve("k-async:3", 3);
  push_in_turn(0, 1);
  push(1, 1, 0);
  EXPECT_THAT(waits(),
              ElementsAre(Field(&wait_reason::what,
                                HasSubstr("holds worker 0 after step 1, k-async policy, until it hears "
                                          "from worker 2 (heard 0.0 s ago)")),
                          Field(&wait_reason::what, HasSubstr("holds worker 1 after step 1, k-async "
                                                              "policy, until shard 0 tells"))));
}

TEST_F(LedShard, TellsTheRecorderWhichShardItIs) {
  record();
  serve("ringmaster:2", 1);
  report();
  EXPECT_EQ(noted_.heard<order_noted>().at(0).shard, shard_index{1});
}

/// A timer that the test plays.
class played_timer final : public step_timer {
public:
  void at(instant when, notice tell) override { asked.emplace_back(when, std::move(tell)); }
  std::vector<std::pair<instant, notice>> asked;
};

class BatchWindow : public testing::ParameterActor {
protected:
  explicit BatchWindow(std::uint32_t shards = 1) : ParameterActor(shards) { timer_ = played_; }

  /// The moment that the shard asked for as the n-th has come.
  void pass(std::size_t n) {
    time_->advance(1s);
    played_->asked.at(n).second();
    run();
  }

  const std::shared_ptr<played_timer> played_ = std::make_shared<played_timer>();
};

TEST_F(BatchWindow, ClosesTheBatchWhenItIsOver) {
  serve("quorum:2,grace=0.25", 3);
  push(0, 1, 0, 2);
  EXPECT_THAT(played_->asked, IsEmpty());
  push(1, 1, 0, 4);
  ASSERT_EQ(played_->asked.size(), 1U);
  EXPECT_EQ(played_->asked[0].first, time_->now() + 250ms);
  EXPECT_EQ(weights_of(0).size(), 1U) << "the batch waits for the third";
  pass(0);
  ASSERT_EQ(weights_of(0).size(), 2U);
  ASSERT_EQ(weights_of(1).size(), 2U);
  EXPECT_EQ(weights_of(2).size(), 1U) << "it still computes";
  EXPECT_EQ(weights_of(1)[1].header.version.value, 1U);
  EXPECT_FLOAT_EQ(moved(weights_of(1)[1]), 3);
  push(2, 1, 0, 1);
  push(0, 2, 1, 1);
  ASSERT_EQ(played_->asked.size(), 2U) << "who was late is in the next batch";
  pass(1);
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 2U);
  EXPECT_THAT(r.workers[2].gaps.buckets(), ElementsAre(::testing::Pair(1, 1)));
}

/// A worker tells how many samples it has had in all, and a gradient weighs what it adds to them.
TEST_F(BatchWindow, WeighsGradientsByTheirSamples) {
  serve("quorum:2", 2);
  const auto push_after = [this](std::uint32_t worker, std::uint64_t step, float value,
                                 std::uint64_t samples) {
    push_gradient x = testing::push_of(worker, step, step - 1, testing::constant_gradient(layout_, value));
    x.header.samples = samples;
    tell(shard_, x);
  };
  push_after(0, 1, 1, 6);
  push_after(1, 1, 5, 2);
  EXPECT_FLOAT_EQ(moved(weights_of(0)[1]), (6 * 1.0F + 2 * 5.0F) / 8);
  push_after(0, 2, 1, 8);
  push_after(1, 2, 5, 8);
  EXPECT_FLOAT_EQ(moved(weights_of(0)[2]), 2 + (2 * 1.0F + 6 * 5.0F) / 8);
}

TEST_F(BatchWindow, ClosesNoOtherBatchThanItsOwn) {
  serve("quorum:2,grace=0.25", 3);
  for (std::uint32_t r = 0; r < 3; ++r) push(r, 1, 0);
  EXPECT_EQ(weights_of(0).size(), 2U) << "all are there";
  push(0, 2, 1);
  pass(0);
  EXPECT_EQ(weights_of(0).size(), 2U);
  EXPECT_EQ(report().version.value, 1U);
}

TEST_F(BatchWindow, IsNotWatchedByAShardThatFollowsTheOrder) {
  replay(3, {{kind::joined, {0}},
             {kind::joined, {1}},
             {kind::joined, {2}},
             {kind::gradient, {0}, {1}},
             {kind::gradient, {1}, {1}},
             {kind::closed, {}, {}, {}, 7},
             {kind::gradient, {2}, {1}},
             {kind::gradient, {0}, {2}}});
  serve("quorum:2,grace=0.25", 3);
  push(1, 1, 0, 4);
  push(0, 1, 0, 2);
  EXPECT_THAT(played_->asked, IsEmpty());
  ASSERT_EQ(weights_of(0).size(), 2U) << "the recording closes the batch";
  EXPECT_FLOAT_EQ(moved(weights_of(0)[1]), 3);
}

/// In the recorded run the gradient was lost on its way to this shard, and no other one came in time.
TEST_F(BatchWindow, MakesAVersionInAReplayOfABatchWhoseGradientsWereMissed) {
  replay(2, {{kind::joined, {0}},
             {kind::joined, {1}},
             {kind::missed, {1}, {1}},
             {kind::closed, {}, {}, {}, 7},
             {kind::gradient, {0}, {1}}});
  serve("quorum:1,grace=0.25", 2);
  push(1, 1, 0);
  EXPECT_EQ(report().version.value, 1U);
}

TEST_F(BatchWindow, IsNotedForAReplay) {
  record();
  serve("quorum:1,grace=0.25", 2);
  push(1, 1, 0);
  const std::int64_t moment = (time_->now() + 250ms).count();
  pass(0);
  std::vector<order_entry> closed = entries();
  std::erase_if(closed, [](const order_entry& e) { return e.what != kind::closed; });
  EXPECT_THAT(closed, ElementsAre(order_entry{kind::closed, {}, {}, {}, moment}));
}

/// The thread of the process's timer would change the queues of a system that has no lock for them.
TEST(BatchWindowOnOneThread, RefusesTheTimerOfTheProcess) {
  stepping_system system(true);
  caf::event_based_actor* self = nullptr;
  const caf::actor owner = messaging::spawn<testing::played_actor>(
      system.actors(), &self, std::make_shared<testing::played_actor::task>());
  system.run();
  EXPECT_THAT([&] { batch_window(self, nullptr).watch(1); },
              ThrowsMessage<std::logic_error>(HasSubstr("another thread")));
  messaging::kill(owner);
}

class LedBatchWindow : public BatchWindow {
protected:
  LedBatchWindow() : BatchWindow(2) {}
};

TEST_F(LedBatchWindow, IsClosedWhenTheFirstShardSaysSo) {
  serve("quorum:2,grace=0.25", 3);
  for (std::uint32_t r = 0; r < 3; ++r) tell(shard_, order_entry{kind::joined, {r}});
  for (std::uint32_t r = 0; r < 2; ++r) {
    push(r, 1, 0);
    tell(shard_, order_entry{kind::gradient, {r}, {1}, 0, 100});
  }
  EXPECT_THAT(played_->asked, IsEmpty());
  EXPECT_EQ(report().version.value, 0U);
  tell(shard_, order_entry{kind::closed, {}, {}, {}, 250});
  EXPECT_EQ(report().version.value, 1U);
}

/// A first shard that is as it should be awaits the others with each worker's next step.
TEST_F(LedBatchWindow, EndsItsShardIfTheFirstOneRunsAway) {
  serve("quorum:2,grace=0.25", 3);
  tell(shard_, order_entry{kind::joined, {0}});
  for (std::uint64_t step = 1; step <= 1000; ++step) tell(shard_, order_entry{kind::gradient, {0}, {step}});
  EXPECT_EQ(report().version.value, 0U) << "they wait for gradients";
  for (std::uint64_t step = 1001; step <= 1300; ++step)
    tell(shard_, order_entry{kind::gradient, {0}, {step}});
  EXPECT_THAT(ask<shard_report>(shard_, report_shard{}).heard<shard_report>(), IsEmpty()) << "it has ended";
}

/// A cure that counts the workers that send no more.
class leave_count final : public cure {
public:
  static constexpr std::string_view cure_name = "leave-count";
  leave_count(std::span<const double>, const cure_site&) { left = applied_before = 0; }
  std::string_view name() const noexcept override { return cure_name; }
  bool compensates() const noexcept override { return true; }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    for (std::size_t i = 0; i < applied.size(); ++i) applied[i] = g.scale * g.values[i];
    applied_before += left == 0 ? 1 : 0;
  }
  void leave(rank) override { ++left; }

  static inline int left = 0;
  static inline int applied_before = 0; ///< gradients, before any worker left
};

/// A shard whose order is recorded.
class RecordedSwitch : public testing::ParameterActor {
protected:
  RecordedSwitch() { record(); }

  /// The run of two workers that were dealt no batch; the second was lost.
  static recording run_with(std::vector<order_entry> entries,
                            const std::vector<std::uint8_t>& present = {1, 1}) {
    recording r;
    r.name = "x.rec";
    r.header.workers = 2;
    r.batches = {{}, {}};
    r.entries = {std::move(entries)};
    r.end.ended = "completed";
    r.end.switches = {{"sync", "by hand", {0, 0}, present}};
    r.end.lost = {1};
    return r;
  }
  void switch_to_sync(std::vector<std::uint8_t> present) {
    tell(shard_, switch_policy{{1}, "sync", {{0}, {0}}, std::move(present)});
  }
};

/// In the recorded run worker 1 was paused before its joining came to this shard, and lost during the switch.
TEST_F(RecordedSwitch, SendsHomeAtItsTurnWhoNeverJoinedBefore) {
  replayed_ = std::make_shared<const recording>(
      run_with({{kind::joined, {0}}, {kind::switched, {}}, {kind::left, {1}}}));
  serve("async", 2);
  EXPECT_THAT(weights_of(1), SizeIs(1)) << "there is no entry for it to wait for";
  switch_to_sync({1, 1});
  ASSERT_THAT(weights_of(1), SizeIs(2)) << "nor is there after the switch";
  EXPECT_EQ(weights_of(1)[1].header.epoch.value, 1U);
}

/// In the recorded run this shard never had the gradient. Here it comes, and its worker leaves before the
/// entry.
TEST_F(RecordedSwitch, SendsNobodyHomeWhoHasComeBackAsAnotherSince) {
  recording r = run_with(
      {{kind::joined, {0}}, {kind::joined, {1}}, {kind::gradient, {0}, {1}}, {kind::missed, {1}, {1}}});
  r.end.switches.clear();
  replayed_ = std::make_shared<const recording>(std::move(r));
  serve("async", 2);
  push(1, 1, 0);
  auto next = listen<shard_weights>();
  tell(shard_, join_shard{{1}, {1}, next.actor()});
  push(0, 1, 0);
  EXPECT_EQ(report().version.value, 2U) << "also of the place of the gradient that was missed";
  EXPECT_THAT(weights_of(1), SizeIs(1));
  EXPECT_THAT(next.heard<shard_weights>(), SizeIs(0)) << "its turn to join has not come";
}

/// This shard hears of a loss before the coordinator does.
TEST_F(RecordedSwitch, CanBeRepeatedThoughTheCoordinatorTakesALostWorkerForPresent) {
  serve("async", 2);
  tell(shard_, worker_left{{1}});
  switch_to_sync({1, 1});
  tell(shard_, worker_left{{0}});
  EXPECT_NO_THROW(require_repeatable(run_with(entries())));
}

/// The gradients of a batch may be its own.
TEST_F(RecordedSwitch, ForgetsNobodyBeforeTheBatchIsAppliedThatItsEndCompletes) {
  serve("sync", 3, custom_cure<leave_count>());
  push(0, 1, 0);
  push(1, 1, 0);
  EXPECT_EQ(leave_count::applied_before, 0) << "the batch waits for worker 2";
  tell(shard_, worker_left{{2}});
  EXPECT_THAT(weights_of(0), SizeIs(2));
  EXPECT_EQ(leave_count::left, 1);
  EXPECT_EQ(leave_count::applied_before, 2);
}

/// The coordinator knows that it has ended, and its own word is still on its way to this shard.
TEST_F(RecordedSwitch, LetsGoBeforeItWhoTakesNoPartAndHasNotSaidThatItLeaves) {
  serve("async", 2, custom_cure<leave_count>());
  switch_to_sync({1, 0});
  EXPECT_EQ(leave_count::left, 1);
  tell(shard_, worker_left{{1}});
  EXPECT_EQ(leave_count::left, 1) << "it leaves once";
  tell(shard_, worker_left{{0}});
  const std::vector<order_entry> noted = entries();
  std::vector<kind> kinds;
  for (const order_entry& e : noted) kinds.push_back(e.what);
  EXPECT_THAT(kinds, ElementsAre(kind::joined, kind::joined, kind::left, kind::switched, kind::left));
  recording r = run_with(noted, {1, 0});
  r.end.lost.clear();
  EXPECT_NO_THROW(require_repeatable(r));
}

} // namespace
} // namespace mailgrad

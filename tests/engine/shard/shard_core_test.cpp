#include <mailgrad/engine/shard/shard_core.hpp>
#include <mailgrad/engine/shard/shard_timeline.hpp>
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

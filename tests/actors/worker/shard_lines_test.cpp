#include <mailgrad/tests/actors/worker/played_worker.hpp>

#include <gmock/gmock.h>

#include <bit>
#include <tuple>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class ShardLines : public testing::PlayedWorker {
protected:
  /// All shards have answered the join with version 0.
  void join() {
    act([&] { lines_.join(); });
    for (std::uint32_t s = 0; s < 2; ++s) lines_.note(answer(s, 0), time_->now(), 0ns);
  }

  shard_lines lines_{context(), shards()};
};

TEST_F(ShardLines, JoinAndLeaveEveryShardAsThisIncarnation) {
  act([&] { lines_.join(); });
  act([&] { lines_.leave(); });
  for (auto& shard : probes_) {
    ASSERT_THAT(shard.heard<join_shard>(), SizeIs(1));
    const join_shard& joined = shard.heard<join_shard>()[0];
    EXPECT_EQ(joined.worker, rank{1});
    EXPECT_EQ(joined.incarnation, incarnation_number{2});
    EXPECT_EQ(joined.device, caf::actor_cast<caf::actor>(self_));
    ASSERT_THAT(shard.heard<worker_left>(), SizeIs(1));
    EXPECT_EQ(shard.heard<worker_left>()[0].worker, rank{1});
    EXPECT_EQ(shard.heard<worker_left>()[0].incarnation, incarnation_number{2});
  }
}

TEST_F(ShardLines, HaveAnAnswerWhenEveryShardHasGivenOne) {
  act([&] { lines_.join(); });
  EXPECT_FALSE(lines_.all_answered());
  lines_.note(answer(1, 0), time_->now(), 0ns);
  EXPECT_FALSE(lines_.all_answered());
  EXPECT_EQ(lines_.waits_for(), "the weights of 1 of 2 shards after step 0");
  lines_.note(answer(0, 0), time_->now(), 0ns);
  EXPECT_TRUE(lines_.all_answered());
}

TEST_F(ShardLines, PushToEachShardWithTheVersionThatItSent) {
  act([&] { lines_.join(); });
  lines_.note(answer(0, 5), time_->now(), 11ns);
  lines_.note(answer(1, 8), time_->now(), 12ns);
  const auto g = std::make_shared<const gradient>();
  time_->advance(1s);
  act([&] { lines_.push(g, 0.5F, time_->now(), 3ns); });
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_THAT(pushed(s), SizeIs(1));
    const push_gradient& x = pushed(s)[0];
    EXPECT_EQ(x.header.id, (gradient_id{{7}, {1}, {2}, {1}}));
    EXPECT_EQ(x.header.version_read.value, s == 0 ? 5U : 8U);
    EXPECT_EQ(x.header.scale_bits, std::bit_cast<std::uint32_t>(0.5F));
    EXPECT_EQ(x.header.times.read, s == 0 ? 11ns : 12ns);
    EXPECT_EQ(x.header.times.compute, 3ns);
    EXPECT_EQ(x.payload.values, g);
    EXPECT_EQ(x.payload.sent, time_->now());
    EXPECT_FALSE(x.payload.read);
  }
  EXPECT_EQ(report_.produced, 1U);
  EXPECT_EQ(lines_.step().value, 1U);
  EXPECT_FALSE(lines_.all_answered());
  EXPECT_EQ(lines_.waits_since(), time_->now());
}

TEST_F(ShardLines, CountWhatTheirIncarnationHasTrained) {
  report_.steps = 7;
  report_.samples = 70;
  lines_.begin_incarnation();
  join();
  report_.steps = 9;
  report_.samples = 86;
  act([&] { lines_.push(std::make_shared<const gradient>(), 1, time_->now(), 0ns); });
  EXPECT_EQ(pushed(0)[0].header.batches, 2U);
  EXPECT_EQ(pushed(0)[0].header.samples, 16U);
}

/// The gradient and its answer are under way for 3 us together, and 2 us pass before the worker takes the
/// answer.
TEST_F(ShardLines, ShowTheTimeOnTheWireBehindTheStayAtTheShard) {
  trace_track track("worker 1", 20, time_->now());
  worker_context of = context();
  of.trace = &track;
  shard_lines lines(of, shards());
  act([&] { lines.join(); });
  for (std::uint32_t s = 0; s < 2; ++s) lines.note(answer(s, 0), time_->now(), 0ns);
  act([&] { lines.push(std::make_shared<const gradient>(), 1, time_->now(), 0ns); });
  shard_weights x = answer(0, 1, 0, stay_at_shard{instant{2us}.count(), 0, 0, instant{5us}.count()});
  x.payload.arrived = time_->now() + 10us;
  time_->advance(12us);
  lines.note(x, time_->now(), 0ns);
  std::vector<std::pair<trace_kind, instant>> spans;
  for (const trace_event& e : track.events())
    if (e.what != trace_kind::read) spans.emplace_back(e.what, e.end - e.begin);
  using ::testing::Pair;
  EXPECT_THAT(spans, ElementsAre(Pair(trace_kind::shard_mailbox, 2us), Pair(trace_kind::shard_at_work, 5us),
                                 Pair(trace_kind::wire, 3us), Pair(trace_kind::own_mailbox, 2us)));
}

/// So that a shard without other readers may update in place.
TEST_F(ShardLines, LetTheirWeightsGoBeforeTheyPush) {
  join();
  const std::weak_ptr<const memory> held = lines_.weights(0).owner();
  EXPECT_FALSE(held.expired());
  act([&] { lines_.push(std::make_shared<const gradient>(), 1, time_->now(), 0ns); });
  EXPECT_TRUE(held.expired());
}

TEST_F(ShardLines, SendTheWeightsAlongWithASampledGradient) {
  join();
  const snapshot held = lines_.weights(1);
  act([&] { lines_.push(std::make_shared<const gradient>(), 1, time_->now(), 0ns, true); });
  EXPECT_EQ(pushed(1)[0].payload.read, held);
  EXPECT_FALSE(lines_.weights(1));
}

TEST_F(ShardLines, WaitForEveryShardAnewWhenAnotherPolicyBegins) {
  join();
  lines_.begin_epoch({3});
  EXPECT_FALSE(lines_.all_answered());
  EXPECT_FALSE(lines_.weights(0));
  EXPECT_EQ(lines_.epoch().value, 3U);
  time_->advance(2s);
  for (std::uint32_t s = 0; s < 2; ++s) lines_.note(answer(s, 4), time_->now(), 0ns);
  lines_.end_waits();
  EXPECT_EQ(instant{report_.barrier_wait}, 2s) << "the fence is a barrier for all";
  act([&] { lines_.push(std::make_shared<const gradient>(), 1, time_->now(), 0ns); });
  EXPECT_EQ(pushed(0)[0].header.epoch.value, 3U);
}

/// The worker waited for both shards at the same time.
TEST_F(ShardLines, CountTheLongestWaitOfAStepAndNotTheSum) {
  act([&] { lines_.join(); });
  lines_.note(answer(0, 1, 0, stay_at_shard{0, 700, 20, 720}), time_->now(), 0ns);
  lines_.note(answer(1, 1, 0, stay_at_shard{0, 400, 50, 450}), time_->now(), 0ns);
  lines_.end_waits();
  EXPECT_EQ(report_.barrier_wait, 700);
  EXPECT_EQ(report_.bound_wait, 50);
  lines_.end_waits();
  EXPECT_EQ(report_.barrier_wait, 700) << "each wait counts once";
  EXPECT_EQ(report_.bound_wait, 50);
}

/// The shards have answered nothing yet, so the worker waits since it joined and not since the policy began.
TEST_F(ShardLines, WaitSinceTheyJoinedIfAPolicyBeginsBeforeTheFirstAnswers) {
  time_->advance(8s);
  act([&] { lines_.join(); });
  const instant joined = time_->now();
  time_->advance(1s);
  lines_.begin_epoch({1});
  EXPECT_EQ(lines_.waits_since(), joined);
  time_->advance(2s);
  lines_.end_waits();
  EXPECT_EQ(instant{report_.barrier_wait}, 3s);
  time_->advance(4s);
  lines_.end_waits();
  EXPECT_EQ(instant{report_.barrier_wait}, 3s) << "the fence counts once";
}

TEST_F(ShardLines, WaitSinceThePolicyBeganIfNobodyOwedThemAnAnswer) {
  join();
  time_->advance(5s);
  lines_.begin_epoch({1});
  EXPECT_EQ(lines_.waits_since(), time_->now());
  EXPECT_EQ(lines_.waits_for(), "the weights of 2 of 2 shards after step 0");
}

TEST_F(ShardLines, WaitSinceTheGradientHadBeenComputed) {
  join();
  const instant at = time_->now();
  time_->advance(6s);
  act([&] { lines_.push(std::make_shared<const gradient>(), 1, at, 0ns); });
  EXPECT_EQ(lines_.waits_since(), at);
  EXPECT_EQ(pushed(0)[0].payload.sent, at);
  EXPECT_EQ(lines_.waits_for(), "the weights of 2 of 2 shards after step 1");
}

TEST_F(ShardLines, OfARunWithoutShardsWaitForNobody) {
  shard_lines none(context(), {});
  act([&] { none.join(); });
  EXPECT_EQ(none.count(), 0U);
  EXPECT_TRUE(none.all_answered());
  act([&] { none.push(std::make_shared<const gradient>(), 1, time_->now(), 0ns); });
  EXPECT_TRUE(none.all_answered());
  none.begin_epoch({1});
  EXPECT_TRUE(none.all_answered());
}

/// Lines that keep a timeline. Times count from the join.
class TracedShardLines : public ShardLines {
protected:
  using shown = std::tuple<trace_kind, std::int64_t, std::int64_t, std::uint32_t>;

  void SetUp() override {
    act([&] { traced_.join(); });
  }
  worker_context traced_context() {
    worker_context c = context();
    c.trace = &track_;
    return c;
  }
  /// Kind, begin, end and shard of each event.
  std::vector<shown> events() const {
    std::vector<shown> all;
    for (const trace_event& e : track_.events())
      all.emplace_back(e.what, (e.begin - begun_).count(), (e.end - begun_).count(), e.peer);
    return all;
  }

  const instant begun_ = time_->now();
  trace_track track_{"worker 1", 20, begun_};
  shard_lines traced_{traced_context(), shards()};
};

TEST_F(TracedShardLines, TellWhereAnAnswerStayed) {
  traced_.note(answer(1, 5, 0, stay_at_shard{100, 300, 0, 600}), begun_ + 900ns, 7ns);
  EXPECT_THAT(events(),
              ElementsAre(shown{trace_kind::shard_mailbox, 0, 100, 1},
                          shown{trace_kind::barrier, 100, 400, 1},
                          shown{trace_kind::shard_at_work, 400, 700, 1},
                          shown{trace_kind::own_mailbox, 700, 900, 1}, shown{trace_kind::read, 900, 907, 1}));
  EXPECT_EQ(track_.events().back().version, 5U);
  EXPECT_EQ(track_.events().back().step, 0U);
}

TEST_F(TracedShardLines, BlameTheBoundForWhatFollowsTheBarrier) {
  traced_.note(answer(0, 5, 0, stay_at_shard{100, 0, 50, 600}), begun_ + 900ns, 0ns);
  EXPECT_THAT(events(),
              ElementsAre(shown{trace_kind::shard_mailbox, 0, 100, 0}, shown{trace_kind::bound, 100, 700, 0},
                          shown{trace_kind::own_mailbox, 700, 900, 0}, shown{trace_kind::read, 900, 900, 0}));
}

TEST_F(TracedShardLines, KnowNothingOfTheStayOfAnAnswerToAJoin) {
  traced_.note(answer(0, 5), begun_ + 900ns, 2ns);
  EXPECT_THAT(events(),
              ElementsAre(shown{trace_kind::own_mailbox, 0, 900, 0}, shown{trace_kind::read, 900, 902, 0}));
}

TEST_F(TracedShardLines, BlameTheSwitchUntilTheFirstStepOfTheNewPolicy) {
  traced_.begin_epoch({1});
  traced_.note(answer(0, 5, 0, stay_at_shard{100, 300, 50, 600}), begun_ + 900ns, 2ns);
  traced_.end_waits();
  traced_.note(answer(1, 5), begun_ + 990ns, 2ns);
  EXPECT_THAT(events(),
              ElementsAre(shown{trace_kind::policy_switch, 0, 900, 0}, shown{trace_kind::read, 900, 902, 0},
                          shown{trace_kind::own_mailbox, 902, 990, 1}, shown{trace_kind::read, 990, 992, 1}));
}

} // namespace
} // namespace mailgrad

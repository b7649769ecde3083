#include <mailgrad/actors/worker/exchange.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/ticking_time.hpp>
#include <mailgrad/tests/support/played_actor.hpp>

#include <gmock/gmock.h>

#include <bit>
#include <span>
#include <tuple>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::Each, ::testing::ElementsAre, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::Pair,
    ::testing::SizeIs, ::testing::ThrowsMessage;
using testing::only, testing::listener;

/// A runner that computes nothing. It notes which weights it was given, and takes this long to get them.
class noting_runner final : public step_runner {
public:
  struct given {
    std::uint32_t shard;
    const float* values;
    bool operator==(const given&) const = default;
  };

  explicit noting_runner(testing::manual_time& time) : time_(time) {}
  std::shared_ptr<gradient> make_gradient() const override { return std::make_shared<gradient>(); }
  void use_host_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void>) override {
    weights.push_back({shard, values});
    time_.advance(takes);
  }
  step_state begin_step(std::shared_ptr<const batch>, std::shared_ptr<gradient>) override {
    return step_state::finished;
  }
  float end_step() override { return 0; }

  std::vector<given> weights;
  instant takes{0};

private:
  testing::manual_time& time_;
};

/// A worker of rank 1 whose device actor the test plays, with two shards of four weights each.
class PlayedWorker : public testing::PlayedActorTest {
protected:
  worker_context context(trace_track* track = nullptr) {
    return {self_, run_id{7}, rank{1}, incarnation_number{2}, runner_, report_, *time_, track};
  }
  std::vector<caf::actor> shards() const { return {probes_[0].actor(), probes_[1].actor()}; }

  /// An answer of a shard, with so many weights of this value.
  shard_weights answer(std::uint32_t shard, std::uint64_t version, float value = 0,
                       std::optional<stay_at_shard> stay = {}, std::size_t size = 4) {
    block values(size * sizeof(float));
    for (float& v : values.as<float>()) v = value;
    return {{{shard}, {version}, {}, stay, {}},
            {snapshot(std::make_shared<const memory>(std::move(values))), {}}};
  }
  std::vector<push_gradient>& pushed(std::size_t s) { return probes_[s].heard<push_gradient>(); }

  noting_runner runner_{*time_};
  worker_report report_;
  std::vector<listener<join_shard, push_gradient, worker_left>> probes_{
      listen<join_shard, push_gradient, worker_left>(), listen<join_shard, push_gradient, worker_left>()};
};

class ShardLines : public PlayedWorker {
protected:
  /// All shards have answered the join with version 0.
  void join(shard_lines& lines) {
    act([&] { lines.join(); });
    for (std::uint32_t s = 0; s < 2; ++s) lines.note(answer(s, 0), time_->now(), 0ns);
  }
  /// A gradient that was computed now, or then.
  void push(shard_lines& lines, std::optional<instant> then = {}, bool sampled = false) {
    act([&] {
      lines.push(std::make_shared<const gradient>(), 1, then.value_or(time_->now()), 0ns, sampled);
    });
  }

  shard_lines lines_{context(), shards()};
};

TEST_F(ShardLines, JoinAndLeaveEveryShardAsThisIncarnation) {
  act([&] { lines_.join(); });
  act([&] { lines_.leave(); });
  for (auto& shard : probes_) {
    const join_shard& joined = only(shard.heard<join_shard>());
    EXPECT_EQ(joined.worker, rank{1});
    EXPECT_EQ(joined.incarnation, incarnation_number{2});
    EXPECT_EQ(joined.device, caf::actor_cast<caf::actor>(self_));
    EXPECT_EQ(only(shard.heard<worker_left>()).worker, rank{1});
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
    const push_gradient& x = only(pushed(s));
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
  join(lines_);
  report_.steps = 9;
  report_.samples = 86;
  push(lines_);
  EXPECT_EQ(pushed(0)[0].header.batches, 2U);
  EXPECT_EQ(pushed(0)[0].header.samples, 16U);
}

/// The gradient and its answer are under way for 3 us together, and 2 us pass before the worker takes the
/// answer.
TEST_F(ShardLines, ShowTheTimeOnTheWireBehindTheStayAtTheShard) {
  trace_track track("worker 1", 20, time_->now());
  shard_lines lines(context(&track), shards());
  join(lines);
  push(lines);
  shard_weights x = answer(0, 1, 0, stay_at_shard{instant{2us}.count(), 0, 0, instant{5us}.count()});
  x.payload.arrived = time_->now() + 10us;
  time_->advance(12us);
  lines.note(x, time_->now(), 0ns);
  std::vector<std::pair<trace_kind, instant>> spans;
  for (const trace_event& e : track.events())
    if (e.what != trace_kind::read) spans.emplace_back(e.what, e.end - e.begin);
  EXPECT_THAT(spans, ElementsAre(Pair(trace_kind::shard_mailbox, 2us), Pair(trace_kind::shard_at_work, 5us),
                                 Pair(trace_kind::wire, 3us), Pair(trace_kind::own_mailbox, 2us)));
}

/// So that a shard without other readers may update in place.
TEST_F(ShardLines, LetTheirWeightsGoBeforeTheyPush) {
  join(lines_);
  const std::weak_ptr<const memory> held = lines_.weights(0).owner();
  EXPECT_FALSE(held.expired());
  push(lines_);
  EXPECT_TRUE(held.expired());
}

TEST_F(ShardLines, SendTheWeightsAlongWithASampledGradient) {
  join(lines_);
  const snapshot held = lines_.weights(1);
  push(lines_, {}, true);
  EXPECT_EQ(pushed(1)[0].payload.read, held);
  EXPECT_FALSE(lines_.weights(1));
}

TEST_F(ShardLines, WaitForEveryShardAnewWhenAnotherPolicyBegins) {
  join(lines_);
  time_->advance(5s);
  lines_.begin_epoch({3});
  EXPECT_EQ(lines_.waits_since(), time_->now()) << "nobody owed them an answer";
  EXPECT_EQ(lines_.waits_for(), "the weights of 2 of 2 shards after step 0");
  EXPECT_FALSE(lines_.all_answered());
  EXPECT_FALSE(lines_.weights(0));
  EXPECT_EQ(lines_.epoch().value, 3U);
  time_->advance(2s);
  for (std::uint32_t s = 0; s < 2; ++s) lines_.note(answer(s, 4), time_->now(), 0ns);
  lines_.end_waits();
  EXPECT_EQ(instant{report_.barrier_wait}, 2s) << "the fence is a barrier for all";
  push(lines_);
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

TEST_F(ShardLines, WaitSinceTheGradientHadBeenComputed) {
  join(lines_);
  const instant at = time_->now();
  time_->advance(6s);
  push(lines_, at);
  EXPECT_EQ(lines_.waits_since(), at);
  EXPECT_EQ(pushed(0)[0].payload.sent, at);
  EXPECT_EQ(lines_.waits_for(), "the weights of 2 of 2 shards after step 1");
}

TEST_F(ShardLines, OfARunWithoutShardsWaitForNobody) {
  shard_lines none(context(), {});
  act([&] { none.join(); });
  EXPECT_EQ(none.count(), 0U);
  EXPECT_TRUE(none.all_answered());
  push(none);
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
  /// Kind, begin, end and shard of each event.
  std::vector<shown> events() const {
    std::vector<shown> all;
    for (const trace_event& e : track_.events())
      all.emplace_back(e.what, (e.begin - begun_).count(), (e.end - begun_).count(), e.peer);
    return all;
  }

  const instant begun_ = time_->now();
  trace_track track_{"worker 1", 20, begun_};
  shard_lines traced_{context(&track_), shards()};
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

class ShardExchange : public PlayedWorker {
protected:
  /// A gradient of two values, and the batch that it was computed from.
  std::shared_ptr<gradient> computed(float a, float b, std::shared_ptr<const batch> source = {}) {
    const auto g = testing::dense_gradient(std::vector<float>{a, b});
    g->source = std::move(source);
    return g;
  }
  void deliver(shard_exchange& over, std::shared_ptr<gradient> g) {
    act([&] { over.deliver({std::move(g), 1, time_->now(), 0ns}); });
  }
  void answer_all(shard_exchange& over, std::uint64_t version = 0) {
    for (std::uint32_t s = 0; s < 2; ++s) over.receive(answer(s, version));
  }
  /// The answer to a sampled gradient: the weights that it met.
  shard_weights met(std::uint32_t shard, std::uint64_t step, float value) {
    shard_weights x = answer(shard, step);
    x.header.met = {step};
    x.payload.met = answer(shard, step, value).payload.values;
    return x;
  }

  shard_lines lines_{context(), shards()};
};

TEST_F(ShardExchange, GivesTheRunnerTheWeightsOfEachShard) {
  shard_exchange over(context(), lines_, 0);
  act([&] { lines_.join(); });
  const shard_weights first = answer(0, 3, 1), second = answer(1, 4, 2);
  over.receive(second);
  over.receive(first);
  EXPECT_THAT(runner_.weights, ElementsAre(noting_runner::given{1, second.payload.values.on_host().data()},
                                           noting_runner::given{0, first.payload.values.on_host().data()}));
  EXPECT_TRUE(lines_.all_answered());
}

TEST_F(ShardExchange, PushesEachGradientWithItsScale) {
  shard_exchange over(context(), lines_, 0);
  act([&] { over.deliver({computed(1, 2), 0.25F, time_->now(), 5ns}); });
  EXPECT_EQ(only(pushed(0)).header.scale_bits, std::bit_cast<std::uint32_t>(0.25F));
  EXPECT_EQ(pushed(0)[0].header.times.compute, 5ns);
  EXPECT_EQ(over.bind_repeat(), nullptr) << "nothing is sampled";
}

/// With a sample of every second step: step 2 is compared when both shards have said what it met.
TEST_F(ShardExchange, ComparesEachSampledGradientAtTheWeightsThatItMet) {
  shard_exchange over(context(), lines_, 2);
  report_.gradient_cosine.add(0); // before a checkpoint that the run goes on from
  answer_all(over);
  deliver(over, computed(1, 0));
  EXPECT_FALSE(pushed(0)[0].payload.read) << "step 1 is not sampled";
  answer_all(over, 1);
  const auto source = std::make_shared<const batch>();
  deliver(over, computed(3, 4, source));
  EXPECT_TRUE(pushed(1)[1].payload.read);
  const shard_weights from_first = met(0, 2, 8), from_second = met(1, 2, 9);
  over.receive(from_first);
  EXPECT_EQ(over.bind_repeat(), nullptr) << "the second shard has not answered";
  over.receive(from_second);
  runner_.weights.clear();
  EXPECT_EQ(over.bind_repeat(), source);
  EXPECT_EQ(runner_.weights[0].values, from_first.payload.met.on_host().data());
  EXPECT_EQ(runner_.weights[1].values, from_second.payload.met.on_host().data());
  over.take_repeat(*computed(4, 3));
  EXPECT_EQ(report_.gradient_cosine.count(), 2U);
  EXPECT_NEAR(report_.gradient_cosine.mean(), 12.0 / 25, 1e-12);
  ASSERT_EQ(report_.cosines.all().size(), 1U);
  const auto& compared = report_.cosines.all()[0];
  EXPECT_EQ(compared.step, step_number{2});
  EXPECT_EQ(compared.incarnation, incarnation_number{2});
  EXPECT_NEAR(compared.cosine, 24.0 / 25, 1e-12);
  EXPECT_EQ(runner_.weights[2].values, from_first.payload.values.on_host().data()) << "the next step's again";
  EXPECT_EQ(runner_.weights[3].values, from_second.payload.values.on_host().data());
  EXPECT_EQ(over.bind_repeat(), nullptr) << "it is compared once";
}

/// Nor does it compare with the weights that another gradient met on one of the shards.
TEST_F(ShardExchange, DropsAComparisonWhenThePolicyChanges) {
  for (const bool changes : {true, false}) {
    shard_lines lines(context(), shards());
    shard_exchange over(context(), lines, 1);
    answer_all(over);
    deliver(over, computed(1, 0));
    if (changes) over.pause();
    over.receive(met(0, 1, 8));
    over.receive(met(1, changes ? 1 : 2, 8));
    EXPECT_EQ(over.bind_repeat(), nullptr);
  }
}

TEST_F(ShardExchange, TellsHowLongTheWeightsTookIntoTheModel) {
  runner_.takes = 5ns;
  trace_track track("worker 1", 10, time_->now());
  shard_lines lines(context(&track), shards());
  shard_exchange over(context(&track), lines, 0);
  const instant taken = time_->now();
  answer_all(over);
  deliver(over, computed(1, 0));
  for (const std::size_t s : {0U, 1U}) EXPECT_EQ(pushed(s)[0].header.times.read, 5ns);
  EXPECT_EQ(track.events().front().begin, taken);
  EXPECT_EQ(track.events().front().end, taken + 5ns);
}

TEST_F(ShardExchange, SamplesEveryStepOfAGapOfOneAndNoneOfAGapOfZero) {
  for (const std::uint64_t gap : {0U, 1U, 3U}) {
    shard_lines lines(context(), shards());
    shard_exchange over(context(), lines, gap);
    pushed(0).clear();
    for (int i = 0; i < 6; ++i) {
      answer_all(over);
      deliver(over, computed(1, 0));
    }
    std::vector<std::uint64_t> sampled;
    for (const push_gradient& x : pushed(0))
      if (x.payload.read) sampled.push_back(x.header.id.step.value);
    const std::vector<std::uint64_t> expected[] = {{}, {1, 2, 3, 4, 5, 6}, {}, {3, 6}};
    EXPECT_EQ(sampled, expected[gap]) << gap;
  }
}

/// A worker that shares a block of 64 weights with another, under hogwild.
class BlockExchange : public PlayedWorker {
protected:
  std::shared_ptr<hogwild_writer> new_writer() const {
    return std::make_shared<hogwild_writer>(*layout_, store_, testing::sgd(1));
  }
  /// Computes a gradient at the block and writes it, or what comes of it by this scale.
  void step(float value, float scale = 1) {
    into_.bind();
    write(value, scale);
  }
  void write(float value, float scale = 1) {
    act([&] { into_.deliver({testing::constant_gradient(*layout_, value), scale, time_->now(), 7ns}); });
  }
  void let_other_write(int times = 1) {
    for (int i = 0; i < times; ++i) other_->write(*testing::constant_gradient(*layout_, 1), 1);
  }
  float first_weight() const { return runner_.weights[0].values[0]; } ///< as the runner reads it
  std::vector<staleness_observed>& told() { return tracker_.heard<staleness_observed>(); }

  const std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<parameter_layout>(testing::layout_of({{"w", {64}}}, 1));
  const std::shared_ptr<hogwild_store> store_ =
      std::make_shared<hogwild_store>(std::vector<float>(layout_->size(), 10));
  listener<staleness_observed> tracker_ = listen<staleness_observed>();
  shard_lines lines_{context(), {}};
  block_exchange into_{context(), lines_, new_writer(), {0, 16}, tracker_.actor()};
  const std::shared_ptr<hogwild_writer> other_ = new_writer();
};

TEST_F(BlockExchange, LetsTheRunnerReadTheBlockInPlace) {
  into_.bind();
  ASSERT_THAT(runner_.weights, SizeIs(2));
  EXPECT_EQ(runner_.weights[0].values[0], 10);
  EXPECT_EQ(runner_.weights[1], (noting_runner::given{1, runner_.weights[0].values + 16}));
}

TEST_F(BlockExchange, WritesEachGradientAndCountsHowStaleItWas) {
  into_.bind();
  other_->begin_step();
  let_other_write();
  write(2);
  EXPECT_EQ(first_weight(), 7) << "both have written";
  EXPECT_EQ(report_.produced, 1U);
  EXPECT_EQ(report_.applied, 1U);
  EXPECT_EQ(report_.times.compute.total(), 7ns);
  EXPECT_EQ(report_.times.apply.count(), 1U);
  step(1);
  EXPECT_THAT(report_.gaps.buckets(), ElementsAre(Pair(0, 1), Pair(1, 1)));
  step(8, 0.25F);
  EXPECT_EQ(first_weight(), 4) << "6 - 8 / 4, by its scale";
}

TEST_F(BlockExchange, TellsTheTrackerNowAndThen) {
  step(0);
  EXPECT_THAT(told(), IsEmpty());
  time_->advance(notice_pace{}.span);
  step(0);
  EXPECT_EQ(only(told()).gaps.total(), 2U);
}

TEST_F(BlockExchange, TellsTheTrackerTheRestAtTheEnd) {
  step(0);
  bool pushed = true;
  act([&] { pushed = into_.flush(); });
  EXPECT_FALSE(pushed) << "no shard will answer";
  EXPECT_EQ(only(told()).gaps.total(), 1U);
  act([&] { into_.flush(); });
  EXPECT_THAT(told(), SizeIs(1)) << "there is nothing more";
}

TEST_F(BlockExchange, CountsAnAnswerOfAShardWithoutUsingItsWeights) {
  shard_lines lines(context(), shards());
  block_exchange into(context(), lines, new_writer(), {0}, tracker_.actor());
  for (std::uint32_t s = 0; s < 2; ++s) into.receive(answer(s, 1, 99));
  EXPECT_TRUE(lines.all_answered());
  EXPECT_THAT(runner_.weights, IsEmpty());
  act([&] { lines.push(std::make_shared<const gradient>(), 1, time_->now(), 0ns); });
  EXPECT_EQ(pushed(0)[0].header.times.read, 0ns) << "nothing was read";
}

/// On a clock that goes on by a microsecond whenever it is read.
TEST_F(BlockExchange, TellsTheTimelineAndTheReportWhatItsWriteTook) {
  const testing::ticking_time ticking;
  trace_track track("worker 1", 10, 0ns);
  report_.steps = 17;
  const worker_context of{self_,   run_id{7}, rank{1}, incarnation_number{2},
                          runner_, report_,   ticking, &track};
  block_exchange into(of, lines_, new_writer(), {0}, tracker_.actor());
  other_->begin_step();
  let_other_write(3);
  into.bind();
  let_other_write(2);
  const instant before = ticking.now();
  act([&] { into.deliver({testing::constant_gradient(*layout_, 1), 1, 0ns, 0ns}); });
  EXPECT_EQ(report_.times.read.total(), 1us);
  EXPECT_EQ(report_.times.apply.total(), 1us);
  const trace_event& e = only(track.events());
  EXPECT_EQ(e.what, trace_kind::apply);
  EXPECT_EQ(e.begin, before + 1us);
  EXPECT_EQ(e.end, before + 2us);
  EXPECT_EQ(e.peer, 1U);
  EXPECT_EQ(e.step, 17U);
  EXPECT_EQ(e.version_read, 3U);
  EXPECT_EQ(e.version, 6U) << "two of another worker came between";
}

/// A worker with weights of its own, in two shards of 32, and plain SGD of learning rate 1.
class LocalExchange : public PlayedWorker {
protected:
  void begin(std::uint64_t steps, std::optional<float> pull = {}) {
    local_ = std::make_shared<local_steps>(layout_, local_steps_options{steps, testing::sgd(1), pull});
    over_.emplace(context(), lines_, local_);
    act([&] { lines_.join(); });
    answer_all(0, 10);
    over_->go_on();
  }
  bool flushed() {
    bool any = false;
    act([&] { any = over_->flush(); });
    return any;
  }
  /// Both shards send weights of this value, and those that an elastic exchange met.
  void answer_all(std::uint64_t version, float value, std::optional<float> met = {}) {
    for (std::uint32_t s = 0; s < 2; ++s) {
      shard_weights x = answer(s, version, value, {}, layout_->shard(s).size());
      if (met) x.payload.met = answer(s, version, *met, {}, layout_->shard(s).size()).payload.values;
      over_->receive(x);
    }
  }
  void step(float value, float scale = 1) {
    ++report_.steps;
    report_.samples += 10;
    act([&] { over_->deliver({testing::constant_gradient(*layout_, value), scale, time_->now(), 7ns, 10}); });
  }
  float weight(std::size_t i = 0) const { return local_->weights().on_host()[i]; }
  std::span<const float> pushed_values() { return pushed(0).back().payload.values->dense.on_host<float>(); }

  const std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<parameter_layout>(testing::layout_of({{"w", {64}}}, 2));
  shard_lines lines_{context(), shards()};
  std::shared_ptr<local_steps> local_;
  std::optional<local_exchange> over_;
};

TEST_F(LocalExchange, PushesWhatSeveralStepsHaveMoved) {
  begin(3);
  step(1);
  step(2);
  EXPECT_THAT(pushed(0), IsEmpty());
  step(4);
  EXPECT_THAT(pushed(1), SizeIs(1));
  const gradient_header& x = only(pushed(0)).header;
  EXPECT_THAT(pushed_values().first(64), Each(7.0F)) << "from 10 to 3";
  EXPECT_EQ(x.scale_bits, std::bit_cast<std::uint32_t>(1.0F));
  EXPECT_EQ(x.times.compute, 21ns) << "of all three steps";
  EXPECT_EQ(x.batches, 3U);
  EXPECT_EQ(x.samples, 30U);
  EXPECT_EQ(x.id.step.value, 1U) << "a difference counts as one gradient";
  EXPECT_EQ(report_.produced, 1U);
}

TEST_F(LocalExchange, ComputesAtItsOwnWeights) {
  begin(2);
  over_->bind();
  EXPECT_EQ(only(runner_.weights), (noting_runner::given{0, local_->weights().on_host().data()}))
      << "one block";
  EXPECT_EQ(weight(), 10);
  step(1);
  EXPECT_EQ(weight(), 9);
  step(8, 0.25F);
  EXPECT_EQ(weight(), 7) << "by the scale of its gradient";
}

/// At the end of the data fewer steps than usual are pushed, if there were any.
TEST_F(LocalExchange, FlushesTheStepsThatAreKept) {
  begin(5);
  EXPECT_FALSE(flushed());
  step(1);
  EXPECT_TRUE(flushed());
  EXPECT_FALSE(flushed());
  EXPECT_THAT(pushed(0), SizeIs(1));
  EXPECT_THAT(pushed_values().first(64), Each(1.0F));
}

TEST_F(LocalExchange, HoldsTheStepThatFollowsAnElasticExchangeUntilAllShardsHaveAnswered) {
  begin(1, 0.5F);
  step(1);
  EXPECT_THAT(pushed(0), IsEmpty());
  step(8, 0.25F);
  const gradient_header& x = only(pushed(0)).header; // before the second step is taken
  EXPECT_EQ(x.batches, 1U);
  EXPECT_EQ(x.samples, 10U);
  EXPECT_EQ(weight(), 9);
  answer_all(1, 10, 5);
  EXPECT_EQ(weight(), 7) << "half of the way from 9 to the 5 that the exchange met";
  over_->go_on();
  EXPECT_EQ(weight(), 5) << "7 - 8 / 4, by its scale";
  over_->go_on();
  EXPECT_EQ(weight(), 5) << "the step is taken once";
}

/// Each push tells what was spent since the one before.
TEST_F(LocalExchange, CountsTheTimeOfAStepOnce) {
  begin(2);
  for (int round = 1; round <= 2; ++round) {
    step(1);
    step(1);
    answer_all(1, 10);
  }
  ASSERT_THAT(pushed(0), SizeIs(2));
  for (const push_gradient& x : pushed(0)) EXPECT_EQ(x.header.times.compute, 14ns);
  EXPECT_EQ(pushed(0)[1].payload.sent, time_->now());
  EXPECT_EQ(pushed(0)[1].header.times.read, 0ns) << "the clock stood still";
}

TEST_F(LocalExchange, TakesTheWeightsThatShardsSendAsItsOwn) {
  begin(1);
  step(1);
  answer_all(1, 20);
  EXPECT_TRUE(lines_.all_answered());
  over_->go_on();
  EXPECT_EQ(weight(), 20);
  EXPECT_EQ(weight(layout_->size() - 1), 20);
}

/// Otherwise the elastic answer would pull the worker's weights only half of the way.
TEST_F(LocalExchange, BeginsAPolicyWithTheWeightsOfTheShards) {
  begin(1, 0.5F);
  step(1);
  step(2);
  over_->pause();
  answer_all(1, 30, 5);
  EXPECT_EQ(weight(), 30);
}

/// The sums as worker 1 has them. The test adds to what it gave, and says who gave something.
class noting_sums final : public net::all_reduce {
public:
  struct notes {
    std::span<float> values{};
    std::shared_ptr<const void> keeps{};
    bool left = false;
  };

  explicit noting_sums(notes& to) : to_(to) {}
  ~noting_sums() override { to_.left = true; }
  noting_sums(const noting_sums&) = delete;
  noting_sums& operator=(const noting_sums&) = delete;
  void add(std::span<float> values, std::shared_ptr<const void> keeps, on_sum) override {
    to_ = {values, std::move(keeps)};
  }

private:
  notes& to_;
};

class SummedExchange : public PlayedWorker {
protected:
  void deliver(float a, float b) {
    act([&] { over_.deliver({testing::dense_gradient(std::vector<float>{a, b}), 1, time_->now(), 5ns}); });
  }
  /// As the device actor does when the sums have told it.
  void take_sum(std::uint64_t step, std::uint32_t carrier, std::uint32_t gradients) {
    given_.keeps.reset();
    act([&] { over_.take_sum({{step}, {{carrier}, gradients}}); });
  }

  noting_sums::notes given_;
  shard_lines lines_{context(), shards()};
  summed_exchange over_{context(), lines_, std::make_shared<noting_sums>(given_)};
};

TEST_F(SummedExchange, PushesWithoutValuesWhatAWorkerOfLowerRankCarries) {
  deliver(1, 2);
  EXPECT_TRUE(over_.is_summing());
  EXPECT_THAT(pushed(0), IsEmpty());
  time_->advance(7ns);
  take_sum(1, 0, 3);
  EXPECT_FALSE(over_.is_summing());
  EXPECT_EQ(report_.barrier_wait, 7) << "its wait for the others is one at a barrier";
  for (std::size_t s = 0; s < 2; ++s) {
    const push_gradient& x = only(pushed(s));
    EXPECT_EQ(x.payload.values, nullptr);
    EXPECT_TRUE(x.header.is_carried());
    EXPECT_EQ(x.header.sum->carrier, rank{0});
    EXPECT_EQ(x.header.sum->gradients, 3U);
    EXPECT_EQ(x.header.id.step.value, 1U);
    EXPECT_EQ(x.header.times.compute, 5ns);
  }
}

TEST_F(SummedExchange, PushesTheSumIfItIsTheFirstThatHasOne) {
  deliver(1, 2);
  EXPECT_THAT(given_.values, ElementsAre(1, 2));
  given_.values[0] += 10;
  given_.values[1] += 20;
  take_sum(1, 1, 2);
  const push_gradient& x = only(pushed(1));
  EXPECT_FALSE(x.header.is_carried());
  EXPECT_THAT(x.payload.values->dense.on_host<float>(), ElementsAre(11, 22));
}

TEST_F(SummedExchange, IgnoresASumThatIsNotOfItsStep) {
  deliver(1, 2);
  take_sum(2, 0, 3);
  EXPECT_TRUE(over_.is_summing());
  take_sum(1, 0, 3);
  take_sum(1, 0, 3);
  EXPECT_THAT(pushed(0), SizeIs(1));
}

TEST_F(SummedExchange, LeavesTheSumsSoThatOthersDoNotWaitForIt) {
  EXPECT_FALSE(given_.left);
  over_.leave();
  EXPECT_TRUE(given_.left);
}

TEST_F(SummedExchange, RefusesAGradientThatLacksWeights) {
  const auto partial = testing::dense_gradient(std::vector<float>{1, 2});
  partial->covered = std::make_shared<const coverage>(coverage{{0, 1}});
  const auto delivered = [&] { over_.deliver(computed_gradient{partial, 1, {}, {}}); };
  EXPECT_THAT(delivered,
              ThrowsMessage<std::runtime_error>(HasSubstr("needs one dense gradient of every weight")));
}

} // namespace
} // namespace mailgrad

#include <mailgrad/tests/actors/worker/played_worker.hpp>
#include <mailgrad/tests/engine/ticking_time.hpp>

#include <mailgrad/actors/worker/exchange.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using given = testing::noting_runner::given;

/// A worker that shares a block of 64 weights with another, under hogwild.
class BlockExchange : public testing::PlayedWorker {
protected:
  const std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<parameter_layout>(testing::layout_of({{"w", {64}}}, 1));
  const std::shared_ptr<hogwild_store> store_ =
      std::make_shared<hogwild_store>(std::vector<float>(layout_->size(), 10));
  testing::listener<staleness_observed> tracker_ = listen<staleness_observed>();
  shard_lines lines_{context(), {}};
  block_exchange into_{context(),
                       lines_,
                       std::make_shared<hogwild_writer>(*layout_, store_, testing::sgd(1)),
                       {0, 16},
                       tracker_.actor()};
  hogwild_writer other_{*layout_, store_, testing::sgd(1)};

  computed_gradient gradient_of(float value) {
    return {testing::constant_gradient(*layout_, value), 1, time_->now(), 7ns};
  }
};

TEST_F(BlockExchange, LetsTheRunnerReadTheBlockInPlace) {
  into_.bind();
  ASSERT_THAT(runner_.weights, SizeIs(2));
  EXPECT_EQ(runner_.weights[0].values[0], 10);
  EXPECT_EQ(runner_.weights[1], (given{1, runner_.weights[0].values + 16}));
}

TEST_F(BlockExchange, WritesEachGradientAndCountsHowStaleItWas) {
  into_.bind();
  other_.begin_step();
  other_.write(*testing::constant_gradient(*layout_, 1), 1);
  act([&] { into_.deliver(gradient_of(2)); });
  EXPECT_EQ(runner_.weights[0].values[0], 7) << "both have written";
  EXPECT_EQ(report_.produced, 1U);
  EXPECT_EQ(report_.applied, 1U);
  EXPECT_EQ(report_.times.compute.total(), 7ns);
  EXPECT_EQ(report_.times.apply.count(), 1U);
  into_.bind();
  act([&] { into_.deliver(gradient_of(1)); });
  EXPECT_THAT(report_.gaps.buckets(), ElementsAre(Pair(0, 1), Pair(1, 1)));
}

TEST_F(BlockExchange, TellsTheTrackerNowAndThen) {
  into_.bind();
  act([&] { into_.deliver(gradient_of(0)); });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), IsEmpty());
  time_->advance(notice_pace{}.span);
  into_.bind();
  act([&] { into_.deliver(gradient_of(0)); });
  ASSERT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
  EXPECT_EQ(tracker_.heard<staleness_observed>()[0].gaps.total(), 2U);
}

TEST_F(BlockExchange, TellsTheTrackerTheRestAtTheEnd) {
  into_.bind();
  act([&] { into_.deliver(gradient_of(0)); });
  bool pushed = true;
  act([&] { pushed = into_.flush(); });
  EXPECT_FALSE(pushed) << "no shard will answer";
  ASSERT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
  EXPECT_EQ(tracker_.heard<staleness_observed>()[0].gaps.total(), 1U);
  act([&] { into_.flush(); });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1)) << "there is nothing more";
}

TEST_F(BlockExchange, CountsAnAnswerOfAShardWithoutUsingItsWeights) {
  shard_lines lines(context(), shards());
  const auto writer = std::make_shared<hogwild_writer>(*layout_, store_, testing::sgd(1));
  block_exchange into(context(), lines, writer, {0}, tracker_.actor());
  for (std::uint32_t s = 0; s < 2; ++s) into.receive(answer(s, 1, 99));
  EXPECT_TRUE(lines.all_answered());
  EXPECT_THAT(runner_.weights, IsEmpty());
  act([&] { lines.push(std::make_shared<const gradient>(), 1, time_->now(), 0ns); });
  EXPECT_EQ(pushed(0)[0].header.times.read, 0ns) << "nothing was read";
}

TEST_F(BlockExchange, WritesAGradientByItsScale) {
  into_.bind();
  act([&] { into_.deliver({testing::constant_gradient(*layout_, 8), 0.25F, time_->now(), 0ns}); });
  EXPECT_EQ(runner_.weights[0].values[0], 8) << "10 - 8 / 4";
}

/// On a clock that goes on by a microsecond whenever it is read.
TEST_F(BlockExchange, TellsTheTimelineAndTheReportWhatItsWriteTook) {
  const testing::ticking_time ticking;
  trace_track track("worker 1", 10, 0ns);
  report_.steps = 17;
  const worker_context of{self_,   run_id{7}, rank{1}, incarnation_number{2},
                          runner_, report_,   ticking, &track};
  block_exchange into(of, lines_, std::make_shared<hogwild_writer>(*layout_, store_, testing::sgd(1)), {0},
                      tracker_.actor());
  other_.begin_step();
  for (int i = 0; i < 3; ++i) other_.write(*testing::constant_gradient(*layout_, 1), 1);
  into.bind();
  other_.write(*testing::constant_gradient(*layout_, 1), 1);
  other_.write(*testing::constant_gradient(*layout_, 1), 1);
  const instant before = ticking.now();
  act([&] { into.deliver({testing::constant_gradient(*layout_, 1), 1, 0ns, 0ns}); });
  EXPECT_EQ(report_.times.read.total(), 1us);
  EXPECT_EQ(report_.times.apply.total(), 1us);
  ASSERT_THAT(track.events(), SizeIs(1));
  const trace_event& e = track.events()[0];
  EXPECT_EQ(e.what, trace_kind::apply);
  EXPECT_EQ(e.begin, before + 1us);
  EXPECT_EQ(e.end, before + 2us);
  EXPECT_EQ(e.peer, 1U);
  EXPECT_EQ(e.step, 17U);
  EXPECT_EQ(e.version_read, 3U);
  EXPECT_EQ(e.version, 6U) << "two of another worker came between";
}

} // namespace
} // namespace mailgrad

#include <mailgrad/engine/account/report_of_run.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A piece that a worker sent at this moment of its clock, with events of 1 ms each that end 1 ms apart.
trace_piece piece(instant sent, std::optional<instant> answered, std::size_t events) {
  trace_piece x{"cpu:0", sent.count()};
  if (answered) x.answered = answered->count();
  for (std::size_t i = events; i > 0; --i)
    x.events.push_back({trace_kind::compute, instant{2ms * i}.count(), instant{1ms}.count(), 0, i});
  return x;
}

/// The clock of the worker is 30 minutes ahead. Each way takes 1 ms.
TEST(ReportedTimelines, LieOnTheClockOfTheServer) {
  reported_timelines all(1h, 100);
  all.take(timeline_teller::of(rank{1}, {}), piece(90min + 10s, {}, 0), 1h + 10s + 1ms);
  all.take(timeline_teller::of(rank{1}, {}), piece(90min + 11s, 90min + 10s + 2ms, 2), 1h + 11s + 1ms);
  all.complete(timeline_teller::of(rank{1}, {}));
  const std::vector<reported_timeline> placed = all.placed();
  ASSERT_THAT(placed, SizeIs(1));
  EXPECT_EQ(placed[0].track->name(), "worker 1 on cpu:0");
  EXPECT_TRUE(placed[0].whole);
  ASSERT_THAT(placed[0].track->events(), SizeIs(2));
  ASSERT_TRUE(placed[0].clock.uncertainty);
  const instant error = *placed[0].clock.uncertainty;
  EXPECT_LE(error, 1ms + 100us);
  const trace_event& first = placed[0].track->events()[0];
  EXPECT_LE(std::chrono::abs(first.begin - (1h + 11s - 4ms)), error);
  EXPECT_EQ(first.end - first.begin, 1ms) << "spans are exact";
  EXPECT_EQ(first.step, 2U);
  EXPECT_EQ(placed[0].track->events()[1].begin - first.begin, 2ms);
}

TEST(ReportedTimelines, KeepWhatALostWorkerHadToldBesideItsNextIncarnation) {
  reported_timelines all(0s, 100);
  all.take(timeline_teller::of(rank{1}, {}), piece(10s, {}, 0), 10s);
  all.take(timeline_teller::of(rank{1}, {}), piece(11s, 10s, 3), 11s);
  all.take(timeline_teller::of(rank{1}, {1}), piece(20s, {}, 0), 20s);
  all.take(timeline_teller::of(rank{1}, {1}), piece(21s, 20s, 2), 21s);
  all.complete(timeline_teller::of(rank{1}, {1}));
  const std::vector<reported_timeline> placed = all.placed();
  ASSERT_THAT(placed, SizeIs(2));
  EXPECT_FALSE(placed[0].whole);
  EXPECT_THAT(placed[0].track->events(), SizeIs(3));
  EXPECT_TRUE(placed[1].whole);
  EXPECT_EQ(placed[1].track->name(), "worker 1 on cpu:0, incarnation 2");
}

TEST(ReportedTimelines, HaveRoomForOneTimelineOfARankHoweverOftenItComesBack) {
  reported_timelines all(0s, 5);
  all.take(timeline_teller::of(rank{1}, {}), piece(10s, {}, 3), 10s);
  all.take(timeline_teller::of(rank{1}, {1}), piece(20s, {}, 3), 20s);
  all.take(timeline_teller::of(rank{1}, {1}), piece(21s, 20s, 3), 21s);
  all.take(timeline_teller::of(rank{0}, {}), piece(21s, {}, 3), 21s);
  const std::vector<reported_timeline> placed = all.placed();
  ASSERT_THAT(placed, SizeIs(3));
  EXPECT_THAT(placed[0].track->events(), SizeIs(3)) << "another rank has its own";
  EXPECT_THAT(placed[1].track->events(), SizeIs(3));
  EXPECT_THAT(placed[2].track->events(), SizeIs(2));
  EXPECT_EQ(placed[2].track->left_out(), 4U);
}

TEST(ReportedTimelines, CountWhatTheWorkerHadNoRoomFor) {
  reported_timelines all(0s, 5);
  trace_piece x = piece(10s, {}, 1);
  x.left_out = 17;
  all.take(timeline_teller::of(rank{1}, {}), x, 10s);
  EXPECT_EQ(all.placed().at(0).track->left_out(), 17U);
}

TEST(ReportedTimelines, IgnoreWhatMakesNoSenseAndEverythingWithoutATrace) {
  reported_timelines all(0s, 5), none(0s, 0);
  trace_piece x = piece(10s, {}, 1);
  none.take(timeline_teller::of(rank{1}, {}), x, 10s);
  EXPECT_THAT(none.placed(), IsEmpty());
  x.events[0].span = -1;
  all.take(timeline_teller::of(rank{1}, {}), x, 10s);
  EXPECT_THAT(all.placed(), IsEmpty());
}

TEST(ReportedTimelines, PrintNothingThatATerminalWouldObey) {
  reported_timelines all(0s, 5);
  trace_piece x = piece(10s, {}, 1);
  x.device = "cpu\x1b[2J:0\n" + std::string(100, 'x');
  all.take(timeline_teller::of(rank{1}, {}), x, 10s);
  EXPECT_EQ(all.placed().at(0).track->name(), "worker 1 on cpu[2J:0" + std::string(54, 'x'));
}

/// Its clock is that of a machine which nobody has answered yet.
TEST(ReportedTimelines, LetNothingEndAfterItsPieceCame) {
  reported_timelines all(5s, 5);
  all.take(timeline_teller::of(rank{1}, {}), piece(3h, {}, 2), 10s);
  const reported_timeline placed = all.placed().at(0);
  EXPECT_FALSE(placed.clock.uncertainty);
  for (const trace_event& e : placed.track->events()) {
    EXPECT_GE(e.begin, 5s);
    EXPECT_LE(e.end, 10s);
  }
}

TEST(ReportedTimelines, ShowWhatAShardHasDoneAndWhy) {
  reported_timelines all(0s, 3);
  const timeline_teller shard = timeline_teller::of(shard_index{1});
  all.take(shard, piece(10s, {}, 0), 10s);
  trace_piece x = piece(11s, 10s, 1);
  x.events[0].what = trace_kind::apply;
  x.events.push_back({trace_kind::discard, instant{1ms}.count(), 0, 4, 9, 0, 0, 2});
  x.words = {"sync", "not awaited\x1b[2J"};
  all.take(shard, x, 11s);
  all.take(timeline_teller::of(rank{1}, {}), piece(10s, {}, 3), 10s);
  all.complete(shard);
  const std::vector<reported_timeline> placed = all.placed();
  ASSERT_THAT(placed, SizeIs(2));
  EXPECT_EQ(placed[0].track->name(), "worker 1 on cpu:0") << "workers come first";
  EXPECT_EQ(placed[1].track->name(), "shard 1");
  EXPECT_EQ(placed[1].teller.shard, shard_index{1});
  EXPECT_TRUE(placed[1].whole);
  ASSERT_THAT(placed[1].track->events(), SizeIs(2));
  const trace_event& dropped = placed[1].track->events()[1];
  EXPECT_EQ(dropped.begin, dropped.end);
  EXPECT_EQ(dropped.peer, 4U);
  EXPECT_EQ(dropped.word, "not awaited[2J") << "nothing that a terminal would obey";
}

TEST(ReportedLosses, LeaveWhatIsKnownOfAWorkerThatHasToldNothing) {
  reported_losses losses(2);
  losses.take({1}, 0, 0, 0);
  worker_report known;
  known.worker = {1};
  known.last_losses.add(3, 4);
  losses.give(known, {});
  EXPECT_EQ(known.last_losses.samples(), 4U);
}

TEST(ReportedLosses, CountEachStepOfANoticeByItsMean) {
  reported_losses losses(2);
  losses.take({0}, 1, 8, 80);
  losses.take({1}, 2, 16, 32);
  losses.take({1}, 1, 8, 40);
  worker_report known;
  known.worker = {1};
  known.last_losses.add(1000, 8);
  losses.give(known, {});
  EXPECT_EQ(known.last_losses.samples(), 24U);
  EXPECT_DOUBLE_EQ(known.last_losses.sum(), 72);
  EXPECT_EQ(std::bit_cast<float>(known.loss_bits), 5) << "the last finite loss, as far as it is known";
}

TEST(ReportedLosses, KeepAsManyStepsAsTheReportOfAWorker) {
  reported_losses losses(1);
  losses.take({0}, 10'000, 80'000, 80'000);
  losses.take({0}, 2, 16, 48);
  worker_report known;
  losses.give(known, {});
  EXPECT_EQ(known.last_losses.samples(), 8 * loss_tail::steps);
  EXPECT_DOUBLE_EQ(known.last_losses.sum(), 8 * (static_cast<double>(loss_tail::steps) + 4));
}

TEST(ReportedLosses, TakeNothingOfAWorkerThatThereIsNot) {
  reported_losses losses(1);
  losses.take({7}, 1, 8, 80);
  worker_report known;
  losses.give(known, {});
  EXPECT_EQ(known.last_losses.samples(), 0U);
}

TEST(ReportedLosses, AddWhatALostIncarnationWaitedToTheSumsOfEarlierOnes) {
  reported_losses losses(1);
  losses.add({0}, {9, 9, 9, 9});
  losses.begin({0});
  losses.add({0}, {1, 2, 3, 4});
  losses.add({0}, {10, 20, 30, 40});
  losses.add({7}, {1, 1, 1, 1});
  worker_report known;
  known.add({100, 100, 100, 100});
  worker_report copy;
  copy.feeder_wait = 150;
  losses.give(known, copy);
  EXPECT_EQ(known.barrier_wait, 111);
  EXPECT_EQ(known.bound_wait, 122);
  EXPECT_EQ(known.feeder_wait, 150) << "its last copy is newer than its last notice";
  EXPECT_EQ(known.local_bytes, 144U);
}

} // namespace
} // namespace mailgrad

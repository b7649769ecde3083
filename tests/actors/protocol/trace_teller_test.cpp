#include <mailgrad/tests/actors/worker/played_worker.hpp>

#include <mailgrad/actors/protocol/notices.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <memory>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TraceTeller : public testing::PlayedWorker {
protected:
  void record(std::size_t events) {
    for (std::size_t i = 0; i < events; ++i) track_->work({trace_kind::compute, time_->now(), time_->now()});
  }
  void tell_if_due() {
    act([&] { teller_.tell_if_due(time_->now()); });
  }
  /// The coordinator answers.
  void answer() {
    act([&] { teller_.on_taken({}); });
  }
  void end() {
    act([&] { teller_.end([this] { ++ends_; }); });
  }

  std::vector<trace_piece>& told() { return told_; }

  std::vector<trace_piece> told_;
  std::shared_ptr<trace_track> track_ = std::make_shared<trace_track>("worker 1", 1000, 0ns);
  int ends_ = 0;
  trace_teller teller_{
      {"cpu:0", time_, track_, [this](trace_piece piece) { told_.push_back(std::move(piece)); }}};
};

TEST_F(TraceTeller, TellsFirstWhatTimeItIs) {
  time_->advance(5s);
  act([&] { teller_.begin(); });
  ASSERT_THAT(told(), SizeIs(1));
  EXPECT_EQ(told()[0].device, "cpu:0");
  EXPECT_EQ(told()[0].sent, time_->now().count());
  EXPECT_FALSE(told()[0].answered);
  EXPECT_THAT(told()[0].events, IsEmpty());
}

TEST_F(TraceTeller, WaitsForAWholePieceOrASecond) {
  act([&] { teller_.begin(); });
  answer();
  record(trace_piece::most_events - 1);
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(1));
  record(1);
  tell_if_due();
  ASSERT_THAT(told(), SizeIs(2));
  EXPECT_THAT(told()[1].events, SizeIs(trace_piece::most_events));
  answer();
  record(3);
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(2));
  time_->advance(1s);
  tell_if_due();
  ASSERT_THAT(told(), SizeIs(3));
  EXPECT_THAT(told()[2].events, SizeIs(3));
  answer();
  time_->advance(1s);
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(3)) << "nothing has happened";
}

TEST_F(TraceTeller, HasOnePieceUnderWay) {
  act([&] { teller_.begin(); });
  record(600);
  time_->advance(9s);
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(1)) << "it is not answered";
  answer();
  time_->advance(2s);
  tell_if_due();
  ASSERT_THAT(told(), SizeIs(2));
  EXPECT_EQ(instant{*told()[1].answered}, time_->now() - 2s);
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(2));
}

TEST_F(TraceTeller, TellsTheRestAtTheEndPieceByPiece) {
  act([&] { teller_.begin(); });
  record(1200);
  end();
  EXPECT_THAT(told(), SizeIs(1)) << "the first is not answered";
  for (std::size_t pieces = 2; pieces <= 5; ++pieces) {
    EXPECT_EQ(ends_, 0);
    answer();
    ASSERT_THAT(told(), SizeIs(pieces)) << "there was room for 1000";
  }
  EXPECT_EQ(ends_, 1) << "nothing more depends on the last answer";
  EXPECT_THAT(told()[4].events, SizeIs(1000 - 3 * trace_piece::most_events));
  EXPECT_EQ(told()[4].left_out, 200U);
  answer();
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(5));
  EXPECT_EQ(ends_, 1);
}

TEST_F(TraceTeller, EndsAtOnceIfItHasToldAll) {
  act([&] { teller_.begin(); });
  answer();
  record(3);
  end();
  EXPECT_THAT(told(), SizeIs(2));
  EXPECT_EQ(ends_, 1);
}

TEST_F(TraceTeller, EndsWithoutTheRestWhenNobodyTakesIt) {
  act([&] {
    teller_.begin();
    teller_.give_up();
  });
  EXPECT_EQ(ends_, 0) << "it has not been asked to end";
  record(600);
  end();
  act([&] { teller_.give_up(); });
  EXPECT_EQ(ends_, 1);
  answer();
  act([&] { teller_.give_up(); });
  EXPECT_THAT(told(), SizeIs(1));
  EXPECT_EQ(ends_, 1);
}

TEST_F(TraceTeller, TellsNothingWithoutATrack) {
  trace_teller none(
      {"cpu:0", time_, nullptr, [this](trace_piece piece) { told_.push_back(std::move(piece)); }});
  act([&] {
    none.begin();
    none.tell_if_due(time_->now());
    none.end([this] { ++ends_; });
  });
  EXPECT_EQ(ends_, 1);
  EXPECT_THAT(told(), IsEmpty());
}

} // namespace
} // namespace mailgrad

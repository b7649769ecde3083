#include <mailgrad/engine/account/tensorboard_file.hpp>

#include <mailgrad/tests/engine/account/event_reader.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using testing::event_in;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::read_event;
using testing::read_histogram;
using ::testing::UnorderedElementsAre;

TEST(TensorboardEvent, BeginsAFileWithItsVersion) {
  const read_event e = event_in(version_event(1700000000.25));
  EXPECT_EQ(e.wall_time, 1700000000.25);
  EXPECT_EQ(e.file_version, "brain.Event:2");
}

TEST(TensorboardEvent, TellsWhereARunGoesOn) {
  const read_event e = event_in(resume_event({2, 500}));
  EXPECT_TRUE(e.starts);
  EXPECT_EQ(e.step, 500U);
  EXPECT_EQ(e.wall_time, 2);
}

TEST(TensorboardEvent, HasEachFigureOfALineUnderItsTag) {
  metrics_line x{.time_s = 99, .steps = 98, .updates = 2, .samples = 97, .epoch = 1.5};
  x.train_loss = 0.5;
  x.learning_rate = 0.125;
  x.staleness_mean = 3.5;
  x.staleness_p99 = 7;
  x.computed = 11;
  x.applied = 10;
  x.merged = 6;
  x.discarded = 1;
  x.samples_per_s = 640;
  x.waiting_s = 2.5;
  x.test_loss = 0.75;
  x.test_accuracy = 0.875;
  x.test_rmse = 4;
  x.validation_loss = 0.25;
  x.validation_accuracy = 0.75;
  x.validation_rmse = 5;
  const read_event e = event_in(scalars_event({1234.5, 40}, x));
  EXPECT_EQ(e.wall_time, 1234.5);
  EXPECT_EQ(e.step, 40U);
  EXPECT_THAT(e.scalars,
              UnorderedElementsAre(
                  Pair("loss/train", 0.5F), Pair("loss/test", 0.75F), Pair("accuracy/test", 0.875F),
                  Pair("rmse/test", 4), Pair("loss/validation", 0.25F), Pair("accuracy/validation", 0.75F),
                  Pair("rmse/validation", 5), Pair("staleness/mean", 3.5F), Pair("staleness/p99", 7),
                  Pair("ledger/computed", 11), Pair("ledger/applied", 10), Pair("ledger/merged", 6),
                  Pair("ledger/discarded", 1), Pair("throughput/samples_per_s", 640),
                  Pair("waits/seconds", 2.5F), Pair("progress/epoch", 1.5F), Pair("progress/updates", 2),
                  Pair("learning_rate", 0.125F)));
}

TEST(TensorboardEvent, HasTheOptionsOfARun) {
  const read_event e = event_in(options_event(3.5, {{"policy", "async"}, {"learning_rate", 0.5}}));
  EXPECT_EQ(e.wall_time, 3.5);
  EXPECT_THAT(e.options, UnorderedElementsAre(Pair("policy", "async"), Pair("learning_rate", "0.500000")));
}

TEST(TensorboardEvent, HasATextAndACountAtAStep) {
  const read_event text = event_in(text_event({3, 40}, "policy", "`sync`: asked for"));
  EXPECT_EQ(text.step, 40U);
  EXPECT_THAT(text.texts, ElementsAre(Pair("policy", "`sync`: asked for")));
  const read_event count = event_in(count_event({3, 40}, "policy/switches", 2));
  EXPECT_EQ(count.step, 40U);
  EXPECT_THAT(count.scalars, ElementsAre(Pair("policy/switches", 2)));
}

/// The name of a model's file may be any bytes.
TEST(TensorboardEvent, HoldsNoTextThatTensorBoardCannotRead) {
  EXPECT_EQ(event_in(text_event({}, "policy", "a\xff z")).texts.at("policy"), "a\xEF\xBF\xBD z");
  EXPECT_EQ(event_in(options_event(0, {{"model", "\xff"}})).options.at("model"), "\xEF\xBF\xBD");
}

TEST(TensorboardEvent, LeavesUnknownFiguresOut) {
  const read_event e = event_in(scalars_event({}, {}));
  for (const char* tag :
       {"loss/train", "loss/test", "accuracy/test", "rmse/test", "staleness/mean", "staleness/p99"})
    EXPECT_FALSE(e.scalars.contains(tag)) << tag;
  EXPECT_TRUE(e.scalars.contains("ledger/applied")) << "0 is known";
}

TEST(TensorboardEvent, KeepsALossThatIsNoNumber) {
  metrics_line x;
  x.train_loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(event_in(scalars_event({}, x)).scalars.at("loss/train")));
}

read_histogram histogram_of(const staleness_histogram& gaps) {
  return event_in(gaps_event({}, gaps)).histograms.at("staleness/gaps");
}

TEST(TensorboardEvent, HasABucketForEachGap) {
  staleness_histogram gaps;
  gaps.count(0, 5);
  gaps.count(1, 3);
  gaps.count(4, 2);
  const read_histogram h = histogram_of(gaps);
  EXPECT_THAT(h.bucket_limit, ElementsAre(0.5, 1.5, 3.5, 4.5)) << "nothing between 1 and 4";
  EXPECT_THAT(h.bucket, ElementsAre(5, 3, 0, 2));
  EXPECT_EQ(h.min, 0);
  EXPECT_EQ(h.max, 4);
  EXPECT_EQ(h.num, 10);
  EXPECT_EQ(h.sum, 11);
  EXPECT_EQ(h.sum_squares, 35);
}

TEST(TensorboardEvent, LetsLargeGapsShareABucket) {
  staleness_histogram gaps;
  for (const std::uint64_t gap : {1022, 1023, 1024, 1500, 2047, 2048, 5000}) gaps.count(gap);
  const read_histogram h = histogram_of(gaps);
  EXPECT_THAT(h.bucket_limit, ElementsAre(1022.5, 1023.5, 2047.5, 4095.5, 8191.5));
  EXPECT_THAT(h.bucket, ElementsAre(1, 1, 3, 1, 1));
  EXPECT_EQ(h.min, 1022);
  EXPECT_EQ(h.max, 5000) << "exact, however wide its bucket is";
}

TEST(TensorboardEvent, TellsTheLargestExactGapFromItsNeighbours) {
  staleness_histogram gaps;
  for (const std::uint64_t gap : {5, 1023}) gaps.count(gap);
  EXPECT_THAT(histogram_of(gaps).bucket_limit, ElementsAre(5.5, 1022.5, 1023.5));
}

/// The limit of a bucket is a float64, which holds no half of such a number.
TEST(TensorboardEvent, CountsTheLargestGapOfAll) {
  staleness_histogram gaps;
  gaps.count(7);
  gaps.count(std::numeric_limits<std::uint64_t>::max(), 2);
  const read_histogram h = histogram_of(gaps);
  EXPECT_THAT(h.bucket, ElementsAre(1, 0, 2));
  EXPECT_EQ(h.num, 3);
}

TEST(TensorboardEvent, OfNoGapHasNoBucket) {
  const read_histogram h = histogram_of({});
  EXPECT_THAT(h.bucket, IsEmpty());
  EXPECT_EQ(h.num, 0);
}

} // namespace
} // namespace mailgrad

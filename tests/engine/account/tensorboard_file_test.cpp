#include <mailgrad/engine/account/tensorboard_file.hpp>
#include <mailgrad/tests/engine/account/event_reader.hpp>
#include <mailgrad/tests/support/full_disk.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using testing::event_files;
using testing::event_in;
using testing::events_in;
using testing::read_event;
using testing::read_histogram;
using namespace ::testing;

class TensorboardFile : public ::testing::Test {
protected:
  std::string folder(const char* name = "board") const { return (scratch_.path() / name).string(); }
  static gaps_measured gaps(std::uint64_t steps, double time_s) {
    gaps_measured x{steps, time_s};
    x.gaps.count(2, 3);
    return x;
  }

  const board_start start_{calendar_time{1'700'000'000s + 500ms}};
  const scratch_folder scratch_;
};

TEST_F(TensorboardFile, HasEachEventAtOnce) {
  tensorboard_file f(folder("a/b"), start_);
  EXPECT_THAT(f.path().filename().string(), StartsWith("events.out.tfevents.1700000000."));
  ASSERT_THAT(events_in(f.path()), SizeIs(1));
  EXPECT_EQ(events_in(f.path())[0].file_version, "brain.Event:2");
  EXPECT_EQ(events_in(f.path())[0].wall_time, 1'700'000'000.5);
  f.add(gaps(5, 1.5));
  ASSERT_THAT(events_in(f.path()), SizeIs(2));
  f.add(metrics_line{.time_s = 2, .steps = 6, .applied = 4});
  const auto events = events_in(f.path());
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[1].step, 5U);
  EXPECT_EQ(events[1].wall_time, 1'700'000'002);
  EXPECT_EQ(events[1].histograms.at("staleness/gaps").num, 3);
  EXPECT_EQ(events[2].step, 6U);
  EXPECT_EQ(events[2].wall_time, 1'700'000'002.5);
  EXPECT_EQ(events[2].scalars.at("ledger/applied"), 4);
  EXPECT_THAT(f.failure(), IsEmpty());
}

TEST_F(TensorboardFile, NamesThePresentPolicyAndCountsSwitches) {
  board_start start = start_;
  start.options = {{"batch", 64.0}};
  start.policy = "async";
  tensorboard_file f(folder(), start);
  f.add(metrics_line{.time_s = 2, .steps = 300});
  f.add(policy_switch{298, "async", "ssp:2", "planned for step 300"});
  auto events = events_in(f.path());
  ASSERT_THAT(events, SizeIs(7));
  EXPECT_EQ(events[1].options.at("batch"), "64.000000");
  EXPECT_EQ(events[2].texts.at("policy"), "`async`");
  EXPECT_EQ(events[3].scalars.at("policy/switches"), 0);
  EXPECT_EQ(events[5].texts.at("policy"), "`ssp:2`, after `async` until step 298: planned for step 300");
  EXPECT_EQ(events[5].step, 298U);
  EXPECT_EQ(events[5].wall_time, 1'700'000'002.5) << "of the last line";
  EXPECT_EQ(events[6].scalars.at("policy/switches"), 1);
  start.resumed_at = 70;
  start.switches = 2;
  tensorboard_file resumed(folder("resumed"), start);
  resumed.add(policy_switch{80, "sync", "async", "asked for"});
  events = events_in(resumed.path());
  EXPECT_EQ(events[4].step, 70U);
  EXPECT_EQ(events[4].scalars.at("policy/switches"), 2);
  EXPECT_EQ(events.back().scalars.at("policy/switches"), 3);
}

TEST_F(TensorboardFile, SaysWhoComesAndGoes) {
  tensorboard_file f(folder(), start_);
  f.add(members_changed{"the run begins", 2, 1});
  f.add(metrics_line{.time_s = 2, .steps = 300});
  f.add(members_changed{"lost worker 1 (incarnation 1): no sign of life", 1, 1});
  const auto events = events_in(f.path());
  EXPECT_EQ(events[1].texts.at("members"), "the run begins");
  EXPECT_EQ(events[2].scalars.at("members/workers"), 2);
  EXPECT_EQ(events[3].scalars.at("members/parameter_hosts"), 1);
  EXPECT_EQ(events[5].texts.at("members"), "lost worker 1 (incarnation 1): no sign of life");
  EXPECT_EQ(events[6].scalars.at("members/workers"), 1);
  EXPECT_EQ(events[6].step, 300U);
}

TEST_F(TensorboardFile, LeavesEarlierOnesAsTheyAre) {
  tensorboard_file first(folder(), start_);
  first.add(metrics_line{.steps = 1});
  tensorboard_file second(folder(), start_);
  second.add(metrics_line{.steps = 2});
  tensorboard_file later(folder(), {start_.date + 1s});
  EXPECT_THAT(event_files(folder()), ElementsAre(first.path(), second.path(), later.path()));
  EXPECT_EQ(events_in(first.path()).back().step, 1U);
  EXPECT_EQ(events_in(second.path()).back().step, 2U);
}

TEST_F(TensorboardFile, SaysWhereAnEarlierProcessWasLeft) {
  tensorboard_file same(folder(), {start_.date, 10s, 0, 70});
  same.add(metrics_line{.time_s = 11, .steps = 80});
  const auto goes_on = events_in(same.path());
  ASSERT_THAT(goes_on, SizeIs(3));
  EXPECT_TRUE(goes_on[1].starts);
  EXPECT_EQ(goes_on[1].step, 71U) << "the first that was lost";
  EXPECT_EQ(goes_on[2].step, 80U);
  EXPECT_EQ(goes_on[2].wall_time, 1'700'000'001.5) << "the pause between both processes took time too";

  tensorboard_file others(folder(), {start_.date, {}, 70, 70});
  others.add(metrics_line{.time_s = 1, .steps = 10});
  EXPECT_EQ(events_in(others.path())[2].step, 80U);
}

TEST_F(TensorboardFile, IsReadAsFarAsItIsWhole) {
  tensorboard_file f(folder(), start_);
  f.add(metrics_line{.steps = 1});
  const auto whole = std::filesystem::file_size(f.path());
  f.add(metrics_line{.steps = 2});
  for (auto size = std::filesystem::file_size(f.path()) - 1; size >= whole; --size) {
    std::filesystem::resize_file(f.path(), size);
    EXPECT_THAT(events_in(f.path()), SizeIs(2)) << size;
  }
}

TEST_F(TensorboardFile, SaysWhyItCannotBeWritten) {
  scratch_.write("file", "");
  for (const std::string& wrong : {folder("file"), folder("file/below")}) {
    try {
      tensorboard_file f(wrong, start_);
      ADD_FAILURE() << wrong;
    } catch (const std::system_error& e) {
      EXPECT_THAT(e.what(), AllOf(StartsWith("tensorboard '" + wrong + "' cannot be written: "),
                                  HasSubstr("Not a directory")));
    }
  }
  EXPECT_THROW(tensorboard_file("/proc", start_), std::system_error);
}

TEST_F(TensorboardFile, EndsWithTheDisk) {
  tensorboard_file f(folder(), start_);
  f.add(metrics_line{.steps = 1});
  {
    const testing::full_disk full(std::filesystem::file_size(f.path()) + 10);
    f.add(metrics_line{.steps = 2});
  }
  const std::string why = f.failure();
  EXPECT_THAT(why, AllOf(StartsWith("tensorboard '" + folder()), EndsWith("ends early: File too large")));
  f.add(gaps(3, 3));
  EXPECT_EQ(f.failure(), why);
  EXPECT_THAT(events_in(f.path()), SizeIs(2)) << "what was whole is whole";
}

TEST(TensorboardEvent, BeginsAFileOrTellsWhereARunGoesOn) {
  const read_event begun = event_in(version_event(1700000000.25));
  EXPECT_EQ(begun.wall_time, 1700000000.25);
  EXPECT_EQ(begun.file_version, "brain.Event:2");
  const read_event e = event_in(resume_event({2, 500}));
  EXPECT_TRUE(e.starts);
  EXPECT_EQ(e.step, 500U);
  EXPECT_EQ(e.wall_time, 2);
}

TEST(TensorboardEvent, HasEachFigureOfALineUnderItsTag) {
  const metrics_line x{99, 98, 2,   97,  1.5,  0.5,   0.125, 3.5,  7,    11, 10,
                       6,  1,  640, 2.5, 0.75, 0.875, 4,     0.25, 0.75, 5};
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

/// The name of a model's file may be any bytes, and TensorBoard reads UTF-8 alone.
TEST(TensorboardEvent, HasOptionsTextsAndCounts) {
  const read_event e = event_in(options_event(3.5, {{"policy", "async"}, {"learning_rate", 0.5}}));
  EXPECT_EQ(e.wall_time, 3.5);
  EXPECT_THAT(e.options, UnorderedElementsAre(Pair("policy", "async"), Pair("learning_rate", "0.500000")));
  const read_event text = event_in(text_event({3, 40}, "policy", "`sync`: asked for"));
  EXPECT_EQ(text.step, 40U);
  EXPECT_THAT(text.texts, ElementsAre(Pair("policy", "`sync`: asked for")));
  const read_event count = event_in(count_event({3, 40}, "policy/switches", 2));
  EXPECT_EQ(count.step, 40U);
  EXPECT_THAT(count.scalars, ElementsAre(Pair("policy/switches", 2)));
  EXPECT_EQ(event_in(text_event({}, "policy", "a\xff z")).texts.at("policy"), "a\xEF\xBF\xBD z");
  EXPECT_EQ(event_in(options_event(0, {{"model", "\xff"}})).options.at("model"), "\xEF\xBF\xBD");
}

TEST(TensorboardEvent, LeavesUnknownFiguresOutAndKeepsALossThatIsNoNumber) {
  const read_event e = event_in(scalars_event({}, {}));
  for (const char* tag :
       {"loss/train", "loss/test", "accuracy/test", "rmse/test", "staleness/mean", "staleness/p99"})
    EXPECT_FALSE(e.scalars.contains(tag)) << tag;
  EXPECT_TRUE(e.scalars.contains("ledger/applied")) << "0 is known";
  const metrics_line x{.train_loss = std::numeric_limits<double>::quiet_NaN()};
  EXPECT_TRUE(std::isnan(event_in(scalars_event({}, x)).scalars.at("loss/train")));
}

read_histogram histogram_of(std::initializer_list<std::pair<std::uint64_t, std::uint64_t>> counts) {
  staleness_histogram gaps;
  for (const auto& [gap, times] : counts) gaps.count(gap, times);
  return event_in(gaps_event({}, gaps)).histograms.at("staleness/gaps");
}

TEST(TensorboardEvent, HasABucketForEachGap) {
  const read_histogram h = histogram_of({{0, 5}, {1, 3}, {4, 2}});
  EXPECT_THAT(h, FieldsAre(0, 4, 10, 11, 35, ElementsAre(0.5, 1.5, 3.5, 4.5), ElementsAre(5, 3, 0, 2)))
      << "nothing between 1 and 4";
  EXPECT_THAT(histogram_of({{5, 1}, {1023, 1}}).bucket_limit, ElementsAre(5.5, 1022.5, 1023.5));
  EXPECT_THAT(histogram_of({}).bucket, IsEmpty());
  EXPECT_EQ(histogram_of({}).num, 0);
}

/// The limit of a bucket is a float64, which holds no half of the largest gap of all.
TEST(TensorboardEvent, LetsLargeGapsShareABucket) {
  const read_histogram h =
      histogram_of({{1022, 1}, {1023, 1}, {1024, 1}, {1500, 1}, {2047, 1}, {2048, 1}, {5000, 1}});
  EXPECT_THAT(h.bucket_limit, ElementsAre(1022.5, 1023.5, 2047.5, 4095.5, 8191.5));
  EXPECT_THAT(h.bucket, ElementsAre(1, 1, 3, 1, 1));
  EXPECT_EQ(h.min, 1022);
  EXPECT_EQ(h.max, 5000) << "exact, however wide its bucket is";
  const read_histogram largest = histogram_of({{7, 1}, {std::numeric_limits<std::uint64_t>::max(), 2}});
  EXPECT_THAT(largest.bucket, ElementsAre(1, 0, 2));
  EXPECT_EQ(largest.num, 3);
}

/// The expected bytes were written by TensorBoard's own RecordWriter.
TEST(TfRecord, IsWhatTensorBoardWrites) {
  EXPECT_EQ(tf_record("123456789"), "\x09\0\0\0\0\0\0\0\x37\xf9\x71\x39"
                                    "123456789"
                                    "\xe5\xb0\x8a\xc7"sv);
  EXPECT_EQ(tf_record(""), "\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2"sv);
}

} // namespace
} // namespace mailgrad

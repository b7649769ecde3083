#include <mailgrad/engine/account/tensorboard_file.hpp>

#include <mailgrad/tests/engine/account/event_reader.hpp>
#include <mailgrad/tests/support/full_disk.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <system_error>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::EndsWith;
using testing::event_files;
using testing::events_in;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

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

TEST_F(TensorboardFile, NamesThePresentPolicy) {
  board_start start = start_;
  start.options = {{"batch", 64.0}};
  start.policy = "async";
  tensorboard_file f(folder(), start);
  f.add(metrics_line{.time_s = 2, .steps = 300});
  f.add(policy_switch{298, "async", "ssp:2", "planned for step 300"});
  const auto events = events_in(f.path());
  ASSERT_THAT(events, SizeIs(7));
  EXPECT_EQ(events[1].options.at("batch"), "64.000000");
  EXPECT_EQ(events[2].texts.at("policy"), "`async`");
  EXPECT_EQ(events[3].scalars.at("policy/switches"), 0);
  EXPECT_EQ(events[5].texts.at("policy"), "`ssp:2`, after `async` until step 298: planned for step 300");
  EXPECT_EQ(events[5].step, 298U);
  EXPECT_EQ(events[5].wall_time, 1'700'000'002.5) << "of the last line";
  EXPECT_EQ(events[6].scalars.at("policy/switches"), 1);
}

TEST_F(TensorboardFile, CountsTheSwitchesOfEarlierProcesses) {
  board_start start = start_;
  start.resumed_at = 70;
  start.policy = "sync";
  start.switches = 2;
  tensorboard_file f(folder(), start);
  f.add(policy_switch{80, "sync", "async", "asked for"});
  const auto events = events_in(f.path());
  EXPECT_EQ(events[3].step, 70U);
  EXPECT_EQ(events[3].scalars.at("policy/switches"), 2);
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
  EXPECT_THAT(event_files(folder()), ::testing::ElementsAre(first.path(), second.path(), later.path()));
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

} // namespace
} // namespace mailgrad

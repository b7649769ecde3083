#include <mailgrad/tests/engine/record/small_recording.hpp>

#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

// What is kept of a recording when its disk is full.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using testing::small_end;
using testing::small_header;
using testing::written;
using kind = order_entry::kind;

/// A disk on which a recording stops growing.
class FullRecording : public ::testing::Test {
protected:
  /// Takes so many bytes in all, and of the last ones as many as there is room for.
  class last_bytes : public std::stringbuf {
  public:
    explicit last_bytes(std::streamsize room) : room_(room) {}

  protected:
    std::streamsize xsputn(const char* from, std::streamsize count) override {
      const std::streamsize taken = std::stringbuf::xsputn(from, std::min(count, room_));
      room_ -= taken;
      if (taken < count) errno = ENOSPC;
      return taken;
    }

  private:
    std::streamsize room_;
  };

  static constexpr std::size_t part_bytes = 4 + 4 + 16 + 4;

  /// Records parts of one entry until the disk is full, of which `other_room` bytes are left for other files.
  /// Then gives the recording up for files that need `needed` bytes.
  recording_account fill(std::size_t parts, std::uint64_t other_room, std::uint64_t needed) {
    const std::size_t room = header_ + parts * part_bytes + part_bytes / 2;
    last_bytes disk(static_cast<std::streamsize>(room));
    recording_writer writer(std::make_unique<std::ostream>(&disk), "run.rec", small_header(),
                            {{},
                             {},
                             [this](std::uint64_t bytes) {
                               left_.push_back(bytes);
                               return bytes > 0 ? "run.rec.partial" : "";
                             },
                             [other_room] { return other_room; }});
    for (std::uint64_t i = 0; i < parts; ++i) {
      writer.add_entries(0, std::vector{order_entry{kind::joined, {0}}});
      EXPECT_FALSE(writer.failed());
    }
    writer.add_entries(0, std::vector{order_entry{kind::joined, {1}}});
    EXPECT_TRUE(writer.failed());
    const recording_account what = writer.give_up(needed);
    EXPECT_THAT(what.failure, HasSubstr("No space left"));
    EXPECT_EQ(what.bytes, header_ + parts * part_bytes) << "what was written whole";
    EXPECT_EQ(left_.size(), 1U);
    EXPECT_EQ(left_.back(), what.kept_bytes);
    EXPECT_EQ(what.removed, what.kept_bytes == 0);
    EXPECT_EQ(what.kept.empty(), what.removed);
    EXPECT_THROW(writer.end(small_end()), std::runtime_error);
    whole_ = disk.str();
    left_.clear();
    return what;
  }
  /// The entries of shard 0 in what was kept.
  std::size_t entries_in(const recording_account& what) const {
    return parse_killed_recording(std::string_view(whole_).substr(0, what.kept_bytes), what.kept)
        .entries[0]
        .size();
  }

  const std::size_t header_ = written(small_header(), {}, {}).size() - (4 + 4 + 3 * 8 + 4);
  std::vector<std::uint64_t> left_;
  std::string whole_;
};

TEST_F(FullRecording, KeepsAllThatIsWholeWhereOthersHaveRoom) {
  for (const std::uint64_t room : {1000U, 1001U, 1'000'000U}) EXPECT_EQ(entries_in(fill(9, room, 1000)), 9U);
}

TEST_F(FullRecording, GivesOthersTheRoomThatTheyNeed) {
  EXPECT_EQ(entries_in(fill(9, 999, 1000)), 8U);
  EXPECT_EQ(entries_in(fill(9, 1000 - part_bytes, 1000)), 8U);
  EXPECT_EQ(entries_in(fill(9, 999 - part_bytes, 1000)), 7U);
  EXPECT_EQ(entries_in(fill(9, 0, 8 * part_bytes)), 1U);
}

TEST_F(FullRecording, IsRemovedWhereNoPartIsLeft) {
  EXPECT_TRUE(fill(9, 0, 9 * part_bytes).removed) << "a header alone has nothing to repeat";
  EXPECT_TRUE(fill(9, 0, std::numeric_limits<std::uint64_t>::max()).removed);
  EXPECT_TRUE(fill(0, 1'000'000, 0).removed);
}

/// The ends of some parts are forgotten, so a little more than what is needed may go.
TEST_F(FullRecording, MayHaveManyParts) {
  for (const std::size_t parts : {4094U, 4095U, 4096U, 20'000U, 50'000U}) {
    EXPECT_EQ(entries_in(fill(parts, 0, 0)), parts);
    const std::size_t kept = entries_in(fill(parts, 0, parts / 2 * part_bytes));
    EXPECT_LE(kept, parts - parts / 2);
    EXPECT_GT(kept, parts / 2 - parts / 1000 - 2);
  }
}

} // namespace
} // namespace mailgrad

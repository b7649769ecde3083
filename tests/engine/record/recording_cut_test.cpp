#include <mailgrad/engine/record/recording_file.hpp>

#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using kind = order_entry::kind;

/// Two workers and one shard.
recording recorded() {
  recording r;
  r.name = "run.rec";
  r.header.workers = 2;
  r.entries = {{{kind::joined, {0}},
                {kind::joined, {1}},
                {kind::gradient, {0}, {1}, {}, 50},
                {kind::switched, {}},
                {kind::gradient, {1}, {1}, {}, 70},
                {kind::left, {0}}}};
  r.batches = {{0, 2, 4}, {1, 3}};
  r.end.ended = "completed";
  r.end.switches = {{"sync", "planned", {1, 0}, {1, 1}}};
  return r;
}

recording_cut cut_after(const recording& r, std::size_t entries) {
  recording_cut at(1);
  at.add(0, std::span(r.entries[0]).first(entries));
  return at;
}

const std::vector<std::uint64_t> trained{2, 1};

TEST(RecordingCut, LeavesWhatLiesBeforeTheCheckpoint) {
  const recording r = recorded();
  const recording before = part_before(r, cut_after(r, 5), trained, 1);
  EXPECT_EQ(before.entries[0].size(), 5U);
  EXPECT_THAT(before.batches[0], ElementsAre(0, 2));
  EXPECT_THAT(before.batches[1], ElementsAre(1));
  EXPECT_EQ(before.end.switches.size(), 1U);
  EXPECT_EQ(before.end.ended, "") << "it goes on";
}

TEST(RecordingCut, IsTheSameInPiecesAndInAFile) {
  const recording r = recorded();
  recording_cut at(1);
  at.add(0, std::span(r.entries[0]).first(2));
  at.add(0, std::span(r.entries[0]).subspan(2, 3));
  EXPECT_EQ(at.checksums, cut_after(r, 5).checksums);
  std::stringbuf bytes;
  recording_writer file(std::make_unique<std::ostream>(&bytes), "memory", r.header);
  write_again(file, part_before(r, at, trained, 1));
  const recording again = parse_killed_recording(bytes.view(), "memory");
  EXPECT_EQ(part_before(again, at, trained, 1).entries, part_before(r, at, trained, 1).entries);
  EXPECT_EQ(again.batches, (std::vector<std::vector<std::uint64_t>>{{0, 2}, {1}}));
  EXPECT_EQ(again.end.switches, r.end.switches);
}

TEST(RecordingCut, RefusesARecordingThatCannotGoOn) {
  const recording r = recorded();
  const auto refused = [&](const recording& from, const recording_cut& at, std::size_t switches = 1) {
    return testing::words_of_refusal([&] { part_before(from, at, trained, switches); });
  };
  recording_cut more = cut_after(r, 5);
  more.entries[0] = 9;
  EXPECT_THAT(refused(r, more), HasSubstr("ends before the checkpoint: it has 6 of 9 turns of shard 0"));
  EXPECT_THAT(refused(r, cut_after(r, 5), 2), HasSubstr("it has 1 of 2 switches"));
  recording other = r;
  other.entries[0][2].arrived = 51;
  EXPECT_THAT(refused(other, cut_after(r, 5)), HasSubstr("is of another run than the checkpoint"));
  other = r;
  other.batches[0].resize(1);
  EXPECT_THAT(refused(other, cut_after(r, 5)), HasSubstr("it has 1 of 2 batches of worker 0"));
  EXPECT_THAT(refused(r, cut_after(r, 6)), HasSubstr("worker 0 had left before the checkpoint"));
  other = r;
  other.incarnations = {{{{1}, 2, false}}, {}};
  EXPECT_THAT(refused(other, cut_after(r, 5)), HasSubstr("workers had come or gone"));
  recording_cut failed = cut_after(r, 5);
  failed.failed = true;
  EXPECT_THAT(refused(r, failed), HasSubstr("could not be written before the checkpoint"));
  EXPECT_THAT(refused(r, recording_cut(2)), HasSubstr("the checkpoint is of 2 and 2"));
}

} // namespace
} // namespace mailgrad

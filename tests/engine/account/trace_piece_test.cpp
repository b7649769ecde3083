#include <mailgrad/engine/account/trace_track.hpp>

#include <mailgrad/files/byte_archive.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::SizeIs;

std::vector<reported_event> told_from(const trace_track& track, std::size_t first, instant sent) {
  trace_piece piece{"cpu:0", sent.count()};
  tell_from(track, first, piece);
  return piece.events;
}

TEST(TracePiece, TellsTheEventsOfATrackInSpans) {
  trace_track track("worker 0", 1000, 1s);
  track.wait(trace_kind::batch, 1s + 5ns);
  track.work({trace_kind::compute, 1s + 5ns, 1s + 25ns, 0, 7, 3, 4});
  const std::vector<reported_event> told = told_from(track, 1, 2s);
  ASSERT_THAT(told, SizeIs(1)) << "the first one had been told";
  EXPECT_EQ(told[0].what, trace_kind::compute);
  EXPECT_EQ(instant{told[0].ago}, 1s - 5ns);
  EXPECT_EQ(instant{told[0].span}, 20ns);
  EXPECT_EQ(told[0].step, 7U);
  EXPECT_EQ(told[0].version_read, 3U);
  EXPECT_EQ(told[0].version, 4U);
  EXPECT_THAT(told_from(track, 2, 2s), SizeIs(0));
}

TEST(TracePiece, TellsEachWordOnce) {
  trace_track track("shard 0", 1000, 0ns);
  for (const char* word : {"not awaited", "", "other epoch", "not awaited"})
    track.moment({trace_kind::discard, 1ns, 1ns, 0, 1, 0, 0, word});
  trace_piece piece{"", 5};
  tell_from(track, 0, piece);
  EXPECT_THAT(piece.words, ::testing::ElementsAre("not awaited", "other epoch"));
  std::vector<std::uint32_t> of;
  for (const reported_event& e : piece.events) of.push_back(e.word);
  EXPECT_THAT(of, ::testing::ElementsAre(1, 0, 2, 1));
  EXPECT_TRUE(piece.makes_sense());
}

TEST(TracePiece, HasRoomForAFewShortWords) {
  trace_track track("shard 0", 1000, 0ns);
  std::vector<std::string> words(trace_piece::most_words + 1, "word");
  for (std::size_t i = 0; i < words.size(); ++i) words[i] += std::to_string(i);
  words.insert(words.begin(), std::string(trace_piece::longest_word + 1, 'w'));
  for (const std::string& word : words) track.moment({trace_kind::discard, 1ns, 1ns, 0, 1, 0, 0, word});
  trace_piece piece{"", 5};
  tell_from(track, 0, piece);
  EXPECT_THAT(piece.words, SizeIs(trace_piece::most_words));
  EXPECT_EQ(piece.events.front().word, 0U);
  EXPECT_EQ(piece.events.back().word, 0U);
  EXPECT_TRUE(piece.makes_sense());
  piece.words.emplace_back();
  EXPECT_FALSE(piece.makes_sense());
  piece.words = {std::string(trace_piece::longest_word + 1, 'w')};
  EXPECT_FALSE(piece.makes_sense());
  piece.words = {"one"};
  EXPECT_FALSE(piece.makes_sense()) << "events have words that the piece lacks";
}

/// The largest numbers there are.
TEST(TracePiece, IsBoundedInEventsAndBytes) {
  trace_track track("worker 0", 1000, 0ns);
  for (int i = 0; i < 600; ++i) track.work({trace_kind::read, 1ns * i, 1ns * i});
  EXPECT_THAT(told_from(track, 0, 1s), SizeIs(trace_piece::most_events));
  EXPECT_THAT(told_from(track, 512, 1s), SizeIs(88));
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  reported_event e{
      trace_kind::wire, std::int64_t{1} << 61, std::int64_t{1} << 61, 0xffffffff, most, most, most,
      0xffffffff};
  byte_archive_writer bytes;
  for (std::size_t i = 0; i < trace_piece::most_events; ++i) bytes.field("event", e);
  EXPECT_LT(bytes.bytes().size(), 16U << 10);
}

TEST(TracePiece, ReadsNoKindOfEventThatIsNotThere) {
  reported_event e{static_cast<trace_kind>(200)};
  byte_archive_writer bytes;
  auto number = static_cast<std::uint8_t>(e.what);
  bytes.field("what", number);
  byte_archive_reader reader(bytes.bytes(), "event");
  EXPECT_THROW(reader.field("", e), archive_error);
}

TEST(TracePiece, MakesSenseIfItsEventsHaveEnded) {
  trace_piece x{"cpu:0", 5, 7, 0, {{trace_kind::compute, 4, 4}}};
  EXPECT_TRUE(x.makes_sense());
  x.events[0].span = 5;
  EXPECT_FALSE(x.makes_sense()) << "it would end after it was told";
  x.events[0] = {trace_kind::compute, -1, 0};
  EXPECT_FALSE(x.makes_sense());
  x.events[0] = {trace_kind::compute, 4, -1};
  EXPECT_FALSE(x.makes_sense());
  x.events.assign(257, {});
  EXPECT_FALSE(x.makes_sense());
  x.events.clear();
  x.sent = std::numeric_limits<std::int64_t>::min();
  EXPECT_FALSE(x.makes_sense());
  x.sent = 0;
  x.answered = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(x.makes_sense());
}

} // namespace
} // namespace mailgrad

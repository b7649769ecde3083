#include <mailgrad/net/frame.hpp>

#include <mailgrad/tests/net/protocol_complaint.hpp>

#include <random>

namespace mailgrad::net {
namespace {

using testing::StartsWith;

/// Keeps what it is given, and places pieces in a block of its own.
struct kept_frames final : frame_sink {
  std::span<std::byte> place_of(const frame_header& h) override {
    ++placed;
    if (h.kind != frame_kind::piece) return {};
    return std::span{block}.first(h.length);
  }
  void take(const frame_header& h, byte_view payload) override {
    headers.push_back(h);
    payloads.emplace_back(as_text(payload));
    addresses.push_back(payload.data());
  }

  bytes block = bytes(most_piece_bytes);
  int placed = 0;
  std::vector<frame_header> headers;
  std::vector<std::string> payloads;
  std::vector<const std::byte*> addresses;
};

void append(bytes& to, const bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

bytes some_frames() {
  bytes all;
  append(all, whole_frame({.kind = frame_kind::message, .sequence = 0}, as_bytes("first")));
  append(all, whole_frame({.kind = frame_kind::heartbeat, .sequence = 1}, {}));
  append(all, whole_frame({.kind = frame_kind::piece, .sequence = 2}, as_bytes(std::string(3000, 'p'))));
  append(all, whole_frame({.kind = frame_kind::message, .sequence = 3}, as_bytes("last")));
  return all;
}

void expect_some_frames(const kept_frames& found) {
  ASSERT_EQ(found.headers.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(found.headers[i].sequence, i);
  EXPECT_THAT(found.payloads, testing::ElementsAre("first", "", std::string(3000, 'p'), "last"));
  EXPECT_EQ(found.addresses[2], found.block.data()) << "the piece must be received where it shall lie";
}

TEST(FrameDecoder, FindsFramesInWhateverCutsBytesArrive) {
  const bytes all = some_frames();
  for (std::size_t cut = 1; cut <= all.size(); cut += cut < 200 ? 1 : 97) {
    kept_frames found;
    frame_decoder decoder{found};
    for (byte_view left = all; !left.empty();) {
      const byte_view now = left.first(std::min(cut, left.size()));
      decoder.feed(now);
      left = left.subspan(now.size());
    }
    expect_some_frames(found);
    EXPECT_FALSE(decoder.in_frame());
  }
}

TEST(FrameDecoder, FindsFramesThatAreReadIntoItsRoom) {
  const bytes all = some_frames();
  std::mt19937 random{3};
  for (int round = 0; round < 200; ++round) {
    kept_frames found;
    frame_decoder decoder{found};
    for (std::size_t at = 0; at < all.size();) {
      const std::span<std::byte> room = decoder.room();
      ASSERT_FALSE(room.empty());
      const std::size_t count = std::min<std::size_t>({room.size(), all.size() - at, 1 + random() % 1000});
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(at), count, room.begin());
      decoder.filled(count);
      at += count;
    }
    expect_some_frames(found);
  }
}

TEST(FrameDecoder, RefusesAnotherProtocolAtItsFirstByte) {
  kept_frames found;
  frame_decoder decoder{found};
  EXPECT_THAT(protocol_complaint([&] { decoder.feed(as_bytes("G")); }), StartsWith("frame: expected 'mgnf'"));
}

TEST(FrameDecoder, TakesNoMemoryForALengthThatIsTooLarge) {
  kept_frames found;
  frame_decoder decoder{found};
  frame_header h{.kind = frame_kind::message};
  h.length = 0xffffffff;
  EXPECT_NE(protocol_complaint([&] { decoder.feed(encode(h)); }), "");
  EXPECT_EQ(found.placed, 0) << "nobody may be asked for a place of what is refused";
  EXPECT_LE(decoder.memory_bytes(), 4096U + frame_header_bytes);
}

TEST(FrameDecoder, KeepsNoLargeMemoryBetweenFrames) {
  kept_frames found;
  frame_decoder decoder{found};
  decoder.feed(whole_frame({.kind = frame_kind::message}, bytes(most_message_bytes)));
  EXPECT_EQ(found.headers.size(), 1U);
  EXPECT_LE(decoder.memory_bytes(), 4096U + frame_header_bytes);
}

TEST(FrameDecoder, HandsOnNoDamagedPayload) {
  kept_frames found;
  frame_decoder decoder{found};
  bytes damaged = whole_frame({.kind = frame_kind::message}, as_bytes("hello"));
  damaged.back() ^= std::byte{1};
  EXPECT_THAT(protocol_complaint([&] { decoder.feed(damaged); }),
              StartsWith("message: expected 5 bytes with"));
  EXPECT_TRUE(found.headers.empty());
}

TEST(FrameDecoder, IsNotToldOfMoreThanItHasRoomFor) {
  kept_frames found;
  frame_decoder decoder{found};
  EXPECT_THROW(decoder.filled(frame_header_bytes + 1), std::logic_error);
}

} // namespace
} // namespace mailgrad::net

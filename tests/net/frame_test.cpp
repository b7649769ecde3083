#include <mailgrad/net/frame.hpp>

#include <mailgrad/tests/net/protocol_complaint.hpp>

#include <random>

namespace mailgrad::net {
namespace {

using namespace ::testing;

frame_header some_header() {
  return {.kind = frame_kind::message,
          .run = 0x1111111122222222,
          .session = 0x3333333344444444,
          .sequence = 7,
          .length = 5,
          .checksum = checksum_of(as_bytes("hello"))};
}

/// What is said of a header with one byte changed and its checksum made right again.
std::string complaint_of_forged(std::size_t offset, std::uint8_t value) {
  header_bytes h = encode(some_header());
  h[offset] = std::byte{value};
  bytes sum;
  frame_writer{sum}.u32(checksum_of(byte_view{h}.first(40)));
  std::copy(sum.begin(), sum.end(), h.begin() + 40);
  return protocol_complaint([&] { decode_header(h); });
}

TEST(Frame, IsReadAsItWasWritten) { EXPECT_EQ(decode_header(encode(some_header())), some_header()); }

TEST(Frame, StandsOnTheWireAsThePageSays) {
  std::string hex;
  for (const std::byte b :
       whole_frame({.kind = frame_kind::message, .run = 1, .session = 2, .sequence = 3}, as_bytes("hi"))) {
    constexpr char digits[] = "0123456789abcdef";
    hex += digits[std::to_integer<int>(b) >> 4];
    hex += digits[std::to_integer<int>(b) & 15];
  }
  EXPECT_EQ(hex, "6d676e66" // mgnf
                 "0500"
                 "05"
                 "00"               // version, kind, reserved
                 "0100000000000000" // run
                 "0200000000000000" // session
                 "0300000000000000" // sequence
                 "02000000"         // length
                 "9a6eead7"         // checksum of the payload, as `printf hi | xxhsum -H3` prints it
                 "7fe4dd07"         // checksum of the header
                 "6869");
}

TEST(Frame, NamesWhatAnotherProtocolSays) {
  const auto complaint = [](std::string_view begin) {
    return protocol_complaint([&] { check_magic(as_bytes(begin)); });
  };
  EXPECT_EQ(complaint("GET / HTTP/1.1"),
            "frame: expected 'mgnf', found 'GET ': the peer speaks another protocol");
  EXPECT_EQ(complaint("m\x16"), "frame: expected 'mgnf', found 'm\\x16': the peer speaks another protocol");
  EXPECT_EQ(complaint("mg"), "");
}

TEST(Frame, NoticesEveryChangedBitOfItsHeader) {
  for (std::size_t bit = 0; bit < 8 * frame_header_bytes; ++bit) {
    header_bytes h = encode(some_header());
    h[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(protocol_complaint([&] { decode_header(h); }), "") << "bit " << bit;
  }
}

TEST(Frame, SaysWhichKindItExpects) {
  EXPECT_EQ(complaint_of_forged(6, 0), "frame: expected a kind from 1 to 11, found 0");
  EXPECT_EQ(complaint_of_forged(6, 12), "frame: expected a kind from 1 to 11, found 12");
  EXPECT_EQ(complaint_of_forged(7, 4), "message: expected 0 in its eighth byte, found 4");
}

TEST(Frame, OfAnotherVersionIsRefusedUnlessItTellsTheVersion) {
  EXPECT_EQ(complaint_of_forged(4, 4),
            "message: expected protocol version 5, found 4: use the same build on both sides");
  for (const frame_kind kind : {frame_kind::hello, frame_kind::refusal}) {
    frame_header h = some_header();
    h.kind = kind;
    h.version = 4;
    EXPECT_EQ(decode_header(encode(h)), h);
  }
}

TEST(Frame, IsRefusedForALengthThatItsKindMayNotHave) {
  for (std::uint8_t number = 1; number <= 11; ++number) {
    frame_header h = some_header();
    h.kind = static_cast<frame_kind>(number);
    h.length = static_cast<std::uint32_t>(most_payload_bytes(h.kind));
    EXPECT_EQ(decode_header(encode(h)).length, h.length);
    ++h.length;
    EXPECT_THAT(protocol_complaint([&] { decode_header(encode(h)); }),
                StartsWith(std::string(to_string(h.kind)) + ": expected at most "));
  }
  frame_header h = some_header();
  h.length = 0xffffffff;
  EXPECT_EQ(protocol_complaint([&] { decode_header(encode(h)); }),
            "message: expected at most 65536 bytes, found 4294967295");
}

TEST(Frame, BeforeAnyoneIsKnownFitsInFourKibibytes) {
  for (const frame_kind kind : {frame_kind::hello, frame_kind::welcome, frame_kind::refusal})
    EXPECT_EQ(most_payload_bytes(kind) + frame_header_bytes, 4096U);
}

TEST(Frame, NoticesADamagedPayload) {
  EXPECT_EQ(protocol_complaint([] { check_payload(some_header(), as_bytes("hello")); }), "");
  EXPECT_THAT(protocol_complaint([] { check_payload(some_header(), as_bytes("hellp")); }),
              HasSubstr("they are damaged"));
}

TEST(Frame, IsNotWrittenLargerThanItsKindAllows) {
  EXPECT_THROW(whole_frame({.kind = frame_kind::credit}, bytes(17)), std::length_error);
}

TEST(FrameFields, AreReadAsTheyWereWritten) {
  bytes written;
  frame_writer{written}.u8(0xfe).u16(0x0102).u32(0x03040506).u64(0x0708090a0b0c0d0e);
  frame_writer{written}.text("two").raw(as_bytes("!"));
  frame_reader reader{"hello", written};
  EXPECT_EQ(reader.u8(), 0xfe);
  EXPECT_EQ(reader.u16(), 0x0102);
  EXPECT_EQ(reader.u32(), 0x03040506U);
  EXPECT_EQ(reader.u64(), 0x0708090a0b0c0d0eU);
  EXPECT_EQ(reader.text(), "two");
  EXPECT_EQ(reader.left(), 1U);
  EXPECT_EQ(as_text(reader.rest()), "!");
  EXPECT_NO_THROW(reader.end());
}

TEST(FrameFields, StandInLittleEndian) {
  bytes written;
  frame_writer{written}.u16(0x0102).u32(0x03040506).text("ab");
  EXPECT_EQ(as_text(written), std::string_view("\x02\x01\x06\x05\x04\x03\x02\x00"
                                               "ab",
                                               10));
}

TEST(FrameFields, SayWhereAPayloadIsTooShort) {
  const bytes payload(6);
  frame_reader reader{"hello", payload};
  reader.u32();
  EXPECT_EQ(protocol_complaint([&] { reader.u64(); }), "hello: offset 4: expected 8 bytes, found 2");
  EXPECT_EQ(protocol_complaint([&] { reader.end(); }),
            "hello: offset 4: expected its end, found 2 bytes more");
  EXPECT_EQ(reader.u16(), 0) << "a failed read must take nothing";
}

TEST(FrameFields, TakeNoTextThatIsLongerThanItsPayload) {
  bytes written;
  frame_writer{written}.u16(65535).u8('a');
  frame_reader reader{"welcome", written};
  EXPECT_EQ(protocol_complaint([&] { reader.text(); }), "welcome: offset 2: expected 65535 bytes, found 1");
}

TEST(FrameFields, RefuseATextWhoseLengthHasNoRoom) {
  bytes written;
  EXPECT_THROW(frame_writer{written}.text(std::string(65536, 'x')), std::length_error);
  EXPECT_TRUE(written.empty());
}

TEST(FrameFields, OfOthersArePrintedInOneLine) {
  EXPECT_EQ(printable("GET /\r\n\xff"), "GET /\\x0d\\x0a\\xff");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

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

struct FrameDecoder : Test {
  static bytes some_frames() {
    bytes all;
    const auto append = [&](const frame_header& h, const std::string& payload) {
      const bytes more = whole_frame(h, as_bytes(payload));
      all.insert(all.end(), more.begin(), more.end());
    };
    append({.kind = frame_kind::message, .sequence = 0}, "first");
    append({.kind = frame_kind::heartbeat, .sequence = 1}, "");
    append({.kind = frame_kind::piece, .sequence = 2}, std::string(3000, 'p'));
    append({.kind = frame_kind::message, .sequence = 3}, "last");
    return all;
  }
  static void expect_some_frames(const kept_frames& found) {
    ASSERT_EQ(found.headers.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(found.headers[i].sequence, i);
    EXPECT_THAT(found.payloads, ElementsAre("first", "", std::string(3000, 'p'), "last"));
    EXPECT_EQ(found.addresses[2], found.block.data()) << "the piece must be received where it shall lie";
  }
  std::string complaint_of(byte_view fed) {
    return protocol_complaint([&] { decoder.feed(fed); });
  }

  kept_frames found;
  frame_decoder decoder{found};
};

TEST_F(FrameDecoder, FindsFramesInWhateverCutsBytesArrive) {
  const bytes all = some_frames();
  for (std::size_t cut = 1; cut <= all.size(); cut += cut < 200 ? 1 : 97) {
    kept_frames kept;
    frame_decoder cutting{kept};
    for (byte_view left = all; !left.empty();) {
      const byte_view now = left.first(std::min(cut, left.size()));
      cutting.feed(now);
      left = left.subspan(now.size());
    }
    expect_some_frames(kept);
    EXPECT_FALSE(cutting.in_frame());
  }
}

TEST_F(FrameDecoder, FindsFramesThatAreReadIntoItsRoom) {
  const bytes all = some_frames();
  std::mt19937 random{3};
  for (int round = 0; round < 200; ++round) {
    kept_frames kept;
    frame_decoder reading{kept};
    for (std::size_t at = 0; at < all.size();) {
      const std::span<std::byte> room = reading.room();
      ASSERT_FALSE(room.empty());
      const std::size_t count = std::min<std::size_t>({room.size(), all.size() - at, 1 + random() % 1000});
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(at), count, room.begin());
      reading.filled(count);
      at += count;
    }
    expect_some_frames(kept);
  }
}

TEST_F(FrameDecoder, RefusesAnotherProtocolAtItsFirstByte) {
  EXPECT_THAT(complaint_of(as_bytes("G")), StartsWith("frame: expected 'mgnf'"));
}

TEST_F(FrameDecoder, TakesNoMemoryForALengthThatIsTooLarge) {
  EXPECT_NE(complaint_of(encode({.kind = frame_kind::message, .length = 0xffffffff})), "");
  EXPECT_EQ(found.placed, 0) << "nobody may be asked for a place of what is refused";
  EXPECT_LE(decoder.memory_bytes(), 4096U + frame_header_bytes);
}

TEST_F(FrameDecoder, KeepsNoLargeMemoryBetweenFrames) {
  decoder.feed(whole_frame({.kind = frame_kind::message}, bytes(most_message_bytes)));
  EXPECT_EQ(found.headers.size(), 1U);
  EXPECT_LE(decoder.memory_bytes(), 4096U + frame_header_bytes);
}

TEST_F(FrameDecoder, HandsOnNoDamagedPayload) {
  bytes damaged = whole_frame({.kind = frame_kind::message}, as_bytes("hello"));
  damaged.back() ^= std::byte{1};
  EXPECT_THAT(complaint_of(damaged), StartsWith("message: expected 5 bytes with"));
  EXPECT_TRUE(found.headers.empty());
}

TEST_F(FrameDecoder, IsNotToldOfMoreThanItHasRoomFor) {
  EXPECT_THROW(decoder.filled(frame_header_bytes + 1), std::logic_error);
}

} // namespace
} // namespace mailgrad::net

#include <mailgrad/net/frame.hpp>

#include <mailgrad/tests/net/protocol_complaint.hpp>

namespace mailgrad::net {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

frame_header some_header() {
  return {.kind = frame_kind::message,
          .run = 0x1111111122222222,
          .session = 0x3333333344444444,
          .sequence = 7,
          .length = 5,
          .checksum = checksum_of(as_bytes("hello"))};
}

/// The same header with one byte changed and its checksum made right again.
header_bytes forged(std::size_t offset, std::uint8_t value) {
  header_bytes h = encode(some_header());
  h[offset] = std::byte{value};
  bytes sum;
  frame_writer{sum}.u32(checksum_of(byte_view{h}.first(40)));
  std::copy(sum.begin(), sum.end(), h.begin() + 40);
  return h;
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
  EXPECT_EQ(protocol_complaint([] { check_magic(as_bytes("GET / HTTP/1.1")); }),
            "frame: expected 'mgnf', found 'GET ': the peer speaks another protocol");
  EXPECT_EQ(protocol_complaint([] { check_magic(as_bytes("m\x16")); }),
            "frame: expected 'mgnf', found 'm\\x16': the peer speaks another protocol");
  EXPECT_EQ(protocol_complaint([] { check_magic(as_bytes("mg")); }), "");
}

TEST(Frame, NoticesEveryChangedBitOfItsHeader) {
  for (std::size_t bit = 0; bit < 8 * frame_header_bytes; ++bit) {
    header_bytes h = encode(some_header());
    h[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(protocol_complaint([&] { decode_header(h); }), "") << "bit " << bit;
  }
}

TEST(Frame, SaysWhichKindItExpects) {
  EXPECT_EQ(protocol_complaint([] { decode_header(forged(6, 0)); }),
            "frame: expected a kind from 1 to 11, found 0");
  EXPECT_EQ(protocol_complaint([] { decode_header(forged(6, 12)); }),
            "frame: expected a kind from 1 to 11, found 12");
  EXPECT_EQ(protocol_complaint([] { decode_header(forged(7, 4)); }),
            "message: expected 0 in its eighth byte, found 4");
}

TEST(Frame, OfAnotherVersionIsRefusedUnlessItTellsTheVersion) {
  EXPECT_EQ(protocol_complaint([] { decode_header(forged(4, 4)); }),
            "message: expected protocol version 5, found 4: use the same build on both sides");
  for (const frame_kind kind : {frame_kind::hello, frame_kind::refusal}) {
    frame_header h = some_header();
    h.kind = kind;
    h.version = 4;
    EXPECT_EQ(decode_header(encode(h)), h);
  }
}

TEST(Frame, IsRefusedForALengthThatItsKindMayNotHave) {
  for (std::uint8_t number = 1; number <= 9; ++number) {
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

} // namespace
} // namespace mailgrad::net

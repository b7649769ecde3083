#include <mailgrad/net/frame.hpp>

#include <mailgrad/tests/net/protocol_complaint.hpp>

namespace mailgrad::net {
namespace {

TEST(FrameFields, AreReadAsTheyWereWritten) {
  bytes written;
  frame_writer{written}
      .u8(0xfe)
      .u16(0x0102)
      .u32(0x03040506)
      .u64(0x0708090a0b0c0d0e)
      .text("two")
      .raw(as_bytes("!"));
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
  EXPECT_EQ(reader.u16(), 0) << "a failed read must take nothing";
}

TEST(FrameFields, TakeNoTextThatIsLongerThanItsPayload) {
  bytes written;
  frame_writer{written}.u16(65535).u8('a');
  frame_reader reader{"welcome", written};
  EXPECT_EQ(protocol_complaint([&] { reader.text(); }), "welcome: offset 2: expected 65535 bytes, found 1");
}

TEST(FrameFields, SayThatBytesAreLeft) {
  const bytes payload(3);
  frame_reader reader{"credit", payload};
  reader.u8();
  EXPECT_EQ(protocol_complaint([&] { reader.end(); }),
            "credit: offset 1: expected its end, found 2 bytes more");
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

} // namespace
} // namespace mailgrad::net

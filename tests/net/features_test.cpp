#include <mailgrad/net/hello.hpp>

#include <mailgrad/tests/net/protocol_complaint.hpp>

namespace mailgrad::net {
namespace {

using testing::HasSubstr;

features some_features() { return {{"model", "12ab"}, {"protocol", "1"}, {"later", "than this build"}}; }

TEST(Features, AreReadAsTheyWereWritten) {
  EXPECT_EQ(decode_features("hello", encode(some_features())), some_features());
  EXPECT_EQ(decode_features("hello", encode(features{})), features{});
}

TEST(Features, AreRefusedWhereverTheyAreCut) {
  const bytes whole = encode(some_features());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT(protocol_complaint([&] { decode_features("hello", byte_view{whole}.first(size)); }),
                HasSubstr("hello: offset "))
        << size;
}

TEST(Features, AreRefusedIfSomethingFollowsThem) {
  bytes longer = encode(some_features());
  longer.push_back(std::byte{0});
  EXPECT_THAT(protocol_complaint([&] { decode_features("hello", longer); }), HasSubstr("found 1 bytes more"));
}

TEST(Features, StandThereOnce) {
  bytes twice;
  frame_writer{twice}.u8(2).text("run").text("1").text("run").text("2");
  EXPECT_THAT(protocol_complaint([&] { decode_features("hello", twice); }),
              HasSubstr("expected 'run' once, found it twice"));
}

TEST(Features, HaveLimits) {
  bytes many;
  frame_writer{many}.u8(33);
  EXPECT_THAT(protocol_complaint([&] { decode_features("hello", many); }),
              HasSubstr("expected at most 32 features, found 33"));
  bytes nameless;
  frame_writer{nameless}.u8(1).text("").text("x");
  EXPECT_THAT(protocol_complaint([&] { decode_features("hello", nameless); }),
              HasSubstr("expected a name of 1 to 32"));
  bytes wordy;
  frame_writer{wordy}.u8(1).text("run").text(std::string(257, 'x'));
  EXPECT_THAT(protocol_complaint([&] { decode_features("hello", wordy); }),
              HasSubstr("expected at most 256 bytes of 'run', found 257"));
  EXPECT_THROW(encode(features{{"run", std::string(257, 'x')}}), std::length_error);
  EXPECT_THROW(encode(features{{"", "x"}}), std::length_error);
}

TEST(Features, HoldNumbers) {
  const features all{
      {"number", "4294967295"}, {"incarnation", "-1"}, {"session", "00000000000000ff"}, {"run", "0xff"}};
  EXPECT_EQ(number_in(all, "number", UINT32_MAX), UINT32_MAX);
  EXPECT_EQ(number_in(all, "absent", UINT32_MAX), std::nullopt);
  EXPECT_EQ(protocol_complaint([&] { number_in(all, "number", 7); }),
            "number: expected a number from 0 to 7, found '4294967295'");
  EXPECT_EQ(protocol_complaint([&] { number_in(all, "incarnation", 7); }),
            "incarnation: expected a number from 0 to 7, found '-1'");
  EXPECT_EQ(key_in(all, "session"), 255U);
  EXPECT_EQ(protocol_complaint([&] { key_in(all, "run"); }),
            "run: expected 16 hexadecimal digits, found '0xff'");
}

} // namespace
} // namespace mailgrad::net

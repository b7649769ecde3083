#include <mailgrad/files/byte_archive.hpp>

#include <mailgrad/files/digests.hpp>

#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <limits>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

enum class colour : std::uint8_t { red, green };

struct everything {
  bool yes = false;
  std::uint64_t whole = 0;
  std::int64_t below = 0;
  float real = 0;
  std::string text;
  std::vector<std::uint32_t> list;
  std::array<std::size_t, 2> pair{};
  std::optional<int> some, none;
  std::map<std::string, int> named;
  colour shade = colour::red;
  std::vector<float> floats{0, 0};

  void keep(archive& a) {
    a.version(3);
    a.field("yes", yes);
    a.field("whole", whole);
    a.field("below", below);
    a.field("real", real);
    a.field("text", text);
    a.field("list", list);
    a.field("pair", pair);
    a.field("some", some);
    a.field("none", none);
    a.field("named", named);
    a.choice("shade", shade, colour::green);
    a.floats("floats", floats);
  }
};

template <class T>
std::string bytes_of(T x) {
  byte_archive_writer to;
  to.field("x", x);
  return to.bytes();
}

template <class T>
T read_as(const std::string& bytes) {
  T x{};
  byte_archive_reader from(bytes, "test");
  from.field("x", x);
  from.require_end();
  return x;
}

TEST(ByteArchive, GivesBackWhatItTook) {
  const everything x{
      true,   70000, -300, -0.5F,       "two\nlines",  {1, 0, 4000000000},
      {7, 8}, 5,     {},   {{"a", -1}}, colour::green, {1.5F, std::bit_cast<float>(0x7fc12345)}};
  const std::string bytes = bytes_of(x);
  const auto y = read_as<everything>(bytes);
  EXPECT_EQ(bytes_of(y), bytes);
  EXPECT_EQ(y.list, x.list);
  EXPECT_EQ(y.named, x.named);
  EXPECT_EQ(y.shade, colour::green);
  EXPECT_EQ(std::bit_cast<int>(y.floats[1]), 0x7fc12345);
}

TEST(ByteArchive, TakesFewBytesForSmallNumbers) {
  EXPECT_EQ(bytes_of(0U), "\x10");
  EXPECT_EQ(bytes_of(5U), "\x11\x05");
  EXPECT_EQ(bytes_of(256U), std::string("\x12\x00\x01", 3));
  EXPECT_EQ(bytes_of(-1), "\x20");
  EXPECT_EQ(bytes_of(-2), "\x21\x01");
  EXPECT_EQ(bytes_of(std::string("ab")), "\x41\x02"
                                         "ab");
}

TEST(ByteArchive, KeepsTheEndsOfEveryRange) {
  for (const auto x :
       {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(read_as<std::int64_t>(bytes_of(x)), x);
  EXPECT_EQ(read_as<std::uint64_t>(bytes_of(~std::uint64_t{0})), ~std::uint64_t{0});
  EXPECT_THROW(read_as<std::int8_t>(bytes_of(128)), archive_error);
  EXPECT_THROW(read_as<std::int64_t>(bytes_of(~std::uint64_t{0})), archive_error);
}

TEST(ByteArchive, NamesTheFieldTheByteAndBothKinds) {
  const auto reading = [](auto example, const std::string& bytes) {
    return [=] { read_as<decltype(example)>(bytes); };
  };
  EXPECT_THAT(reading(1U, bytes_of(std::string("a"))),
              ThrowsMessage<archive_error>("test/x: byte 0: expected a whole number, found a text"));
  EXPECT_THAT(reading(1U, ""),
              ThrowsMessage<archive_error>("test/x: byte 0: expected a whole number, found the end"));
  EXPECT_THAT(reading(std::uint8_t{}, bytes_of(300U)),
              ThrowsMessage<archive_error>("test/x: byte 3: expected a whole number up to 255, found 300"));
  EXPECT_THAT(reading(1U, bytes_of(1U) + "z"),
              ThrowsMessage<archive_error>(HasSubstr("expected the end, found 1 more")));
  EXPECT_THAT(reading(1U, std::string("\x12\x05\x00", 3)),
              ThrowsMessage<archive_error>(HasSubstr("in 1 bytes, found it in 2")));
  EXPECT_THAT(reading(std::array<int, 2>{}, bytes_of(std::vector<int>{1, 2, 3})),
              ThrowsMessage<archive_error>(HasSubstr("expected as many entries as there are here, 2")));
  EXPECT_THAT(reading(std::vector<int>{}, bytes_of(std::vector<int>{1}).substr(0, 2) + "z"),
              ThrowsMessage<archive_error>(HasSubstr("test/x/0: byte 2: expected a whole number, found")));
}

/// A name of an entry comes from whoever wrote the bytes.
TEST(ByteArchive, QuotesNoNameThatIsMoreThanALine) {
  std::map<std::string, std::string> texts{{"two\nlines", "text"}};
  byte_archive_writer to;
  to.field("named", texts);
  std::map<std::string, std::uint64_t> numbers;
  byte_archive_reader from(to.bytes(), "test");
  EXPECT_THAT([&] { from.field("named", numbers); },
              ThrowsMessage<archive_error>(HasSubstr("test/named/two\\x0alines: byte ")));
}

TEST(ByteArchive, ComparesEveryCountWithTheBytesThatAreLeft) {
  const std::string huge = std::string(8, '\x7f');
  EXPECT_THAT([&] { read_as<std::string>("\x48" + huge); },
              ThrowsMessage<archive_error>(HasSubstr("expected a text with room for")));
  EXPECT_THAT([&] { read_as<std::vector<int>>("\x58" + huge); },
              ThrowsMessage<archive_error>(HasSubstr("expected a list with room")));
  EXPECT_THAT(([&] { read_as<std::map<std::string, int>>("\x68" + huge); }),
              ThrowsMessage<archive_error>(HasSubstr("expected named")));
  byte_archive_reader from("\x74"
                           "\xff\xff\xff\x7f");
  EXPECT_THAT([&] { from.array("floats"); },
              ThrowsMessage<archive_error>(HasSubstr("expected floats with room")));
}

TEST(ByteArchive, RefusesAnotherVersionInOneLine) {
  byte_archive_writer to;
  to.version(2);
  byte_archive_reader from(to.bytes(), "momentum");
  EXPECT_THAT(
      [&] { from.version(1); },
      ThrowsMessage<archive_error>("momentum: byte 2: is of version 2, and this build knows version 1"));
}

constexpr seal letters{"mgradabc", 4, "letters"};

TEST(SealedBytes, GiveBackTheirContent) {
  EXPECT_EQ(unsealed(letters, sealed(letters, "content")), "content");
  EXPECT_EQ(unsealed(letters, sealed(letters, "")), "");
}

TEST(SealedBytes, AreRefusedWithEveryByteThatIsChangedOrMissing) {
  const auto whole = sealed(letters, "content");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      auto changed = whole;
      changed[i] ^= std::byte{1} << bit;
      EXPECT_THROW(unsealed(letters, changed), archive_error) << i;
    }
    EXPECT_THROW(unsealed(letters, std::span(whole).first(i)), archive_error) << i;
  }
  EXPECT_THAT(([&] {
                unsealed({"mgradabc", 5, "letters"}, whole);
              }),
              ThrowsMessage<archive_error>("letters: byte 8: is of format 4, and this build knows format 5"));
}

} // namespace
} // namespace mailgrad

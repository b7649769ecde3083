#include <mailgrad/files/archive.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/files/text.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace mailgrad {
namespace {

using testing::expect_refused;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using namespace std::string_literals;

struct inner {
  std::uint32_t count = 0;
  std::optional<double> share{};
  std::uint64_t version_known = 1;

  void keep(archive& a) {
    a.version(version_known);
    a.field("count", count);
    a.field("share", share);
  }
  friend bool operator==(const inner&, const inner&) = default;
};

enum class colour : std::uint8_t { red, green };

struct every_kind {
  bool flag = false;
  std::int64_t below = 0;
  std::uint64_t most = 0;
  float small = 0;
  double large = 0;
  std::string text{};
  std::vector<inner> list{};
  std::vector<bool> flags{};
  std::array<std::size_t, 2> two{};
  std::pair<std::uint64_t, std::string> both{};
  std::map<std::string, std::uint64_t> named{};
  colour shade = colour::red;
  std::vector<float> weights = std::vector<float>(3);

  void keep(archive& a) {
    a.version(7);
    a.field("flag", flag);
    a.field("below", below);
    a.field("most", most);
    a.field("small", small);
    a.field("large", large);
    a.field("text", text);
    a.field("list", list);
    a.field("flags", flags);
    a.field("two", two);
    a.field("both", both);
    a.field("named", named);
    a.choice("shade", shade, colour::green);
    a.group("numbers", [&] { a.floats("weights", weights); });
  }
  friend bool operator==(const every_kind&, const every_kind&) = default;
};

const every_kind some_of_each{true,
                              std::numeric_limits<std::int64_t>::min(),
                              std::numeric_limits<std::uint64_t>::max(),
                              0.1F,
                              1.0 / 3,
                              "\"quoted\", \n and ü",
                              {{1, 0.5}, {2, {}}},
                              {true, false, true},
                              {7, 8},
                              {3, "three"},
                              {{"late", 4}, {"not awaited", 5}},
                              colour::green,
                              {1, -0.0F, std::numeric_limits<float>::infinity()}};

/// What is read as a `To` where `x` was written.
template <class To, class From>
To carried(From x) {
  saved_fields written;
  written.field("x", x);
  saved_fields read(written.text(), written.arrays());
  To y{};
  read.field("x", y);
  return y;
}

TEST(Archive, GivesBackWhatItTook) { EXPECT_EQ(carried<every_kind>(some_of_each), some_of_each); }

TEST(Archive, KeepsNumbersThatJsonHasNot) {
  for (const double x : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()})
    EXPECT_EQ(carried<double>(x), x);
  EXPECT_TRUE(std::isnan(carried<double>(std::nan(""))));
}

TEST(Archive, GivesBackTextsThatAreNotUtf8) {
  every_kind x;
  x.text = "caf\xe9.csv";
  x.both.second = "\0e9"s;
  x.named = {{"\xff", 1}, {"\xfe", 2}, {"\0"s, 3}};
  EXPECT_EQ(carried<every_kind>(x), x);
}

TEST(Archive, HoldsAnArrayWithoutACopy) {
  const auto owner = std::make_shared<const std::vector<float>>(1000, 2.0F);
  saved_fields fields;
  fields.group("shard", [&] { fields.hold("weights", owner, *owner); });
  ASSERT_EQ(fields.arrays().size(), 1U);
  EXPECT_EQ(fields.arrays()[0].path, "shard/weights");
  EXPECT_EQ(fields.arrays()[0].values.data(), owner->data());
  EXPECT_EQ(owner.use_count(), 2);
}

TEST(Archive, RefusesOtherFieldsInOneLine) {
  saved_fields fields;
  every_kind x;
  const inner newer{1, {}, 2};
  fields.field("x", x);
  const auto reads = [&](auto object, const std::string& name) {
    return [&fields, object, name]() mutable {
      saved_fields again(fields.text(), fields.arrays());
      again.group("x", [&] { again.field(name, object); });
    };
  };
  expect_refused(
      {{"missing", reads(true, "nothing"), "x/nothing: expected a field, found none"},
       {"a number for a flag", reads(true, "most"), "x/most: expected true or false"},
       {"a text for a number", reads(std::uint64_t{}, "text"), "x/text: expected a whole number"},
       {"a negative number", reads(std::int8_t{}, "flag"),
        "x/flag: expected a whole number from -128 to 127"},
       {"a flag for a list", reads(std::vector<bool>{}, "flag"), "x/flag: expected a list"},
       {"a list for names", reads(std::map<std::string, std::uint64_t>{}, "flags"), "expected named entries"},
       {"a number for a text", reads(std::string{}, "most"), "x/most: expected a text"},
       {"a text for a fraction", reads(double{}, "flag"), "x/flag: expected a number"},
       {"no JSON", [] { saved_fields("{", {}); }, "no JSON object"},
       {"a list", [] { saved_fields("[]", {}); }, "no JSON object"},
       {"a newer class", [&] { carried<inner>(newer); },
        "x: is of version 2, and this build knows version 1"}});
}

/// A name of an entry comes from whoever wrote the text.
TEST(Archive, QuotesNoNameThatIsMoreThanALine) {
  saved_fields fields(R"({"x": {"two\nlines": "text", "late": 1}})", {});
  std::map<std::string, std::uint64_t> numbers;
  expect_refused({{"a name of two lines", [&] { fields.field("x", numbers); },
                   "x/two\\x0alines: expected a whole number"}});
}

TEST(Archive, RefusesNumbersThatTheFieldCannotHold) {
  EXPECT_THROW(carried<std::uint8_t>(300U), archive_error);
  EXPECT_EQ(carried<std::uint16_t>(300U), 300);
  EXPECT_THROW(carried<std::int8_t>(300U), archive_error);
}

TEST(Archive, RefusesArraysOfOtherLengths) {
  saved_fields fields;
  std::vector<float> three(3), four(4);
  fields.floats("w", three);
  saved_fields again(fields.text(), fields.arrays());
  expect_refused({{"longer", [&] { again.floats("w", four); }, "w: expected 4 floats, found 3"},
                  {"missing", [&] { again.array("v"); }, "v: expected an array, found none"}});
}

TEST(Archive, TakesNoFieldTwice) {
  saved_fields fields;
  std::uint64_t x = 1;
  fields.field("x", x);
  EXPECT_THROW(fields.field("x", x), std::logic_error);
}

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
  EXPECT_EQ(read_as<every_kind>(bytes_of(some_of_each)), some_of_each);
  every_kind x;
  x.weights[1] = std::bit_cast<float>(0x7fc12345); // not a number, of these bits
  EXPECT_EQ(std::bit_cast<int>(read_as<every_kind>(bytes_of(x)).weights[1]), 0x7fc12345);
}

TEST(ByteArchive, TakesFewBytesForSmallNumbers) {
  EXPECT_EQ(bytes_of(0U), "\x10");
  EXPECT_EQ(bytes_of(5U), "\x11\x05");
  EXPECT_EQ(bytes_of(256U), "\x12\x00\x01"s);
  EXPECT_EQ(bytes_of(-1), "\x20");
  EXPECT_EQ(bytes_of(-2), "\x21\x01");
  EXPECT_EQ(bytes_of("ab"s), "\x41\x02"
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
  EXPECT_THAT(reading(1U, bytes_of("a"s)),
              ThrowsMessage<archive_error>("test/x: byte 0: expected a whole number, found a text"));
  EXPECT_THAT(reading(1U, ""),
              ThrowsMessage<archive_error>("test/x: byte 0: expected a whole number, found the end"));
  EXPECT_THAT(reading(std::uint8_t{}, bytes_of(300U)),
              ThrowsMessage<archive_error>("test/x: byte 3: expected a whole number up to 255, found 300"));
  const std::string huge(8, '\x7f'); // a count is compared with the bytes that are left
  expect_refused(
      {{"bytes behind it", reading(1U, bytes_of(1U) + "z"), "expected the end, found 1 more"},
       {"a longer form", reading(1U, "\x12\x05\x00"s), "in 1 bytes, found it in 2"},
       {"three for two", reading(std::array<int, 2>{}, bytes_of(std::vector<int>{1, 2, 3})),
        "expected as many entries as there are here, 2"},
       {"within a list", reading(std::vector<int>{}, bytes_of(std::vector<int>{1}).substr(0, 2) + "z"),
        "test/x/0: byte 2: expected a whole number, found"},
       {"a huge text", reading(""s, "\x48" + huge), "expected a text with room for"},
       {"a huge list", reading(std::vector<int>{}, "\x58" + huge), "expected a list with room"},
       {"many names", reading(std::map<std::string, int>{}, "\x68" + huge), "expected named"},
       {"many floats",
        [] {
          byte_archive_reader from("\x74"
                                   "\xff\xff\xff\x7f");
          from.array("floats");
        },
        "expected floats with room"}});
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
  for (const char* content : {"content", ""}) EXPECT_EQ(unsealed(letters, sealed(letters, content)), content);
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
  constexpr seal newer{"mgradabc", 5, "letters"};
  EXPECT_THAT([&] { unsealed(newer, whole); },
              ThrowsMessage<archive_error>("letters: byte 8: is of format 4, and this build knows format 5"));
}

TEST(TextInJson, LeavesCharactersAsTheyAre) {
  for (const std::string& text : {""s, "runs/lenet"s, "\"quoted\", \n and ü"s, "データ"s, "𝄞"s})
    EXPECT_EQ(text_in_json(text), text);
}

TEST(TextInJson, WritesOtherBytesAsDigits) {
  EXPECT_EQ(text_in_json("caf\xe9.csv"), "caf\0e9.csv"s);
  EXPECT_EQ(text_in_json("a\0b"s), "a\0"s + "00b");
  EXPECT_EQ(text_in_json("\xed\xa0\x80"), "\0ed\0a0\0"s + "80") << "half of a pair of UTF-16";
}

TEST(TextInJson, ComesBackByteForByteThroughJson) {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  for (const std::string& bytes : {every, "\0e9"s, "\0"s, "\0\0\0"s, "ends in \xc3"s, "\xff\xfe"s + "00"}) {
    const std::string text = nlohmann::json(text_in_json(bytes)).dump();
    EXPECT_EQ(bytes_of_text_in_json(nlohmann::json::parse(text).get<std::string>()), bytes);
  }
}

/// The parser takes a NUL for the end, and what is behind it would be passed over.
TEST(TextInJson, IsNotParsedPastANul) {
  for (const std::string& text : {"{}"s, ""s, "[1"s, R"({"a": "\u0000"})"s})
    EXPECT_EQ(whole_json(text), text);
  for (const std::string& text : {"{}\0"s, "{}\0 more"s, "\0{}"s, "[1,\0 2]"s})
    EXPECT_FALSE(nlohmann::json::accept(whole_json(text)));
}

TEST(TextInJson, LeavesAMarkWithoutDigits) {
  for (const std::string& text : {"\0"s, "\0e"s, "\0+1"s, "\0xy"s, "\0 e9"s, "a\0-1"s})
    EXPECT_EQ(bytes_of_text_in_json(text), text);
}

} // namespace
} // namespace mailgrad

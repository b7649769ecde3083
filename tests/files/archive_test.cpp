#include <mailgrad/files/archive.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

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

struct every_kind {
  bool flag = false;
  std::int64_t below = 0;
  std::uint64_t most = 0;
  float small = 0;
  double large = 0;
  std::string text{};
  std::vector<inner> list{};
  std::vector<bool> flags{};
  std::pair<std::uint64_t, std::string> both{};
  std::map<std::string, std::uint64_t> named{};
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
    a.field("both", both);
    a.field("named", named);
    a.group("numbers", [&] { a.floats("weights", weights); });
  }
  friend bool operator==(const every_kind&, const every_kind&) = default;
};

/// Reads what was written.
template <class T>
T read_back(const saved_fields& written, T x = {}) {
  saved_fields fields(written.text(), written.arrays());
  fields.field("x", x);
  return x;
}

TEST(Archive, GivesBackWhatItTook) {
  every_kind x{true,
               std::numeric_limits<std::int64_t>::min(),
               std::numeric_limits<std::uint64_t>::max(),
               0.1F,
               1.0 / 3,
               "\"quoted\", \n and ü",
               {{1, 0.5}, {2, {}}},
               {true, false, true},
               {3, "three"},
               {{"late", 4}, {"not awaited", 5}},
               {1, -0.0F, std::numeric_limits<float>::infinity()}};
  saved_fields fields;
  fields.field("x", x);
  EXPECT_EQ(read_back<every_kind>(fields), x);
}

TEST(Archive, KeepsNumbersThatJsonHasNot) {
  for (const double x : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    saved_fields fields;
    double kept = x;
    fields.field("x", kept);
    EXPECT_EQ(read_back<double>(fields), x);
  }
  saved_fields fields;
  double nan = std::nan("");
  fields.field("x", nan);
  EXPECT_TRUE(std::isnan(read_back<double>(fields)));
}

TEST(Archive, GivesBackTextsThatAreNotUtf8) {
  every_kind x;
  x.text = "caf\xe9.csv";
  x.both.second = std::string("\0e9", 3);
  x.named = {{"\xff", 1}, {"\xfe", 2}, {std::string("\0", 1), 3}};
  saved_fields fields;
  fields.field("x", x);
  EXPECT_EQ(read_back<every_kind>(fields), x);
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
  fields.field("x", x);
  const auto reads = [&](auto object, const std::string& name) {
    return [&fields, object, name]() mutable {
      saved_fields again(fields.text(), fields.arrays());
      again.group("x", [&] { again.field(name, object); });
    };
  };
  testing::expect_refused(
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
       {"a list", [] { saved_fields("[]", {}); }, "no JSON object"}});
}

/// A name of an entry comes from whoever wrote the text.
TEST(Archive, QuotesNoNameThatIsMoreThanALine) {
  saved_fields fields(R"({"x": {"two\nlines": "text", "late": 1}})", {});
  std::map<std::string, std::uint64_t> numbers;
  testing::expect_refused({{"a name of two lines", [&] { fields.field("x", numbers); },
                            "x/two\\x0alines: expected a whole number"}});
}

TEST(Archive, RefusesNumbersThatTheFieldCannotHold) {
  saved_fields fields;
  std::uint64_t large = 300;
  fields.field("x", large);
  EXPECT_THROW(read_back<std::uint8_t>(fields), archive_error);
  EXPECT_EQ(read_back<std::uint16_t>(fields), 300);
  EXPECT_THROW(read_back<std::int8_t>(fields), archive_error);
}

TEST(Archive, RefusesAnotherVersionOfAClass) {
  saved_fields fields;
  inner x{1, {}, 2};
  fields.field("x", x);
  testing::expect_refused(testing::misuse{"newer", [&] { read_back<inner>(fields); },
                                          "x: is of version 2, and this build knows version 1"});
}

TEST(Archive, RefusesArraysOfOtherLengths) {
  saved_fields fields;
  std::vector<float> three(3);
  fields.floats("w", three);
  saved_fields again(fields.text(), fields.arrays());
  std::vector<float> four(4);
  testing::expect_refused({{"longer", [&] { again.floats("w", four); }, "w: expected 4 floats, found 3"},
                           {"missing", [&] { again.array("v"); }, "v: expected an array, found none"}});
}

TEST(Archive, TakesNoFieldTwice) {
  saved_fields fields;
  std::uint64_t x = 1;
  fields.field("x", x);
  EXPECT_THROW(fields.field("x", x), std::logic_error);
}

} // namespace
} // namespace mailgrad

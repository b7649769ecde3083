#include <mailgrad/engine/wire/wire_format.hpp>

#include <mailgrad/tests/support/refusal.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using testing::expect_refused;

TEST(WireFormat, IsReadFromText) {
  EXPECT_EQ(parse_wire_format("float32"), (wire_format{wire_encoding::float32}));
  EXPECT_EQ(parse_wire_format("float16"), (wire_format{wire_encoding::float16}));
  EXPECT_EQ(parse_wire_format("bfloat16"), (wire_format{wire_encoding::bfloat16}));
  EXPECT_EQ(parse_wire_format("int8"), (wire_format{wire_encoding::int8, 256}));
  EXPECT_EQ(parse_wire_format("int8:block=16"), (wire_format{wire_encoding::int8, 16}));
  EXPECT_EQ(parse_wire_format("top-k:0.01"), (wire_format{wire_encoding::top_k, 0, 0.01}));
  EXPECT_EQ(parse_wire_format("top-k:1"), (wire_format{wire_encoding::top_k, 0, 1}));
  EXPECT_EQ(parse_wire_format("1-bit"), (wire_format{wire_encoding::one_bit, 512}));
  EXPECT_EQ(parse_wire_format("1-bit:block=65536"), (wire_format{wire_encoding::one_bit, 65536}));
}

TEST(WireFormat, IsWrittenAsTheTextThatReadsAsTheSame) {
  for (const char* text :
       {"float32", "float16", "bfloat16", "int8:block=256", "top-k:0.01", "1-bit:block=512"})
    EXPECT_EQ(to_string(parse_wire_format(text)), text);
  EXPECT_EQ(to_string(parse_wire_format("int8")), "int8:block=256");
}

TEST(WireFormat, OnlyFloat32LosesNothing) {
  EXPECT_FALSE(is_lossy(parse_wire_format("float32")));
  for (const char* text : {"float16", "bfloat16", "int8", "top-k:1", "1-bit"})
    EXPECT_TRUE(is_lossy(parse_wire_format(text)));
}

TEST(WireFormat, HasAFormForEachEncoding) {
  EXPECT_EQ(wire_format_forms().size(), 6U);
  EXPECT_EQ(wire_format_forms()[4].text, "top-k:SHARE");
}

TEST(WireFormat, OfOtherTextsIsRefusedWithWhatWouldBeRight) {
  const auto read = [](const char* text) { return [text] { parse_wire_format(text); }; };
  expect_refused({
      {"a slip", read("bfloat61"), "wire format 'bfloat61' is unknown; did you mean 'bfloat16'?"},
      {"another slip", read("topk:0.1"), "did you mean 'top-k'?"},
      {"a stranger", read("zstandard"), "known are: float32, float16, bfloat16, int8, top-k, 1-bit"},
      {"nothing", read(""), "wire format '' is unknown"},
      {"a setting of none", read("float16:block=4"), "'float16' has no settings"},
      {"another setting", read("int8:blok=4"), "did you mean 'block'?"},
      {"a small block", read("int8:block=8"), "block must be a whole number from 16 to 65536, not '8'"},
      {"a large block", read("1-bit:block=131072"), "from 16 to 65536"},
      {"a block of odd size", read("1-bit:block=48"), "block must be a power of two, not 48"},
      {"no share", read("top-k"), "write it as top-k:0.01"},
      {"two shares", read("top-k:0.1,0.2"), "write it as top-k:0.01"},
      {"a share of nothing", read("top-k:0"), "more than 0 and at most 1"},
      {"more than all", read("top-k:1.5"), "more than 0 and at most 1"},
      {"no number", read("top-k:nan"), "more than 0 and at most 1"},
      {"a word", read("top-k:few"), "more than 0 and at most 1"},
  });
}

} // namespace
} // namespace mailgrad

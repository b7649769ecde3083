#include <mailgrad/files/text.hpp>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <string>

namespace mailgrad {
namespace {

using namespace std::string_literals;

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

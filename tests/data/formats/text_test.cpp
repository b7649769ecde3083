#include <mailgrad/data/formats/text.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::ElementsAre;

text_corpus read_corpus(std::string_view text) {
  const scratch_folder folder;
  return read_text(folder.write("x.txt", text));
}

TEST(Text, NumbersTheCharactersThatOccur) {
  for (const std::string& text : {std::string("hello\n"), gzipped("hello\n")}) {
    const text_corpus corpus = read_corpus(text);
    EXPECT_THAT(corpus.symbols, ElementsAre("\n", "e", "h", "l", "o"));
    EXPECT_THAT(corpus.tokens, ElementsAre(2, 1, 3, 3, 4, 0));
  }
}

TEST(Text, KnowsCharactersOfSeveralBytes) {
  const text_corpus corpus = read_corpus("a\u00e9\u20ac\U0001F600a");
  EXPECT_THAT(corpus.symbols, ElementsAre("a", "\u00e9", "\u20ac", "\U0001F600"));
  EXPECT_THAT(corpus.tokens, ElementsAre(0, 1, 2, 3, 0));
}

TEST(Text, RefusesWhatIsNoUtf8) {
  // a lone continuation, a cut character, an overlong form, a surrogate, beyond Unicode
  for (const char* bad :
       {"\x80", "\xe2\x82", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    const auto lead = std::to_string(static_cast<unsigned char>(bad[0]));
    EXPECT_EQ(complaint([&] { read_corpus(std::string("ab") + bad); }),
              "x.txt: offset 2: expected a character of UTF-8, found the byte " + lead);
  }
}

TEST(Text, DropsAByteOrderMarkAndMakesOneCharacterOfAWindowsLineEnd) {
  const text_corpus corpus = read_corpus("\ufeffab\r\na\r\n");
  EXPECT_THAT(corpus.symbols, ElementsAre("\n", "a", "b"));
  EXPECT_THAT(corpus.tokens, ElementsAre(1, 2, 0, 1, 0));
  EXPECT_THAT(read_corpus("a\rb\r\n\r").symbols, ElementsAre("\n", "\r", "a", "b")) << "a lone one is kept";
  EXPECT_THAT(read_corpus("a\ufeff").symbols, ElementsAre("a", "\ufeff"))
      << "within a text it is a character";
}

TEST(Text, RefusesAFileOfAByteOrderMarkAlone) {
  EXPECT_EQ(complaint([] { read_corpus("\ufeff"); }), "x.txt: expected text, found an empty file");
}

TEST(Text, RefusesAnEmptyFile) {
  EXPECT_EQ(complaint([] { read_corpus(""); }), "x.txt: expected text, found an empty file");
}

TEST(Text, KnowsACharacterThatTheEndOfABufferCuts) {
  constexpr std::size_t buffer = 65536;
  for (std::size_t before = buffer - 4; before <= buffer; ++before)
    for (const char* character : {"\u00e9", "\u20ac", "\U0001F600"}) {
      const text_corpus corpus = read_corpus(std::string(before, 'a') + character + "b");
      ASSERT_EQ(corpus.tokens.size(), before + 2);
      EXPECT_THAT(corpus.symbols, ElementsAre("a", "b", character));
      EXPECT_EQ(corpus.tokens[before], 2);
    }
  std::string cut(buffer + 1, 'a');
  cut.replace(buffer - 1, 2, "\xe2\x82");
  EXPECT_EQ(complaint([&] { read_corpus(cut); }),
            "x.txt: offset 65535: expected a character of UTF-8, found the byte 226");
}

TEST(Text, RefusesMoreThanItsLimitWhichAnyCharacterCountsFourTimes) {
  const scratch_folder folder;
  for (const std::string& text : {std::string(1000, 'a'), gzipped(std::string(1000, 'a'))}) {
    const auto file = folder.write("x.txt", text);
    EXPECT_EQ(read_text(file, {4000}).tokens.size(), 1000U);
    EXPECT_EQ(complaint([&] { read_text(file, {3999}); }),
              "x.txt: expected samples that take at most 3.9 KiB of memory, found more; take a part of the "
              "file, or "
              "raise --data-limit (open_options::limit)");
  }
}

} // namespace
} // namespace mailgrad

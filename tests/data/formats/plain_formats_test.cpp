#include <mailgrad/data/formats/cifar.hpp>
#include <mailgrad/data/formats/idx.hpp>
#include <mailgrad/data/formats/libsvm.hpp>
#include <mailgrad/data/formats/ratings.hpp>
#include <mailgrad/data/formats/text.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace mailgrad {
namespace {

using namespace ::testing;

std::string images_complaint(std::string_view bytes) {
  const scratch_folder folder;
  return complaint([&] { read_idx_images(folder.write("images", bytes)); });
}

std::string labels_complaint(std::string_view bytes) {
  const scratch_folder folder;
  return complaint([&] { read_idx_labels(folder.write("labels", bytes)); });
}

TEST(Idx, JoinsImagesAndLabels) {
  const byte_features images{{1, 1, 1}, {7, 8}};
  const byte_labels labels{{1, 0}, "labels", 8, 1};
  EXPECT_THAT(join_idx(images, "images", labels, 0).labels(), ElementsAre(1, 0));
  EXPECT_EQ(join_idx(images, "images", labels, 0).classes(), 2U);
  EXPECT_EQ(join_idx(images, "images", labels, 5).classes(), 5U);
}

/// The whole sentence, or its beginning where it ends in "...".
Matcher<std::string> reads(const std::string& sentence) {
  if (sentence.ends_with("...")) return StartsWith(sentence.substr(0, sentence.size() - 3));
  return Eq(sentence);
}

TEST(Idx, RefusesHeadersThatAreCutOrLie) {
  constexpr std::uint32_t huge = 0xffffffff;
  const std::string kilobyte(1024, 'x');
  const std::pair<std::string, const char*> images[] = {
      {"", "offset 0: expected an IDX header of 16 bytes, found an empty file"},
      {idx_images(1, 1, 1, "").substr(0, 10), "offset 10: expected an IDX header of 16 bytes, found 10"},
      {idx_images(60000, 28, 28, kilobyte),
       "offset 4: 60000 images of 28x28 need 47040000 bytes, found at most 1024"},
      {gzipped(idx_images(1000, 28, 28, kilobyte)),
       "offset 4: 1000 images of 28x28 need 784000 bytes, found at most..."},
      {gzipped(idx_images(2, 28, 28, kilobyte)), "offset 4: 2 images of 28x28 need 1568 bytes, found 1024"},
      {idx_images(huge, huge, huge, "x"),
       "offset 4: 4294967295 images of 4294967295x4294967295 need more than the 4294967296..."},
      {idx_images(huge, 65536, 65536, "x"),
       "offset 4: 4294967295 images of 65536x65536 need more than..."}, // 0 in 64 bits
      {idx_images(0, 28, 28, ""), "offset 4: expected an image, found 0 images of 28x28"},
      {idx_images(5, 0, 28, ""), "offset 4: expected an image, found 5 images of 0x28"},
      {idx_images(1, 1, 2, "abc"),
       "offset 18: expected the end of the file after 1 images of 1x2, found further bytes"}};
  for (const auto& [bytes, says] : images)
    EXPECT_THAT(images_complaint(bytes), reads(std::string("images: ") + says));
  const std::pair<std::string, const char*> labels[] = {
      {idx_labels(4, "abc"), "offset 4: 4 labels need 4 bytes, found at most 3"},
      {idx_labels(0, ""), "offset 4: expected a label, found a count of 0"},
      {gzipped(idx_labels(2, "abc")),
       "offset 10: expected the end of the file after 2 labels, found further bytes"}};
  for (const auto& [bytes, says] : labels)
    EXPECT_THAT(labels_complaint(bytes), reads(std::string("labels: ") + says));
  const std::string packed = gzipped(idx_images(1, 1, 2, "ab")); // cut after the last image
  EXPECT_THAT(images_complaint(packed.substr(0, packed.size() - 8)), HasSubstr("the gzip file is cut"));
}

/// A record of CIFAR-100 has a coarse label before the fine one.
TEST(Cifar, NamesTheFileThatSaysHowManyLabelsARecordHas) {
  const scratch_folder folder;
  const auto file = folder.write("x.bin", std::string("\4\1rRgGbB", 8) + std::string("\3\0uvwxyz", 8));
  const cifar_record one_label{{1, 2, 3}};
  EXPECT_EQ(
      complaint([&] { read_cifar(file, one_label); }),
      "x.bin: offset 14: expected a record of 7 bytes, found 2; records of CIFAR-100 have two labels, and "
      "are read as such where fine_label_names.txt lies beside them");
}

TEST(Cifar, RefusesDimsThatAreNoPicture) { EXPECT_THROW(read_cifar("x", {{3072}}), std::invalid_argument); }

/// A file of so many zeros that takes no room on a disk.
std::filesystem::path zeros(const scratch_folder& folder, std::uint64_t count) {
  const auto file = folder.write("x.bin", "");
  std::filesystem::resize_file(file, count);
  return file;
}

TEST(Cifar, RefusesASizeOfNoWholeRecordsBeforeItReads) {
  const scratch_folder folder;
  const auto file = zeros(folder, std::uint64_t{3073} * 2'000'000 + 1); // more than would be read
  EXPECT_EQ(complaint([&] { read_cifar(file); }),
            "x.bin: offset 6146000000: expected a record of 3073 bytes, found 1");
}

TEST(Cifar, RefusesTheFirstLabelThatIsNoClassBeforeItReadsOn) {
  const scratch_folder folder;
  const auto file = zeros(folder, std::uint64_t{3073} * 2'000'000);
  std::fstream(file, std::ios::binary | std::ios::in | std::ios::out).put('\7');
  EXPECT_EQ(complaint([&] { read_cifar(file, {}, 7); }),
            "x.bin: offset 0: expected a label from 0 to 6, found 7");
}

libsvm_rows read_libsvm(std::string_view text, const libsvm_options& options = {}) {
  const scratch_folder folder;
  label_map labels;
  return read_libsvm(folder.write("x", text), options, labels);
}

std::string svm_complaint(std::string_view text, const libsvm_options& options = {}) {
  return complaint([&] { read_libsvm(text, options); });
}

TEST(Libsvm, PassesOverLinesOfCommentsAndOverQueries) {
  const libsvm_rows rows =
      read_libsvm("# made by hand\n#\n1 qid:7 1:1\n  # between\n0\tqid:8\t2:5 #!docid = 3\n");
  EXPECT_THAT(rows.features.offsets, ElementsAre(0, 1, 2));
  EXPECT_THAT(rows.features.columns, ElementsAre(0, 1));
  EXPECT_THAT(rows.labels, ElementsAre(1, 0));
  for (const char* text : {"1 1:1\n \n", "1 1:1\n\n2 1:1\n"})
    EXPECT_EQ(svm_complaint(text), "x: line 2: expected a row, found an empty line");
  EXPECT_EQ(svm_complaint("1 qid:x 1:1\n"),
            "x: line 1: expected a whole number behind 'qid:', found 'qid:x'");
}

TEST(Libsvm, TellsWhetherAFileHasColumnZero) {
  const scratch_folder folder;
  for (const char* text : {"1 0:5\n", "1\n# 0\n0 qid:3 0:1 1:1\n", "1 1:1\n1\t0:1"})
    EXPECT_TRUE(has_column_zero(folder.write("x", text))) << text;
  for (const char* text : {"1 1:5\n", "0\n", "1 10:1 # 0:1\n", "0:1\n", ""})
    EXPECT_FALSE(has_column_zero(folder.write("x", text))) << text;
}

TEST(Libsvm, RefusesAnIndexThatWouldTakeHugeWeights) {
  EXPECT_EQ(svm_complaint("1 2147483647:1\n"),
            "x: line 1: expected an index from 1 to 16777216, found '2147483647'; --features N "
            "(open_options::features) gives all rows N columns");
  EXPECT_THAT(svm_complaint("1 99999999999999999999999:1\n"), HasSubstr("expected an index from 1"));
  EXPECT_EQ(read_libsvm("1 20000000:1\n", {20'000'000}).features.width, 20'000'000U);
  EXPECT_THROW(read_libsvm("1 1:1\n", {std::size_t{1} << 31}), std::invalid_argument);
}

TEST(Libsvm, RefusesValuesEntriesAndLabelsThatAreNone) {
  for (const std::string value : {"nan", "inf", "-inf", "1e39", "", "x", "1x", "--1"})
    EXPECT_EQ(svm_complaint("1 1:1\n1 7:" + value),
              "x: line 2: expected a finite number at index 7, found '" + value + "'");
  for (const std::string word : {"1", ":1", "a:1", "-1:1", "1.5:1"})
    EXPECT_EQ(svm_complaint("1 " + word), "x: line 1: expected index:value, found '" + word + "'");
  for (const std::string label : {"abc", "1:1", "1,2"})
    EXPECT_EQ(svm_complaint(" " + label + " 1:1"),
              "x: line 1: expected a whole number as label, found '" + label + "'");
  EXPECT_EQ(svm_complaint("0.5 1:1"),
            "x: line 1: expected a label that is a whole number or a word, found '0.5'");
  EXPECT_EQ(svm_complaint(""), "x: expected a row, found an empty file");
  EXPECT_EQ(svm_complaint("1\n0\n"), "x: expected an index:value in some row, found none");
}

// Times: 0 is a Thursday, 0 h; a day later 1 h; then 3 January 2021, a Sunday, 23:59:59.
constexpr const char* three_ratings = "7::100::8::0\n9::100::2.5::90000\n7::300::0::1609718399\n";
constexpr const char* two_films = "100::Of: A :: Title (1999)::Drama|War\n200::Unrated (2000)::Comedy\n";

class Ratings : public ::testing::Test {
protected:
  dataset read(std::string_view ratings, std::string_view films = "",
               rating_options o = {rating_order::by_time}) {
    const auto rated = folder.write("ratings.dat", ratings);
    return read_ratings(rated, films.empty() ? std::filesystem::path() : folder.write("movies.dat", films),
                        o);
  }
  std::string refusal(std::string_view ratings, std::string_view films = "") {
    return complaint([&] { read(ratings, films); });
  }
  static const categorical_features& features(const dataset& d) {
    return std::get<categorical_features>(d.features());
  }

  const scratch_folder folder;
};

TEST_F(Ratings, NumbersUsersItemsAndTimes) {
  const dataset d = read(three_ratings);
  EXPECT_THAT(features(d).counts, ElementsAre(2, 2, 1, 7, 24));
  EXPECT_THAT(features(d).categories, ElementsAre(0, 0, 0, 4, 0, 1, 0, 0, 5, 1, 0, 1, 0, 0, 23));
  EXPECT_THAT(d.targets(), ElementsAre(8.0F, 2.5F, 0.0F));
  EXPECT_EQ(d.sample_dims(), shape{0});
}

TEST_F(Ratings, KnowsYearsAndGenresOfDescribedItems) {
  const dataset d = read(three_ratings, two_films);
  EXPECT_EQ(features(d).counts[2], 2U) << "unknown and 1999; nobody rated one of 2000";
  EXPECT_EQ(features(d).categories[2], 1);
  EXPECT_EQ(features(d).categories[12], 0);
  EXPECT_EQ(d.sample_dims(), shape{3});
  EXPECT_THAT(features(d).values, ElementsAre(1, 1, 0, 1, 1, 0, 0, 0, 0));
}

TEST_F(Ratings, OrdersByTimeOrByASeed) {
  std::string many;
  for (int i = 0; i < 50; ++i) many += "1::" + std::to_string(i) + "::1::" + std::to_string(100 - i) + '\n';
  const dataset by_time = read(many);
  EXPECT_EQ(features(by_time).categories[1], 49);
  const auto categories = [&](std::uint64_t seed) {
    return features(read(many, "", {rating_order::random, seed})).categories;
  };
  EXPECT_EQ(categories(1), categories(1));
  EXPECT_NE(categories(1), categories(2));
  const std::vector<std::int32_t> shuffled = categories(3);
  EXPECT_TRUE(std::ranges::is_permutation(shuffled, categories(1)));
  EXPECT_NE(shuffled, features(by_time).categories);
}

TEST_F(Ratings, RefusesALineThatIsNoRating) {
  const std::pair<const char*, const char*> all[] = {
      {"1::2::3::4\n1::2::3\n", "line 2: expected user::item::rating::time, found '1::2::3'"},
      {"x::2::3::4\n", "line 1: expected a user's number, found 'x'"},
      {"1::-2::3::4\n", "line 1: expected an item's number, found '-2'"},
      {"1::2::nan::4\n", "expected a rating that is a finite number, found 'nan'"},
      {"1::2::3::4::5\n", "expected a time in seconds since 1970"},
      {"1::2::3::999999999999999\n", "at most 253402300799"},
      {"", "found an empty file"}};
  for (const auto& [ratings, says] : all)
    EXPECT_THAT(refusal(ratings), AllOf(StartsWith("ratings.dat: "), HasSubstr(says)));
}

TEST_F(Ratings, RefusesALineThatDescribesNoItem) {
  std::string genres = "1::A::";
  for (int i = 0; i < 65; ++i) genres += std::to_string(i) + '|';
  const std::pair<std::string, const char*> all[] = {
      {"1::A (1999)::Drama\n2::B\n", "line 2: expected item::title (year)::genre|genre, found '2::B'"},
      {"a::A::Drama\n", "expected an item's number, found 'a'"},
      {"1::A::X\n1::B::X\n", "line 2: expected an item that was not described before"},
      {genres + '\n', "expected at most 64 genres, found '64'"}};
  for (const auto& [films, says] : all)
    EXPECT_THAT(refusal(three_ratings, films), AllOf(StartsWith("movies.dat: "), HasSubstr(says)));
}

TEST_F(Ratings, AreFoundInAFolderAndAsAFile) {
  const auto file = folder.write("ratings.dat", three_ratings);
  for (const std::string& path : {folder.path().string(), file.string()})
    EXPECT_EQ(open_data(path).train.sample_dims(), shape{0}) << path;
  EXPECT_THAT(complaint([&] { open_data(file.string(), {.task = label_kind::classes}); }),
              HasSubstr("expected classes, found ratings, which are numbers to predict"));
  folder.write("movies.dat", two_films);
  for (const std::string& path : {folder.path().string(), file.string()}) {
    const data_split split = open_data(path);
    EXPECT_EQ(split.train.size(), 2U);
    EXPECT_EQ(split.test.size(), 1U);
    EXPECT_EQ(split.train.sample_dims(), shape{3}) << path;
    EXPECT_EQ(features(split.test).counts, features(split.train).counts);
  }
  const auto other = folder.write("mine", three_ratings);
  EXPECT_TRUE(open_data(other.string()).train.has_targets()) << "known by its first lines";
}

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
  EXPECT_THAT(read_corpus("a\ufeff").symbols, ElementsAre("a", "\ufeff")) << "it is one within a text";
}

TEST(Text, RefusesAnEmptyFile) {
  for (const char* nothing : {"", "\ufeff"})
    EXPECT_EQ(complaint([&] { read_corpus(nothing); }), "x.txt: expected text, found an empty file");
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
              "file, or raise --data-limit (open_options::limit)");
  }
}

} // namespace
} // namespace mailgrad

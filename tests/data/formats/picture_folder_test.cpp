#include <mailgrad/data/formats/picture_folder.hpp>

#include <mailgrad/data/open.hpp>
#include <mailgrad/tests/data/drawn_pictures.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <vector>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PictureFolder : public testing::Test {
protected:
  void draw(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    folder.write(name, bytes);
  }
  labelled_pictures read(const picture_options& options = {}) const {
    label_map labels;
    return read_pictures(folder.path(), options, labels);
  }
  std::string folder_complaint(const picture_options& options = {}) const {
    return complaint([&] { read(options); });
  }

  scratch_folder folder;
};

TEST_F(PictureFolder, IsAFolderForEachClass) {
  draw("dog/2.png", png_of(2, 1, 1, "cd"));
  draw("dog/1.PNG", png_of(2, 1, 1, "ab"));
  draw("cat/1.png", png_of(2, 1, 1, "ef"));
  draw("cat/notes.txt", "not a picture");
  folder.write("readme.txt", "not a class");
  EXPECT_TRUE(is_picture_folder(folder.path()));
  label_map labels;
  const labelled_pictures all = read_pictures(folder.path(), {}, labels);
  EXPECT_EQ(all.images.dims, (shape{1, 2, 1}));
  EXPECT_EQ(std::string(all.images.values.begin(), all.images.values.end()), "efabcd");
  EXPECT_THAT(all.labels, ElementsAre(0, 1, 1));
  EXPECT_THAT(labels.names(), ElementsAre("cat", "dog"));
}

TEST_F(PictureFolder, TakesNamesOfClassesAsTheyAreWritten) {
  for (const char* name : {"1", "1.0", "+1", "1.5", "__MACOSX"})
    draw(std::string(name) + "/1.png", png_of(1, 1, 1, "x"));
  label_map labels(0, label_spelling::characters);
  EXPECT_EQ(read_pictures(folder.path(), {}, labels).labels.size(), 4U);
  EXPECT_THAT(labels.names(), ElementsAre("+1", "1", "1.0", "1.5"));
  EXPECT_EQ(open_data(folder.path().string()).class_names.size(), 4U);
}

TEST_F(PictureFolder, TakesColoursIfItsFirstPictureHasSome) {
  draw("a/1.png", png_of(1, 1, 3, "rgb"));
  draw("a/2.png", png_of(1, 1, 1, "x"));
  EXPECT_THAT(read().images.values, ElementsAre('r', 'g', 'b', 'x', 'x', 'x'));
  EXPECT_EQ(read({.channels = picture_channels::grey}).images.dims, (shape{1, 1, 1}));
}

TEST_F(PictureFolder, RefusesColoursAfterGreysUnlessItIsTold) {
  draw("a/1.png", png_of(1, 1, 1, "x"));
  draw("a/2.png", png_of(1, 1, 3, "rgb"));
  EXPECT_THAT(folder_complaint(),
              HasSubstr("a/2.png: expected a picture of greys, as the first is, found one with colours"));
  EXPECT_EQ(read({.channels = picture_channels::rgb}).images.dims, (shape{1, 1, 3}));
}

/// What is stored in 12 of 16 bits becomes a few greys.
TEST_F(PictureFolder, SaysHowManyPicturesLoseHalfOfTheirBits) {
  draw("train/a/1.png", deep_png_of(u"\u0fff\u8080"));
  draw("train/a/2.png", png_of(2, 1, 1, "xy"));
  draw("test/a/1.png", png_of(2, 1, 1, "xy"));
  const data_split split = open_data(folder.path().string());
  EXPECT_THAT(std::get<byte_features>(split.train.features()).values, ElementsAre(0x0f, 0x80, 'x', 'y'));
  EXPECT_THAT(
      split.remarks,
      testing::Contains("train: 1 of 2 pictures have numbers of 16 bits, of which the upper 8 are read"));
  draw("train/a/1.png", png_of(2, 1, 1, "xy"));
  EXPECT_THAT(open_data(folder.path().string()).remarks,
              testing::Not(testing::Contains(HasSubstr("16 bits"))));
}

TEST_F(PictureFolder, RefusesAPictureOfAnotherSize) {
  draw("a/1.png", png_of(2, 1, 1, "ab"));
  draw("b/7.png", png_of(1, 2, 1, "ab"));
  EXPECT_EQ(folder_complaint(), "b/7.png: expected 2x1 pixels, as the other pictures have, found 1x2");
  draw("b/7.png", png_of(3, 1, 1, "abc"));
  EXPECT_EQ(folder_complaint(), "b/7.png: expected 2x1 pixels, as the other pictures have, found 3x1");
  EXPECT_EQ(folder_complaint({.dims = {3, 3, 1}}),
            "a/1.png: expected 3x3 pixels, as the other pictures have, found 2x1");
}

TEST_F(PictureFolder, NamesTheFileThatIsDamaged) {
  draw("a/1.png", png_of(2, 1, 1, "ab"));
  draw("a/2.png", png_of(2, 1, 1, "ab").substr(0, 45));
  EXPECT_THAT(folder_complaint(), HasSubstr("a/2.png: the picture is damaged: "));
}

TEST_F(PictureFolder, RefusesWhatTakesTooMuchMemoryBeforeItDecodes) {
  draw("a/1.png", png_of(4, 4, 1, std::string(16, 'x')));
  draw("a/2.png", "not even a picture");
  EXPECT_THAT(folder_complaint({.limit = {31}}),
              HasSubstr("expected samples that take at most 31 bytes of memory"));
  std::string huge = jpeg_of(16, 16, 1, std::string(256, 'x'));
  huge.replace(huge.find("\xff\xc0") + 5, 4, "\xff\xdc\xff\xdc");
  draw("a/0.jpg", huge);
  EXPECT_THAT(folder_complaint(),
              HasSubstr("expected samples that take at most 4.0 GiB of memory, found more"));
}

TEST_F(PictureFolder, RefusesAClassWithoutPictures) {
  draw("a/1.png", png_of(1, 1, 1, "x"));
  std::filesystem::create_directory(folder.path() / "b");
  EXPECT_EQ(folder_complaint(), "b: expected pictures *.png or *.jpg of a class, found none");
}

TEST_F(PictureFolder, IsOpenedAsADataSet) {
  for (const char* name : {"train/cat/1.png", "train/dog/1.png", "test/dog/9.png"})
    draw(name, png_of(1, 1, 1, "x"));
  const data_split split = open_data(folder.path().string());
  EXPECT_EQ(split.train.size(), 2U);
  EXPECT_EQ(split.train.sample_dims(), (shape{1, 1, 1}));
  EXPECT_THAT(split.test.labels(), ElementsAre(1));
  EXPECT_THAT(split.class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(split.divisors, ElementsAre(255));
  EXPECT_THAT(split.remarks, ElementsAre(HasSubstr("have none of 1 of the 2 classes: 'cat'")));
  draw("test/cow/1.png", png_of(1, 1, 1, "x"));
  EXPECT_EQ(complaint([&] { open_data(folder.path().string()); }),
            "test/cow: expected one of the 2 class names 'cat', 'dog', found the folder 'cow'");
}

TEST_F(PictureFolder, IsCutWithoutAFolderForTesting) {
  for (int i = 0; i < 10; ++i)
    for (const char* name : {"cat", "dog"})
      draw(std::string(name) + "/" + std::to_string(i) + ".png", png_of(1, 1, 1, "x"));
  const data_split split = open_data(folder.path().string());
  EXPECT_EQ(split.train.size(), 16U);
  EXPECT_EQ(std::ranges::count(split.test.labels(), 1), 2);
  open_options known;
  known.known = known_data{{"dog", "cat"}, {255}};
  EXPECT_EQ(open_data(folder.path().string(), known).test.size(), 20U);
  EXPECT_EQ(open_data(folder.path().string(), known).test.labels()[0], 1) << "classes keep their numbers";
}

using testing::Each;

class PictureFile : public testing::Test {
protected:
  std::vector<std::uint8_t> pixels(const std::string& bytes, std::size_t channels) const {
    picture_file picture(folder.write("x.png", bytes));
    std::vector<std::uint8_t> all(picture.width() * picture.height() * channels);
    picture.read(all, channels);
    return all;
  }
  std::string picture_complaint(const std::string& bytes) const {
    return complaint([&] { pixels(bytes, 3); });
  }

  scratch_folder folder;
};

TEST_F(PictureFile, ReadsPngAsItIs) {
  const picture_file grey(folder.write("x.png", png_of(3, 2, 1, "abcdef")));
  EXPECT_EQ(grey.width(), 3U);
  EXPECT_EQ(grey.height(), 2U);
  EXPECT_FALSE(grey.has_colours());
  EXPECT_THAT(pixels(png_of(3, 2, 1, "abcdef"), 1), ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  EXPECT_TRUE(picture_file(folder.write("x.png", png_of(1, 2, 3, "rgbRGB"))).has_colours());
  EXPECT_THAT(pixels(png_of(1, 2, 3, "rgbRGB"), 3), ElementsAre('r', 'g', 'b', 'R', 'G', 'B'));
}

TEST_F(PictureFile, MakesGreysColoursAndColoursGreys) {
  EXPECT_THAT(pixels(png_of(2, 1, 1, "ab"), 3), ElementsAre('a', 'a', 'a', 'b', 'b', 'b'));
  EXPECT_THAT(pixels(png_of(1, 1, 3, "zzz"), 1), ElementsAre('z'));
}

TEST_F(PictureFile, ReadsJpegWithinItsLoss) {
  const std::string bytes = jpeg_of(16, 8, 1, std::string(16 * 8, '\x64'));
  const picture_file picture(folder.write("x.jpg", bytes));
  EXPECT_EQ(picture.width(), 16U);
  EXPECT_EQ(picture.height(), 8U);
  EXPECT_FALSE(picture.has_colours());
  EXPECT_THAT(pixels(bytes, 1), Each(testing::AllOf(testing::Ge(98), testing::Le(102))));
  EXPECT_THAT(pixels(jpeg_of(16, 8, 3, std::string(16 * 8 * 3, '\x64')), 3),
              Each(testing::AllOf(testing::Ge(98), testing::Le(102))));
}

TEST_F(PictureFile, RefusesWhatIsNoPicture) {
  EXPECT_EQ(picture_complaint("GIF89a..."), "x.png: expected a PNG or JPEG picture, found 'GIF89a..'");
  EXPECT_THAT(picture_complaint(""), HasSubstr("expected a PNG or JPEG picture, found ''"));
  EXPECT_THAT(complaint([&] { picture_file(folder.path() / "none.png"); }), HasSubstr("cannot be read"));
}

TEST_F(PictureFile, RefusesAPictureThatIsCut) {
  for (const std::string& whole :
       {png_of(9, 9, 3, std::string(243, 'x')), jpeg_of(16, 16, 3, std::string(768, 'x'))})
    for (const std::size_t left : {12UL, whole.size() / 3, whole.size() / 2})
      EXPECT_THAT(picture_complaint(whole.substr(0, left)), HasSubstr("x.png: the picture is damaged: "))
          << left;
}

/// 65500 x 65500 pixels in 300 bytes: the size is told before memory is taken for them.
TEST_F(PictureFile, TellsAHugeSizeWithoutTakingMemoryForIt) {
  std::string bytes = jpeg_of(16, 16, 1, std::string(256, 'x'));
  const std::size_t frame = bytes.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  bytes.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  const picture_file picture(folder.write("x.jpg", bytes));
  EXPECT_EQ(picture.width(), 65500U);
  EXPECT_EQ(picture.height(), 65500U);
}

TEST_F(PictureFile, RefusesAnotherLengthOfPixels) {
  picture_file picture(folder.write("x.png", png_of(3, 2, 1, "abcdef")));
  std::vector<std::uint8_t> few(5);
  EXPECT_THROW(picture.read(few, 1), std::invalid_argument);
  std::vector<std::uint8_t> two(12);
  EXPECT_THROW(picture.read(two, 2), std::invalid_argument);
}

TEST_F(PictureFile, EndsInPixelsOrInOneLine) {
  std::mt19937 random(3);
  for (const std::string& whole :
       {png_of(9, 9, 3, std::string(243, 'x')), jpeg_of(16, 16, 3, std::string(768, 'x'))})
    for (int i = 0; i < 300; ++i) {
      std::string bytes = whole;
      const std::size_t at = 8 + random() % (bytes.size() - 8);
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      try {
        picture_file picture(folder.write("x.png", bytes));
        if (picture.width() * picture.height() > 100'000) continue; // as a reader of a folder refuses it
        std::vector<std::uint8_t> all(picture.width() * picture.height() * 3);
        picture.read(all, 3);
      } catch (const file_error& e) {
        EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
      }
    }
}

TEST(PictureName, IsKnownByItsSuffix) {
  for (const char* name : {"a.png", "a.PNG", "b.c.jpg", "x.JPeG"}) EXPECT_TRUE(is_picture_name(name)) << name;
  for (const char* name : {".png", "png", "a.txt", "._a.png", "a.png.gz", ""})
    EXPECT_FALSE(is_picture_name(name)) << name;
}

} // namespace
} // namespace mailgrad

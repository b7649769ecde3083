#include <mailgrad/data/formats/picture_folder.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/tests/data/drawn_pictures.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace mailgrad {
namespace {

using namespace ::testing;

/// 65500 x 65500 pixels in 300 bytes.
std::string huge_jpeg() {
  std::string bytes = jpeg_of(16, 16, 1, std::string(256, 'x'));
  bytes.replace(bytes.find("\xff\xc0") + 5, 4, "\xff\xdc\xff\xdc");
  return bytes;
}

class PictureFolder : public ::testing::Test {
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
  EXPECT_THAT(split.remarks,
              Contains("train: 1 of 2 pictures have numbers of 16 bits, of which the upper 8 are read"));
  draw("train/a/1.png", png_of(2, 1, 1, "xy"));
  EXPECT_THAT(open_data(folder.path().string()).remarks, Not(Contains(HasSubstr("16 bits"))));
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

TEST_F(PictureFolder, NamesTheFileThatIsDamagedAndTheClassWithoutPictures) {
  draw("a/1.png", png_of(2, 1, 1, "ab"));
  draw("a/2.png", png_of(2, 1, 1, "ab").substr(0, 45));
  EXPECT_THAT(folder_complaint(), HasSubstr("a/2.png: the picture is damaged: "));
  draw("a/2.png", png_of(2, 1, 1, "ab"));
  std::filesystem::create_directory(folder.path() / "b");
  EXPECT_EQ(folder_complaint(), "b: expected pictures *.png or *.jpg of a class, found none");
}

TEST_F(PictureFolder, RefusesWhatTakesTooMuchMemoryBeforeItDecodes) {
  draw("a/1.png", png_of(4, 4, 1, std::string(16, 'x')));
  draw("a/2.png", "not even a picture");
  EXPECT_THAT(folder_complaint({.limit = {31}}),
              HasSubstr("expected samples that take at most 31 bytes of memory"));
  draw("a/0.jpg", huge_jpeg());
  EXPECT_THAT(folder_complaint(),
              HasSubstr("expected samples that take at most 4.0 GiB of memory, found more"));
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

class PictureFile : public ::testing::Test {
protected:
  void read(const std::string& bytes) const {
    picture_file picture(folder.write("x.png", bytes));
    if (picture.width() * picture.height() > 100'000) return; // as a reader of a folder refuses it
    std::vector<std::uint8_t> all(picture.width() * picture.height() * 3);
    picture.read(all, 3);
  }

  const scratch_folder folder;
  const std::vector<std::string> pictures{png_of(9, 9, 3, std::string(243, 'x')),
                                          jpeg_of(16, 16, 3, std::string(768, 'x'))};
};

TEST_F(PictureFile, RefusesAPictureThatIsCutOrGone) {
  for (const std::string& whole : pictures)
    for (const std::size_t left : {12UL, whole.size() / 3, whole.size() / 2})
      EXPECT_THAT(complaint([&] { read(whole.substr(0, left)); }),
                  HasSubstr("x.png: the picture is damaged: "))
          << left;
  EXPECT_THAT(complaint([&] { picture_file(folder.path() / "none.png"); }), HasSubstr("cannot be read"));
}

TEST_F(PictureFile, TellsAHugeSizeWithoutTakingMemoryForIt) {
  const picture_file picture(folder.write("x.jpg", huge_jpeg()));
  EXPECT_EQ(picture.width(), 65500U);
  EXPECT_EQ(picture.height(), 65500U);
}

TEST_F(PictureFile, RefusesAnotherLengthOfPixels) {
  picture_file picture(folder.write("x.png", png_of(3, 2, 1, "abcdef")));
  std::vector<std::uint8_t> few(5), two(12);
  EXPECT_THROW(picture.read(few, 1), std::invalid_argument);
  EXPECT_THROW(picture.read(two, 2), std::invalid_argument);
}

TEST_F(PictureFile, EndsInPixelsOrInOneLine) {
  std::mt19937 random(3);
  for (const std::string& whole : pictures)
    for (int i = 0; i < 300; ++i) {
      std::string bytes = whole;
      const std::size_t at = 8 + random() % (bytes.size() - 8);
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      try {
        read(bytes);
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

class UnlabelledPictures : public ::testing::Test {
protected:
  std::string path(const char* name) const { return (folder.path() / name).string(); }

  const scratch_folder folder;
};

TEST_F(UnlabelledPictures, AreFilesAndThoseOfFolders) {
  std::filesystem::create_directories(folder.path() / "new" / "deeper.png");
  std::filesystem::create_directory(folder.path() / "empty");
  for (const char* name : {"new/b.JPG", "new/a.png", "new/notes.txt", "picture"}) folder.write(name, "");
  const std::vector<std::string> named{path("picture"), path("new")}, lost{path("picture"), path("none.png")};
  const std::vector<std::string> empty{path("empty")};
  EXPECT_THAT(find_pictures(named), ElementsAre(path("picture"), path("new/a.png"), path("new/b.JPG")));
  EXPECT_THAT(complaint([&] { find_pictures(lost); }), StartsWith("none.png: cannot be read: No such file"));
  EXPECT_THAT(complaint([&] { find_pictures(empty); }), HasSubstr("empty: expected pictures *.png or *.jpg"));
}

TEST_F(UnlabelledPictures, AreDecodedWithTheChannelsOfTheModel) {
  const std::vector<std::filesystem::path> files{folder.write("a.png", png_of(2, 1, 1, "ab")),
                                                 folder.write("b.png", png_of(2, 1, 3, "ccczzz"))};
  const byte_features greys = decode_pictures(files, {1, 2, 1});
  EXPECT_EQ(greys.dims, (shape{1, 2, 1}));
  EXPECT_THAT(greys.values, ElementsAre('a', 'b', 'c', 'z'));
  EXPECT_THAT(decode_pictures(files, {1, 2, 3}).values,
              ElementsAre('a', 'a', 'a', 'b', 'b', 'b', 'c', 'c', 'c', 'z', 'z', 'z'));
  folder.write("b.png", "gone");
  const auto why = [&](const shape& dims) { return complaint([&] { decode_pictures(files, dims); }); };
  EXPECT_EQ(why({1, 2, 1}), "b.png: expected a PNG or JPEG picture, found 'gone'");
  EXPECT_EQ(why({2, 1, 1}), "a.png: expected 1x2 pixels, as the model reads them, found 2x1");
  EXPECT_THROW(decode_pictures(files, {2}), std::invalid_argument);
  EXPECT_THROW(decode_pictures(files, {1, 2, 2}), std::invalid_argument);
}

} // namespace
} // namespace mailgrad

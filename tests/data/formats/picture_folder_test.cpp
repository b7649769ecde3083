#include <mailgrad/data/formats/picture_folder.hpp>

#include <mailgrad/data/open.hpp>
#include <mailgrad/tests/data/drawn_pictures.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <algorithm>

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

} // namespace
} // namespace mailgrad

#include <mailgrad/data/formats/picture_folder.hpp>

#include <mailgrad/tests/data/drawn_pictures.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <random>
#include <stdexcept>
#include <vector>

namespace mailgrad {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

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

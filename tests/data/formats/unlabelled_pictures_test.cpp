#include <mailgrad/data/formats/picture_folder.hpp>

#include <mailgrad/tests/data/drawn_pictures.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class UnlabelledPictures : public testing::Test {
protected:
  std::string path(const char* name) const { return (folder.path() / name).string(); }

  const scratch_folder folder;
};

TEST_F(UnlabelledPictures, AreFilesAndThoseOfFolders) {
  std::filesystem::create_directories(folder.path() / "new" / "deeper.png");
  folder.write("new/b.JPG", "");
  folder.write("new/a.png", "");
  folder.write("new/notes.txt", "");
  folder.write("picture", "");
  const std::vector<std::string> named{path("picture"), path("new")};
  EXPECT_THAT(find_pictures(named), ElementsAre(path("picture"), path("new/a.png"), path("new/b.JPG")));
  const std::vector<std::string> lost{path("picture"), path("none.png")};
  EXPECT_EQ(complaint([&] { find_pictures(lost); }).find("none.png: cannot be read: No such file"), 0U);
  std::filesystem::create_directory(folder.path() / "empty");
  const std::vector<std::string> empty{path("empty")};
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
}

TEST_F(UnlabelledPictures, AreRefusedByName) {
  const std::vector<std::filesystem::path> files{folder.write("a.png", png_of(2, 1, 1, "ab")),
                                                 folder.write("b.png", "gone")};
  EXPECT_EQ(complaint([&] {
              decode_pictures(files, {1, 2, 1});
            }),
            "b.png: expected a PNG or JPEG picture, found 'gone'");
  EXPECT_EQ(complaint([&] {
              decode_pictures(files, {2, 1, 1});
            }),
            "a.png: expected 1x2 pixels, as the model reads them, found 2x1");
  EXPECT_THROW(decode_pictures(files, {2}), std::invalid_argument);
  EXPECT_THROW(decode_pictures(files, {1, 2, 2}), std::invalid_argument);
}

} // namespace
} // namespace mailgrad

#include <mailgrad/data/formats/cifar.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace mailgrad {
namespace {

using testing::ElementsAre;

/// Two pictures of 1x2 pixels in three channels.
const std::string two_records = std::string("\1rRgGbB", 7) + std::string("\0uvwxyz", 7);

TEST(Cifar, LaysTheChannelsOfAPixelSideBySide) {
  const scratch_folder folder;
  for (const auto& file :
       {folder.write("plain", two_records), folder.write("packed", gzipped(two_records))}) {
    const cifar_records records = read_cifar(file, {{1, 2, 3}});
    EXPECT_EQ(records.images.dims, (shape{{1, 2, 3}}));
    EXPECT_THAT(records.images.values,
                ElementsAre('r', 'g', 'b', 'R', 'G', 'B', 'u', 'w', 'y', 'v', 'x', 'z'));
    EXPECT_THAT(join_cifar(records, 0).labels(), ElementsAre(1, 0));
  }
}

/// A record of CIFAR-100 has a coarse label before the fine one.
TEST(Cifar, TakesTheLastOfTwoLabels) {
  const scratch_folder folder;
  const auto file = folder.write("x.bin", std::string("\4\1rRgGbB", 8) + std::string("\3\0uvwxyz", 8));
  const cifar_records records = read_cifar(file, {{1, 2, 3}, 2});
  EXPECT_THAT(records.images.values, ElementsAre('r', 'g', 'b', 'R', 'G', 'B', 'u', 'w', 'y', 'v', 'x', 'z'));
  EXPECT_THAT(join_cifar(records, 0).labels(), ElementsAre(1, 0));
  EXPECT_EQ(complaint([&] {
              read_cifar(file, {{1, 2, 3}, 2}, 1);
            }),
            "x.bin: offset 1: expected a label from 0 to 0, found 1");
  EXPECT_EQ(
      complaint([&] {
        read_cifar(file, {{1, 2, 3}});
      }),
      "x.bin: offset 14: expected a record of 7 bytes, found 2; records of CIFAR-100 have two labels, and "
      "are read as such where fine_label_names.txt lies beside them");
}

TEST(Cifar, RefusesARecordThatIsCut) {
  const scratch_folder folder;
  const auto file = folder.write("x.bin", two_records.substr(0, 12));
  EXPECT_EQ(complaint([&] {
              read_cifar(file, {{1, 2, 3}});
            }),
            "x.bin: offset 7: expected a record of 7 bytes, found 5");
}

TEST(Cifar, RefusesAnEmptyFile) {
  const scratch_folder folder;
  EXPECT_EQ(complaint([&] { read_cifar(folder.write("x.bin", "")); }),
            "x.bin: offset 0: expected a record of 3073 bytes, found an empty file");
}

TEST(Cifar, SaysWhichRecordHasALabelOutOfRange) {
  const scratch_folder folder;
  const auto records = read_cifar(folder.write("x.bin", two_records + "\5......"), {{1, 2, 3}});
  EXPECT_EQ(complaint([&] { join_cifar(records, 2); }),
            "x.bin: offset 14: expected a label from 0 to 1, found 5");
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

} // namespace
} // namespace mailgrad

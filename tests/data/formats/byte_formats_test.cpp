#include <mailgrad/data/formats/cifar.hpp>
#include <mailgrad/data/formats/idx.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

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

TEST(Idx, ReadsImages) {
  const scratch_folder folder;
  const std::string bytes = idx_images(2, 1, 3, "abcdef");
  for (const auto& file : {folder.write("plain", bytes), folder.write("packed", gzipped(bytes))}) {
    const byte_features images = read_idx_images(file);
    EXPECT_EQ(images.dims, (shape{1, 3, 1}));
    EXPECT_THAT(images.values, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
    EXPECT_FLOAT_EQ(images.scale, 1.0F / 255);
  }
}

TEST(Idx, JoinsImagesAndLabels) {
  const byte_features images{{1, 1, 1}, {7, 8}};
  const byte_labels labels{{1, 0}, "labels", 8, 1};
  EXPECT_THAT(join_idx(images, "images", labels, 0).labels(), ElementsAre(1, 0));
  EXPECT_EQ(join_idx(images, "images", labels, 0).classes(), 2U);
  EXPECT_EQ(join_idx(images, "images", labels, 5).classes(), 5U);
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
       "offset 4: 1000 images of 28x28 need 784000 bytes, found at most"},
      {gzipped(idx_images(2, 28, 28, kilobyte)), "offset 4: 2 images of 28x28 need 1568 bytes, found 1024"},
      {idx_images(huge, huge, huge, "x"),
       "offset 4: 4294967295 images of 4294967295x4294967295 need more than the 4294967296"},
      {idx_images(huge, 65536, 65536, "x"),
       "offset 4: 4294967295 images of 65536x65536 need more than"}, // 0 in 64 bits
      {idx_images(0, 28, 28, ""), "offset 4: expected an image, found 0 images of 28x28"},
      {idx_images(5, 0, 28, ""), "offset 4: expected an image, found 5 images of 0x28"},
      {idx_images(1, 1, 2, "abc"),
       "offset 18: expected the end of the file after 1 images of 1x2, found further bytes"}};
  for (const auto& [bytes, says] : images)
    EXPECT_THAT(images_complaint(bytes), StartsWith(std::string("images: ") + says));
  const std::pair<std::string, const char*> labels[] = {
      {idx_labels(4, "abc"), "offset 4: 4 labels need 4 bytes, found at most 3"},
      {idx_labels(0, ""), "offset 4: expected a label, found a count of 0"},
      {gzipped(idx_labels(2, "abc")),
       "offset 10: expected the end of the file after 2 labels, found further bytes"}};
  for (const auto& [bytes, says] : labels)
    EXPECT_THAT(labels_complaint(bytes), StartsWith(std::string("labels: ") + says));
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

} // namespace
} // namespace mailgrad

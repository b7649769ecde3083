#include <mailgrad/data/formats/idx.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

TEST(Idx, ReadsLabels) {
  const scratch_folder folder;
  const byte_labels labels = read_idx_labels(folder.write("labels", idx_labels(3, {"\0\1\1", 3})));
  EXPECT_THAT(labels.values, ElementsAre(0, 1, 1));
}

TEST(Idx, JoinsImagesAndLabels) {
  const byte_labels labels{{1, 0}, "labels", 8, 1};
  const dataset d = join_idx({{1, 1, 1}, {7, 8}}, "images", labels, 0);
  EXPECT_EQ(d.size(), 2U);
  EXPECT_EQ(d.classes(), 2U);
  EXPECT_THAT(d.labels(), ElementsAre(1, 0));
  EXPECT_EQ(join_idx({{1, 1, 1}, {7, 8}}, "images", labels, 5).classes(), 5U);
}

TEST(Idx, RefusesAnotherMagicNumber) {
  EXPECT_EQ(images_complaint(idx_labels(3, "abc")),
            "images: offset 0: expected the magic number 0x00000803, found 0x00000801");
  EXPECT_EQ(labels_complaint("text"),
            "labels: offset 0: expected the magic number 0x00000801, found 0x74657874");
}

TEST(Idx, RefusesAHeaderThatIsCut) {
  EXPECT_EQ(images_complaint(""),
            "images: offset 0: expected an IDX header of 16 bytes, found an empty file");
  EXPECT_EQ(images_complaint(idx_images(1, 1, 1, "").substr(0, 10)),
            "images: offset 10: expected an IDX header of 16 bytes, found 10");
}

TEST(Idx, RefusesMoreImagesThanTheFileHolds) {
  EXPECT_EQ(images_complaint(idx_images(60000, 28, 28, std::string(1024, 'x'))),
            "images: offset 4: 60000 images of 28x28 need 47040000 bytes, found at most 1024");
  EXPECT_EQ(labels_complaint(idx_labels(4, "abc")),
            "labels: offset 4: 4 labels need 4 bytes, found at most 3");
}

TEST(Idx, RefusesMoreImagesThanAPackedFileHolds) {
  EXPECT_THAT(images_complaint(gzipped(idx_images(1000, 28, 28, std::string(1024, 'x')))),
              HasSubstr("offset 4: 1000 images of 28x28 need 784000 bytes, found at most"));
  EXPECT_EQ(images_complaint(gzipped(idx_images(2, 28, 28, std::string(1024, 'x')))),
            "images: offset 4: 2 images of 28x28 need 1568 bytes, found 1024");
}

TEST(Idx, RefusesCountsWhoseProductOverflows) {
  constexpr std::uint32_t huge = 0xffffffff;
  EXPECT_THAT(images_complaint(idx_images(huge, huge, huge, "x")),
              HasSubstr("need more than the 4294967296"));
  // 2^32 x 2^16 x 2^16 would be 0 in 64 bits
  EXPECT_THAT(images_complaint(idx_images(huge, 65536, 65536, "x")), HasSubstr("need more than"));
}

TEST(Idx, RefusesFurtherBytes) {
  EXPECT_EQ(images_complaint(idx_images(1, 1, 2, "abc")),
            "images: offset 18: expected the end of the file after 1 images of 1x2, found further bytes");
  EXPECT_EQ(labels_complaint(gzipped(idx_labels(2, "abc"))),
            "labels: offset 10: expected the end of the file after 2 labels, found further bytes");
}

TEST(Idx, RefusesAPackedFileThatIsCutAfterTheLastImage) {
  const std::string packed = gzipped(idx_images(1, 1, 2, "ab"));
  EXPECT_THAT(images_complaint(packed.substr(0, packed.size() - 8)), HasSubstr("the gzip file is cut"));
}

TEST(Idx, RefusesFilesOfNothing) {
  EXPECT_EQ(images_complaint(idx_images(0, 28, 28, "")),
            "images: offset 4: expected an image, found 0 images of 28x28");
  EXPECT_EQ(images_complaint(idx_images(5, 0, 28, "")),
            "images: offset 4: expected an image, found 5 images of 0x28");
  EXPECT_EQ(labels_complaint(idx_labels(0, "")), "labels: offset 4: expected a label, found a count of 0");
}

TEST(Idx, RefusesLabelsForOtherImages) {
  EXPECT_EQ(complaint([] {
              join_idx({{1, 1, 1}, {7, 8}}, "a/images", {{0}, "labels", 8, 1}, 0);
            }),
            "labels: offset 4: expected 2 labels, as images has images, found 1");
}

TEST(Idx, RefusesALabelOutOfRange) {
  EXPECT_EQ(complaint([] {
              join_idx({{1, 1, 1}, {7, 8}}, "images", {{0, 2}, "labels", 8, 1}, 2);
            }),
            "labels: offset 9: expected a label from 0 to 1, found 2");
}

} // namespace
} // namespace mailgrad

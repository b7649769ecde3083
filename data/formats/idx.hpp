#pragma once

#include <mailgrad/data/dataset.hpp>

namespace mailgrad {

/// Reads pictures in IDX format, plain or gzip.
/// Source  Y. LeCun, C. Cortes, C. Burges, "The MNIST database", File formats: big-endian numbers, magic
///         0x00000803, count, rows, columns, then bytes.
/// Shapes  {rows, columns, 1}.
/// Errors  file_error: another magic, no pictures, fewer bytes than the counts say, or more.
byte_features read_idx_images(const std::filesystem::path& file);

/// Reads labels in IDX format, plain or gzip: magic 0x00000801, count, then bytes.
/// Errors  file_error: another magic, no labels, fewer bytes than the count says, or more.
byte_labels read_idx_labels(const std::filesystem::path& file);

/// Makes a data set of pictures and labels. If `classes` is 0, the labels tell how many there are.
/// Errors  file_error: there are not as many labels as pictures; a label is out of range.
dataset join_idx(byte_features images, const std::filesystem::path& images_file, const byte_labels& labels,
                 std::size_t classes);

} // namespace mailgrad

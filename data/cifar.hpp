#pragma once

#include <mailgrad/data/byte_labels.hpp>
#include <mailgrad/data/dataset.hpp>

#include <filesystem>

namespace mailgrad {

/// Pictures and their labels, as one file holds them.
struct cifar_records {
  byte_features images;
  byte_labels labels;
};

/// Reads records of a label byte and one plane of bytes for each channel, row-major, plain or gzip.
///
/// Source  A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009; the binary version.
///         Differs: the planes are interwoven, so that the channels of a pixel lie side by side.
/// Shapes  `dims` of a picture: {height, width, channels}; CIFAR has {32, 32, 3}.
/// Errors  file_error: the file is empty or does not hold whole records, which a plain file's size tells at
///         once; a label is not below `classes`, if they are known.
cifar_records read_cifar(const std::filesystem::path& file, const shape& dims = {32, 32, 3},
                         std::size_t classes = 0);

/// `classes` 0: as many as the labels show.
///
/// Errors  file_error: a label is out of range.
dataset join_cifar(cifar_records records, std::size_t classes);

} // namespace mailgrad

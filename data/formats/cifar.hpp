#pragma once

#include <mailgrad/data/dataset.hpp>

namespace mailgrad {

struct cifar_records {
  byte_features images;
  byte_labels labels;
};

struct cifar_record {
  shape dims{32, 32, 3};       ///< of its picture
  std::size_t label_bytes = 1; ///< 2 in CIFAR-100: the coarse label and then the fine one, which is read
};

/// Reads a file of records, plain or gzip. A record is its labels, a byte each, and then, for each channel, a
/// row-major plane of bytes.
/// Source  A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009; the binary version.
///         Differs: the planes are interwoven, so that the channels of a pixel lie side by side.
/// Shapes  dims: {height, width, channels}.
/// Errors  file_error: the file is empty or does not hold whole records; a label is not below `classes`, if
///         that is not 0. The size of a plain file is checked before it is read.
cifar_records read_cifar(const std::filesystem::path& file, const cifar_record& record = {},
                         std::size_t classes = 0);

/// Makes a data set of the records. If `classes` is 0, the labels tell how many there are.
/// Errors  file_error: a label is out of range.
dataset join_cifar(cifar_records records, std::size_t classes);

} // namespace mailgrad

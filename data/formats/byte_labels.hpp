#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace mailgrad {

/// Labels that a file stores as bytes, and their places in it: label i is the byte first + i * stride.
struct byte_labels {
  std::vector<std::uint8_t> values;
  std::filesystem::path file;
  std::uint64_t first = 0;
  std::uint64_t stride = 1;
};

/// Counts the classes of a training set: one more than its largest label.
///
/// Errors  file_error if the labels have a gap, since a damaged label leaves one. If some classes really have
///         no samples, the caller must know the number of classes and use require_below() instead.
std::size_t count_classes(const byte_labels& labels);

/// Errors  file_error naming the first label that is not below `classes`.
void require_below(std::size_t classes, const byte_labels& labels);

std::vector<std::int32_t> widened(const byte_labels& labels);

} // namespace mailgrad

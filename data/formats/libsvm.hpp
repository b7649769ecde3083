#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/formats/label_map.hpp>
#include <mailgrad/data/formats/parsed_limit.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace mailgrad {

/// The rows of a file: for each line a label and the features that are not zero.
struct libsvm_rows {
  sparse_features features;
  std::vector<std::int32_t> labels;
};

/// The most features that a file may have by its indices alone. More must be given as an option, because each
/// feature gets a weight.
inline constexpr std::size_t most_libsvm_features = std::size_t{1} << 24;

/// Reads lines of "label index:value index:value ...", plain or gzip; a row may have no features, and a "#"
/// begins a comment. Indices count from 1 in the file and from 0 here.
///
/// A training file needs `labels` open and settles them; a test file needs them settled.
/// Shapes  `features` wide; with 0, as wide as the largest index in the file. A test file is given the width
///         of its training file, since not every file uses every index.
/// Errors  file_error: no rows; a label that `labels` refuses; an index that is 0, not above the one before,
///         or beyond the features; a value that is no finite number; more rows than `limit` has room for.
libsvm_rows read_libsvm(const std::filesystem::path& file, std::size_t features, label_map& labels,
                        const parsed_limit& limit = {});

} // namespace mailgrad

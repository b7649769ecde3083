#pragma once

#include <mailgrad/data/dataset.hpp>

namespace mailgrad {

/// The number that a file gives to its first column.
enum class column_numbering : std::uint8_t {
  automatic, ///< 0 if some file of the data set has an entry of column 0, otherwise 1
  from_one,
  from_zero
};

/// The rows of a file: for each line a label and the features that are not zero.
struct libsvm_rows {
  sparse_features features;
  std::vector<std::int32_t> labels;
};

struct libsvm_options {
  std::size_t features = 0;                                ///< columns of a row; 0: as many as the file shows
  column_numbering numbering = column_numbering::from_one; ///< automatic counts from 1
  bool may_be_wider = false; ///< the refusal of an index beyond `features` says by which option more are read
  parsed_limit limit{};
};

/// The most features that a file may have by its indices alone. More must be given as an option, because each
/// feature gets a weight.
inline constexpr std::size_t most_libsvm_features = std::size_t{1} << 24;

/// Whether a row of the file begins with an entry of column 0.
/// Errors  file_error, as line_reader.
bool has_column_zero(const std::filesystem::path& file);

/// Reads lines of "label index:value index:value ...", plain or gzip. A row may have no features; "#" begins
/// a comment, and a line of a comment alone is no row; "qid:N" behind the label is passed over. Columns count
/// from 0 here.
///
/// A training file needs `labels` open and settles them; a test file needs them settled.
/// Source  scikit-learn's load_svmlight_file. Differs: labels are classes, values are finite, and a blank
///         line before a row is refused.
/// Shapes  `features` wide; with 0, as wide as the largest index in the file. A test file is given the width
///         of its training file, since not every file uses every index.
/// Errors  file_error: no rows; a label that `labels` refuses; an index that is not above the one before, or
///         beyond the features; a value that is no finite number; more rows than `limit` has room for.
///         std::invalid_argument for more features than there can be.
libsvm_rows read_libsvm(const std::filesystem::path& file, const libsvm_options& options, label_map& labels);

} // namespace mailgrad

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

enum class file_format : std::uint8_t {
  automatic,
  idx,
  cifar,
  csv,
  libsvm,
  text,
  ratings,
  npz,
  npy,
  pictures
};

struct file_options {
  file_format format = file_format::automatic; ///< of a single file; automatic: by its name and first lines
  /// The part of a single file that is for training. If given, the file is cut even if its test file lies
  /// beside it.
  std::optional<double> train_fraction = std::nullopt;
  std::vector<std::filesystem::path> search{"/usr/share/datasets"}; ///< folders in which a name is looked up
};

/// The files of one data set.
struct data_files {
  file_format format = file_format::automatic;
  std::string name{};
  std::vector<std::filesystem::path> train{}; ///< files, or the folder of pictures
  std::filesystem::path train_labels{};       ///< IDX and npy; empty if there is none
  std::filesystem::path test{};               ///< if empty, the training file has to be cut
  std::filesystem::path test_labels{};        ///< IDX and npy; empty if there is none
  std::filesystem::path class_names{};        ///< a file with one name a line; empty if there is none
  std::size_t label_bytes = 1;                ///< of a record of CIFAR; the last of them is its class
  std::filesystem::path items{};              ///< a file that describes what is rated; empty if there is none

  /// Returns the paths of all files of the data set.
  std::vector<std::filesystem::path> all() const {
    std::vector<std::filesystem::path> files = train;
    for (const auto& file : {train_labels, test, test_labels, class_names, items})
      if (!file.empty()) files.push_back(file);
    return files;
  }
};

/// Finds the files of a data set. A folder must hold exactly one of these, each plain or with .gz, and in
/// capitals or not:
///
/// - train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., or with a point before "idx": IDX;
/// - train.bin, test.bin, or data_batch_1.bin ..., test_batch.bin: CIFAR, with class names in labels.txt,
///   batches.meta.txt or, for records of CIFAR-100, in fine_label_names.txt;
/// - ratings.dat, with movies.dat if there is one: ratings, to be cut;
/// - x_train.npy, y_train.npy, with x_test.npy, y_test.npy if there are any; or x.npy, y.npy: arrays of numpy;
/// - X, X.t: libsvm; X.train, X.test: libsvm or CSV; X.tra, X.tes and train.csv, test.csv: CSV;
/// - one *.data or *.csv: CSV; one *-vect or *.libsvm: libsvm; one *.txt: text; each to be cut;
/// - one *.npz: arrays of numpy;
/// - train/CLASS/*.png, test/CLASS/*.png, or CLASS/*.png: PNG or JPEG pictures, a folder for each class.
///
/// A single file is taken with its test file if that lies beside it; otherwise it is to be cut.
/// Errors  file_error, one line that says what was looked for.
data_files find_files(std::string_view name_or_path, const file_options& options);

/// Tells the format by the end of a file's name, such as .csv, in capitals or not and without .gz. Returns
/// `automatic` for other names.
file_format format_of_name(std::string_view name);

/// A name whose letters are small, of those that have a place in ASCII. By this, names are compared.
std::string in_small_letters(std::string_view name);

/// Tells the format by a file's first lines. Returns `automatic` if they fit none.
/// Errors  file_error, as byte_source.
file_format format_of_content(const std::filesystem::path& file);

/// What a file of a format that is not read should become, by its first bytes; empty if they do not tell.
/// Errors  file_error, as byte_source.
std::string_view advice_on(const std::filesystem::path& file);

} // namespace mailgrad

#pragma once

#include <mailgrad/data/files.hpp>
#include <mailgrad/data/formats/csv.hpp>
#include <mailgrad/data/formats/libsvm.hpp>
#include <mailgrad/data/formats/picture_folder.hpp>
#include <mailgrad/data/formats/ratings.hpp>
#include <mailgrad/files/archive.hpp>

namespace mailgrad {

/// What the numbers of a CSV file are divided by. Pictures are always divided by 255. The values of libsvm
/// files are never divided, since most of them are 1.
enum class feature_scale : std::uint8_t {
  none,
  maximum,        ///< the largest absolute value in the training set
  column_maximum, ///< the largest absolute value of each column, for columns of different units
};

/// What a trained model knows of its data, so that other data are read as its own were.
struct known_data {
  std::vector<std::string>
      class_names{};             ///< the labels in the order of their numbers; for a text its symbols
  std::vector<float> divisors{}; ///< what numbers are divided by, in place of what `scale` says
  table_layout table{};          ///< of a CSV file; without columns nothing is known of it
  bool counts_from_zero = false; ///< whether the first column of its libsvm file was 0, and not 1
};

struct open_options {
  file_options files{};
  std::size_t classes = 0;  ///< 0: as many as the labels of the training set show
  std::size_t features = 0; ///< of a libsvm file; 0: as many as the training file shows
  column_numbering numbering = column_numbering::automatic; ///< of the columns of a libsvm file
  shape record_dims{32, 32, 3}; ///< of the pictures of a CIFAR file: height, width, channels
  picture_channels channels = picture_channels::automatic; ///< of PNG and JPEG pictures
  csv_options csv{};
  /// What is predicted. If unset, it is what files of the format usually hold, or what the label of a CSV
  /// file looks like (settle_task()).
  std::optional<label_kind> task{};
  feature_scale scale = feature_scale::maximum;
  std::size_t window = 64;  ///< tokens of a text that a sample reads
  std::size_t stride = 0;   ///< tokens from one window to the next; 0: `window`, so each token is read once
  rating_options ratings{}; ///< how ratings are ordered before they are cut
  std::uint64_t seed = 1;   ///< of the draw of a test part, and of the samples held out for validation
  double validation = 0;    ///< the share of the training samples that is held out, in (0, 1); 0: none
  parsed_limit limit{};     ///< for the samples of each file, of any format
  /// If set, the data are for a trained model: a file without a test file is not cut, and all of it is the
  /// test set.
  std::optional<known_data> known{};
};

/// Opens a data set by its name ("fashion-mnist"), its folder or its file; find_files() lists the layouts.
/// Labels and widths come from the training file, and the test file has to fit.
///
/// A file without a test file is cut: train_fraction of it (by default 0.8, for a text 0.9) is for training.
/// The rest is drawn by the seed, from each class in proportion; of a text and of ratings it is the end. What
/// is held out for validation is taken from the training samples in the same way, after their numbers were
/// divided.
/// Errors  file_error, one line: nothing of that name; a folder of unknown layout; a damaged file; files of a
///         format that does not hold what `task` asks for; samples that take more memory than the limit or
///         the machine has. std::invalid_argument for a fraction or a share outside of (0, 1), a window of 0,
///         or too few samples to hold some out.
data_split open_data(std::string_view name_or_path, const open_options& options = {});

/// 60,000 pictures of clothes of 28 x 28 greys and 10,000 to test with, in 10 classes (Debian:
/// dataset-fashion-mnist).
/// Source  Xiao, Rasul & Vollgraf, arXiv:1708.07747.
/// Errors  file_error if it is not installed.
inline data_split fashion_mnist() { return open_data("fashion-mnist"); }

/// What open_data() was asked for: enough to open the same data again, also by a process of another machine
/// that has the files.
struct data_source {
  std::string path; ///< name, folder or file, as it was given
  open_options options;

  /// Writes or reads all that shapes the samples. The folders in which names are looked up and the limits of
  /// memory are those of the machine that reads.
  /// Errors  archive_error for what is read and makes no sense.
  void keep(archive& a);
};

/// Whether a data_source tells all of these options: not those for data of a trained model, or of a table
/// whose columns the program knows.
bool is_told(const open_options& options);

/// Which samples a run trains on, for a worker that looks for them on its own disk.
struct data_terms {
  std::string name;
  std::uint64_t samples = 0;
  std::string sha256; ///< as digest_of() tells it; empty: the server says nothing of its data
  std::shared_ptr<const data_source> source{}; ///< how the server opened them; null: its program made them

  void keep(archive& a);
};

} // namespace mailgrad

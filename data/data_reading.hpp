#pragma once

#include <mailgrad/data/files.hpp>
#include <mailgrad/data/open.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// A class and how many samples of the training part are of it.
struct class_size {
  std::string name;
  std::size_t samples = 0;
};

/// How a CSV file was read. Columns are counted without that of the label.
struct table_reading {
  std::string encoding; ///< as text_lines::encoding() tells it
  char delimiter = ',';
  std::string decimal; ///< the decimal sign of its numbers; both if columns differ; empty: it has no numbers
  std::string thousands; ///< the sign between their thousands, if there is one
  bool header = false;
  std::size_t numbers = 0;                   ///< columns
  std::size_t categories = 0;                ///< columns
  std::size_t left_out = 0;                  ///< columns
  std::vector<std::string> names_left_out{}; ///< their names in the header, or else their numbers from 1
  std::size_t label_column = 0;              ///< from 1
  std::string label_name;                    ///< in the header; empty if there is none
  std::string label_why;                     ///< why that column holds the label
  std::size_t missing = 0;                   ///< fields without a value
  std::size_t dropped = 0;                   ///< rows that were left out for that
  missing_values became = missing_values::refuse;
  std::size_t comments = 0; ///< lines passed over below the first record
};

/// What open_data() made of its files, so that a person can see whether that was meant.
struct data_reading {
  std::string format;                              ///< "CSV", "IDX"
  std::optional<table_reading> table{};            ///< of CSV files
  shape dims{};                                    ///< of one sample
  std::size_t inputs = 0;                          ///< numbers of a sample, and categories of ratings
  std::size_t train = 0, validation = 0, test = 0; ///< samples
  std::string test_why{};                          ///< how the part for testing was found
  label_kind task = label_kind::classes;
  std::string task_why{}; ///< why classes or numbers are learnt
  std::size_t classes = 0;
  std::optional<class_size> smallest{}, largest{}; ///< of the samples to train on; none without classes
};

/// Completes what a reader has noted of its format by what any data set tells.
data_reading reading_of(const data_split& data, const data_files& files, const open_options& options,
                        data_reading noted);

/// The part of a file without a test file that is for training, unless the user says another.
inline constexpr double usual_training_fraction = 0.8;
inline constexpr double usual_text_fraction = 0.9; ///< of a text

/// Cuts samples, or takes all for testing where they are for a trained model. The samples of the test part
/// are drawn by options.seed, in proportion to their classes.
///
/// Errors  file_error, naming `file`, if there is only one sample.
data_split cut(const std::filesystem::path& file, dataset all, const open_options& options);

/// The labels of the training file, or those that a trained model knows.
label_map labels_for(const open_options& options, label_spelling spelling = label_spelling::numbers);

/// Opens a CSV file, with its test file if it has one.
///
/// Errors  as read_csv().
data_split open_csv(const data_files& files, const open_options& options);

} // namespace mailgrad

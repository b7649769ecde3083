#pragma once

#include <mailgrad/data/open.hpp>

#include <algorithm>
#include <cmath>

namespace mailgrad {

/// Which samples are for training and which for testing. Each list is in ascending order.
struct row_split {
  std::vector<std::size_t> train;
  std::vector<std::size_t> test;
};

/// A share of `count` samples in whole ones, at least one and not all.
inline std::size_t part_of(std::size_t count, double share) {
  const auto part = static_cast<std::size_t>(std::llround(static_cast<double>(count) * share));
  return std::clamp<std::size_t>(part, 1, count - 1);
}

/// Draws `test_share` of `count` samples for testing, at least one and not all. With labels each class is
/// drawn from in proportion, and a class keeps a sample for training if it has any.
/// Shapes  labels: int32[count], or empty.
/// Errors  std::invalid_argument for a share outside of (0, 1), or fewer than two samples.
row_split draw_split(std::size_t count, std::span<const std::int32_t> labels, double test_share,
                     std::uint64_t seed);

/// What somebody should know before training on this data, a line each: all samples to train on are of one
/// class, classes have one sample, or a part to test or validate on lacks classes. Empty where samples have
/// no classes.
std::vector<std::string> remarks_on(const data_split& data);

/// Which training samples are held out.
enum class held_out : std::uint8_t {
  drawn, ///< by the seed, from each class in proportion
  last,  ///< the last ones, where the order of samples means something
};

/// Moves a share of the training samples into `data.validation`, at least one sample and not all. A run is
/// then judged by these while it goes on, so that the test samples stay unseen until its end. Windows of a
/// text overlap, so of a text the last ones are held out in any case.
/// Errors  std::invalid_argument, and nothing has changed: a share outside of (0, 1), fewer than two samples
///         to train on, or samples that are held out already.
void hold_out(data_split& data, double share, std::uint64_t seed, held_out which = held_out::drawn);

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
  std::string format{};                            ///< "CSV", "IDX"
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

/// Divides by one number, or by one for each number of a sample, or by nothing.
inline void divide(std::vector<float>& values, const std::vector<float>& by) {
  if (by.empty()) return;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] /= by[i % by.size()];
}

/// The part of a file without a test file that is for training, unless the user says another.
inline constexpr double usual_training_fraction = 0.8;
inline constexpr double usual_text_fraction = 0.9; ///< of a text

/// The samples of `file` with those of its test file. Without one it cuts them, or takes all for testing
/// where they are for a trained model. The samples of a test part that is cut off are drawn by options.seed,
/// in proportion to their classes.
/// Errors  file_error, naming `file`, if there is only one sample.
data_split with_test(const std::filesystem::path& file, dataset all, std::optional<dataset> test,
                     const open_options& options);

/// The labels of the training file, or those that a trained model knows.
label_map labels_for(const open_options& options, label_spelling spelling = label_spelling::numbers);

/// Opens a CSV file, with its test file if it has one.
/// Errors  as read_csv().
data_split open_csv(const data_files& files, const open_options& options);

} // namespace mailgrad

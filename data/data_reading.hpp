#pragma once

#include <mailgrad/data/files.hpp>
#include <mailgrad/data/open.hpp>

#include <cstddef>
#include <cstdint>
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

} // namespace mailgrad

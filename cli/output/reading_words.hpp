#pragma once

#include <mailgrad/data/data_reading.hpp>

#include <string>
#include <string_view>

namespace mailgrad {

/// What was understood of a data set, a few lines of at most 80 columns: format, columns, label, task,
/// classes, the part for testing and missing values.
std::string in_words(const data_reading& r);
/// The same of rows for a trained model.
std::string rows_in_words(std::string_view encoding, char delimiter, bool header);

} // namespace mailgrad

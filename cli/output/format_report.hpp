#pragma once

#include <mailgrad/data/data_reading.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/graph/models/model.hpp>

#include <string>
#include <string_view>

namespace mailgrad {

/// What was understood of a data set, a few lines of at most 80 columns: format, columns, label, task,
/// classes, the part for testing and missing values.
std::string in_words(const data_reading& r);
/// The same of rows for a trained model.
std::string format_rows(std::string_view encoding, char delimiter, bool header);

/// What kind of samples a model reads: "text", "pictures", "rows of categories", "rows of numbers" or
/// "arrays".
std::string kind_of_samples(const model_request& r);
/// The same with their size: "rows of 4 numbers", "pictures of 28x28"
std::string format_samples(const model_request& r);

/// Refuses a built-in model that reads samples of another kind than this data set has, and says which to
/// take.
///
/// Errors  std::invalid_argument in one line.
void require_kind_of_samples(const std::string& model, const std::string& data, const model_request& r);

/// What stands in the place of figures that nobody has told: `none` if there are none.
std::string unreported(const training_report& r, const char* none);

/// The lines of the tests at the end of a run, and of the weights that they tested, as far as they are known.
std::string last_test_lines(const training_report& r);
/// The lines of the tests during a run, and of tests and texts that a GPU of it has left to the host.
std::string evaluation_lines(const training_report& r);

/// The summary that a run prints at its end. `command` is the one by which it goes on from a checkpoint.
std::string in_words(const training_report& r, const std::string& command = "mailgrad train");

} // namespace mailgrad

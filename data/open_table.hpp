#pragma once

#include <mailgrad/data/open.hpp>

#include <cstddef>
#include <filesystem>

namespace mailgrad {

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

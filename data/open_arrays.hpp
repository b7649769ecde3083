#pragma once

#include <mailgrad/data/open.hpp>

namespace mailgrad {

/// Opens arrays of numpy: x_train, y_train, x_test and y_test, or x and y to be cut. Samples count along the
/// first axis. Bytes are pictures; other numbers are taken as they are.
///
/// Errors  file_error: arrays that are not there or do not fit together, and as npz_file.
data_split open_npz(const data_files& files, const open_options& options);

} // namespace mailgrad

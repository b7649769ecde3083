#pragma once

#include <mailgrad/data/open.hpp>

namespace mailgrad {

/// Opens arrays of numpy in an archive *.npz: x_train, y_train, x_test and y_test, or x and y to be cut.
/// Samples count along the first axis. Bytes are pictures; other numbers are taken as they are. Unless the
/// options have a task, the answers of the training part are classes if they are all whole, of whatever type.
///
/// Errors  file_error: arrays that are not there or do not fit together, and as npz_file.
data_split open_npz(const data_files& files, const open_options& options);

/// The same for arrays that are files of their own, *.npy: samples with their answers, and those of a test
/// part if there is one.
///
/// Errors  file_error: samples without a file of answers; arrays that do not fit together, and as npy_file.
data_split open_npy(const data_files& files, const open_options& options);

} // namespace mailgrad

#pragma once

#include <mailgrad/data/open.hpp>
#include <mailgrad/files/archive.hpp>

#include <string>

namespace mailgrad {

/// What open_data() was asked for: enough to open the same data again, also by a process of another machine
/// that has the files.
struct data_source {
  std::string path; ///< name, folder or file, as it was given
  open_options options;

  /// Writes or reads all that shapes the samples. The folders in which names are looked up and the limits of
  /// memory are those of the machine that reads.
  ///
  /// Errors  archive_error for what is read and makes no sense.
  void keep(archive& a);
};

/// Whether a data_source tells all of these options: not those for data of a trained model, or of a table
/// whose columns the program knows.
bool is_told(const open_options& options);

} // namespace mailgrad

#pragma once

#include <mailgrad/data/open.hpp>
#include <mailgrad/files/archive.hpp>

#include <cstdint>
#include <memory>
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

/// Which samples a run trains on, for a worker that looks for them on its own disk.
struct data_terms {
  std::string name;
  std::uint64_t samples = 0;
  std::string sha256; ///< as digest_of() tells it; empty: the server says nothing of its data
  std::shared_ptr<const data_source> source{}; ///< how the server opened them; null: its program made them

  void keep(archive& a);
};

} // namespace mailgrad

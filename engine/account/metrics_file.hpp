#pragma once

#include <mailgrad/engine/account/metrics_line.hpp>

#include <fstream>
#include <string>

namespace mailgrad {

/// A file that grows by a line at a time, so that others read it during the run: JSON lines, or CSV with a
/// header if its name ends in .csv. What an older file of that name held is kept as FILE.old, FILE.old-2 and
/// so on. It is locked while this object lives, so that two runs do not take it from each other.
///
/// Threads one caller at a time.
class metrics_file {
public:
  /// Errors  std::system_error if the file cannot be written; std::invalid_argument if another run writes it.
  explicit metrics_file(std::string path);
  ~metrics_file();
  metrics_file(const metrics_file&) = delete;
  metrics_file& operator=(const metrics_file&) = delete;

  /// Writes the line, so that a reader sees it. After a failure nothing more is written.
  void add(const metrics_line& x);
  /// Why the file is not whole; empty if it is.
  const std::string& failure() const noexcept { return failure_; }

private:
  void write(const std::string& line);

  std::string path_;
  bool csv_;
  int lock_ = -1; ///< a descriptor; -1: a pipe or a device, which is not locked
  std::ofstream out_;
  std::string failure_;
};

} // namespace mailgrad

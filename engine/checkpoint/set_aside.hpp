#pragma once

#include <mailgrad/files/archive.hpp>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

/// Files of a folder that go together into a new folder inside it. That takes several moves, so a file in the
/// folder tells all of them until the last one is on the disk. A process that ends between two moves, however
/// it ends, leaves a folder of which everybody knows which files are set aside, and whoever goes on there
/// completes the moves.
///
/// Threads  one process at a time, which has the folder locked; unfinished() any.
struct set_aside {
  static constexpr std::string_view file_name = ".mailgrad.set-aside";

  std::string folder;               ///< the name of the new one
  std::vector<std::string> files{}; ///< their names, those that matter most first
  /// What stays here and is there as well: its name here, and there. Files are replaced and never written to,
  /// so two names of one file are as good as two files.
  std::optional<std::pair<std::string, std::string>> shared{};
  bool goes_on = false; ///< a run can go on from what is set aside

  bool has(const std::filesystem::path& file) const;

  /// Sets them aside. `after_each` is called after each change on the disk.
  ///
  /// Errors  file_error if a file cannot be moved. All are then where they were, or, if some cannot be moved
  ///         back, unfinished() tells of the rest.
  void begin(const std::filesystem::path& in, const std::function<void()>& after_each = {}) const;
  /// Does what another process has left to do.
  ///
  /// Errors  file_error if a file cannot be moved; the next process tries again.
  void complete(const std::filesystem::path& in, const std::function<void()>& after_each = {}) const;

  void keep(archive& a);

private:
  bool undo(const std::filesystem::path& in) const;
};

/// What a process began to set aside in this folder and did not complete.
///
/// Errors  file_error in one line: the file that tells it is damaged.
std::optional<set_aside> unfinished(const std::filesystem::path& folder);

} // namespace mailgrad

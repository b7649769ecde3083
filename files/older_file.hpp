#pragma once

#include <filesystem>
#include <span>

namespace mailgrad {

/// Makes room for new files of these names: renames what is there to NAME.old, or to NAME.old-2, NAME.old-3
/// and so on, so that nothing of an older name is lost. Files that belong together are given together, and
/// have the same ending. Only regular files with bytes in them are kept; a pipe or a device has nothing to
/// lose.
///
/// Errors  std::filesystem::filesystem_error: one cannot be renamed; those before it have been.
void keep_older(std::span<const std::filesystem::path> files);

} // namespace mailgrad

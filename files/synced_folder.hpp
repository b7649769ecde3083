#pragma once

#include <filesystem>

namespace mailgrad {

/// Waits until the names in a folder are on the disk; an empty path is the working folder. Returns 0 or an
/// errno. Some file systems cannot be asked, which is no failure.
int sync_folder(const std::filesystem::path& folder);

} // namespace mailgrad

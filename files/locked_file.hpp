#pragma once

#include <cstdint>
#include <string>

namespace mailgrad {

/// What to do while another process, or another descriptor of this one, has the lock of a file.
enum class if_locked : std::uint8_t { wait, fail };

/// Makes the file if it is not there, and locks it. The lock ends when the descriptor is closed, or with the
/// process, however that ends. On a file system without locks the file is opened unlocked. A link is not
/// followed, since nobody but us has a reason to make such a file.
///
/// Returns  the descriptor, for writing; -1, and errno says why: EWOULDBLOCK if somebody has the lock, ELOOP
///          for a link.
int open_locked(const std::string& path, if_locked what);

/// Whether `path` still names the open file; another process may have renamed or removed it.
bool is_named(int descriptor, const std::string& path);

} // namespace mailgrad

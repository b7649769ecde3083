#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mailgrad {

/// " (process 4711)": who holds the lock of this file; empty if nobody does, or the system does not tell, as
/// of another machine.
std::string format_lock_holder(const std::string& path);

/// What to do while another process, or another descriptor of this one, has the lock of a file.
enum class if_locked : std::uint8_t { wait, fail };

/// Makes the file if it is not there, and locks it. The lock ends when the descriptor is closed, or with the
/// process, however that ends. On a file system without locks the file is opened unlocked. A link is not
/// followed, since nobody but us has a reason to make such a file.
/// Returns  the descriptor, for writing; -1, and errno says why: EWOULDBLOCK if somebody has the lock, ELOOP
///          for a link.
int open_locked(const std::string& path, if_locked what);

/// Whether `path` still names the open file; another process may have renamed or removed it.
bool is_named(int descriptor, const std::string& path);

/// Somebody else writes to a folder. `what()` is one line that names it, and the process if that is known.
struct folder_taken : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Keeps other processes, and other objects of this one, from writing to a folder. A file of the folder is
/// locked, which says which process that is. The lock ends with the process, however that ends; what is left
/// of the file then keeps nobody out. On a file system without locks nobody is kept out.
/// Threads  any, one at a time.
class folder_lock {
public:
  static constexpr const char* file_name = ".mailgrad.lock";

  /// `doing` says what whoever has the lock does: "another process runs a sweep there".
  /// Errors  folder_taken; file_error: there is no such folder, or nothing can be written there.
  folder_lock(const std::filesystem::path& folder, std::string_view doing);
  folder_lock(folder_lock&& other) noexcept;
  folder_lock& operator=(folder_lock&&) = delete;
  /// Removes the file.
  ~folder_lock();

private:
  void release() const;

  std::string path_;
  int descriptor_ = -1; ///< -1: it was moved away
};

} // namespace mailgrad

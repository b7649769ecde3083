#include <mailgrad/files/replaced_file.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace mailgrad {

namespace fs = std::filesystem;

int sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  const int failure = fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  close(descriptor);
  return failure;
}

namespace {

/// Those of the file that is there, if there is one.
void take_permissions(int descriptor, const std::string& path) {
  struct stat older {};
  constexpr mode_t all = S_IRWXU | S_IRWXG | S_IRWXO;
  if (lstat(path.c_str(), &older) == 0 && S_ISREG(older.st_mode))
    (void)fchmod(descriptor, older.st_mode & all);
}

bool has_bytes(const fs::path& file) {
  std::error_code none;
  return fs::is_regular_file(file, none) && fs::file_size(file, none) > 0;
}

/// A link that leads nowhere takes its name, too.
bool is_taken(const fs::path& name) {
  std::error_code none;
  return fs::exists(fs::symlink_status(name, none));
}

} // namespace

bool replaced_file::can_replace(const std::string& path) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  return !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
}

std::string replaced_file::without_links(const std::string& path) {
  std::error_code unknown;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, unknown);
  return unknown || !can_replace(path) ? path : real.string();
}

bool replaced_file::is_being_written(const std::string& partial) {
  const int descriptor = ::open(partial.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool taken = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return taken;
}

bool replaced_file::move_abandoned(const std::string& partial, const std::string& to) {
  const int descriptor = ::open(partial.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool moved = flock(descriptor, LOCK_EX | LOCK_NB) == 0 && is_named(descriptor, partial) &&
                     std::rename(partial.c_str(), to.c_str()) == 0;
  ::close(descriptor);
  return moved;
}

replaced_file::replaced_file(const std::string& path, if_taken what, if_link link)
    : path_(link == if_link::followed ? without_links(path) : path),
      written_(link == if_link::replaced || can_replace(path_) ? partial(path_) : path_) {
  errno = 0;
  if (written_ != path_) lock_ = open_locked(written_, what);
  if (written_ != path_ && lock_ < 0)
    setstate(failbit);
  else // a name could mean another file by now
    open(lock_ < 0 ? written_ : "/proc/self/fd/" + std::to_string(lock_), std::ios::binary | std::ios::trunc);
}

replaced_file::~replaced_file() {
  if (!written_.empty() && written_ != path_ && is_open()) {
    close();
    std::error_code ignored;
    std::filesystem::remove(written_, ignored);
  }
  if (lock_ >= 0) ::close(lock_);
}

/// Failures of the disk are told by fsync(), and a file system that cannot begin early begins later.
void replaced_file::write_ahead(std::span<const std::byte> bytes) {
  constexpr std::size_t piece = std::size_t{8} << 20;
  flush();
  off64_t at = tellp();
  while (!bytes.empty() && good()) {
    const std::span<const std::byte> next = bytes.first(std::min(piece, bytes.size()));
    write(reinterpret_cast<const char*>(next.data()), static_cast<std::streamsize>(next.size()));
    bytes = bytes.subspan(next.size());
    if (next.size() < piece || lock_ < 0) continue;
    flush();
    sync_file_range(lock_, at, static_cast<off64_t>(piece), SYNC_FILE_RANGE_WRITE);
    at += static_cast<off64_t>(piece);
  }
}

int replaced_file::sync() {
  errno = 0;
  if (!flush()) return errno != 0 ? errno : EIO;
  if (lock_ < 0) return 0;
  return fdatasync(lock_) == 0 ? sync_folder(std::filesystem::path(written_).parent_path()) : errno;
}

/// Closes the stream first, which may write once more what it could not.
std::string replaced_file::leave(std::uint64_t bytes) {
  close();
  const std::string written = std::exchange(written_, "");
  if (lock_ < 0) return "";
  const bool stays = bytes > 0 && ftruncate(lock_, static_cast<off_t>(bytes)) == 0;
  std::error_code ignored;
  if (!stays) std::filesystem::remove(written, ignored);
  ::close(std::exchange(lock_, -1));
  return stays ? written : "";
}

int replaced_file::keep() { return keep(false); }
int replaced_file::keep_on_disk() { return keep(true); }

int replaced_file::keep(bool on_disk) {
  if (good()) errno = 0; // otherwise errno tells why an earlier operation failed
  close();
  std::error_code why;
  if (!*this) why.assign(errno != 0 ? errno : EIO, std::generic_category());
  const std::string written = std::exchange(written_, "");
  if (lock_ < 0) return why.value(); // a device, or a file that another process is writing
  if (!why && on_disk && fsync(lock_) != 0) why.assign(errno, std::generic_category());
  if (!why) take_permissions(lock_, path_);
  if (!why) std::filesystem::rename(written, path_, why);
  if (!why && on_disk)
    why.assign(sync_folder(std::filesystem::path(path_).parent_path()), std::generic_category());
  std::error_code ignored;
  if (why) std::filesystem::remove(written, ignored);
  ::close(std::exchange(lock_, -1));
  return why.value();
}

void keep_older(std::span<const fs::path> files) {
  std::string ending = ".old";
  const auto taken = [&](const fs::path& file) { return is_taken(file.string() + ending); };
  for (int n = 2; std::ranges::any_of(files, taken); ++n) ending = fmt::format(".old-{}", n);
  for (const fs::path& file : files)
    if (has_bytes(file)) fs::rename(file, file.string() + ending);
}

} // namespace mailgrad

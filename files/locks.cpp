#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/locks.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace mailgrad {

/// Linux lists locks as "1: FLOCK  ADVISORY  WRITE 4711 fe:00:10952906 0 EOF", the device in hexadecimal. A
/// process of another name space is 0 there, and one that waits has "->" in its line.
std::string format_lock_holder(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return {};
  const std::string place =
      fmt::format("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, where;
    long process = 0;
    const bool held = static_cast<bool>(words >> number >> kind >> advisory >> access >> process >> where);
    if (held && kind == "FLOCK" && where == place && process > 0)
      return fmt::format(" (process {})", process);
  }
  return {};
}

bool is_named(int descriptor, const std::string& path) {
  struct stat open_one {};
  struct stat named {};
  return fstat(descriptor, &open_one) == 0 && lstat(path.c_str(), &named) == 0 &&
         open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

int open_locked(const std::string& path, if_locked what) {
  const int how = LOCK_EX | (what == if_locked::fail ? LOCK_NB : 0);
  for (;;) {
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0) return -1;
    int failure = 0;
    do failure = flock(descriptor, how) == 0 ? 0 : errno;
    while (failure == EINTR);
    if (failure != EWOULDBLOCK && is_named(descriptor, path)) return descriptor;
    close(descriptor);
    errno = failure;
    if (failure == EWOULDBLOCK) return -1;
  }
}

namespace {

std::string this_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// " (process 4711)", of another machine " (process 4711 of node2)". The file does not say yet if the lock
/// was taken this moment.
std::string holder_in(const std::string& path) {
  std::ifstream in(path);
  long process = 0;
  std::string host;
  if (!(in >> process >> host)) return format_lock_holder(path);
  if (host == this_host()) return fmt::format(" (process {})", process);
  return fmt::format(" (process {} of {})", process, legible(host));
}

/// Whoever is kept out reads it. False on a full disk, for example, and errno says why.
bool tell_holder(int descriptor) {
  const std::string text = fmt::format("{} {}\n", getpid(), this_host());
  return ftruncate(descriptor, 0) == 0 &&
         pwrite(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

} // namespace

folder_lock::folder_lock(const std::filesystem::path& folder, std::string_view doing)
    : path_((folder / file_name).string()), descriptor_(open_locked(path_, if_locked::fail)) {
  if (descriptor_ >= 0 && tell_holder(descriptor_)) return;
  const int why = errno;
  if (descriptor_ >= 0) release();
  if (why != EWOULDBLOCK) throw_unwritable(folder, why);
  throw folder_taken(fmt::format("{}: {}{}", folder.string(), doing, holder_in(path_)));
}

folder_lock::folder_lock(folder_lock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

folder_lock::~folder_lock() {
  if (descriptor_ >= 0) release();
}

/// The file goes before its lock, so that nobody locks it in between.
void folder_lock::release() const {
  std::error_code stays;
  if (is_named(descriptor_, path_)) std::filesystem::remove(path_, stays);
  close(descriptor_);
}

} // namespace mailgrad

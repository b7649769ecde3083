#include <mailgrad/files/folder_lock.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/lock_holder.hpp>
#include <mailgrad/files/locked_file.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

namespace mailgrad {

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
  if (!(in >> process >> host)) return lock_holder_in_words(path);
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

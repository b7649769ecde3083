#include <mailgrad/tests/support/faulty_disk.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace mailgrad::testing {

faulty_disk& faulty_disk::here() {
  static faulty_disk disk;
  return disk;
}

namespace {

/// Counts a call that changes files. True: the process ends with it, after `half` of it.
template <class Half>
void count_call(Half half) {
  faulty_disk& disk = faulty_disk::here();
  if (!disk.armed || disk.calls_left == 0 || --disk.calls_left > 0) return;
  disk.armed = false;
  half();
  disk.crashed();
  disk.armed = true;
}

void count_call() {
  count_call([] {});
}

bool is_of_a_file(int descriptor) {
  struct stat what {};
  return faulty_disk::here().armed && fstat(descriptor, &what) == 0 && S_ISREG(what.st_mode);
}

/// Whether the disk takes no more. Sets errno.
bool is_full() {
  faulty_disk& disk = faulty_disk::here();
  if (!disk.armed || !disk.full) return false;
  ++disk.refused;
  errno = ENOSPC;
  return true;
}

ssize_t write_now(int descriptor, const void* bytes, std::size_t count) {
  return syscall(SYS_write, descriptor, bytes, count);
}

/// The bytes that a crash leaves go behind the end of the file again, so the test goes on as if they were not
/// there.
ssize_t write_to_file(int descriptor, const void* bytes, std::size_t count) {
  faulty_disk& disk = faulty_disk::here();
  count_call([&] {
    const off_t at = lseek(descriptor, 0, SEEK_CUR);
    write_now(descriptor, bytes, count / 2);
    lseek(descriptor, at, SEEK_SET);
  });
  if (disk.full && std::exchange(disk.torn, false) && count > 1)
    return write_now(descriptor, bytes, count / 2);
  return is_full() ? -1 : write_now(descriptor, bytes, count);
}

} // namespace
} // namespace mailgrad::testing

// Each is found before that of the C library, also by the C++ library.

extern "C" {

ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  using namespace mailgrad::testing;
  return is_of_a_file(descriptor) ? write_to_file(descriptor, bytes, count)
                                  : write_now(descriptor, bytes, count);
}

/// Writes less than all of it, as it may.
ssize_t writev(int descriptor, const iovec* from, int count) {
  using namespace mailgrad::testing;
  if (!is_of_a_file(descriptor)) return syscall(SYS_writev, descriptor, from, count);
  for (int i = 0; i < count; ++i)
    if (from[i].iov_len > 0) return write_to_file(descriptor, from[i].iov_base, from[i].iov_len);
  return 0;
}

int fsync(int descriptor) {
  mailgrad::testing::count_call();
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

int fdatasync(int descriptor) {
  mailgrad::testing::count_call();
  return static_cast<int>(syscall(SYS_fdatasync, descriptor));
}

int rename(const char* from, const char* to) noexcept {
  mailgrad::testing::count_call();
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char* path) noexcept {
  mailgrad::testing::count_call();
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int remove(const char* path) noexcept {
  mailgrad::testing::count_call();
  const long gone = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  return static_cast<int>(gone != 0 && errno == EISDIR ? syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR)
                                                       : gone);
}

int link(const char* from, const char* to) noexcept {
  mailgrad::testing::count_call();
  return mailgrad::testing::is_full()
             ? -1
             : static_cast<int>(syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int mkdir(const char* path, mode_t mode) noexcept {
  mailgrad::testing::count_call();
  return mailgrad::testing::is_full() ? -1 : static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int ftruncate(int descriptor, off_t length) noexcept {
  mailgrad::testing::count_call();
  return static_cast<int>(syscall(SYS_ftruncate, descriptor, length));
}

} // extern "C"

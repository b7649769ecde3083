#include <mailgrad/files/locked_file.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace mailgrad {

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

} // namespace mailgrad

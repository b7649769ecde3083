#pragma once

#include <sys/resource.h>

#include <csignal>

namespace mailgrad::testing {

/// While it lives, no file of this process grows beyond `bytes`, as if the disk were full. Programs that are
/// started meanwhile have the same limit.
class full_disk {
public:
  explicit full_disk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit less{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &less);
  }
  ~full_disk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  full_disk(const full_disk&) = delete;
  full_disk& operator=(const full_disk&) = delete;

private:
  void (*handler_)(int);
  rlimit before_{};
};

} // namespace mailgrad::testing

#pragma once

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace mailgrad::net {

/// A descriptor of the system, closed with its owner.
class descriptor {
public:
  descriptor() = default;
  explicit descriptor(int number) noexcept : number_(number) {}
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  descriptor(descriptor&& other) noexcept : number_(other.release()) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  int number() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  /// Somebody else closes it.
  int release() noexcept { return std::exchange(number_, -1); }

private:
  int number_ = -1;
};

/// To be called right after the call that the system has refused.
/// Errors  std::system_error with its `errno`.
[[noreturn]] inline void fail_in_system(const std::string& words) {
  throw std::system_error(errno, std::generic_category(), words);
}

} // namespace mailgrad::net

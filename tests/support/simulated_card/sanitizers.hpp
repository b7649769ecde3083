#pragma once

#include <cstddef>

// The simulator tells the sanitizers of its fibres. It is itself compiled without -fsanitize=thread, as its
// own work is no part of what the threads of a card do; so its CMakeLists.txt says in
// MAILGRAD_THREAD_SANITIZER what the build has.

#if defined(__SANITIZE_ADDRESS__)
#define MAILGRAD_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAILGRAD_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef MAILGRAD_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef MAILGRAD_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace mailgrad::simulated_card {

#ifdef MAILGRAD_THREAD_SANITIZER
inline constexpr bool with_thread_sanitizer = true;
#else
inline constexpr bool with_thread_sanitizer = false;
#endif
#ifdef MAILGRAD_ADDRESS_SANITIZER
inline constexpr bool with_address_sanitizer = true;
#else
inline constexpr bool with_address_sanitizer = false;
#endif

/// Makes any access to the bytes a finding of AddressSanitizer.
inline void forbid([[maybe_unused]] const void* address, [[maybe_unused]] std::size_t bytes) {
#ifdef MAILGRAD_ADDRESS_SANITIZER
  __asan_poison_memory_region(address, bytes);
#endif
}
inline void allow([[maybe_unused]] const void* address, [[maybe_unused]] std::size_t bytes) {
#ifdef MAILGRAD_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(address, bytes);
#endif
}

/// A point that orders what ThreadSanitizer takes for threads: what was done before left() is done before
/// what follows on a later passed().
class order_point {
public:
  void left() {
#ifdef MAILGRAD_THREAD_SANITIZER
    __tsan_release(this);
#endif
  }
  void passed() {
#ifdef MAILGRAD_THREAD_SANITIZER
    __tsan_acquire(this);
#endif
  }

private:
  [[maybe_unused]] char address_ = 0;
};

/// While it lives, what is done is no part of what the threads of a card do, though one of them runs.
///
/// ThreadSanitizer sees each allocation, and each copy by memmove(), of a function that it is not compiled
/// into, too.
class between_threads {
public:
  between_threads() {
#ifdef MAILGRAD_THREAD_SANITIZER
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  }
  between_threads(const between_threads&) = delete;
  between_threads& operator=(const between_threads&) = delete;
  ~between_threads() {
#ifdef MAILGRAD_THREAD_SANITIZER
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
};

/// A thread, as ThreadSanitizer counts them, that runs on the stack of whoever enters it.
class order_of_its_own {
public:
  order_of_its_own() {
#ifdef MAILGRAD_THREAD_SANITIZER
    fibre_ = __tsan_create_fiber(0);
#endif
  }
  order_of_its_own(const order_of_its_own&) = delete;
  order_of_its_own& operator=(const order_of_its_own&) = delete;
  ~order_of_its_own() {
#ifdef MAILGRAD_THREAD_SANITIZER
    __tsan_destroy_fiber(fibre_);
#endif
  }
  void enter() {
#ifdef MAILGRAD_THREAD_SANITIZER
    before_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fibre_, __tsan_switch_to_fiber_no_sync);
#endif
  }
  void leave() {
#ifdef MAILGRAD_THREAD_SANITIZER
    __tsan_switch_to_fiber(before_, __tsan_switch_to_fiber_no_sync);
#endif
  }

private:
  [[maybe_unused]] void* fibre_ = nullptr;
  [[maybe_unused]] void* before_ = nullptr;
};

} // namespace mailgrad::simulated_card

#pragma once

#include <cstddef>

// The simulator tells the sanitizers of its fibres. It is itself compiled without -fsanitize=thread, as its
// own work is no part of what the threads of a GPU do; so its CMakeLists.txt says in
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
void AnnotateIgnoreReadsBegin(const char* file, int line); // reads and writes, since clang 14
void AnnotateIgnoreReadsEnd(const char* file, int line);
}
#endif

namespace mailgrad::simulated_gpu {

#ifdef MAILGRAD_ADDRESS_SANITIZER
inline constexpr bool with_address_sanitizer = true;
/// Makes any access to the bytes a finding of AddressSanitizer.
inline void forbid(const void* address, std::size_t bytes) { __asan_poison_memory_region(address, bytes); }
inline void allow(const void* address, std::size_t bytes) { __asan_unpoison_memory_region(address, bytes); }
#else
inline constexpr bool with_address_sanitizer = false;
inline void forbid(const void*, std::size_t) {}
inline void allow(const void*, std::size_t) {}
#endif

#ifdef MAILGRAD_THREAD_SANITIZER
inline constexpr bool with_thread_sanitizer = true;
/// What was done before the one at an address is done before what follows on a later other.
inline void release_order(void* address) { __tsan_release(address); }
inline void acquire_order(void* address) { __tsan_acquire(address); }
/// A thread, as ThreadSanitizer counts them. Entering it orders nothing.
inline void* make_order() { return __tsan_create_fiber(0); }
inline void* current_order() { return __tsan_get_current_fiber(); }
inline void enter_order(void* order) { __tsan_switch_to_fiber(order, __tsan_switch_to_fiber_no_sync); }
inline void end_order(void* order) { __tsan_destroy_fiber(order); }
inline void begin_hiding() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
inline void end_hiding() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else
inline constexpr bool with_thread_sanitizer = false;
inline void release_order(void*) {}
inline void acquire_order(void*) {}
inline void* make_order() { return nullptr; }
inline void* current_order() { return nullptr; }
inline void enter_order(void*) {}
inline void end_order(void*) {}
inline void begin_hiding() {}
inline void end_hiding() {}
#endif

/// A point that orders what ThreadSanitizer takes for threads: what was done before left() is done before
/// what follows on a later passed().
class order_point {
public:
  void left() { release_order(&address_); }
  void passed() { acquire_order(&address_); }

private:
  char address_ = 0;
};

/// While it lives, what is done is no part of what the threads of a GPU do, though one of them runs.
///
/// ThreadSanitizer sees each allocation, and each copy by memmove(), of a function that it is not compiled
/// into, too.
class between_threads {
public:
  between_threads() { begin_hiding(); }
  between_threads(const between_threads&) = delete;
  between_threads& operator=(const between_threads&) = delete;
  ~between_threads() { end_hiding(); }
};

/// A thread, as ThreadSanitizer counts them, that runs on the stack of whoever enters it.
class order_of_its_own {
public:
  order_of_its_own() : order_(make_order()) {}
  order_of_its_own(const order_of_its_own&) = delete;
  order_of_its_own& operator=(const order_of_its_own&) = delete;
  ~order_of_its_own() { end_order(order_); }
  void enter() {
    before_ = current_order();
    enter_order(order_);
  }
  void leave() { enter_order(before_); }

private:
  void* order_;
  void* before_ = nullptr;
};

} // namespace mailgrad::simulated_gpu

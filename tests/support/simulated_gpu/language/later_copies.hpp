#pragma once

#include "indices.hpp"

#include <source_location>
#include <type_traits>

namespace mailgrad::simulated_gpu {

/// A copy of 4 or 16 bytes that a thread has begun and not waited for.
struct later_copy {
  void* to;
  const void* from;
  unsigned bytes;
  bool there; ///< else zeros are stored
  std::source_location where;
};

/// Does a copy. It is called by the two functions below, but compiled with the kernels, whose loads and
/// stores these are to sanitizers.
using carry_out_copy = void (*)(void* to, const void* from, unsigned bytes, bool there);

/// Begins a copy of the thread that runs now. It is done at once or when it is waited for, as a GPU may do
/// either.
void begin_copy(const later_copy& c, carry_out_copy carry_out);
/// Does those of the thread that runs now that are still to be done.
void finish_copies(carry_out_copy carry_out);

inline void carry_out(void* to, const void* from, unsigned bytes, bool there) {
  const auto copy = [=](const auto& zeros) {
    using numbers = std::remove_cvref_t<decltype(zeros)>;
    *static_cast<numbers*>(to) = there ? *static_cast<const numbers*>(from) : zeros;
  };
  if (bytes == sizeof(float4)) return copy(float4{});
  copy(0.0F);
}

inline void copy_later(void* to, const void* from, unsigned bytes, bool there, std::source_location where) {
  begin_copy({to, from, bytes, there, where}, carry_out);
}
inline void wait_for_copies() { finish_copies(carry_out); }

} // namespace mailgrad::simulated_gpu

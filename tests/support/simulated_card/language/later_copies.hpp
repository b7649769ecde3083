#pragma once

#include "indices.hpp"

#include <source_location>
#include <type_traits>
#include <vector>

namespace mailgrad::simulated_card {

/// A copy of 4 or 16 bytes that a thread has begun and not waited for.
struct later_copy {
  void* to;
  const void* from;
  unsigned bytes;
  bool there; ///< else zeros are stored
  std::source_location where;
};

/// Those of the thread that runs now.
std::vector<later_copy>& later_copies();
/// Whether a copy is done when it is begun, and not when it is waited for. A card may do either.
bool copies_early();

/// Here, as loads and stores of a kernel, for the sanitizers.
inline void carry_out(const later_copy& c) {
  const auto copy = [&c](const auto& zeros) {
    using numbers = std::remove_cvref_t<decltype(zeros)>;
    *static_cast<numbers*>(c.to) = c.there ? *static_cast<const numbers*>(c.from) : zeros;
  };
  if (c.bytes == sizeof(float4)) return copy(float4{});
  copy(0.0F);
}

inline void copy_later(void* to, const void* from, unsigned bytes, bool there, std::source_location where) {
  const later_copy c{to, from, bytes, there, where};
  later_copies().push_back(c);
  if (copies_early()) carry_out(c);
}

inline void wait_for_copies() {
  if (!copies_early())
    for (const later_copy& c : later_copies()) carry_out(c);
  later_copies().clear();
}

} // namespace mailgrad::simulated_card

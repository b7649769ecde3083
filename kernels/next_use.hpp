#pragma once

#include <cstdint>

namespace mailgrad {

/// When what a kernel writes is read next: a hint, which changes no bit. Large results that are read later,
/// or on another processor, are better written past the caches: no line is fetched to be overwritten, none
/// pushes out what is needed first, and none has to be won back from a processor that has read it.
enum class next_use : std::uint8_t { soon, later };

} // namespace mailgrad

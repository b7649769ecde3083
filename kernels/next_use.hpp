#pragma once

#include <cstdint>

namespace mailgrad {

/// When the result of a kernel is read next. This is a hint, which changes no bit. Large results that are
/// read later, or by another processor, are better written past the caches. Then no cache line is fetched
/// only to be overwritten, and none evicts data that is needed sooner. Nor must a line be taken back from a
/// processor that has read it.
enum class next_use : std::uint8_t { soon, later };

} // namespace mailgrad

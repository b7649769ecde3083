#pragma once

#include <cstdint>
#include <cstring>
#include <source_location>

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): the names are those of CUDA

namespace mailgrad::simulated_gpu {

/// Waits until each thread of the block has come here.
void block_barrier(std::source_location where);
/// Likewise; returns how many threads came with true.
unsigned block_barrier_count(bool mine, std::source_location where);
/// Waits for the lanes in `mask`, each of which hands in a value for others to read. Only with `ordered` are
/// stores before it seen by loads after it.
void meet_in_warp(unsigned mask, std::uint64_t value, bool ordered, std::source_location where);
/// What `lane` handed in where this lane met it last.
std::uint64_t value_of_lane(unsigned lane);
unsigned own_lane();

template <class T>
std::uint64_t bits_of(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

/// Hands in a value, then takes that of `source`, or its own if that is outside of its `width` lanes.
template <class T>
T shuffle(unsigned mask, T value, int source, int width, std::source_location where) {
  meet_in_warp(mask, bits_of(value), false, where);
  const int first = static_cast<int>(own_lane()) / width * width;
  if (source < first || source >= first + width) return value;
  const std::uint64_t bits = value_of_lane(static_cast<unsigned>(source));
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

unsigned ballot(unsigned mask, bool mine, std::source_location where);

} // namespace mailgrad::simulated_gpu

#define MAILGRAD_HERE std::source_location where = std::source_location::current()

inline void __syncthreads(MAILGRAD_HERE) { mailgrad::simulated_gpu::block_barrier(where); }
inline int __syncthreads_count(int mine, MAILGRAD_HERE) {
  return static_cast<int>(mailgrad::simulated_gpu::block_barrier_count(mine != 0, where));
}
inline int __syncthreads_or(int mine, MAILGRAD_HERE) {
  return mailgrad::simulated_gpu::block_barrier_count(mine != 0, where) != 0;
}
inline int __syncthreads_and(int mine, MAILGRAD_HERE) {
  return mailgrad::simulated_gpu::block_barrier_count(mine == 0, where) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffU, MAILGRAD_HERE) {
  mailgrad::simulated_gpu::meet_in_warp(mask, 0, true, where);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, MAILGRAD_HERE) {
  const int own = static_cast<int>(mailgrad::simulated_gpu::own_lane());
  return mailgrad::simulated_gpu::shuffle(mask, value, own / width * width + lane % width, width, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned distance, int width = 32, MAILGRAD_HERE) {
  const auto other = static_cast<int>(mailgrad::simulated_gpu::own_lane() ^ distance);
  return mailgrad::simulated_gpu::shuffle(mask, value, other, width, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, MAILGRAD_HERE) {
  const auto other = static_cast<int>(mailgrad::simulated_gpu::own_lane() + distance);
  return mailgrad::simulated_gpu::shuffle(mask, value, other, width, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, MAILGRAD_HERE) {
  const int other = static_cast<int>(mailgrad::simulated_gpu::own_lane()) - static_cast<int>(distance);
  return mailgrad::simulated_gpu::shuffle(mask, value, other, width, where);
}
inline unsigned __ballot_sync(unsigned mask, int mine, MAILGRAD_HERE) {
  return mailgrad::simulated_gpu::ballot(mask, mine != 0, where);
}
inline int __any_sync(unsigned mask, int mine, MAILGRAD_HERE) {
  return mailgrad::simulated_gpu::ballot(mask, mine != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int mine, MAILGRAD_HERE) {
  return mailgrad::simulated_gpu::ballot(mask, mine == 0, where) == 0;
}

#undef MAILGRAD_HERE

// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

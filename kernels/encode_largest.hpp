#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mailgrad {

// The numbers of the largest magnitude, exactly k of them, with their places.
//
// With a residual, the largest of x + residual are taken, and the residual becomes the others.
//
// Source  Aji & Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP 2017; Lin, Han, Mao,
//         Wang & Dally, "Deep Gradient Compression", ICLR 2018. Differs: the k largest are found exactly, not
//         by a threshold from a sample. What momentum does with the residual is left to the shard.
// Shapes  x: float32[n]; residual: float32[n], or empty for none; 4 bytes each for k places and k numbers.
// Errors  shape_error for other lengths, nothing has changed then; device_error for a stream of a GPU.

/// Tells the k largest from the others: those above `bits`, and the first `ties` that equal it.
struct magnitude_cut {
  std::uint32_t bits = 0; ///< of a float32 without its sign
  std::size_t ties = 0;

  friend bool operator==(const magnitude_cut&, const magnitude_cut&) = default;
};

/// Three passes over the numbers, which take no memory. Nothing if a number is not finite.
///
/// Errors  also shape_error unless 1 <= k <= n.
std::optional<magnitude_cut> cut_of_largest(const stream& s, std::span<const float> x,
                                            std::span<const float> residual, std::size_t k);

/// Writes k places, ascending, as uint32 and the numbers there, exactly. `cut` is what cut_of_largest() has
/// returned for the same numbers and k.
void encode_largest(const stream& s, std::span<const float> x, std::span<float> residual, magnitude_cut cut,
                    std::span<std::byte> places, std::span<std::byte> numbers);

/// Everything is 0 but the numbers at these places, which the caller has checked to be below to.size().
void decode_largest(const stream& s, std::span<const std::byte> places, std::span<const std::byte> numbers,
                    std::span<float> to);

} // namespace mailgrad

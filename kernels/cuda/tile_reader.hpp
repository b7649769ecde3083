#pragma once

#include <mailgrad/kernels/cuda/launch.hpp>

#include <cstdint>

/// How a block reads an operand of a matrix product that may not be a matrix in memory.
///
/// A source is an operand. Its lines are the rows of the left operand, or the columns of the right one; its
/// places are the positions along the depth of the product.
///
///     struct source {
///       static constexpr pack_axis axis; // along which four neighbours lie side by side in memory
///       bool packs;                      // whether four neighbours may be loaded at once
///       line line_at(std::uint32_t) const;   // also behind the last, where it has no values
///       place place_at(std::uint32_t) const; // likewise
///       const float* find(const line&, const place&) const; // null where the operand is 0
///     };
namespace mailgrad::cuda {

enum class pack_axis : std::uint8_t { lines, depth };

/// Copies one operand's part of a tile to shared memory, where it lies by position and then by line. fetch()
/// loads it to registers, so that the loads are under way while the tile before it is multiplied.
template <class Source, unsigned lines, unsigned depth, unsigned threads>
class tile_reader {
  static constexpr bool is_deep = Source::axis == pack_axis::depth;
  static constexpr unsigned packs_across = (is_deep ? depth : lines) / 4;
  static constexpr unsigned others = is_deep ? lines : depth;
  static constexpr unsigned other_step = threads / packs_across;
  static constexpr unsigned packs = (others + other_step - 1) / other_step;
  static constexpr unsigned step = lines + 4;
  static_assert(threads % packs_across == 0);

public:
  __device__ tile_reader(const Source& source, std::uint32_t first_line)
      : packed_(threadIdx.x % packs_across * 4), other_(threadIdx.x / packs_across) {
#pragma unroll
    for (unsigned i = 0; i < kept_lines; ++i)
      lines_[i] = source.line_at(first_line + (is_deep ? other_ + i * other_step : packed_ + i));
  }

  __device__ void fetch(const Source& source, std::uint32_t k) {
    if (is_behind(0)) return;
    if (source.packs)
      fetch_packs(source, k);
    else
      fetch_floats(source, k);
  }

  __device__ void store(float* room) const {
#pragma unroll
    for (unsigned i = 0; i < packs; ++i) {
      if (is_behind(i)) continue;
      const unsigned other = other_ + i * other_step;
      if constexpr (is_deep) {
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) room[(packed_ + j) * step + other] = values_[i].v[j];
      } else {
        *reinterpret_cast<float_pack*>(room + other * step + packed_) = values_[i];
      }
    }
  }

private:
  static constexpr unsigned kept_lines = is_deep ? packs : 4;

  /// Whether a tile is too small to have an i-th pack for this thread.
  __device__ bool is_behind(unsigned i) const {
    return others % other_step != 0 && other_ + i * other_step >= others;
  }

  __device__ static float value_at(const float* at) { return at == nullptr ? 0.0F : *at; }
  __device__ static float_pack pack_at(const float* at) {
    return at == nullptr ? float_pack{} : *reinterpret_cast<const float_pack*>(at);
  }

  __device__ void fetch_packs(const Source& source, std::uint32_t k) {
    if constexpr (is_deep) {
      const auto place = source.place_at(k + packed_);
#pragma unroll
      for (unsigned i = 0; i < packs; ++i) values_[i] = pack_at(source.find(lines_[i], place));
    } else {
#pragma unroll
      for (unsigned i = 0; i < packs; ++i)
        values_[i] = pack_at(source.find(lines_[0], source.place_at(k + other_ + i * other_step)));
    }
  }

  __device__ void fetch_floats(const Source& source, std::uint32_t k) {
    if constexpr (is_deep) {
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        const auto place = source.place_at(k + packed_ + j);
#pragma unroll
        for (unsigned i = 0; i < packs; ++i) values_[i].v[j] = value_at(source.find(lines_[i], place));
      }
    } else {
#pragma unroll
      for (unsigned i = 0; i < packs; ++i) {
        const auto place = source.place_at(k + other_ + i * other_step);
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) values_[i].v[j] = value_at(source.find(lines_[j], place));
      }
    }
  }

  unsigned packed_, other_;
  typename Source::line lines_[kept_lines];
  float_pack values_[packs];
};

} // namespace mailgrad::cuda

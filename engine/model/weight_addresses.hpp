#pragma once

#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/tensor/block.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace mailgrad {

/// Where a replica finds each variable, given the snapshots of all shards.
///
/// A variable that lies in one shard is read where the shard published it. One that a cut runs through is put
/// together in memory of the replica's own, one copy for each new snapshot: kernels want it in one piece.
/// Threads one caller at a time.
class weight_addresses {
public:
  explicit weight_addresses(const parameter_layout& layout);

  /// `values` are the weights of `shard`; they stay valid until the next call for that shard.
  ///
  /// Errors  std::invalid_argument if there is no such shard, or there are no values.
  void use(std::uint32_t shard, const float* values);

  const float* of(std::size_t variable) const noexcept { return addresses_[variable]; }

private:
  struct place {
    std::size_t variable;
    variable_piece piece;
    bool whole; ///< the piece is the variable
  };

  std::vector<std::vector<place>> places_; ///< by shard
  std::vector<const float*> addresses_;    ///< by variable
  std::vector<block> joined_;              ///< by variable; empty where no cut runs through it
};

} // namespace mailgrad

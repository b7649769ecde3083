#pragma once

#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/tensor/block.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace mailgrad {

/// The address of each variable for a replica, from the snapshots of all shards.
///
/// A variable that lies in one shard is read in place, from the shard's snapshot. A variable that is cut
/// between shards is copied into the replica's own memory for each new snapshot, because kernels need it in
/// one piece.
/// Threads one caller at a time.
class weight_addresses {
public:
  explicit weight_addresses(const parameter_layout& layout);
  /// Of weights that lie in one piece, float32[layout.size()], on the host or on a card. `use()` is not for
  /// these.
  static weight_addresses in_one_piece(const parameter_layout& layout, const float* values);

  /// `values` are the weights of `shard`; they stay valid until the next call for that shard.
  ///
  /// Errors  std::invalid_argument if there is no such shard, or there are no values.
  void use(std::uint32_t shard, const float* values);

  const float* of(std::size_t variable) const noexcept { return addresses_[variable]; }

private:
  weight_addresses() = default;

  struct place {
    std::size_t variable;
    variable_piece piece;
    bool whole; ///< the piece is the whole variable
  };

  std::vector<std::vector<place>> places_; ///< by shard
  std::vector<const float*> addresses_;    ///< by variable
  std::vector<block> joined_;              ///< by variable; empty for a variable in one shard
};

} // namespace mailgrad

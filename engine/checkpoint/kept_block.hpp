#pragma once

#include <mailgrad/engine/checkpoint/checkpoint_file.hpp>
#include <mailgrad/files/archive.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mailgrad {

/// The part of a checkpoint with the block that workers share under hogwild.
inline constexpr const char* block_part = "block";

/// Which weights that part has.
enum class block_weights : std::uint8_t {
  all,      ///< the run has no shards
  in_shards ///< none: the parts of the shards have them
};

/// What a checkpoint keeps of the block. No replica may write meanwhile. The weights are copied.
std::shared_ptr<const saved_fields> keep_block(const hogwild_store& block, block_weights which);

/// The weights of a run under hogwild alone: those of its block, or of all its shards if they lay on a card.
///
/// Errors  archive_error for another number of weights than `size`.
std::vector<float> kept_hogwild_weights(const checkpoint& from, std::size_t size);

/// Brings a block to where a checkpoint was taken. `known` is how many of its updates the workers made that
/// go on; the others count for schedules only.
///
/// Errors  archive_error: there is no such part, there are other weights, or fewer updates than that.
void restore_block(const checkpoint& from, hogwild_store& block, block_weights which, std::uint64_t known);

} // namespace mailgrad

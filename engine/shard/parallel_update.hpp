#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

/// A gradient and the factor it counts with in an update.
struct contribution {
  std::shared_ptr<const gradient> values;
  float scale = 1;
  std::shared_ptr<const block>
      dense{}; ///< float32[dense part of the shard]: counts in place of that of `values`
};

/// The update of the dense part of a shard, in parts that are each computed once, whoever computes them: the
/// result has the same bits.
///
/// Parts lie in lanes, one for each thread that may come. A processor begins with the lane of its number,
/// whose weights and whose state of the optimiser it mostly wrote last time, and then helps in the others.
///
/// Threads compute_part(): any, at the same time, from the moment the shard has begun the update; after it
///         has ended the update there is nothing left to compute. The rest is the shard's.
class parallel_update {
public:
  /// Floats of a part, at most: an eighth of a megabyte of each array that an update reads.
  static constexpr std::size_t part_size = 1U << 15;

  enum class progress {
    nothing_left, ///< all parts are begun
    computed,     ///< one part is; others are left, or under way
    complete      ///< it was the last: told to one caller
  };

  std::size_t parts() const noexcept { return parts_.size(); }

  /// Begins a part that nobody has begun, and computes it.
  ///
  /// Errors  as optimizer::update() has them; the update cannot end then.
  progress compute_part(const stream& s);

private:
  friend class shard;

  /// Neighbouring parts.
  struct lane {
    std::atomic<std::size_t> next{0}; ///< that nobody has begun
    std::size_t end = 0;
  };

  void lay_lanes(std::size_t threads);
  std::optional<std::size_t> claim();

  struct part {
    shard_range where;
    std::size_t first_gradient;
    std::size_t gradients;
    bool learns; ///< else the weights stay: no gradient is about them
  };

  std::vector<contribution> contributions_;
  std::shared_ptr<const void> owner_; ///< of the memory and the optimiser it works on
  std::shared_ptr<block> target_;
  std::span<const float> from_;
  std::span<float> to_;
  optimizer* rule_ = nullptr;
  update_number step_{};
  double rate_ = 1;
  std::vector<part> parts_;
  std::vector<scaled_gradient> gradients_; ///< of all parts; values from where the part begins
  std::vector<lane> lanes_;
  std::atomic<std::size_t> missing_{0}; ///< parts that are not computed
};

} // namespace mailgrad

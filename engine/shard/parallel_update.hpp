#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <atomic>

namespace mailgrad {

/// A gradient and the factor with which it counts in an update.
struct contribution {
  std::shared_ptr<const gradient> values;
  float scale = 1;
  snapshot dense{}; ///< float32[dense part of the shard]: replaces the dense part of `values`, if set
};

/// The update of the dense part of a shard, in parts. Bits do not depend on the thread that computes a part.
///
/// The parts are in chunks, one for each thread that may help. A thread begins with that of its processor.
/// Threads any number of threads may call compute_part() once the shard has begun the update; after the end
///         of the update it finds nothing to compute. All other members are for the shard alone.
class parallel_update {
public:
  /// The most floats of a part: 128 KiB of each array that an update reads.
  static constexpr std::size_t part_size = 1U << 15;

  enum class progress {
    nothing_left, ///< other threads have begun all parts, so this call computed none
    computed,     ///< this call computed a part, and others are not finished
    complete      ///< this call finished the last part; only one call returns it
  };

  std::size_t parts() const noexcept { return parts_.size(); }
  /// Computes a part that no thread has begun, if there is one.
  /// Errors  those of optimizer::update(); the update is then never complete.
  progress compute_part();

private:
  friend class shard;

  struct chunk {
    std::atomic<std::size_t> next{0}; ///< the first part that no thread has begun
    std::size_t end = 0;              ///< one past the last part
  };

  void lay_chunks(std::size_t threads);
  std::optional<std::size_t> claim();

  struct part {
    shard_range where;
    std::size_t first_gradient;
    std::size_t gradients;
    bool learns; ///< if false, no gradient covers the part and its weights do not change
  };

  std::vector<contribution> contributions_;
  std::shared_ptr<const void> owner_; ///< keeps the memory and the optimiser alive
  stream where_;                      ///< the shard's
  std::shared_ptr<memory> target_;
  std::span<const float> from_;
  std::span<float> to_;
  optimizer* rule_ = nullptr;
  update_number step_{};
  double rate_ = 1;
  float share_ = 1;
  std::vector<part> parts_;
  std::vector<scaled_gradient> gradients_; ///< of all parts; each points to where its part begins
  std::vector<chunk> chunks_;
  std::atomic<std::size_t> missing_{0}; ///< parts that are not finished
};

} // namespace mailgrad

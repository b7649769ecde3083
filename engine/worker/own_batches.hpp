#pragma once

#include <mailgrad/data/batch.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/model/object_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace mailgrad {

/// The mini-batches of a worker that has the samples itself and is told which of them to take.
///
/// Guarantees  a batch has the bytes that the feeder of the run would have sent.
/// Threads     one caller at a time; users may release batches on any thread.
class own_batches {
public:
  /// `batch` is the most samples of a batch, and `nonzeros` the room for entries of a sparse set, both as the
  /// run has them.
  ///
  /// Errors  std::invalid_argument without samples.
  own_batches(std::shared_ptr<const dataset> samples, std::size_t batch, std::size_t nonzeros);

  /// Cuts a batch. The numbers of its samples come from another process, so they are checked before a byte is
  /// copied.
  ///
  /// Errors  std::invalid_argument in one line: no samples, more than a batch has, one that is not in the
  ///         set, or rows of more entries than there is room for.
  std::shared_ptr<const batch> cut(std::uint64_t number, std::uint64_t epoch,
                                   std::span<const std::uint32_t> samples);

private:
  void require_sensible(std::uint64_t number, std::span<const std::uint32_t> samples) const;

  std::shared_ptr<const dataset> samples_;
  std::size_t batch_;
  std::size_t nonzeros_;
  object_pool<batch> batches_;
};

} // namespace mailgrad

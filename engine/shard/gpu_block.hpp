#pragma once

#include <mailgrad/tensor/memory.hpp>

#include <algorithm>
#include <bit>
#include <mutex>

namespace mailgrad {

/// The weights that workers on device queues of one GPU write to at the same time, under hogwild, one piece
/// for each shard. Device queues do not wait for each other: a read may see half of an update, and of two
/// updates of a weight at once one may be lost. That race is the algorithm, as in hogwild_store.
///
/// A shard lays its weights here when hogwild begins, and takes them back behind what workers have queued.
///
/// The mutex guards copies of a few handles, and nobody who has it waits for anything else. No single owner
/// could answer in its place, since a shard asks while workers write. An atomic std::shared_ptr locks too.
/// Threads any member, any thread.
class gpu_block {
public:
  struct piece {
    std::shared_ptr<memory> values; ///< float32[range of the shard], on the GPU
    device_event ready;             ///< passes when the shard has laid them here
  };

  gpu_block(std::size_t shards, std::uint32_t workers) : pieces_(shards), written_(workers) {}

  void lay(std::uint32_t shard, piece p) {
    const std::lock_guard held(mutex_);
    pieces_[shard] = std::move(p);
  }
  piece of(std::uint32_t shard) const {
    const std::lock_guard held(mutex_);
    return pieces_[shard];
  }
  /// `done` passes when all is written that the worker has queued.
  void note_written(std::uint32_t worker, device_event done) {
    const std::lock_guard held(mutex_);
    written_[worker] = std::move(done);
  }
  std::vector<device_event> written() const {
    const std::lock_guard held(mutex_);
    return written_;
  }

private:
  mutable std::mutex mutex_;
  std::vector<piece> pieces_;         ///< by shard
  std::vector<device_event> written_; ///< by worker
};

/// Memory that each call of kernels overwrites. It keeps what it has outgrown, since to free it would wait.
class growing_buffer {
public:
  explicit growing_buffer(std::shared_ptr<device_queue> at) : at_(std::move(at)) {}
  /// It has an address even for no bytes, as for the order of a list of no rows.
  /// Errors  std::bad_alloc; device_error.
  void* of(std::size_t bytes) {
    const std::size_t wanted = std::max<std::size_t>(bytes, 1);
    if (buffer_.bytes() < wanted) {
      memory larger = naming_memory("the order of the rows of tables",
                                    [&] { return at_->allocate(std::bit_ceil(wanted)); });
      outgrown_.push_back(std::exchange(buffer_, std::move(larger)));
    }
    return buffer_.on<std::byte>(at_->where()).data();
  }

private:
  std::shared_ptr<device_queue> at_;
  memory buffer_;
  std::vector<memory> outgrown_;
};

} // namespace mailgrad

#pragma once

#include <mailgrad/kernels/cuda/handles.hpp>
#include <mailgrad/kernels/cuda/stream_mark.hpp>
#include <mailgrad/tensor/mark.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <cstddef>
#include <cstdint>

namespace mailgrad::cuda {

/// A stream beside that of a lane, for copies that run while the lane computes.
///
/// Errors  device_error, with the driver's reason.
/// Threads one caller at a time.
class copy_stream {
public:
  explicit copy_stream(std::uint32_t card) : stream_(card), marks_(card, stream_.get()) {}

  /// Queues a copy from pinned memory to memory of the card. Returns a mark that passes when it is done.
  /// Until then nobody writes to either.
  mark copy(void* to, const void* from, std::size_t bytes);
  /// Allocates memory of the card, filled with zeros when a mark has passed that is recorded after this call.
  memory allocate(std::size_t bytes);
  /// Returns a mark that passes when all that is queued so far is done.
  mark record() { return marks_.record(); }
  /// Lets copies that are queued later wait for `m`, which may be of a lane.
  void wait_for(const mark& m);
  /// Waits until everything queued has run, so no actor may call this.
  void finish();

private:
  owned_stream stream_;
  stream_marks marks_;
};

} // namespace mailgrad::cuda

#pragma once

#include <mailgrad/kernels/cuda/handles.hpp>
#include <mailgrad/kernels/cuda/step_record.hpp>
#include <mailgrad/tensor/mark.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mailgrad::cuda {

class card_event;

/// Makes marks of one stream. The events of marks that nobody has any more are used again, so that a steady
/// step makes none.
///
/// Errors  device_error.
/// Threads one caller at a time; marks may be let go of on any thread.
class stream_marks {
public:
  stream_marks(std::uint32_t card, void* stream) : card_(card), stream_(stream) {}

  /// Returns a mark that passes when all that is queued so far is done.
  mark record();
  /// The same for the end of a step, whose record tells the host by this ticket.
  mark record(std::shared_ptr<const step_record> told_by, std::uint64_t ticket);

private:
  std::uint32_t card_;
  void* stream_;
  std::vector<std::shared_ptr<card_event>> events_; ///< free if nobody else has it
};

/// Lets work that is queued later on `stream` wait for `m`, which is of any stream of a card.
///
/// Errors  device_error, also for a mark of something else.
void wait_for_mark(void* stream, const mark& m);

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

#pragma once

#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/kernels/cuda/stream_status.hpp>
#include <mailgrad/tensor/memory.hpp>

namespace mailgrad::cuda {

/// A stream of a GPU, which is destroyed with its owner. Work that is queued on it still runs.
class owned_stream {
public:
  explicit owned_stream(std::uint32_t gpu, runtime::urgency when = runtime::urgency::usual)
      : gpu_(gpu),
        stream_(naming_memory("a stream of work", [&] { return runtime::create_stream(gpu, when); })) {}
  owned_stream(const owned_stream&) = delete;
  owned_stream& operator=(const owned_stream&) = delete;
  ~owned_stream() { runtime::destroy_stream(gpu_, stream_); }

  void* get() const noexcept { return stream_; }
  std::uint32_t gpu() const noexcept { return gpu_; }

private:
  std::uint32_t gpu_;
  void* stream_;
};

class owned_event {
public:
  explicit owned_event(std::uint32_t gpu, runtime::event_kind kind = runtime::event_kind::untimed)
      : gpu_(gpu),
        event_(naming_memory("an event in a stream", [&] { return runtime::create_event(gpu, kind); })) {}
  owned_event(const owned_event&) = delete;
  owned_event& operator=(const owned_event&) = delete;
  ~owned_event() { runtime::destroy_event(event_); }

  void* get() const noexcept { return event_; }
  std::uint32_t gpu() const noexcept { return gpu_; }

private:
  std::uint32_t gpu_;
  void* event_;
};

/// Work of a stream that was captured once, and is queued as one from then on. It keeps the addresses that it
/// was captured with, so their memory must stay. It runs on streams of the queue whose scratch memory its
/// kernels use.
class captured_graph {
public:
  /// Captures what `queue` queues on `stream`, and runs none of it.
  ///
  /// Errors  device_error; what `queue` throws, and nothing is captured then.
  template <class Queue>
  captured_graph(void* stream, Queue queue) {
    runtime::begin_capture(stream);
    try {
      queue();
    } catch (...) {
      abandon(stream);
      throw;
    }
    graph_ = naming_memory("the graph of a step", [&] { return runtime::end_capture(stream); });
  }
  captured_graph(const captured_graph&) = delete;
  captured_graph& operator=(const captured_graph&) = delete;
  ~captured_graph() { runtime::destroy_graph(graph_); }

  void launch(void* stream) const { runtime::launch_graph(graph_, stream); }

private:
  /// Ends a capture that failed, so that the stream can be used again.
  static void abandon(void* stream) noexcept;

  void* graph_ = nullptr;
};

/// Memory of the host that a GPU reads and writes at the same address, zeroed.
class pinned_block {
public:
  pinned_block() = default;
  explicit pinned_block(std::size_t bytes);

  std::size_t bytes() const noexcept { return memory_ ? bytes_ : 0; }
  template <class T>
  std::span<T> as() noexcept {
    return {static_cast<T*>(memory_.get()), bytes() / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const noexcept {
    return {static_cast<const T*>(memory_.get()), bytes() / sizeof(T)};
  }

private:
  struct release {
    void operator()(void* memory) const noexcept { runtime::release_pinned(memory); }
  };
  std::unique_ptr<void, release> memory_;
  std::size_t bytes_ = 0;
};

/// Memory of a GPU, zeroed on `s`. It goes back to the GPU when the block ends, so its owner keeps it until
/// the work that reads it has run.
///
/// Errors  device_error, which says how much was asked for and how much is free.
device_block allocate_on(const cuda_stream& s, std::size_t bytes);

class gpu_event;

/// Makes the events of one stream. The object of CUDA behind an event that nobody has any more is used again,
/// so that a steady step makes none.
///
/// Errors  device_error.
/// Threads one caller at a time; events may be let go of on any thread.
class stream_events {
public:
  stream_events(std::uint32_t gpu, void* stream) : gpu_(gpu), stream_(stream) {}

  /// Returns an event that passes when all that is queued so far is done. If that ends a step, `told_by` is
  /// its record, and tells the host by this ticket.
  device_event record(std::shared_ptr<const step_record> told_by = nullptr, std::uint64_t ticket = 0);

private:
  std::uint32_t gpu_;
  void* stream_;
  std::vector<std::shared_ptr<gpu_event>> events_; ///< free if nobody else has it
};

/// Lets work that is queued later on `stream` wait for `m`, which is of any stream of a GPU.
///
/// Errors  device_error, also for an event of something else.
void wait_on_event(void* stream, const device_event& m);

/// A stream beside that of a queue, for copies that run while the queue computes.
///
/// Errors  device_error, with the driver's reason.
/// Threads one caller at a time.
class copy_stream {
public:
  explicit copy_stream(std::uint32_t gpu) : stream_(gpu), events_(gpu, stream_.get()) {}

  /// Queues a copy from pinned memory to memory of the GPU. Returns an event that passes when it is done.
  /// Until then nobody writes to either.
  device_event copy(void* to, const void* from, std::size_t bytes);
  /// Allocates memory of the GPU, filled with zeros when an event has passed that is recorded after this
  /// call.
  memory allocate(std::size_t bytes);
  /// Returns an event that passes when all that is queued so far is done.
  device_event record() { return events_.record(); }
  /// Lets copies that are queued later wait for `m`, which may be of a queue.
  void wait_for(const device_event& m);
  /// Waits until everything queued has run, so no actor may call this.
  void finish();

private:
  owned_stream stream_;
  stream_events events_;
};

} // namespace mailgrad::cuda

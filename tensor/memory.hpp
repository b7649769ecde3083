#pragma once

#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <algorithm>

namespace mailgrad {

/// A point on a queue, which has passed when all work queued before it is done. A default event has passed,
/// since work on the host is done when its call returns.
///
/// Threads any.
class device_event {
public:
  /// An object of a device's driver that knows whether the point was reached.
  class driver_event {
  public:
    virtual ~driver_event() = default;
    virtual bool passed() const = 0;
    /// Whether the device has told the host that it was reached. It costs no call of the driver, may say so
    /// later than passed(), and never says why it will not be reached.
    virtual bool told() const { return passed(); }
    /// Whether the device tells the host. If not, told() costs what passed() does.
    virtual bool tells() const noexcept { return false; }
  };

  device_event() = default;
  explicit device_event(std::shared_ptr<const driver_event> e) : event_(std::move(e)) {}

  bool passed() const { return !event_ || event_->passed(); }
  /// The same, at less cost, and later as a rule: whoever asks again and again asks this most of the time.
  bool told() const { return !event_ || event_->told(); }
  bool tells() const noexcept { return event_ && event_->tells(); }
  /// What a queue waits for. Null means that there is nothing to wait for.
  const driver_event* what() const noexcept { return event_.get(); }

private:
  std::shared_ptr<const driver_event> event_;
};

/// Memory of a device that the host cannot read: an address for that device's kernels. The block owns the
/// memory and frees it with the function that its allocator gave.
class device_block {
public:
  using freeing = std::function<void(void* address)>;

  device_block(device where, void* address, std::size_t bytes, freeing free)
      : where_(where), memory_(address, std::move(free)), bytes_(bytes) {}

  device where() const noexcept { return where_; }
  std::size_t bytes() const noexcept { return memory_ ? bytes_ : 0; }
  void* address() const noexcept { return memory_.get(); }

private:
  device where_;
  std::unique_ptr<void, freeing> memory_;
  std::size_t bytes_;
};

/// Memory that knows where it lies: a block of the host, or of a device.
///
/// It is reached in two ways. on_host() is for code that runs on the host. on() is for kernels, and takes the
/// stream they are queued on. Each refuses memory that its reader cannot reach.
/// Errors  device_error, which names the place of the memory and that of its reader.
class memory {
public:
  memory() = default;
  explicit memory(block host) : place_(std::move(host)) {}
  explicit memory(device_block there) : place_(std::move(there)) {}

  std::size_t bytes() const noexcept;
  bool is_on_host() const noexcept { return std::holds_alternative<block>(place_); }

  template <class T>
  std::span<T> on_host() {
    return {static_cast<T*>(host_address()), bytes() / sizeof(T)};
  }
  template <class T>
  std::span<const T> on_host() const {
    return {static_cast<const T*>(host_address()), bytes() / sizeof(T)};
  }

  /// The address for kernels that are queued on `s`. For a device's memory, code on the host must not
  /// dereference it.
  template <class T>
  std::span<T> on(const stream& s) {
    return {static_cast<T*>(address_for(s)), bytes() / sizeof(T)};
  }
  template <class T>
  std::span<const T> on(const stream& s) const {
    return {static_cast<const T*>(address_for(s)), bytes() / sizeof(T)};
  }

private:
  void* host_address() const;
  void* address_for(const stream& s) const;

  std::variant<block, device_block> place_;
};

/// Floats that do not change while a snapshot holds them, and the event after which they are all written.
///
/// Threads any, each with a copy of its own.
class snapshot {
public:
  snapshot() = default;
  explicit snapshot(std::shared_ptr<const memory> values, device_event ready = {})
      : values_(std::move(values)), ready_(std::move(ready)) {}

  explicit operator bool() const noexcept { return values_ != nullptr; }
  std::size_t size() const noexcept { return values_ ? values_->bytes() / sizeof(float) : 0; }
  const device_event& ready() const noexcept { return ready_; }
  /// The memory of the values, which a holder of this pointer keeps alive.
  const std::shared_ptr<const memory>& owner() const noexcept { return values_; }
  void reset() noexcept { *this = {}; }

  /// The values, to be read on the host now. The span is empty if the snapshot is.
  ///
  /// Errors  device_error if the values lie on a device, or their event has not passed.
  std::span<const float> on_host() const;

  /// The values, for kernels on a stream that has been told to wait for ready().
  ///
  /// Errors  device_error if the kernels cannot reach the values.
  std::span<const float> on(const stream& s) const {
    return values_ ? std::as_const(*values_).on<float>(s) : std::span<const float>();
  }

  /// Whether both are the same memory.
  friend bool operator==(const snapshot& a, const snapshot& b) noexcept { return a.values_ == b.values_; }

private:
  std::shared_ptr<const memory> values_;
  device_event ready_;
};

/// A queue is where its owner, a shard or a runner, allocates memory and queues work. It holds a stream of
/// one device. On the host, work is done before the call returns.
///
/// Threads one caller at a time.
class device_queue {
public:
  virtual ~device_queue() = default;

  /// The stream that kernels take as their first argument to run on this queue.
  virtual const stream& where() const noexcept = 0;
  /// Allocates zeroed memory that kernels on this queue can reach.
  ///
  /// Errors  std::bad_alloc; device_error.
  virtual memory allocate(std::size_t bytes) = 0;
  /// Copies `from`, which lies on the host. The caller may change `from` as soon as this returns.
  virtual void write(std::span<const float> from, memory& to) = 0;
  /// Lends memory of the host for copy_to_host(). It may be memory that was lent before and is free again.
  ///
  /// Errors  std::bad_alloc; device_error.
  virtual memory lend_on_host(std::size_t bytes) = 0;
  /// Fills memory of the host with bytes of this queue's device, from byte `first` of `from` on. They may be
  /// read when an event recorded after this call has passed. The caller keeps both memories until then.
  ///
  /// Errors  shape_error: `from` has not so many; device_error.
  virtual void copy_to_host(const memory& from, std::size_t first, memory& to) = 0;
  /// Lets work that is queued later wait for `m`, which may be of another queue.
  ///
  /// Errors  device_error: the queue cannot wait for that event.
  virtual void wait_for(const device_event& m) = 0;
  /// Returns an event that passes when all work queued so far is done.
  virtual device_event record() = 0;
  /// Waits until all work queued so far is done. An actor calls it only where it ends.
  ///
  /// Errors  device_error.
  virtual void finish() = 0;

protected:
  static void require_part(const memory& from, std::size_t first, const memory& to) {
    if (first > from.bytes() || to.bytes() > from.bytes() - first)
      throw shape_error("copy", shape{from.bytes()}, shape{first, to.bytes()});
  }
};

/// Whether the queue is one of a GPU.
inline bool is_on_gpu(const device_queue& q) noexcept {
  return std::holds_alternative<cuda_stream>(q.where());
}

/// Waits before memory goes that the queue reads or writes. Nothing of a GPU that is lost runs any more.
inline void finish_for_good(device_queue& q) noexcept {
  try {
    q.finish();
  } catch (const std::exception&) { // nobody is left to be told
  }
}

/// The queue of shards and runners that compute on the processors of this machine.
class host_queue final : public device_queue {
public:
  host_queue() = default;
  /// Allocates blocks of this source; null: memory of this process.
  explicit host_queue(block_source blocks) : blocks_(std::move(blocks)) {}

  const stream& where() const noexcept override { return where_; }
  memory allocate(std::size_t bytes) override { return memory(blocks_ ? blocks_(bytes) : block(bytes)); }
  void write(std::span<const float> from, memory& to) override {
    std::ranges::copy(from, to.on_host<float>().begin());
  }
  memory lend_on_host(std::size_t bytes) override { return memory(block(bytes)); }
  void copy_to_host(const memory& from, std::size_t first, memory& to) override {
    require_part(from, first, to);
    std::ranges::copy(from.on_host<std::byte>().subspan(first, to.bytes()), to.on_host<std::byte>().begin());
  }
  void wait_for(const device_event& m) override {
    if (!m.passed())
      throw device_error(world_errc::wrong_place,
                         "the host waits for no event; hold the work back until it has passed");
  }
  device_event record() override { return {}; }
  void finish() override {}

private:
  block_source blocks_;
  stream where_ = host_stream{};
};

} // namespace mailgrad

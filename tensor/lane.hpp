#pragma once

#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <variant>

namespace mailgrad {

/// A lane is where its owner, a shard or a runner, allocates memory and queues work. It holds a stream of one
/// device. On the host, work is done before the call returns.
///
/// Threads one caller at a time.
class lane {
public:
  virtual ~lane() = default;

  /// The stream that kernels take as their first argument to run in this lane.
  virtual const stream& where() const noexcept = 0;
  /// Allocates zeroed memory that kernels in this lane can reach.
  ///
  /// Errors  std::bad_alloc; device_error.
  virtual memory allocate(std::size_t bytes) = 0;
  /// Copies `from`, which lies on the host. The caller may change `from` as soon as this returns.
  virtual void write(std::span<const float> from, memory& to) = 0;
  /// Lends memory of the host for copy_to_host(). It may be memory that was lent before and is free again.
  ///
  /// Errors  std::bad_alloc; device_error.
  virtual memory lend_on_host(std::size_t bytes) = 0;
  /// Fills memory of the host with bytes of this lane's device, from byte `first` of `from` on. They may be
  /// read when a mark recorded after this call has passed. The caller keeps both memories until then.
  ///
  /// Errors  shape_error: `from` has not so many; device_error.
  virtual void copy_to_host(const memory& from, std::size_t first, memory& to) = 0;
  /// Lets work that is queued later wait for `m`, which may be of another lane.
  ///
  /// Errors  device_error: the lane cannot wait for that mark.
  virtual void wait_for(const mark& m) = 0;
  /// Returns a mark that passes when all work queued so far is done.
  virtual mark record() = 0;
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

/// Whether the lane is one of a card.
inline bool is_on_card(const lane& l) noexcept { return std::holds_alternative<cuda_stream>(l.where()); }

/// The lane of shards and runners that compute on the processors of this machine.
class host_lane final : public lane {
public:
  host_lane() = default;
  /// Allocates blocks of this source; null: memory of this process.
  explicit host_lane(block_source blocks) : blocks_(std::move(blocks)) {}

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
  void wait_for(const mark& m) override {
    if (!m.passed())
      throw device_error(world_errc::wrong_place,
                         "the host waits for no mark; hold the work back until it has passed");
  }
  mark record() override { return {}; }
  void finish() override {}

private:
  block_source blocks_;
  stream where_ = host_stream{};
};

} // namespace mailgrad

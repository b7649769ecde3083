#pragma once

#include <mailgrad/tensor/mark.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace mailgrad {

/// Floats that do not change while a snapshot holds them, and the mark after which they are all written.
///
/// Threads any, each with a copy of its own.
class snapshot {
public:
  snapshot() = default;
  explicit snapshot(std::shared_ptr<const memory> values, mark ready = {})
      : values_(std::move(values)), ready_(std::move(ready)) {}

  explicit operator bool() const noexcept { return values_ != nullptr; }
  std::size_t size() const noexcept { return values_ ? values_->bytes() / sizeof(float) : 0; }
  const mark& ready() const noexcept { return ready_; }
  /// The memory of the values, which a holder of this pointer keeps alive.
  const std::shared_ptr<const memory>& owner() const noexcept { return values_; }
  void reset() noexcept { *this = {}; }

  /// The values, to be read on the host now. The span is empty if the snapshot is.
  ///
  /// Errors  device_error if the values lie on a device, or their mark has not passed.
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
  mark ready_;
};

} // namespace mailgrad

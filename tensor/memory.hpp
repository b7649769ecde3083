#pragma once

#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <variant>

namespace mailgrad {

/// Memory of a device that the host cannot read: an address for that device's kernels. The block owns the
/// memory and frees it with the function that its allocator gave.
class device_block {
public:
  using freeing = std::function<void(void* address)>;

  device_block(device where, void* address, std::size_t bytes, freeing free)
      : where_(where), address_(address), bytes_(bytes), free_(std::move(free)) {}
  ~device_block() {
    if (address_) free_(address_);
  }
  device_block(device_block&& other) noexcept
      : where_(other.where_), address_(std::exchange(other.address_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)), free_(std::move(other.free_)) {}
  device_block& operator=(device_block&& other) noexcept {
    std::swap(where_, other.where_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    std::swap(free_, other.free_);
    return *this;
  }

  device where() const noexcept { return where_; }
  std::size_t bytes() const noexcept { return bytes_; }
  void* address() const noexcept { return address_; }

private:
  device where_;
  void* address_;
  std::size_t bytes_;
  freeing free_;
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

} // namespace mailgrad

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace mailgrad {

/// A block owns host memory of a fixed size, zeroed and aligned to a cache line. A moved-from block is empty.
///
/// Large blocks ask the kernel for huge pages, because each update walks a whole shard in one pass.
/// Errors  std::bad_alloc, whose message says how much memory was asked for.
class block {
public:
  static constexpr std::size_t alignment = 64;

  block() = default;
  explicit block(std::size_t bytes);
  /// A block whose bytes are unknown, for a caller that writes all of them before any is read.
  static block for_overwrite(std::size_t bytes);
  /// A block in memory of somebody else, which `owner` keeps. Its address is a multiple of `alignment`, and a
  /// whole cache line behind its last byte may be read.
  ///
  /// Errors  std::invalid_argument for another address, or without an owner.
  static block in_memory_of(std::shared_ptr<const void> owner, std::span<std::byte> bytes);

  std::size_t bytes() const noexcept { return data_ ? bytes_ : 0; }
  std::byte* data() noexcept { return data_.get(); }
  const std::byte* data() const noexcept { return data_.get(); }

  template <class T>
  std::span<T> as() noexcept {
    return {reinterpret_cast<T*>(data()), bytes() / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const noexcept {
    return {reinterpret_cast<const T*>(data()), bytes() / sizeof(T)};
  }

private:
  struct free_memory {
    free_memory() noexcept = default;
    explicit free_memory(std::shared_ptr<const void> of) noexcept : owner(std::move(of)) {}
    std::shared_ptr<const void> owner; ///< of memory that this block does not own
    void operator()(std::byte* memory) noexcept;
  };
  std::unique_ptr<std::byte, free_memory> data_;
  std::size_t bytes_ = 0;
};

/// Where blocks come from: memory of this process, unless somebody says otherwise. The block is zeroed.
///
/// Errors  std::bad_alloc, std::system_error.
using block_source = std::function<block(std::size_t bytes)>;

/// Rounds up to whole cache lines.
constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + block::alignment - 1) / block::alignment * block::alignment;
}

} // namespace mailgrad

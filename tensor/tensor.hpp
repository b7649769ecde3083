#pragma once

#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/shape.hpp>

namespace mailgrad {

/// Shape, element type and the memory that holds the elements, row-major without gaps, on the host.
///
/// Threads  a value like any other: const access from many threads, otherwise one at a time.
class tensor {
public:
  /// A tensor of shape 0, which holds no elements.
  tensor() = default;
  /// All elements are zero.
  explicit tensor(const shape& dims, dtype type = dtype::float32)
      : dims_(dims), type_(type), memory_(dims.size() * byte_size(type)) {}

  /// A tensor whose elements are unknown, for a caller that writes all of them before any is read.
  static tensor for_overwrite(const shape& dims, dtype type = dtype::float32) {
    tensor t;
    t.memory_ = block::for_overwrite(dims.size() * byte_size(type));
    t.dims_ = dims;
    t.type_ = type;
    return t;
  }

  /// The moved-from tensor has shape 0.
  tensor(tensor&& other) noexcept
      : dims_(std::exchange(other.dims_, shape{0})), type_(other.type_), memory_(std::move(other.memory_)) {}
  tensor& operator=(tensor&& other) noexcept {
    dims_ = std::exchange(other.dims_, shape{0});
    type_ = other.type_;
    memory_ = std::move(other.memory_);
    return *this;
  }

  const shape& dims() const noexcept { return dims_; }
  dtype type() const noexcept { return type_; }
  std::size_t size() const noexcept { return dims_.size(); }
  std::byte* data() noexcept { return memory_.data(); }
  const std::byte* data() const noexcept { return memory_.data(); }

  /// The elements, which must be of `type()`.
  template <class T = float>
  std::span<T> values() noexcept {
    static_assert(sizeof(T) == 4, "elements take four bytes");
    return memory_.as<T>().first(size());
  }
  template <class T = float>
  std::span<const T> values() const noexcept {
    static_assert(sizeof(T) == 4, "elements take four bytes");
    return memory_.as<T>().first(size());
  }

private:
  shape dims_{0};
  dtype type_ = dtype::float32;
  block memory_;
};

} // namespace mailgrad

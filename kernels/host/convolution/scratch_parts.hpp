#pragma once

#include <mailgrad/tensor/block.hpp>

#include <cstddef>
#include <span>

namespace mailgrad {

/// Divides scratch memory into aligned parts. Without memory, it only counts their bytes.
class scratch_parts {
public:
  explicit scratch_parts(std::byte* memory = nullptr) : memory_(memory) {}

  template <class T>
  std::span<T> take(std::size_t count) {
    auto* first = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += aligned(count * sizeof(T));
    return {first, memory_ ? count : 0};
  }
  std::size_t used() const noexcept { return used_; }

private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

} // namespace mailgrad

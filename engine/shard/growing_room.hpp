#pragma once

#include <mailgrad/tensor/lane.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <bit>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad {

/// Memory for what one call of a lane's kernels needs, and the next call overwrites. What it has outgrown it
/// keeps, since the card would be waited for to free it; that is less than it has at the end.
///
/// Threads one caller at a time.
class growing_room {
public:
  explicit growing_room(std::shared_ptr<lane> at) : at_(std::move(at)) {}

  /// Errors  std::bad_alloc; device_error.
  void* of(std::size_t bytes) {
    if (room_.bytes() < bytes) {
      memory larger = at_->allocate(std::bit_ceil(bytes));
      outgrown_.push_back(std::exchange(room_, std::move(larger)));
    }
    return room_.on<std::byte>(at_->where()).data();
  }

private:
  std::shared_ptr<lane> at_;
  memory room_;
  std::vector<memory> outgrown_;
};

} // namespace mailgrad

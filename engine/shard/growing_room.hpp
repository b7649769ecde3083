#pragma once

#include <mailgrad/tensor/lane.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <algorithm>
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

  /// It has an address even for no bytes, as for the order of a list of no rows.
  ///
  /// Errors  std::bad_alloc; device_error.
  void* of(std::size_t bytes) {
    const std::size_t wanted = std::max<std::size_t>(bytes, 1);
    if (room_.bytes() < wanted) {
      memory larger = naming_memory("the order of the rows of tables",
                                    [&] { return at_->allocate(std::bit_ceil(wanted)); });
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

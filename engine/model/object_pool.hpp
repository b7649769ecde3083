#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad {

/// A pool of objects that are lent as shared pointers. An object is free while only the pool has a pointer.
///
/// A pool of up to 32 objects makes no more than are lent at once. A larger one looks at some of them only,
/// so that the time does not grow with the pool, and may rarely make another although one is free.
/// Threads one owner calls; users may release their pointers on any thread.
template <class T>
class object_pool {
public:
  /// `make` creates another object when all are lent.
  explicit object_pool(std::function<std::shared_ptr<T>()> make) : make_(std::move(make)) {}

  std::shared_ptr<T> take() {
    const std::size_t first = std::min(objects_.size(), looks);
    for (std::size_t i = 0; i < first; ++i)
      if (is_free(objects_[i])) return objects_[i];
    const std::size_t others = objects_.size() - first;
    for (std::size_t i = 0; i < std::min(others, looks); ++i) {
      if (next_ >= others) next_ = 0;
      if (const auto& object = objects_[first + next_++]; is_free(object)) return object;
    }
    objects_.push_back(make_());
    return objects_.back();
  }

  std::size_t size() const noexcept { return objects_.size(); }
  /// Whether the pool has the only pointer to `object`. A copy taken afterwards synchronises with the last
  /// release, because a reference count is changed by acquire-release operations.
  static bool is_free(const std::shared_ptr<T>& object) noexcept { return object.use_count() == 1; }

private:
  static constexpr std::size_t looks = 16; ///< at the first objects, and at the others in turn

  std::function<std::shared_ptr<T>()> make_;
  std::vector<std::shared_ptr<T>> objects_;
  std::size_t next_ = 0; ///< of the others; goes round
};

} // namespace mailgrad

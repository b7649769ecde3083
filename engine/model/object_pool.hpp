#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad {

/// Objects that are lent as shared pointers and come back by themselves when the last holder lets go, so that
/// a steady step allocates nothing. The pool's own pointer is how it knows: an object is free while nobody
/// else holds one.
///
/// Threads one owner calls; holders may let go on any thread.
template <class T>
class object_pool {
public:
  /// `make` builds another object when all are out.
  explicit object_pool(std::function<std::shared_ptr<T>()> make) : make_(std::move(make)) {}

  std::shared_ptr<T> take() {
    for (const auto& object : objects_)
      if (is_free(object)) return object;
    objects_.push_back(make_());
    return objects_.back();
  }

  std::size_t size() const noexcept { return objects_.size(); }

  /// Whether `object` is held by its pool alone. Taking a copy afterwards synchronises with the holder who
  /// let go, because a reference count is changed by acquire-release operations.
  static bool is_free(const std::shared_ptr<T>& object) noexcept { return object.use_count() == 1; }

private:
  std::function<std::shared_ptr<T>()> make_;
  std::vector<std::shared_ptr<T>> objects_;
};

} // namespace mailgrad

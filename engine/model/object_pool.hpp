#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad {

/// A pool of objects that are lent as shared pointers, so that a steady step allocates nothing. The pool
/// keeps a pointer to each object; an object is free while there is no other pointer to it.
///
/// Threads one owner calls; users may release their pointers on any thread.
template <class T>
class object_pool {
public:
  /// `make` creates another object when all are lent.
  explicit object_pool(std::function<std::shared_ptr<T>()> make) : make_(std::move(make)) {}

  std::shared_ptr<T> take() {
    for (const auto& object : objects_)
      if (is_free(object)) return object;
    objects_.push_back(make_());
    return objects_.back();
  }

  std::size_t size() const noexcept { return objects_.size(); }

  /// Whether the pool has the only pointer to `object`. A copy taken afterwards synchronises with the last
  /// release, because a reference count is changed by acquire-release operations.
  static bool is_free(const std::shared_ptr<T>& object) noexcept { return object.use_count() == 1; }

private:
  std::function<std::shared_ptr<T>()> make_;
  std::vector<std::shared_ptr<T>> objects_;
};

} // namespace mailgrad

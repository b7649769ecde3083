#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace mailgrad::net {

/// Admission to something that has a bound, such as memory or a turn. Whoever is admitted holds units, which
/// give themselves back when the last holder lets them go. A derived class says what is bounded, and who is
/// admitted next.
/// Source  Seastar, include/seastar/core/semaphore.hh. Differs: what is taken has an owner, so it is more
///         than a count.
/// Threads any.
/// Units  are let go without the lock.
class admission : public std::enable_shared_from_this<admission> {
public:
  using units = std::shared_ptr<const void>;

  virtual ~admission() = default;

protected:
  /// What is to be called when the lock is released.
  using calls = std::vector<std::function<void()>>;

  /// Units of what has been taken. `give_back` is called once, with the lock held.
  template <class GiveBack>
  units units_of(GiveBack give_back) {
    return {this, [self = shared_from_this(), give_back = std::move(give_back)](const void*) {
              self->change(give_back);
            }};
  }
  /// Makes a change with the lock held, and admits whoever may go on by it.
  template <class Change>
  void change(const Change& what) {
    calls after;
    {
      const std::lock_guard lock(mutex_);
      what();
      settle(after);
    }
    for (const auto& call : after) call();
  }
  /// Admits whoever may be admitted now. The lock is held.
  virtual void settle(calls& after) = 0;

  mutable std::mutex mutex_; ///< guards the members of derived classes
};

} // namespace mailgrad::net

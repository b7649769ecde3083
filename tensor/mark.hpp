#pragma once

#include <memory>
#include <utility>

namespace mailgrad {

/// A point in a lane, which has passed when all work queued before it is done. A default mark has passed,
/// since work on the host is done when its call returns.
///
/// Threads any.
class mark {
public:
  /// An object of a device's driver that knows whether the point was reached.
  class event {
  public:
    virtual ~event() = default;
    virtual bool passed() const = 0;
    /// Whether the device has told the host that it was reached. It costs no call of the driver, may say so
    /// later than passed(), and never says why it will not be reached.
    virtual bool told() const { return passed(); }
    /// Whether the device tells the host. If not, told() costs what passed() does.
    virtual bool tells() const noexcept { return false; }
  };

  mark() = default;
  explicit mark(std::shared_ptr<const event> e) : event_(std::move(e)) {}

  bool passed() const { return !event_ || event_->passed(); }
  /// The same, at less cost, and later as a rule: whoever asks again and again asks this most of the time.
  bool told() const { return !event_ || event_->told(); }
  bool tells() const noexcept { return event_ && event_->tells(); }
  /// The event that a lane waits for. Null means that there is nothing to wait for.
  const event* what() const noexcept { return event_.get(); }

private:
  std::shared_ptr<const event> event_;
};

} // namespace mailgrad

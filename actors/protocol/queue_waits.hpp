#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/worker/event_watch.hpp>

namespace mailgrad {

/// Lets an actor go on with something when its queue has done what was queued, and handle other messages
/// meanwhile. The watch sends the actor `weights_copied`, at which it calls serve().
///
///     when_done() --nothing is queued--> then()
///       \ on a GPU --event passed, weights_copied--> serve() --> then()
class queue_waits : messaging::actor_part {
public:
  /// Called once. The argument is null if the work is done, else why it never will be: a device_error.
  using continuation = std::function<void(const std::exception_ptr&)>;

  /// `watch` tells when events pass; null: that of the process, if it is needed.
  queue_waits(caf::event_based_actor* self, std::shared_ptr<device_queue> at,
              std::shared_ptr<event_watch> watch)
      : actor_part(self), at_(std::move(at)), watch_(std::move(watch)) {}

  /// Calls `then` when all is done that the queue was given before, now or from serve(), in the order of the
  /// calls. If no event can be recorded that would tell, it is called at once with the reason, before those
  /// that wait.
  void when_done(continuation then) {
    device_event done;
    bool at_once = waiting_.empty();
    std::exception_ptr why;
    try {
      done = at_->record();
      at_once = at_once && done.passed();
    } catch (const device_error&) {
      at_once = true;
      why = std::current_exception();
    }
    if (at_once) return then(why);
    waiting_.push_back({done, std::move(then)});
    if (!watch_) watch_ = watch_of_process();
    watch_->when_passed(done, [us = myself()](const std::exception_ptr&) {
      messaging::send_anonymously(us, weights_copied{}); // of a lost GPU, too: serve() finds out
    });
  }
  /// Calls those whose work is done; to be called at each `weights_copied`.
  void serve() {
    while (!waiting_.empty()) {
      std::exception_ptr why;
      try {
        if (!waiting_.front().done.passed()) return;
      } catch (const device_error&) {
        why = std::current_exception();
      }
      const waiting next = std::move(waiting_.front());
      waiting_.erase(waiting_.begin());
      next.then(why);
    }
  }

private:
  struct waiting {
    device_event done;
    continuation then;
  };

  std::shared_ptr<device_queue> at_;
  std::shared_ptr<event_watch> watch_;
  std::vector<waiting> waiting_; ///< in their order; few
};

} // namespace mailgrad

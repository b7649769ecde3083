#include <mailgrad/actors/protocol/queue_waits.hpp>

#include <mailgrad/actors/protocol/messages.hpp>

namespace mailgrad {

using messaging::send_anonymously;

void queue_waits::when_done(continuation then) {
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
    send_anonymously(us, weights_copied{}); // of a lost GPU, too: serve() finds out
  });
}

void queue_waits::serve() {
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

} // namespace mailgrad

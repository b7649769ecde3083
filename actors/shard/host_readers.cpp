#include <mailgrad/actors/shard/host_readers.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace mailgrad {
using messaging::send_anonymously;

host_readers::host_readers(caf::event_based_actor* self, std::shared_ptr<shard> weights,
                           std::shared_ptr<mark_watch> watch, std::shared_ptr<const time_source> time)
    : self_(self), weights_(std::move(weights)), watch_(std::move(watch)), time_(std::move(time)) {}

void host_readers::give(std::function<void(const snapshot&)> then) {
  when_copied([then = std::move(then), values = weights_->host_snapshot()] { then(values); });
}

void host_readers::when_copied(std::function<void()> then) {
  const mark copied = weights_->at()->record();
  if (waiting_.empty() && copied.passed()) return then();
  waiting_.push_back({copied, std::move(then), time_->now()});
  if (!watch_) watch_ = watch_of_process();
  watch_->when_passed(copied, [us = caf::actor_cast<caf::actor>(self_)](const std::exception_ptr&) {
    send_anonymously(us, weights_copied{}); // of a lost card, too: serve() finds out
  });
}

void host_readers::serve() {
  while (!waiting_.empty() && waiting_.front().copied.passed()) {
    const reader next = std::move(waiting_.front());
    waiting_.pop_front();
    next.then();
  }
}

std::optional<wait_named> host_readers::name_wait() const {
  if (waiting_.empty()) return std::nullopt;
  return wait_named{fmt::format("shard {} waits for its weights to come from the card, for {} of those who "
                                "asked",
                                weights_->index().value, waiting_.size()),
                    (time_->now() - waiting_.front().since).count()};
}

} // namespace mailgrad

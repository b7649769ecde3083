#include <mailgrad/actors/shard/host_readers.hpp>

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace mailgrad {

host_readers::host_readers(caf::event_based_actor* self, std::shared_ptr<shard> weights,
                           std::shared_ptr<event_watch> watch, std::shared_ptr<const time_source> time)
    : weights_(std::move(weights)), time_(std::move(time)), waits_(self, weights_->at(), std::move(watch)) {}

void host_readers::give(const snapshot& values, std::function<void(const snapshot&)> then) {
  when_copied([then = std::move(then), copy = weights_->on_host(values)] { then(copy); });
}

void host_readers::when_copied(std::function<void()> then) {
  const auto mine = asked_.insert(asked_.end(), time_->now());
  waits_.when_done([this, mine, then = std::move(then)](const std::exception_ptr& why) {
    asked_.erase(mine); // not always the first: see queue_waits
    if (why) std::rethrow_exception(why);
    then();
  });
}

void host_readers::when_idle(std::function<void()> then) {
  waits_.when_done([then = std::move(then)](const std::exception_ptr&) { then(); });
}

std::optional<wait_reason> host_readers::blocked_on() const {
  if (asked_.empty()) return std::nullopt;
  return wait_reason{fmt::format("shard {} waits for its weights to come from the GPU, for {} of those who "
                                 "asked",
                                 weights_->index().value, asked_.size()),
                     (time_->now() - asked_.front()).count()};
}

} // namespace mailgrad

#include <mailgrad/actors/shard/host_readers.hpp>

namespace mailgrad {

void host_readers::when_copied(std::function<void()> then) {
  const auto mine = asked_.insert(asked_.end(), time_->now());
  waits_.when_done([this, mine, then = std::move(then)](const std::exception_ptr& why) {
    asked_.erase(mine); // not always the first: see queue_waits
    if (why) std::rethrow_exception(why);
    then();
  });
}

std::optional<wait_reason> host_readers::blocked_on() const {
  if (asked_.empty()) return std::nullopt;
  return wait_reason{fmt::format("shard {} waits for its weights to come from the GPU, for {} of those who "
                                 "asked",
                                 weights_->index().value, asked_.size()),
                     (time_->now() - asked_.front()).count()};
}

} // namespace mailgrad

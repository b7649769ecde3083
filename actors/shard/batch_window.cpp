#include <mailgrad/actors/shard/batch_window.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <mutex>

namespace mailgrad {

using messaging::send_anonymously;

/// The timer may outlive the actor and its system, so it reaches the actor by way of this alone.
struct batch_window::receiver {
  std::mutex mutex;
  caf::event_based_actor* actor; ///< null when it ends

  void tell(std::int64_t moment) {
    const std::lock_guard held(mutex);
    if (actor) send_anonymously(caf::actor_cast<caf::actor>(actor), window_over{moment});
  }
};

batch_window::batch_window(caf::event_based_actor* self, std::shared_ptr<step_timer> timer)
    : receiver_(std::make_shared<receiver>()), timer_(std::move(timer)) {
  receiver_->actor = self;
}

batch_window::~batch_window() {
  const std::lock_guard held(receiver_->mutex);
  receiver_->actor = nullptr;
}

void batch_window::watch(std::optional<std::int64_t> closes_at) {
  if (!closes_at || closes_at == asked_) return;
  asked_ = closes_at;
  if (!timer_ && messaging::is_on_one_thread(receiver_->actor->system()))
    throw std::logic_error(
        "batch_window: the timer of the process has another thread; give one to this shard");
  if (!timer_) timer_ = timer_of_process();
  timer_->at(instant{*closes_at}, [to = receiver_, moment = *closes_at] { to->tell(moment); });
}

} // namespace mailgrad

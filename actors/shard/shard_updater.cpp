#include <mailgrad/actors/shard/shard_updater.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad {

shard_updater::shard_updater(caf::event_based_actor* self, std::shared_ptr<shard> weights,
                             std::vector<caf::actor> hands, std::shared_ptr<const time_source> time)
    : self_(self), weights_(std::move(weights)), hands_(std::move(hands)), time_(std::move(time)),
      works_([] { return std::make_shared<parallel_update>(); }) {}

void shard_updater::add(const push_gradient& x, const contribution* what) {
  gradients_.push_back(x);
  if (what) contributions_.push_back(*what);
}

void shard_updater::clear() {
  gradients_.clear();
  contributions_.clear();
}

void shard_updater::update_alone(double rate) {
  begun_ = time_->now();
  weights_->update(host_stream{}, contributions_, rate);
}

/// Hands that find no part would have been woken for nothing.
void shard_updater::ask_for_help(double rate) {
  begun_ = time_->now();
  work_ = works_.take();
  weights_->begin_update(*work_, contributions_, rate, hands_.size() + 1, weights_);
  const std::size_t most = std::min(hands_.size(), work_->parts() - 1);
  for (std::size_t h = 0; h < most; ++h)
    send(self_, hands_[h], help_update{work_, caf::actor_cast<caf::actor>(self_)});
}

bool shard_updater::compute_part() {
  const parallel_update::progress done = work_->compute_part(host_stream{});
  if (done == parallel_update::progress::computed) send(self_, caf::actor_cast<caf::actor>(self_), go_on{});
  return done == parallel_update::progress::complete;
}

void shard_updater::end() {
  weights_->end_update(host_stream{}, *work_);
  work_.reset();
}

instant shard_updater::share_of_each() const {
  return (time_->now() - begun_) / std::max<std::size_t>(1, gradients_.size());
}

} // namespace mailgrad

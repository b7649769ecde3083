#include <mailgrad/actors/shard/shard_updater.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace mailgrad {
using messaging::send;

shard_updater::shard_updater(caf::event_based_actor* self, std::shared_ptr<shard> weights,
                             std::vector<caf::actor> helpers, std::shared_ptr<const time_source> time)
    : self_(self), weights_(std::move(weights)), helpers_(std::move(helpers)), time_(std::move(time)),
      works_([] { return std::make_shared<parallel_update>(); }) {}

void shard_updater::add(const gradient_header& x, const contribution* what) {
  gradients_.push_back(x);
  if (what) contributions_.push_back(*what);
}

void shard_updater::clear() {
  gradients_.clear();
  contributions_.clear();
  share_ = 1;
}

void shard_updater::update_alone(double rate) {
  begun_ = time_->now();
  try {
    weights_->update(contributions_, rate, share_);
  } catch (const out_of_memory& e) {
    throw out_of_memory(e, in_words());
  } catch (const std::exception& e) {
    fail(e.what());
  }
}

/// Wakes no more helpers than there are parts for.
void shard_updater::ask_for_help(double rate) {
  begun_ = time_->now();
  work_ = works_.take();
  weights_->begin_update(*work_, contributions_, rate, helpers_.size() + 1, weights_, share_);
  const std::size_t most = std::min(helpers_.size(), work_->parts() - 1);
  for (std::size_t h = 0; h < most; ++h)
    send(self_, helpers_[h], help_update{work_, caf::actor_cast<caf::actor>(self_)});
}

bool shard_updater::compute_part() {
  using progress = parallel_update::progress;
  try {
    const progress done = work_->compute_part();
    if (done == progress::computed) send(self_, caf::actor_cast<caf::actor>(self_), go_on{});
    return done == progress::complete;
  } catch (const std::exception& e) {
    fail(e.what());
  }
}

std::string shard_updater::in_words() const {
  return fmt::format("update {} by rule '{}'", weights_->version().value + 1, weights_->rule());
}

void shard_updater::fail(const std::string& why) const {
  throw std::runtime_error(fmt::format("{}: {}", in_words(), why));
}

void shard_updater::end() {
  weights_->end_update(*work_);
  work_.reset();
}

instant shard_updater::share_of_each() const {
  return (time_->now() - begun_) / std::max<std::size_t>(1, gradients_.size());
}

} // namespace mailgrad

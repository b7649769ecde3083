#include <mailgrad/actors/run/slot_table.hpp>

namespace mailgrad {

/// The feeder first: a shard that goes on without the worker lets others ask for batches at once.
std::optional<trained_reported> lost_shares::begin(const worker_left& lost) {
  send(feeder_, share_lost{lost.worker, lost.incarnation});
  for (const caf::actor& shard : shards_) {
    send(shard, lost);
    send(shard, tell_trained{lost.worker, lost.incarnation});
  }
  const trained_reported nothing{{}, lost.worker, lost.incarnation};
  if (nobody_knows()) return nothing;
  open_.push_back({nothing, gone_, time_->now()});
  return std::nullopt;
}

std::optional<trained_reported> lost_shares::take(const trained_reported& x) {
  const auto of = std::ranges::find_if(open_, [&](const question& q) {
    return q.most.worker == x.worker && q.most.incarnation == x.incarnation;
  });
  if (of == open_.end() || x.shard.value >= of->answered.size()) return std::nullopt;
  of->answered[x.shard.value] = true;
  of->most.batches = std::max(of->most.batches, x.batches);
  of->most.gradients = std::max(of->most.gradients, x.gradients);
  of->most.samples = std::max(of->most.samples, x.samples);
  if (std::ranges::count(of->answered, false) > 0) return std::nullopt;
  const trained_reported most = of->most;
  open_.erase(of);
  return most;
}

std::vector<trained_reported> lost_shares::on_shard_lost(shard_index shard) {
  gone_[shard.value] = true;
  std::vector<trained_reported> answered;
  for (question& q : open_) {
    q.answered[shard.value] = true;
    if (std::ranges::count(q.answered, false) == 0) answered.push_back(q.most);
  }
  std::erase_if(open_, [](const question& q) { return std::ranges::count(q.answered, false) == 0; });
  return answered;
}

std::optional<wait_reason> lost_shares::blocked_on() const {
  if (open_.empty() && unended_.empty()) return std::nullopt;
  if (open_.empty())
    return wait_reason{fmt::format("lost worker {} waits until the feeder says what became of its batches",
                                   unended_.front().worker.value),
                       (time_->now() - unended_.front().asked).count()};
  const question& q = open_.front();
  const auto awaited = numbers_where(q.answered.size(), [&](std::uint32_t s) { return !q.answered[s]; });
  return wait_reason{fmt::format("the batches of lost worker {} wait to hear what {} took of them",
                                 q.most.worker.value, listed("shard", awaited)),
                     (time_->now() - q.asked).count()};
}

} // namespace mailgrad

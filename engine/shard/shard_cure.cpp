#include <mailgrad/engine/shard/shard_cure.hpp>

#include <bit>

namespace mailgrad {

shard_cure::shard_cure(std::unique_ptr<cure> what, std::shared_ptr<shard> weights, std::uint32_t workers)
    : cure_(std::move(what)), weights_(std::move(weights)), velocity_(weights_->state("velocity")),
      blocks_([bytes = weights_->snapshot()->bytes()] { return std::make_shared<block>(bytes); }),
      read_(workers) {}

std::shared_ptr<const block> shard_cure::weights_for(rank worker) {
  std::shared_ptr<const block> sent = weights_->snapshot();
  if (cure_ && cure_->predicts()) {
    const std::shared_ptr<block> predicted = blocks_.take();
    cure_->predict(sent->as<float>(), weights_->learning_rate(), predicted->as<float>());
    sent = predicted;
  }
  if (cure_ && cure_->needs_weights_read()) read_[worker.value] = sent;
  return sent;
}

void shard_cure::leave(rank worker) {
  read_[worker.value].reset();
  if (cure_) cure_->leave(worker);
}

contribution shard_cure::applied(const push_gradient& x, const std::shared_ptr<const block>& read) {
  const float scale = std::bit_cast<float>(x.scale_bits);
  if (!cure_ || !cure_->compensates()) return {x.values, scale};
  const std::shared_ptr<const block> now = weights_->snapshot();
  const std::shared_ptr<block> result = blocks_.take();
  stale_gradient g;
  g.worker = x.worker;
  g.gap = weights_->version() - x.version_read;
  g.values = weights_->part_of(*x.values);
  g.scale = scale;
  g.weights = now->as<float>().first(g.values.size());
  if (read) g.weights_read = read->as<float>().first(g.values.size());
  g.velocity = velocity_;
  cure_->compensate(g, result->as<float>().first(g.values.size()));
  return {x.values, 1, result};
}

} // namespace mailgrad

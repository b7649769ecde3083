#include <mailgrad/engine/shard/shard_cure.hpp>

#include <bit>

namespace mailgrad {

shard_cure::shard_cure(std::unique_ptr<cure> what, std::shared_ptr<shard> weights, std::uint32_t workers)
    : cure_(std::move(what)), weights_(std::move(weights)), velocity_(weights_->state("velocity")),
      blocks_([queue = weights_->at(), bytes = weights_->snapshot().size() * sizeof(float)] {
        return naming_memory("the weights that a cure predicts",
                             [&] { return std::make_shared<memory>(queue->allocate(bytes)); });
      }),
      read_(workers) {}

snapshot shard_cure::weights_for(rank worker) {
  snapshot sent = weights_->snapshot();
  if (cure_ && cure_->predicts()) {
    const stream& s = weights_->at()->where();
    const std::shared_ptr<memory> predicted = blocks_.take();
    cure_->predict({sent.on(s), weights_->learning_rate(), velocity_}, predicted->on<float>(s));
    sent = snapshot(predicted, weights_->at()->record());
  }
  if (cure_ && cure_->needs_weights_read()) read_[worker.value] = sent;
  return sent;
}

void shard_cure::has(rank worker, const snapshot& values) {
  if (cure_ && cure_->needs_weights_read()) read_[worker.value] = values;
}

void shard_cure::keep(archive& a) {
  if (cure_) a.field("cure", *cure_);
}

void shard_cure::leave(rank worker) {
  read_[worker.value].reset();
  if (cure_) cure_->leave(worker);
}

contribution shard_cure::applied(const push_gradient& x, const snapshot& read) {
  const float scale = std::bit_cast<float>(x.header.scale_bits);
  if (!cure_ || !cure_->compensates()) return {x.payload.values, scale};
  const stream& s = weights_->at()->where();
  const snapshot now = weights_->snapshot();
  const std::shared_ptr<memory> result = blocks_.take();
  stale_gradient g;
  g.worker = x.header.id.worker;
  g.gap = weights_->version() - x.header.version_read;
  g.values = weights_->part_of(*x.payload.values);
  g.scale = scale;
  g.weights = now.on(s).first(g.values.size());
  if (read) g.weights_read = read.on(s).first(g.values.size());
  g.velocity = velocity_;
  cure_->compensate(g, result->on<float>(s).first(g.values.size()));
  weights_->hold(read.owner());
  return {x.payload.values, 1, snapshot(result, weights_->at()->record())};
}

} // namespace mailgrad

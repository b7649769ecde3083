#include <mailgrad/engine/worker/card_replica.hpp>

#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/kernels/distance.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

// What a replica on a card does with gradients: it makes them where the shards read them, fetches what the
// host reads, and measures those that the host does not have.

namespace mailgrad {

std::shared_ptr<gradient> card_replica::make_gradient() const {
  cuda::runtime::make_current(place_.index); // pinned memory would else wake the first card
  return naming_memory("a gradient of a worker", [this] { return new_gradient(); });
}

std::shared_ptr<gradient> card_replica::new_gradient() const {
  if (!any_near_) return mailgrad::make_gradient(*layout_, cuda::pinned_memory);
  memory there(cuda::allocate_on(lane_stream(), layout_->dense_size() * sizeof(float)));
  if (!all_near_) {
    auto made = mailgrad::make_gradient(*layout_, cuda::pinned_memory);
    made->on_card = std::move(there);
    made->card = place_.index;
    return made;
  }
  auto made = std::make_shared<gradient>();
  made->dense = std::move(there);
  return made;
}

/// Copies what shards that are not on the card read of the gradient.
void card_replica::fetch_gradient(const float* from) {
  const std::span<float> to = queued_.back().out->dense.on_host<float>();
  const cuda_stream& s = lane_stream();
  if (!any_near_) return cuda::runtime::copy(s.stream, to.data(), from, to.size_bytes());
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    const shard_range range = layout_->shard(i);
    const std::size_t end = std::min(range.end, to.size());
    if (near_[i] || range.begin >= end) continue;
    cuda::runtime::copy(s.stream, to.data() + range.begin, from + range.begin,
                        (end - range.begin) * sizeof(float));
  }
}

float* card_replica::place_for_gradient() {
  gradient& out = *queued_.back().out;
  memory& there = !any_near_ ? gradient_ : all_near_ ? out.dense : out.on_card;
  return there.on<float>(lane_.where()).data();
}

/// Queues what cosine_to() makes of the step's gradient and the one that it is compared with.
void card_replica::multiply(const float* fresh) {
  const stream& s = lane_.where();
  if (!products_)
    products_ = naming_memory("the comparison of a sampled gradient", [this] {
      return inner_products{lane_.allocate(3 * sizeof(double)), cuda::pinned_block(3 * sizeof(double))};
    });
  double* const found = products_->on_card.on<double>(s).data();
  const std::span<const float> a = queued_.back().compared->dense_for(s).on<float>(s),
                               b(fresh, layout_->dense_size());
  inner_product(s, a, b, found);
  inner_product(s, a, a, found + 1);
  inner_product(s, b, b, found + 2);
  cuda::runtime::copy(lane_stream().stream, products_->seen.as<double>().data(), found, 3 * sizeof(double));
}

void card_replica::compare_with(std::shared_ptr<const gradient> stale) {
  if (any_near_) compared_ = std::move(stale);
}

std::optional<double> card_replica::cosine_to(const gradient& stale, const gradient& fresh) const {
  if (!any_near_) return cosine(stale, fresh);
  const std::span<const double> found = products_->seen.as<double>();
  return cosine(found[0], found[1], found[2]);
}

double card_replica::squared_norm(const gradient& g) const {
  return any_near_ ? squared_norm_ : mailgrad::squared_norm(g);
}

} // namespace mailgrad

#include <mailgrad/engine/worker/local_steps.hpp>

#include <mailgrad/kernels/map_weights.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace mailgrad {

local_steps::local_steps(std::shared_ptr<const parameter_layout> layout, const local_steps_options& options)
    : layout_(std::move(layout)), options_(options),
      optimizer_(make_optimizer(options.optimizer, layout_->size())), own_(layout_->size() * sizeof(float)),
      read_(layout_->shard_count()), differences_([size = layout_->dense_size()] {
        auto made = std::make_shared<gradient>();
        made->dense = block(size * sizeof(float));
        return made;
      }) {}

void local_steps::receive(std::uint32_t shard, snapshot values, const snapshot& met) {
  const shard_range range = layout_->shard(shard);
  const std::span<float> own = own_.as<float>().subspan(range.begin, range.size());
  if (options_.pull && read_[shard] && met) {
    map_weights(where_, elastic_pull{*options_.pull}, std::array{met.on(where_).data()},
                std::array{own.data()}, own.size());
  } else {
    std::ranges::copy(values.on_host().first(range.size()), own.begin());
  }
  read_[shard] = std::move(values);
}

void local_steps::start_anew() noexcept {
  for (auto& read : read_) read.reset();
}

void local_steps::step(const gradient& g, float scale) {
  ++steps_;
  const shard_range all{0, layout_->dense_size()};
  for (const shard_range& range : ranges_of(g.covered, all)) {
    const scaled_gradient one{g.dense.as<float>().data() + range.begin, scale};
    const std::span<float> own = own_.as<float>().subspan(range.begin, range.size());
    optimizer_->update(where_, {own, own, {&one, 1}, steps_, range.begin, 1});
  }
  covered_ = g.covered;
  ++taken_;
}

void local_steps::hold(std::shared_ptr<const gradient> g, float scale) {
  held_ = std::move(g);
  held_scale_ = scale;
}

void local_steps::go_on() {
  if (const auto due = std::exchange(held_, nullptr)) step(*due, held_scale_);
}

std::shared_ptr<const gradient> local_steps::difference() {
  const std::shared_ptr<gradient> result = differences_.take();
  const std::span<float> out = result->dense.as<float>();
  for (std::size_t s = 0; s < read_.size(); ++s) {
    const std::size_t begin = layout_->shard(s).begin;
    const std::size_t count = std::min(layout_->shard(s).end, out.size()) - begin;
    map_weights(where_, subtraction{},
                std::array{read_[s].on(where_).data(), std::as_const(own_).as<float>().data() + begin},
                std::array{out.data() + begin}, count);
    if (!options_.pull) read_[s].reset(); // a shard updates in place while no worker holds its snapshot
  }
  result->covered = covered_;
  taken_ = 0;
  return result;
}

} // namespace mailgrad

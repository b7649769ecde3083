#include <mailgrad/engine/worker/local_steps.hpp>

#include <mailgrad/kernels/map_weights.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace mailgrad {

local_steps::local_steps(std::shared_ptr<const parameter_layout> layout, const local_steps_options& options)
    : layout_(std::move(layout)), options_(options),
      optimizer_(make_optimizer(options.optimizer, layout_->size())), own_(layout_->size() * sizeof(float)),
      read_(layout_->shard_count()), differences_([size = layout_->dense_size()] {
        auto made = std::make_shared<gradient>();
        made->dense = memory(block(size * sizeof(float)));
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
    const scaled_gradient one{g.dense.on_host<float>().data() + range.begin, scale};
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
  const std::span<float> out = result->dense.on_host<float>();
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

namespace {

/// Copies floats into memory of their own.
snapshot host_snapshot(std::span<const float> values) {
  block copy(values.size_bytes());
  std::ranges::copy(values, copy.as<float>().begin());
  return snapshot(std::make_shared<const memory>(std::move(copy)));
}

} // namespace

void local_steps::keep(archive& a) {
  a.version(1);
  a.floats("weights", own_.as<float>());
  host_lane here;
  optimizer_->keep(a, here);
  a.field("taken", taken_);
  a.field("steps", steps_);
  for (std::size_t s = 0; s < read_.size(); ++s) {
    const std::string name = fmt::format("read {}", s);
    bool present = static_cast<bool>(read_[s]);
    a.field("has " + name, present);
    if (present && !a.reads()) a.hold(name, read_[s].owner(), read_[s].on_host());
    if (present && a.reads()) read_[s] = host_snapshot(a.array(name).values);
  }
  keep_ranges(a, "covered", covered_);
  keep_held(a);
}

void local_steps::keep_held(archive& a) {
  bool held = held_ != nullptr;
  a.field("holds a step", held);
  a.field("held_scale", held_scale_);
  if (!held) return;
  if (!a.reads()) return a.hold("held", held_, held_->dense.on_host<float>());
  const auto read = std::make_shared<gradient>();
  read->dense = memory(block(layout_->dense_size() * sizeof(float)));
  a.floats("held", read->dense.on_host<float>());
  read->covered = covered_; // all gradients of a round cover the same
  held_ = read;
}

} // namespace mailgrad

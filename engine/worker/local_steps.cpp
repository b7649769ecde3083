#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/optim/kept_memory.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <array>

namespace mailgrad {

local_steps::local_steps(std::shared_ptr<const parameter_layout> layout, const local_steps_options& options,
                         std::shared_ptr<device_queue> at)
    : layout_(std::move(layout)), options_(options), at_(std::move(at)),
      optimizer_(make_optimizer(options.optimizer, layout_->size(), *at_,
                                all_variables_for(options.optimizer, *layout_))),
      own_(std::make_shared<memory>(naming_memory(
          "the weights of local steps", [&] { return at_->allocate(layout_->size() * sizeof(float)); }))),
      read_(layout_->shard_count()),
      differences_([queue = at_, bytes = layout_->dense_size() * sizeof(float)] {
        auto made = std::make_shared<gradient>();
        made->dense = naming_memory("what local steps have changed", [&] { return queue->allocate(bytes); });
        return made;
      }) {}

void local_steps::receive(std::uint32_t shard, snapshot values, const snapshot& met) {
  const stream& s = at_->where();
  const std::span<float> mine = own(layout_->shard(shard));
  const bool pulls = options_.pull && read_[shard] && met;
  const snapshot& from = pulls ? met : values;
  if (held_) at_->wait_for(held_->ready); // its step reads the own weights, and may not have run
  at_->wait_for(from.ready());
  if (pulls)
    map_weights(s, elastic_pull{*options_.pull}, std::array{from.on(s).data()}, std::array{mine.data()},
                mine.size());
  else
    copy_bytes(s, mine.data(), from.on(s).first(mine.size()).data(), mine.size_bytes());
  queued(from.owner());
  read_[shard] = std::move(values);
}

void local_steps::step(std::shared_ptr<const gradient> g, float scale) {
  ++steps_;
  at_->wait_for(g->ready);
  const float* const values = g->dense.on<float>(at_->where()).data();
  const shard_range all{0, layout_->dense_size()};
  for (const shard_range& range : ranges_of(g->covered, all)) {
    const scaled_gradient one{values + range.begin, scale};
    const std::span<float> mine = own(range);
    optimizer_->update(at_->where(), {mine, mine, {&one, 1}, steps_, range.begin, 1});
  }
  covered_ = g->covered;
  ++taken_;
  queued(std::move(g));
}

std::shared_ptr<const gradient> local_steps::difference() {
  const stream& s = at_->where();
  const std::shared_ptr<gradient> result = differences_.take();
  const std::span<float> out = result->dense.on<float>(s);
  for (std::size_t i = 0; i < read_.size(); ++i) {
    const shard_range range = layout_->shard(i);
    const std::size_t count = std::min(range.end, out.size()) - range.begin;
    at_->wait_for(read_[i].ready());
    map_weights(s, subtraction{}, std::array<const float*, 2>{read_[i].on(s).data(), own(range).data()},
                std::array{out.data() + range.begin}, count);
    queued(read_[i].owner());
    if (!options_.pull) read_[i].reset(); // a shard updates in place while no worker holds its snapshot
  }
  result->ready = at_->record();
  result->covered = covered_;
  taken_ = 0;
  return result;
}

void local_steps::keep(archive& a) {
  a.version(1);
  keep_floats(a, "weights", *own_, *at_);
  optimizer_->keep(a, *at_);
  a.field("taken", taken_);
  a.field("steps", steps_);
  for (std::size_t s = 0; s < read_.size(); ++s) keep_read(a, s);
  keep_ranges(a, "covered", covered_);
  keep_held(a);
  if (a.reads()) queued(nullptr);
}

void local_steps::keep_read(archive& a, std::size_t shard) {
  const std::string name = fmt::format("read {}", shard);
  snapshot& read = read_[shard];
  bool present = static_cast<bool>(read);
  a.field("has " + name, present);
  if (!present) return;
  if (!a.reads()) {
    at_->wait_for(read.ready());
    hold_floats(a, name, read.owner(), 0, read.size(), *at_);
    return queued(read.owner());
  }
  const std::span<const float> values = a.array(name).values;
  const shard_range range = layout_->shard(static_cast<std::uint32_t>(shard));
  if (values.size() != range.size())
    throw archive_error(fmt::format("{}: expected {} floats, found {}", name, range.size(), values.size()));
  auto copy = std::make_shared<memory>(
      naming_memory("the weights of local steps", [&] { return at_->allocate(values.size_bytes()); }));
  at_->write(values, *copy);
  read = snapshot(std::move(copy), at_->record());
}

void local_steps::keep_held(archive& a) {
  bool held = held_ != nullptr;
  a.field("holds a step", held);
  a.field("held_scale", held_scale_);
  if (!held) return;
  if (!a.reads()) {
    at_->wait_for(held_->ready);
    hold_floats(a, "held", std::shared_ptr<const memory>(held_, &held_->dense), 0, layout_->dense_size(),
                *at_);
    return queued(held_);
  }
  const auto read = std::make_shared<gradient>();
  read->dense = naming_memory("the step that local steps hold",
                              [this] { return at_->allocate(layout_->dense_size() * sizeof(float)); });
  keep_floats(a, "held", read->dense, *at_);
  read->ready = at_->record();
  read->covered = covered_; // all gradients of a round cover the same
  held_ = read;
}

} // namespace mailgrad

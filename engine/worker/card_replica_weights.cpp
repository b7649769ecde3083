#include <mailgrad/engine/worker/card_replica.hpp>

#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>

// What a replica on a card does with the weights that it is given: it brings those of the host to pinned
// memory, and all that a step reads to where its kernels read.

namespace mailgrad {
namespace {

/// Calls `use` for each part of `ranges` that lies in `within`.
template <class Use>
void for_each_part(std::span<const shard_range> ranges, const shard_range& within, Use use) {
  for (const shard_range& r : ranges) {
    const shard_range part{std::max(r.begin, within.begin), std::min(r.end, within.end)};
    if (part.begin < part.end) use(part);
  }
}

} // namespace

void card_replica::require_shard(std::uint32_t shard, bool values) const {
  if (shard >= shards_.size() || !values)
    throw std::invalid_argument(fmt::format("weights: {} for shard {} of {}", values ? "values" : "no values",
                                            shard, shards_.size()));
}

void card_replica::use_host_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void>) {
  require_shard(shard, values != nullptr);
  if (near_[shard])
    throw device_error(world_errc::wrong_place,
                       fmt::format("weights: expected those of shards on {}, found some of the host",
                                   to_string(device{place_.kind, place_.index})));
  shards_[shard] = {values};
}

void card_replica::use_weights(std::uint32_t shard, const snapshot& values) {
  if (values && !values.owner()->is_on_host()) {
    require_shard(shard, true);
    if (!near_[shard])
      throw device_error(world_errc::wrong_place, "weights: expected those of shards on the host");
    values.on(lane_.where()); // refuses those of another card
    shards_[shard] = {nullptr, false, values};
    return;
  }
  step_runner::use_weights(shard, values);
  if (!queued_.empty() || racing()) return; // the copy of the step under way may still read there
  stage_dense(shard);
  shards_[shard].staged = true;
}

void card_replica::stage_dense(std::uint32_t shard) {
  const shard_range range = layout_->shard(shard);
  const std::size_t end = std::min(range.end, std::max(range.begin, layout_->dense_size()));
  std::copy_n(shards_[shard].values, end - range.begin, staged_.as<float>().data() + range.begin);
}

/// What the step reads of the shard's tables, which only its batch tells.
void card_replica::stage_tables(std::uint32_t shard, const queued_step& step) {
  const shard_range range = layout_->shard(shard);
  const float* const from = shards_[shard].values;
  float* const to = staged_.as<float>().data();
  const shard_range tables{std::max(range.begin, layout_->dense_size()), range.end};
  for_each_part(step.code->reads().whole(), tables, [&](const shard_range& part) {
    std::copy_n(from + (part.begin - range.begin), part.size(), to + part.begin);
  });
  copies_.clear();
  const batch& b = *step.inputs;
  step.code->reads().list_copies(
      shard, from, to, [&b](const batch_part& part) { return part.of(b).values<std::int32_t>().data(); },
      copies_);
  copy_rows(host_stream{}, copies_);
}

/// Copies the weights that may have changed since they were given: those that are no snapshot, to which under
/// hogwild other workers write meanwhile. And copies tables.
void card_replica::stage_other_weights(const queued_step& step) {
  std::optional<racing_read> others_write;
  if (racing()) others_write.emplace();
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    if (shards_[s].values == nullptr && !shards_[s].on_card)
      throw std::invalid_argument(fmt::format("weights: none of shard {} yet", s));
    if (!shards_[s].values) continue;
    if (!shards_[s].staged) stage_dense(s);
    stage_tables(s, step);
  }
}

void card_replica::wait_for_weights() {
  for (const given_weights& w : shards_) lane_.wait_for(w.on_card.ready());
}

/// They go to the same memory in each step, so that its graph reads the same addresses. The card itself reads
/// the rows of pinned memory that it copies.
void card_replica::send_weights() {
  const weight_reads& reads = queued_.back().code->reads();
  const stream& s = lane_.where();
  float* const there = weights_.on<float>(s).data();
  const float* const staged = all_near_ ? nullptr : staged_.as<float>().data();
  const auto send = [&](const shard_range& part, const float* from) {
    cuda::runtime::copy(lane_stream().stream, there + part.begin, from, part.size() * sizeof(float));
  };
  copies_.clear();
  for (const shard_range& part : reads.whole())
    if (!any_near_) send(part, staged + part.begin);
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    const shard_range range = layout_->shard(i);
    const float* const from = near_[i] ? shards_[i].on_card.on(s).data() : staged + range.begin;
    if (any_near_)
      for_each_part(reads.whole(), range,
                    [&](const shard_range& part) { send(part, from + (part.begin - range.begin)); });
    reads.list_copies(
        i, from, there, [this](const batch_part& part) { return numbers_of_step(part); }, copies_);
  }
  copy_rows(s, copies_);
}

const std::int32_t* card_replica::numbers_of_step(const batch_part& part) const {
  const queued_step& step = queued_.back();
  return step.code->numbers_on_card(step.set, part, *step.inputs);
}

} // namespace mailgrad

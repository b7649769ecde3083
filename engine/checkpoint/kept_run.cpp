#include <mailgrad/engine/checkpoint/kept_run.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

void keep_switch(archive& a, policy_switch& s) {
  a.fields({"step", "from", "to", "why"}, s.step, s.from, s.to, s.why);
}

} // namespace

void checkpoint_card::keep(archive& a) {
  a.version(2);
  a.fields({"workers", "shards", "facts", "words", "replayed"}, workers, shards, facts, words, replayed);
  a.fields({"steps", "elapsed_ns", "present", "counted", "lost"}, steps, elapsed, present, counted, lost);
}

void kept_schedule::keep(archive& a) {
  a.version(1);
  a.fields({"policy", "planned", "asked"}, policy, planned, asked);
  std::size_t count = done.size();
  a.field("switches", count);
  for (std::size_t i = 0; i < count; ++i) {
    policy_switch s = a.reads() ? policy_switch{} : done[i];
    a.group("switch " + std::to_string(i), [&] { keep_switch(a, s); });
    if (a.reads()) done.push_back(s);
  }
}

void feeder_position::keep(archive& a) {
  a.version(1);
  a.fields({"batches", "trained", "switches"}, batches, trained, switches);
}

std::shared_ptr<const saved_fields> keep_block(const hogwild_store& block, block_weights which) {
  const auto fields = std::make_shared<saved_fields>();
  std::uint64_t updates = block.version();
  std::uint64_t before = block.before();
  fields->version(1);
  fields->field("updates", updates);
  fields->field("before", before);
  if (which == block_weights::in_shards) return fields;
  const auto values = std::make_shared<std::vector<float>>(block.size());
  block.load(0, *values);
  fields->hold("weights", values, *values);
  return fields;
}

std::vector<float> kept_hogwild_weights(const checkpoint& from, std::size_t size) {
  std::vector<float> all;
  const auto append = [&](const std::shared_ptr<saved_fields>& part) {
    const std::span<const float> values = part->array("weights").values;
    all.insert(all.end(), values.begin(), values.end());
  };
  const auto name = [](std::size_t shard) { return fmt::format("shard {}", shard); };
  if (!from.has(name(0))) append(from.part(block_part));
  for (std::size_t s = 0; from.has(name(s)); ++s) {
    const auto part = from.part(name(s));
    part->group("shard", [&] { append(part); });
  }
  if (all.size() != size)
    throw archive_error(fmt::format("block/weights: expected {} floats, found {}", size, all.size()));
  return all;
}

void restore_block(const checkpoint& from, hogwild_store& block, block_weights which, std::uint64_t known) {
  const auto fields = from.part(block_part);
  std::uint64_t updates = 0;
  std::uint64_t before = 0;
  fields->version(1);
  fields->field("updates", updates);
  fields->field("before", before);
  if (known > updates)
    throw archive_error(fmt::format("block: its workers made {} updates, and it counts {}", known, updates));
  if (which == block_weights::all) block.store(0, kept_hogwild_weights(from, block.size()));
  block.go_on_from(known, before + updates - known);
}

} // namespace mailgrad

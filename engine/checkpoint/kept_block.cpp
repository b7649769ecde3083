#include <mailgrad/engine/checkpoint/kept_block.hpp>

#include <fmt/format.h>

#include <vector>

namespace mailgrad {

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

void restore_block(const checkpoint& from, hogwild_store& block, block_weights which, std::uint64_t known) {
  const auto fields = from.part(block_part);
  std::uint64_t updates = 0;
  std::uint64_t before = 0;
  fields->version(1);
  fields->field("updates", updates);
  fields->field("before", before);
  if (known > updates)
    throw archive_error(fmt::format("block: its workers made {} updates, and it counts {}", known, updates));
  if (which == block_weights::all) {
    const archived_array& values = fields->array("weights");
    if (values.values.size() != block.size())
      throw archive_error(fmt::format("block/{}: expected {} floats, found {}", values.path, block.size(),
                                      values.values.size()));
    block.store(0, values.values);
  }
  block.go_on_from(known, before + updates - known);
}

} // namespace mailgrad

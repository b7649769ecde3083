#include <mailgrad/lab/weights_reader.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <algorithm>
#include <span>

namespace mailgrad::lab {
using messaging::on, messaging::send;

caf::behavior weights_reader::make_behavior() {
  return {
      on(self_, [this](const test_weights&) { on_test(); }),
      on(self_, [this](const shard_read& x) { on_read(x); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

void weights_reader::on_test() {
  to_->values.resize(layout_->size());
  to_->updates = 0;
  for (const caf::actor& shard : shards_) send(self_, shard, read_shard{});
  if (!shards_.empty()) return;
  store_->load(0, to_->values);
  to_->updates = store_->version();
}

void weights_reader::on_read(const shard_read& x) {
  const shard_range range = layout_->shard(x.shard.value);
  const std::span mine = std::span(to_->values).subspan(range.begin, range.size());
  if (x.in_block)
    store_->load(range.begin, mine);
  else
    std::ranges::copy(x.values.on_host(), mine.begin());
  const std::uint64_t updates = x.in_block ? store_->version() : x.version.value;
  to_->updates = std::max(to_->updates, updates);
}

} // namespace mailgrad::lab

#include <mailgrad/lab/version_reader.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

namespace mailgrad::lab {
using messaging::on, messaging::send;

caf::behavior version_reader::make_behavior() {
  return {
      on(self_, [this](const read_shard&) { send(self_, shard_, read_shard{}); }),
      on(self_, [this](const shard_read& x) { *to_ = x.version.value; }),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

} // namespace mailgrad::lab

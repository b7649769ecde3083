#include <mailgrad/actors/worker/shard_exchange.hpp>

#include <utility>

namespace mailgrad {

shard_exchange::shard_exchange(const worker_context& of, shard_lines& lines, std::uint64_t sample_gap)
    : of_(of), lines_(lines), sample_gap_(sample_gap), comparison_(lines.count()) {}

void shard_exchange::receive(const shard_weights& x) {
  const instant taken = of_.time.now();
  of_.runner.use_weights(x.header.shard.value, x.payload.values);
  lines_.note(x, taken, of_.time.now() - taken);
  receive_late(x);
}

void shard_exchange::receive_late(const shard_weights& x) {
  if (x.payload.met) comparison_.take(x.header.shard, x.header.met, x.payload.met);
}

void shard_exchange::deliver(computed_gradient g) {
  const step_number next{lines_.step().value + 1};
  const bool sampled = sample_gap_ > 0 && next.value % sample_gap_ == 0 && g.values;
  if (sampled) comparison_.begin(next, g.values);
  lines_.push(std::move(g.values), g.scale, g.at, g.spent, sampled);
}

std::shared_ptr<const batch> shard_exchange::bind_repeat() {
  if (!comparison_.ready()) return nullptr;
  for (std::uint32_t s = 0; s < lines_.count(); ++s) of_.runner.use_weights(s, comparison_.weights({s}));
  of_.runner.compare_with(comparison_.stale());
  return comparison_.stale()->source;
}

void shard_exchange::take_repeat(const gradient& fresh) {
  if (const auto found = of_.runner.cosine_to(*comparison_.stale(), fresh)) {
    of_.report.gradient_cosine.add(*found);
    of_.report.cosines.add({of_.life, comparison_.step(), *found});
  }
  comparison_.forget();
  for (std::uint32_t s = 0; s < lines_.count(); ++s) of_.runner.use_weights(s, lines_.weights(s));
}

} // namespace mailgrad

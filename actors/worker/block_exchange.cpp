#include <mailgrad/actors/worker/block_exchange.hpp>

#include <utility>

namespace mailgrad {

block_exchange::block_exchange(const worker_context& of, shard_lines& lines,
                               std::shared_ptr<hogwild_writer> writer, std::vector<std::size_t> shard_begins,
                               caf::actor tracker, notice_pace pace)
    : of_(of), lines_(lines), writer_(std::move(writer)), shard_begins_(std::move(shard_begins)),
      notices_(of.self, std::move(tracker), of.time, pace) {}

void block_exchange::receive(const shard_weights& x) { lines_.note(x, of_.time.now(), instant{0}); }

void block_exchange::bind() {
  const instant since = of_.time.now();
  const float* const shared = writer_->begin_step();
  for (std::uint32_t s = 0; s < shard_begins_.size(); ++s)
    if (writer_->is_on_card())
      of_.runner.use_weights(s, writer_->racing_weights(s));
    else
      of_.runner.use_host_weights(s, shared + shard_begins_[s], writer_);
  of_.report.times.read.add(of_.time.now() - since);
}

void block_exchange::deliver(computed_gradient g) {
  const instant begun = of_.time.now();
  std::uint64_t gap = 0;
  update_by_rule(writer_->rule(), [&] { gap = writer_->write(std::move(g.values), g.scale); });
  const instant applied = of_.time.now();
  worker_report& report = of_.report;
  if (g.spent) report.times.compute.add(*g.spent);
  report.times.apply.add(applied - begun);
  if (of_.trace)
    of_.trace->work({trace_kind::apply, begun, applied, of_.worker.value, report.steps,
                     writer_->version_read(), writer_->version_read() + gap + 1});
  ++report.produced;
  ++report.applied;
  report.gaps.count(gap);
  notices_.count(gap, applied);
}

bool block_exchange::flush() {
  notices_.flush();
  return false;
}

} // namespace mailgrad

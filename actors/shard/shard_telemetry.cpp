#include <mailgrad/actors/shard/shard_telemetry.hpp>

#include <utility>

namespace mailgrad {

shard_telemetry::shard_telemetry(caf::event_based_actor* self, caf::actor tracker,
                                 std::shared_ptr<const time_source> time, std::shared_ptr<trace_track> trace,
                                 notice_pace pace, std::function<void(trace_piece)> tell)
    : time_(std::move(time)), trace_(std::move(trace)), gaps_(self, std::move(tracker), *time_, pace),
      teller_({"", time_, tell ? trace_ : nullptr, tell}) {}

void shard_telemetry::begin_telling() {
  if (!std::exchange(told_, true)) teller_.begin();
}

void shard_telemetry::applied(const gradient_header& x, version_number version, instant begun, instant span) {
  if (!trace_) return;
  trace_->work({trace_kind::apply, begun, begun + span, x.id.worker.value, x.id.step.value,
                x.version_read.value, version.value});
}

void shard_telemetry::idle(bool batch_begun, instant arrived, bool follows) {
  if (!trace_) return;
  trace_->wait(batch_begun ? trace_kind::rest_of_batch : trace_kind::gradient, arrived);
  if (follows) trace_->wait(trace_kind::word_of_first_shard, time_->now());
}

void shard_telemetry::moment(trace_kind what, const gradient_header& x, std::string_view word) {
  if (!trace_) return;
  const instant now = time_->now();
  trace_->moment({what, now, now, x.id.worker.value, x.id.step.value, x.version_read.value, 0, word});
}

} // namespace mailgrad

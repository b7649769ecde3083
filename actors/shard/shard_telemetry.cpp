#include <mailgrad/actors/shard/shard_telemetry.hpp>

#include <chrono>
#include <utility>

namespace mailgrad {

namespace {

/// One message to the tracker for so many gradients.
constexpr std::uint64_t observations_per_notice = 256;
/// Or for such a span: a display shows what is true now.
constexpr instant notice_interval = std::chrono::milliseconds{100};

} // namespace

shard_telemetry::shard_telemetry(caf::event_based_actor* self, caf::actor tracker,
                                 std::shared_ptr<const time_source> time, std::shared_ptr<trace_track> trace)
    : self_(self), tracker_(std::move(tracker)), time_(std::move(time)), trace_(std::move(trace)),
      sent_(time_->now()) {}

void shard_telemetry::gap(std::uint64_t versions, instant arrived) {
  gaps_.count(versions);
  if (gaps_.total() >= observations_per_notice || arrived - sent_ >= notice_interval) flush_gaps();
}

void shard_telemetry::flush_gaps() {
  if (gaps_.empty()) return;
  send(self_, tracker_, staleness_observed{gaps_});
  gaps_.clear();
  sent_ = time_->now();
}

void shard_telemetry::applied(const push_gradient& x, std::uint64_t version, instant begun, instant span) {
  if (!trace_) return;
  trace_->work({trace_kind::apply, begun, begun + span, x.worker.value, x.step, x.version_read, version});
}

void shard_telemetry::idle(bool batch_begun, instant arrived, bool follows) {
  if (!trace_) return;
  trace_->wait(batch_begun ? trace_kind::rest_of_batch : trace_kind::gradient, arrived);
  if (follows) trace_->wait(trace_kind::word_of_first_shard, time_->now());
}

void shard_telemetry::moment(trace_kind what, const push_gradient& x, std::string_view word) {
  if (!trace_) return;
  const instant now = time_->now();
  trace_->moment({what, now, now, x.worker.value, x.step, x.version_read, 0, word});
}

} // namespace mailgrad

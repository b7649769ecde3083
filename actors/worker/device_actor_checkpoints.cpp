#include <mailgrad/actors/worker/device_actor.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <utility>

// What a device actor does for checkpoints: it marks its place in the run, and tells where it was then.

namespace mailgrad {
using messaging::send;

/// Reads what the worker had done.
void device_actor::keep_report(archive& a) {
  const rank me = report_.worker;
  a.field("report", report_);
  if (report_.worker != me) throw archive_error(fmt::format("report: is of worker {}", report_.worker.value));
}

/// Reads or writes where the worker was: between two steps, or at the begin of the step under way.
void device_actor::keep_beside_report(archive& a) {
  a.version(1);
  bool ended = false; // the coordinator wrote it after the worker's last report
  a.field("ended", ended);
  a.field("lines", lines_);
  if (!ended) a.group("exchange", [&] { over_shards_->keep(a); });
  if (!into_block_) return;
  bool has_block = true; // a worker that ended early left none
  a.field("has block", has_block);
  if (has_block) a.group("block", [&] { into_block_->keep(a); });
}

void device_actor::mark(std::uint64_t checkpoint) {
  if (checkpoint <= marked_ || gate_.finished()) return;
  marked_ = checkpoint;
  marked_part part{checkpoint, std::make_shared<saved_fields>(), report_};
  std::string failure;
  or_fail(report_.steps, [&] {
    try {
      keep_beside_report(*part.fields);
    } catch (const out_of_memory& e) {
      failure = e.what(); // the run goes on without this checkpoint
    }
  });
  if (gate_.finished()) return;
  lines_.mark(checkpoint, options_.coordinator);
  send(self_, options_.feeder,
       worker_marked{checkpoint, options_.worker, lines_.trained(), report_.samples, options_.coordinator});
  if (!failure.empty())
    send(self_, options_.coordinator, checkpoint_failed{checkpoint, name_of_part(), failure});
  else if (gate_.steps().empty() || !gate_.steps().oldest().pushed)
    send_part(std::move(part));
  else
    marked_parts_.add(std::move(part)); // the losses of its last steps are still to come
}

std::string device_actor::name_of_part() const { return fmt::format("worker {}", options_.worker.value); }

namespace {

/// Empty if something else went wrong.
std::string lack_of_memory(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const out_of_memory& e) {
    return e.what();
  } catch (...) {
    return {};
  }
}

} // namespace

/// What its exchange keeps may still be on its way from a card. A card that is lost ends the run. One that
/// lacks memory for the mark behind the copies does not.
void device_actor::send_part(marked_part part) {
  part.fields->field("report", part.report);
  checkpoint_part whole{part.checkpoint, name_of_part(), std::move(part.fields), part.report.steps};
  queued_.when_done([this, whole = std::move(whole)](const std::exception_ptr& why) {
    if (!why) return send(self_, options_.coordinator, whole);
    if (const std::string lacking = lack_of_memory(why); !lacking.empty())
      send(self_, options_.coordinator, checkpoint_failed{whole.number, whole.name, lacking});
  });
}

void device_actor::on_hold(const hold_for_checkpoint& x) {
  if (x.number <= marked_ || gate_.finished()) return;
  gate_.ask_for_hold(x.number);
  stand_still_if_asked();
}

/// A step that is computed reads the block, and then writes to it.
void device_actor::stand_still_if_asked() {
  if (!gate_.hold()) return;
  const auto checkpoint = gate_.begin_hold(exchange_->is_summing(), options_.time->now());
  if (!checkpoint) return;
  end_wait_for_batch();
  mark(*checkpoint);
}

void device_actor::go_on_after(const block_copied& x) {
  if (gate_.hold() != x.number) return;
  if (const auto since = gate_.end_hold()) {
    const instant now = options_.time->now();
    report_.barrier_wait += (now - *since).count();
    if (options_.trace) options_.trace->wait(trace_kind::checkpoint, now);
  }
  start_step_if_ready();
}

void device_actor::on_mark_at_end(const mark_at_end& x) {
  end_mark_ = x.number;
  start_step_if_ready();
}

/// Asks once. The mark is made here, unless weights of behind the checkpoint have come before.
bool device_actor::waits_to_end() {
  if (!options_.keeps_end) return false;
  if (end_mark_) {
    mark(*end_mark_);
    return gate_.finished(); // it has failed there
  }
  if (at_end_since_) return true;
  end_wait_for_batch();
  at_end_since_ = options_.time->now();
  send(self_, options_.coordinator, worker_at_end{options_.worker, options_.life});
  return true;
}

/// What is on a card comes before the report. If the card is lost, no later checkpoint can be whole.
std::shared_ptr<saved_fields> device_actor::kept_of_block() {
  if (!into_block_ || !options_.keeps_end) return nullptr;
  auto fields = std::make_shared<saved_fields>();
  try {
    fields->group("block", [&] { into_block_->keep(*fields); });
  } catch (const device_error&) {
    return nullptr;
  }
  return fields;
}

} // namespace mailgrad

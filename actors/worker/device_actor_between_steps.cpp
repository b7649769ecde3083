#include <mailgrad/actors/worker/device_actor.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

// What a device actor does between two steps: it takes weights and batches, pauses for a switch of policy,
// and begins the next step when it may.

namespace mailgrad {
using messaging::send, messaging::send_anonymously;

void device_actor::on_weights(const shard_weights& x) {
  if (gate_.finished()) return;
  if (x.header.epoch != lines_.epoch()) return over_shards_->receive_late(x);
  mark(x.header.checkpoint); // before they make a difference, since they do not belong to the checkpoint
  or_fail(report_.steps, [&] { exchange_->receive(x); });
  flush_before_switch();
  pause_if_asked();
  start_step_if_ready();
}

/// As a rule while the shards still answer the last gradient, since batches are asked for one ahead.
void device_actor::cut_batch(const dealt_samples& x) {
  or_fail(report_.steps + 1, [&] {
    if (!options_.samples)
      throw std::runtime_error("expected a batch from the feeder, found numbers of samples");
    next_batch_ = options_.samples->cut(x.number, x.epoch, x.samples);
    ++report_.own_batches;
    report_.own_bytes += bytes_of(*next_batch_);
  });
  start_step_if_ready();
  foresee();
}

/// A worker that waits to end does so before the switch, as it does in a replay, where none waits.
void device_actor::on_pause(const pause_worker& x) {
  if (at_end_since_ && !end_mark_) on_mark_at_end({});
  gate_.ask_for_pause(x);
  pause_if_asked();
}

/// A step that is held is taken when all shards have answered, if it is among the steps before the switch.
void device_actor::flush_before_switch() {
  if (lines_.awaits_again()) return;
  const auto last = gate_.flush_due(exchange_->is_summing());
  if (!last) return;
  const bool takes_held = exchange_->holds_step() && lines_.step() < *last;
  if (takes_held && !lines_.all_answered()) return;
  or_fail(report_.steps, [&] {
    if (takes_held) exchange_->go_on();
    exchange_->flush();
  });
  gate_.flushed();
}

/// Pauses between two steps only, since a gradient that is being computed, and local steps, belong to the old
/// epoch.
void device_actor::pause_if_asked() {
  if (lines_.awaits_again()) return;
  const auto asked = gate_.take_pause(exchange_->is_summing());
  if (!asked) return;
  or_fail(report_.steps, [this] {
    exchange_->flush();
    exchange_->pause();
  });
  if (gate_.finished()) return;
  exchange_ = asked->direct ? into_block_.get() : over_shards_.get();
  options_.runner->use_racing_weights(asked->direct);
  lines_.begin_epoch(asked->epoch);
  end_wait_for_batch();
  send(self_, options_.coordinator,
       worker_paused{options_.worker, lines_.epoch(), lines_.step(), batches_, options_.life});
}

void device_actor::start_step_if_ready() {
  if (!lines_.all_answered() || !gate_.may_begin(exchange_->is_summing())) return;
  or_fail(report_.steps, [this] {
    if (auto again = exchange_->bind_repeat()) return compute(std::move(again), true);
    if (!next_batch_ && gate_.expects_batch()) return wait_for_batch();
    if (!next_batch_ && !gate_.leaves() && waits_to_end()) return;
    // Not earlier: for replays it must make no difference whether a pause comes before or after the answers.
    exchange_->go_on();
    if (next_batch_ && !gate_.leaves()) return start_step();
    if (!gate_.may_end()) return;
    if (!exchange_->flush()) return gate_.leaves() ? leave() : finish();
    end_wait_for_batch();
  });
}

void device_actor::wait_for_batch() {
  if (!starved_since_ && gate_.steps().empty()) starved_since_ = options_.time->now();
}

void device_actor::end_wait_for_batch() {
  if (!starved_since_) return;
  const instant now = options_.time->now();
  report_.feeder_wait += (now - *std::exchange(starved_since_, std::nullopt)).count();
  if (options_.trace) options_.trace->wait(trace_kind::batch, now);
}

void device_actor::ask_for_batch() {
  send(self_, options_.feeder, next_batch{options_.worker, options_.life, options_.samples != nullptr});
}

/// As a rule during the step before, since batches are asked for one ahead.
void device_actor::foresee() {
  if (!next_batch_ || !options_.runner->copies_ahead()) return;
  or_fail(report_.steps + 1, [this] { options_.runner->foresee(next_batch_, copy_notice()); });
}

std::function<void()> device_actor::copy_notice() const {
  if (!options_.copies) return {};
  return [us = caf::actor_cast<caf::actor>(self_), time = options_.time, step = step_number{batches_ + 1},
          begun = options_.time->now()] {
    send_anonymously(us, batch_copied{step, begun.count(), time->now().count()});
  };
}

} // namespace mailgrad

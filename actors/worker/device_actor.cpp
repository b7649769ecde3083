#include <mailgrad/actors/worker/device_actor.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <string>
#include <utility>

namespace mailgrad {
using messaging::on, messaging::send, messaging::send_anonymously, messaging::sender_of;

device_actor::device_actor(caf::event_based_actor* self, device_actor_options options)
    : self_(self), options_(std::move(options)), runs_ahead_(may_run_ahead()),
      gate_(runs_ahead_ ? options_.runner->most_under_way() : 1),
      lines_(context(), std::move(options_.shards)),
      notices_(self, options_.tracker, options_.coordinator, options_.worker, options_.pace),
      timeline_(
          {options_.tells_trace, options_.time, options_.tells_trace.empty() ? nullptr : options_.trace,
           [this](trace_piece piece) {
             send(self_, options_.coordinator, trace_told{options_.worker, options_.life, std::move(piece)});
           }}),
      gradients_([this] { return options_.runner->make_gradient(); }),
      queued_(self, options_.works_in ? options_.works_in : std::make_shared<host_lane>(), options_.watch) {
  report_.worker = options_.worker;
  report_.loss_bits = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
  const worker_context me = context();
  if (options_.local)
    over_shards_ = std::make_unique<local_exchange>(me, lines_, std::move(options_.local));
  else if (options_.sums)
    over_shards_ = std::make_unique<summed_exchange>(me, lines_, std::move(options_.sums));
  else
    over_shards_ = std::make_unique<shard_exchange>(me, lines_, options_.sample_gap);
  if (options_.writer)
    into_block_ =
        std::make_unique<block_exchange>(me, lines_, std::move(options_.writer),
                                         std::move(options_.shard_begins), options_.tracker, options_.pace);
  exchange_ = options_.direct ? into_block_.get() : over_shards_.get();
  options_.runner->use_racing_weights(options_.direct);
  if (options_.clip_norm != 0) options_.runner->use_norms();
  options_.runner->on_end([us = caf::actor_cast<caf::actor>(self)] { send_anonymously(us, step_ended{}); });
}

worker_context device_actor::context() {
  return {self_,   options_.run,   options_.worker,      options_.life, *options_.runner,
          report_, *options_.time, options_.trace.get(), &gate_.steps()};
}

/// Not if the worker itself reads a gradient on the host before it is pushed.
bool device_actor::may_run_ahead() const {
  const bool local_on_host = options_.local && !is_on_card(*options_.local->at());
  const bool reads_gradients =
      local_on_host || options_.sums || options_.writer || options_.clip_norm != 0 || options_.sample_gap > 0;
  return options_.runner->most_under_way() > 1 && !reads_gradients;
}

caf::behavior device_actor::make_behavior() {
  send(self_, options_.coordinator,
       worker_joined{options_.worker, caf::actor_cast<caf::actor>(self_), options_.life, options_.late});
  go_on_from_checkpoint();
  if (options_.late) return waiting_for_a_seat();
  if (!gate_.finished()) join();
  return training();
}

/// What local steps keep may need memory of a card. The coordinator knows of this worker by now, and hears if
/// that is lacking, and after which step.
void device_actor::go_on_from_checkpoint() {
  if (!options_.resumed) return;
  or_fail(report_.steps, [this] { keep_report(*options_.resumed); });
  or_fail(report_.steps, [this] { keep_beside_report(*options_.resumed); });
  options_.resumed.reset();
}

caf::behavior device_actor::waiting_for_a_seat() {
  const instant since = options_.time->now();
  return {
      on(self_, [this](const seat_given& x) { sit(x); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
      on(self_,
         [this](const leave_run&) {
           owner_ = sender_of(self_);
           tell_owner();
           self_->quit();
         }),
      on(self_, [this](const copy_books&) { return worker_books{report_}; }),
      on(self_,
         [this, since](const name_waits&) {
           send(self_, sender_of(self_),
                wait_named{fmt::format("worker {} waits for a seat", options_.worker.value),
                           (options_.time->now() - since).count()});
         }),
  };
}

/// The worker goes on counting where its earlier incarnations ended.
void device_actor::sit(const seat_given& x) {
  const std::uint32_t no_loss = report_.loss_bits;
  report_ = x.so_far;
  report_.worker = options_.worker;
  report_.trace.reset();
  report_.copies.reset();
  report_.stages.clear();
  if (report_.last_losses.samples() == 0) report_.loss_bits = no_loss;
  marked_ = x.checkpoint;
  lines_.join_in(x.epoch);
  join();
  self_->become(training());
}

void device_actor::join() {
  lines_.begin_life();
  batches_ = report_.steps;
  lines_.join();
  ask_for_batch();
  notices_.begin(options_.time->now(), report_);
  timeline_.begin();
}

caf::behavior device_actor::training() {
  if (!options_.runner_hears) return messages_of_a_run();
  return messages_of_a_run().or_else(options_.runner_hears(self_));
}

caf::message_handler device_actor::messages_of_a_run() {
  return {
      on(self_, [this](const shard_weights& x) { on_weights(x); }),
      on(self_,
         [this](const dealt_batch& x) {
           next_batch_ = x.values;
           if (!gate_.steps().empty()) foresee(); // before a step begins that runs ahead
           start_step_if_ready();
           foresee();
         }),
      on(self_, [this](const dealt_samples& x) { cut_batch(x); }),
      on(self_,
         [this](const data_exhausted&) {
           gate_.end_data();
           start_step_if_ready();
         }),
      on(self_,
         [this](const switch_ahead& x) {
           gate_.ask_for_flush(x.step);
           flush_before_switch();
         }),
      on(self_, [this](const step_ended&) { on_step_ended(); }),
      on(self_, [this](const gradient_foretold& x) { on_foretold(x); }),
      on(self_, [this](const weights_copied&) { queued_.serve(); }),
      on(self_,
         [this](const batch_copied& x) {
           if (options_.copies)
             options_.copies->work({trace_kind::copy, instant{x.begun}, instant{x.ended}, 0, x.step.value});
         }),
      on(self_, [this](const gradients_summed& x) { on_sum(x); }),
      on(self_, [this](const trace_taken& x) { timeline_.on_taken(x); }),
      on(self_, [this](const pause_worker& x) { on_pause(x); }),
      on(self_, [this](const take_checkpoint& x) { mark(x.number); }),
      on(self_, [this](const hold_for_checkpoint& x) { on_hold(x); }),
      on(self_, [this](const block_copied& x) { go_on_after(x); }),
      on(self_, [this](const mark_at_end& x) { on_mark_at_end(x); }),
      on(self_,
         [this](const turn_missing& x) {
           or_fail(report_.steps, [&] {
             throw std::runtime_error(
                 fmt::format("shard {} of the recording has no turn for its gradient of step {}",
                             x.shard.value, x.step.value));
           });
         }),
      on(self_,
         [this](const shard_failed& x) {
           or_fail(report_.steps, [&] {
             throw std::runtime_error(fmt::format("shard {} has failed: {}", x.shard.value, x.why));
           });
         }),
      on(self_, [this](const give_up&) { on_give_up(); }),
      on(self_,
         [this](const leave_run&) {
           gate_.ask_to_leave();
           owner_ = sender_of(self_);
           start_step_if_ready();
         }),
      on(self_, [this](const name_waits&) { name_waits_to(sender_of(self_)); }),
      on(self_, [this](const copy_books&) { return worker_books{report_}; }),
  };
}

void device_actor::name_waits_to(const caf::actor& asker) const {
  const auto tell = [&](const std::string& what, instant since) {
    send(self_, asker,
         wait_named{fmt::format("worker {} waits for {}", options_.worker.value, what),
                    (options_.time->now() - since).count()});
  };
  if (timeline_.is_ending())
    tell("the coordinator to take its timeline", timeline_.told_at());
  else if (!gate_.steps().empty())
    tell(options_.runner->waits_for(), gate_.steps().oldest().since);
  else if (exchange_->is_summing())
    tell(fmt::format("the sum of the gradients of all workers in step {}", report_.steps), summing_since_);
  else if (const auto held = gate_.held_since())
    tell(fmt::format("the block to be copied for checkpoint {}", *gate_.hold()), *held);
  else if (at_end_since_ && !end_mark_)
    tell("the checkpoint of the end", *at_end_since_);
  else if (starved_since_)
    tell("a batch from the feeder", *starved_since_);
  else if (!lines_.all_answered())
    tell(lines_.waits_for(), lines_.waits_since());
}

} // namespace mailgrad

#include <mailgrad/actors/worker/device_actor.hpp>
#include <mailgrad/optim/clip.hpp>

#include <bit>
#include <cmath>
#include <limits>

namespace mailgrad {

using messaging::send_anonymously;

device_actor::device_actor(caf::event_based_actor* self, device_actor_options options)
    : actor_part(self), options_(std::move(options)), runs_ahead_(may_run_ahead()),
      gate_(runs_ahead_ ? options_.runner->most_under_way() : 1),
      lines_(context(), std::move(options_.peers.shards)),
      notices_(self, options_.peers.tracker, options_.peers.coordinator, options_.terms.worker,
               options_.pace),
      timeline_({options_.tells_trace, options_.time, options_.tells_trace.empty() ? nullptr : options_.trace,
                 [this](trace_piece piece) {
                   send(options_.peers.coordinator,
                        trace_reported{options_.terms.worker, options_.terms.incarnation, std::move(piece)});
                 }}),
      gradients_([this] { return options_.runner->make_gradient(); }),
      queued_(self, options_.works_in ? options_.works_in : std::make_shared<host_queue>(), options_.watch) {
  report_.worker = options_.terms.worker;
  report_.loss_bits = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
  const worker_context me = context();
  if (options_.local)
    over_shards_ = std::make_unique<local_exchange>(me, lines_, std::move(options_.local));
  else if (options_.sums)
    over_shards_ = std::make_unique<summed_exchange>(me, lines_, std::move(options_.sums));
  else
    over_shards_ = std::make_unique<shard_exchange>(me, lines_, options_.terms.sample_gap);
  if (options_.writer)
    into_block_ = std::make_unique<block_exchange>(me, lines_, std::move(options_.writer),
                                                   std::move(options_.shard_begins), options_.peers.tracker,
                                                   options_.pace);
  exchange_ = options_.direct ? into_block_.get() : over_shards_.get();
  options_.runner->use_racing_weights(options_.direct);
  if (options_.terms.clip_norm != 0) options_.runner->use_norms();
  options_.runner->on_end([us = caf::actor_cast<caf::actor>(self)] { send_anonymously(us, step_ended{}); });
}

worker_context device_actor::context() {
  return {self_,
          options_.terms.run,
          options_.terms.worker,
          options_.terms.incarnation,
          *options_.runner,
          report_,
          *options_.time,
          options_.trace.get(),
          &gate_.steps()};
}

caf::behavior device_actor::make_behavior() {
  send(options_.peers.coordinator,
       worker_joined{options_.terms.worker, myself(), options_.terms.incarnation, options_.terms.late});
  go_on_from_checkpoint();
  if (options_.terms.late) return waiting_for_a_slot();
  if (!gate_.finished()) join();
  return training();
}

caf::behavior device_actor::waiting_for_a_slot() {
  const instant since = options_.time->now();
  return {
      on([this](const slot_given& x) { take(x); }),
      on([this](const give_up&) { self_->quit(); }),
      on([this](const leave_run&) {
        owner_ = sender();
        tell_owner();
        self_->quit();
      }),
      on([this](const copy_books&) { return worker_books{report_}; }),
      on([this, since](const list_wait_reasons&) {
        send(sender(), wait_reason{fmt::format("worker {} waits for a slot", options_.terms.worker.value),
                                   (options_.time->now() - since).count()});
      }),
  };
}

/// The worker goes on counting where its earlier incarnations ended.
void device_actor::take(const slot_given& x) {
  const std::uint32_t no_loss = report_.loss_bits;
  report_ = x.so_far;
  report_.worker = options_.terms.worker;
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
  lines_.begin_incarnation();
  batches_ = report_.steps;
  lines_.join();
  ask_for_batch();
  notices_.begin(options_.time->now(), report_);
  timeline_.begin();
}

caf::message_handler device_actor::messages_of_a_run() {
  return {
      on([this](const shard_weights& x) { on_weights(x); }),
      on([this](const dealt_batch& x) {
        next_batch_ = x.values;
        if (!gate_.steps().empty()) foresee(); // before a step begins that runs ahead
        start_step_if_ready();
        foresee();
      }),
      on([this](const dealt_samples& x) { cut_batch(x); }),
      on([this](const data_exhausted&) {
        gate_.end_data();
        start_step_if_ready();
      }),
      on([this](const switch_ahead& x) {
        gate_.ask_for_flush(x.step);
        flush_before_switch();
      }),
      on([this](const step_ended&) { on_step_ended(); }),
      on([this](const verdict_predicted& x) { on_predicted(x); }),
      on([this](const weights_copied&) { queued_.serve(); }),
      on([this](const batch_copied& x) {
        if (options_.copies)
          options_.copies->work({trace_kind::copy, instant{x.begun}, instant{x.ended}, 0, x.step.value});
      }),
      on([this](const gradients_summed& x) { on_sum(x); }),
      on([this](const trace_taken& x) { timeline_.on_taken(x); }),
      on([this](const pause_worker& x) { on_pause(x); }),
      on([this](const take_checkpoint& x) { mark(x.number); }),
      on([this](const hold_for_checkpoint& x) { on_hold(x); }),
      on([this](const block_copied& x) { go_on_after(x); }),
      on([this](const mark_at_end& x) { on_mark_at_end(x); }),
      on([this](const entry_missing& x) {
        fail(report_.steps, fmt::format("shard {} of the recording has no turn for its gradient of step {}",
                                        x.shard.value, x.step.value));
      }),
      on([this](const shard_failed& x) {
        fail(report_.steps, fmt::format("shard {} has failed: {}", x.shard.value, x.why));
      }),
      // Also when the coordinator has ended, so that nobody takes the rest of a timeline.
      on([this](const give_up&) { gate_.finished() ? timeline_.give_up() : finish(); }),
      on([this](const leave_run&) {
        gate_.ask_to_leave();
        owner_ = sender();
        start_step_if_ready();
      }),
      on([this](const list_wait_reasons&) { list_wait_reasons_to(sender()); }),
      on([this](const copy_books&) { return worker_books{report_}; }),
  };
}

void device_actor::list_wait_reasons_to(const caf::actor& asker) const {
  const auto tell = [&](const std::string& what, instant since) {
    send(asker, wait_reason{fmt::format("worker {} waits for {}", options_.terms.worker.value, what),
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
  else if (at_end_since_ && !end_marker_)
    tell("the checkpoint of the end", *at_end_since_);
  else if (starved_since_)
    tell("a batch from the feeder", *starved_since_);
  else if (!lines_.all_answered())
    tell(lines_.waits_for(), lines_.waits_since());
}

void device_actor::start_step() {
  end_wait_for_batch();
  lines_.end_waits();
  std::shared_ptr<const batch> inputs = std::move(next_batch_);
  const bool asks_first = runs_ahead_ || options_.runner->computes_at_once();
  if (asks_first) ask_for_batch(); // the feeder deals it while the step is begun or computed
  ++batches_;
  or_fail(report_.steps + 1, [&] {
    exchange_->bind();
    compute(std::move(inputs));
    if (!asks_first) ask_for_batch(); // after the messages to the stages
  });
}

void device_actor::compute(std::shared_ptr<const batch> inputs, bool repeats) {
  std::shared_ptr<gradient> values = gradients_.take();
  values->source.reset(); // so that the next batch is cut into its memory
  begun_step step{std::move(values), report_.steps + (repeats ? 0 : 1), inputs->size, options_.time->now(),
                  repeats};
  const step_state state = options_.runner->begin_step(std::move(inputs), step.values);
  gate_.steps().begin(std::move(step));
  if (state == step_state::finished) return end_of_work();
  if (runs_ahead_) push_ahead(gate_.steps().newest());
}

/// The shards wait for the gradient on the device. They are told how long an earlier step took, since nobody
/// knows yet how long this one will take.
void device_actor::push_ahead(begun_step& step) {
  step.pushed = true;
  note_step(step);
  std::optional<instant> spent;
  if (!computed_.empty()) {
    spent = computed_.front();
    computed_.erase(computed_.begin());
  }
  exchange_->deliver({step.values, 1, options_.time->now(), spent, step.samples});
}

void device_actor::end_oldest_step() {
  steps_under_way& steps = gate_.steps();
  if (gate_.finished()) {
    if (!steps.empty()) steps.take_oldest();
    return quit_if_through();
  }
  or_fail(steps.empty() ? report_.steps + 1 : steps.oldest().number, [this] { end_of_work(); });
}

void device_actor::on_predicted(const verdict_predicted& x) {
  const std::optional<bool> discarded = lines_.take_predicted(x);
  if (!discarded) return;
  if (gate_.finished() || !*discarded) return end_oldest_step();
  options_.runner->skip_step();
  or_fail(gate_.steps().oldest().number, [this] {
    deliver_skipped(gate_.steps().take_oldest());
    go_on_after_step();
  });
}

/// The oldest step that the runner was given has ended. If there is none, the runner is broken and says why.
void device_actor::end_of_work() {
  begun_step ended = gate_.steps().empty() ? begun_step{} : gate_.steps().take_oldest();
  const float loss = options_.runner->end_step();
  if (ended.repeats)
    end_repeat(std::move(ended));
  else if (ended.pushed)
    end_pushed(ended, loss);
  else
    deliver(std::move(ended), loss);
  go_on_after_step();
}

void device_actor::deliver(begun_step ended, float loss) {
  note_step(ended);
  if (!std::isfinite(loss)) {
    ++report_.produced;
    ++report_.not_finite;
    note_computed(ended, options_.time->now());
    return diverge(ended.number);
  }
  note_loss(ended, loss);
  summing_since_ = ended.since; // if it is added up with others
  const float scale = clip(*ended.values);
  const instant now = options_.time->now();
  const device_span when = note_computed(ended, now);
  exchange_->deliver({std::move(ended.values), scale, now, when.end - when.begin, ended.samples});
  tell_progress(now);
}

/// All shards will discard the gradient, and say so of it when it comes.
void device_actor::deliver_skipped(const begun_step& ended) {
  note_step(ended);
  notices_.count(ended.samples, std::nullopt);
  const instant now = options_.time->now();
  const device_span when = note_computed(ended, now);
  exchange_->deliver({nullptr, 1, now, when.end - when.begin, ended.samples});
  tell_progress(now);
}

/// The gradient was pushed when the step began.
void device_actor::end_pushed(const begun_step& ended, float loss) {
  const instant now = options_.time->now();
  const device_span when = note_computed(ended, now);
  computed_.push_back(when.end - when.begin);
  if (gate_.steps().empty()) lines_.begin_idle(now);
  if (!std::isfinite(loss)) return diverge(ended.number);
  note_loss(ended, loss);
  for (marked_part& whole : marked_parts_.take(ended.number)) send_part(std::move(whole));
  tell_progress(now);
}

/// What its device says of a step counts, since the step may have waited there.
device_span device_actor::note_computed(const begun_step& ended, instant now) {
  device_span when{ended.since, now};
  if (const auto there = options_.runner->span()) {
    device_time_.see(there->end, now);
    when = {device_time_.here(there->begin), device_time_.here(there->end)};
  }
  if (options_.trace) options_.trace->work({trace_kind::compute, when.begin, when.end, 0, ended.number});
  return when;
}

float device_actor::clip(const gradient& g) const {
  if (options_.terms.clip_norm == 0) return 1;
  return clip_factor(std::sqrt(options_.runner->squared_norm(g)), options_.terms.clip_norm);
}

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
    ++report_.local_batches;
    report_.local_bytes += bytes_of(*next_batch_);
  });
  start_step_if_ready();
  foresee();
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
  send(options_.peers.coordinator, worker_paused{options_.terms.worker, lines_.epoch(), lines_.step(),
                                                 batches_, options_.terms.incarnation});
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

std::function<void()> device_actor::copy_notice() const {
  if (!options_.copies) return {};
  return
      [us = myself(), time = options_.time, step = step_number{batches_ + 1}, begun = options_.time->now()] {
        send_anonymously(us, batch_copied{step, begun.count(), time->now().count()});
      };
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
  lines_.mark(checkpoint, options_.peers.coordinator);
  send(options_.peers.feeder, worker_marked{checkpoint, options_.terms.worker, lines_.trained(),
                                            report_.samples, options_.peers.coordinator});
  if (!failure.empty())
    send(options_.peers.coordinator, checkpoint_failed{checkpoint, name_of_part(), failure});
  else if (gate_.steps().empty() || !gate_.steps().oldest().pushed)
    send_part(std::move(part));
  else
    marked_parts_.add(std::move(part)); // the losses of its last steps are still to come
}

/// What its exchange keeps may still be on its way from a GPU. A GPU that is lost ends the run. One that
/// lacks memory for the event behind the copies does not.
void device_actor::send_part(marked_part part) {
  part.fields->field("report", part.report);
  checkpoint_part whole{part.checkpoint, name_of_part(), std::move(part.fields), part.report.steps};
  queued_.when_done([this, whole = std::move(whole)](const std::exception_ptr& why) {
    if (!why) return send(options_.peers.coordinator, whole);
    try {
      std::rethrow_exception(why);
    } catch (const out_of_memory& e) {
      send(options_.peers.coordinator, checkpoint_failed{whole.number, whole.name, e.what()});
    } catch (...) {
    }
  });
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

/// Asks once. The marker is made here, unless weights of behind the checkpoint have come before.
bool device_actor::waits_to_end() {
  if (!options_.terms.keeps_end) return false;
  if (end_marker_) {
    mark(*end_marker_);
    return gate_.finished(); // it has failed there
  }
  if (at_end_since_) return true;
  end_wait_for_batch();
  at_end_since_ = options_.time->now();
  send(options_.peers.coordinator, worker_at_end{options_.terms.worker, options_.terms.incarnation});
  return true;
}

/// What is on a GPU comes before the report. If the GPU is lost, no later checkpoint can be whole.
std::shared_ptr<saved_fields> device_actor::kept_of_block() {
  if (!into_block_ || !options_.terms.keeps_end) return nullptr;
  auto fields = std::make_shared<saved_fields>();
  try {
    fields->group("block", [&] { into_block_->keep(*fields); });
  } catch (const device_error&) {
    return nullptr;
  }
  return fields;
}

/// Nobody knows what the shards have of a step that was pushed before it failed. Else the batches that the
/// worker has in hand or asked for are for others, or for the run that goes on from here.
void device_actor::fail_by_device(std::uint64_t step, const device_error& e) {
  const bool pushed_end = !runs_ahead_ || gate_.steps().empty() || e.code() == world_errc::out_of_memory;
  worker_failed notice{report_, step, e.what()};
  notice.leaves_all = step > report_.steps && pushed_end && exchange_->only_pushes();
  give_batches_back(); // also for a checkpoint that is under way
  end_with(std::move(notice));
}

/// Only the coordinator need wait for this worker any longer, which takes its timeline and then its report. A
/// shard of another process may hear of it from the coordinator first, or not from here at all.
template <class Notice>
void device_actor::end_with(Notice notice) {
  gate_.end();
  notice.incarnation = options_.terms.incarnation;
  if (options_.runner->give_up() == step_state::finished) gate_.steps().clear();
  for (marked_part& part : marked_parts_.take(report_.steps))
    send_part(std::move(part)); // as far as it is known
  notice.report.trace = std::move(options_.trace);
  notice.report.copies = std::move(options_.copies);
  notice.report.stages = options_.runner->stage_reports();
  notices_.notify(options_.time->now(), report_);
  lines_.leave();
  over_shards_->leave();
  send(options_.peers.feeder, worker_left{options_.terms.worker, options_.terms.incarnation});
  timeline_.end([this, notice = std::move(notice)] {
    queued_.when_done([this, notice](const std::exception_ptr&) {
      send(options_.peers.coordinator, notice);
      reported_ = true;
      quit_if_through();
    });
  });
  if (timeline_.is_ending()) watch(options_.peers.coordinator, give_up{});
}

} // namespace mailgrad

#include <mailgrad/actors/worker/device_actor.hpp>

#include <mailgrad/optim/clip.hpp>

#include <cmath>
#include <utility>

// What a device actor does with a step: it begins it, and delivers what it has computed.

namespace mailgrad {
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

void device_actor::on_step_ended() {
  if (!gate_.finished() && asks_whether_discarded()) return lines_.ask_whether_discarded();
  end_oldest_step();
}

void device_actor::end_oldest_step() {
  steps_under_way& steps = gate_.steps();
  if (gate_.finished()) {
    if (!steps.empty()) steps.take_oldest();
    return quit_if_through();
  }
  or_fail(steps.empty() ? report_.steps + 1 : steps.oldest().number, [this] { end_of_work(); });
}

/// Not if the worker itself reads the gradient.
bool device_actor::asks_whether_discarded() const {
  const bool over_shards = exchange_ == over_shards_.get() && lines_.count() > 0;
  return options_.runner->computes_at_end() && over_shards && exchange_->only_pushes() &&
         !gate_.steps().empty() && !gate_.steps().oldest().repeats;
}

void device_actor::on_foretold(const gradient_foretold& x) {
  const std::optional<bool> discarded = lines_.take_foretold(x);
  if (!discarded) return;
  if (gate_.finished() || !*discarded) return end_oldest_step();
  options_.runner->skip_step();
  or_fail(gate_.steps().oldest().number, [this] {
    deliver_skipped(gate_.steps().take_oldest());
    go_on_after_step();
  });
}

/// The gradient of the step is pushed now, and the shards will answer.
void device_actor::on_sum(const gradients_summed& x) {
  or_fail(report_.steps, [&] { exchange_->take_sum(x); });
  pause_if_asked();
  start_step_if_ready();
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

void device_actor::go_on_after_step() {
  flush_before_switch();
  pause_if_asked();
  stand_still_if_asked();
  start_step_if_ready();
}

void device_actor::end_repeat(begun_step ended) {
  exchange_->take_repeat(*ended.values);
  if (options_.trace)
    options_.trace->work({trace_kind::compare, ended.since, options_.time->now(), 0, lines_.step().value});
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

/// From now on the batch of the step counts as trained.
void device_actor::note_step(const begun_step& begun) {
  ++report_.steps;
  report_.samples += begun.samples;
}

void device_actor::note_loss(const begun_step& ended, float loss) {
  report_.note_loss(loss, ended.samples);
  marked_parts_.note_loss(ended.number, loss, ended.samples);
  notices_.count(ended.samples, loss);
}

void device_actor::tell_progress(instant now) {
  notices_.notify_if_due(now, report_);
  timeline_.tell_if_due(now);
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
  if (options_.clip_norm == 0) return 1;
  return clip_factor(std::sqrt(options_.runner->squared_norm(g)), options_.clip_norm);
}

} // namespace mailgrad

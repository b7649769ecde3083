#include <mailgrad/actors/worker/device_actor.hpp>

#include <mailgrad/optim/clip.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

constexpr instant notice_interval = std::chrono::milliseconds{100};

/// Of a staleness notice in hogwild, where no shard sends any.
constexpr std::uint64_t observations_per_notice = 256;

/// An update that the worker makes itself; if it fails, the rule has a name.
template <class Update>
void by_rule(std::string_view rule, const Update& update) {
  try {
    update();
  } catch (const std::exception& e) {
    throw std::runtime_error("rule '" + std::string(rule) + "': " + e.what());
  }
}

} // namespace

device_actor::device_actor(caf::event_based_actor* self, device_actor_options options)
    : self_(self), options_(std::move(options)),
      gradients_([this] { return options_.model->make_gradient(); }), comparison_(options_.shards.size()),
      held_(options_.shards.size()), missing_(options_.shards.size()), direct_(options_.direct) {
  report_.worker = unreported_.worker = options_.worker;
  report_.loss_bits = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
}

caf::behavior device_actor::make_behavior() {
  const caf::actor me = caf::actor_cast<caf::actor>(self_);
  if (options_.pieces) options_.pieces->begin(self_);
  send(self_, options_.coordinator, worker_joined{options_.worker, me});
  for (const caf::actor& shard : options_.shards) send(self_, shard, join_shard{options_.worker, me});
  send(self_, options_.feeder, next_batch{options_.worker});
  last_notice_ = waiting_since_ = options_.time->now();
  return training();
}

caf::behavior device_actor::training() {
  return {
      on(self_, [this](const shard_weights& x) { on_weights(x); }),
      on(self_, [this](const dealt_batch& x) { on_batch(x); }),
      on(self_,
         [this](const data_exhausted&) {
           exhausted_ = true;
           start_step_if_ready();
         }),
      on(self_,
         [this](const pause_worker& x) {
           next_epoch_ = x.epoch;
           next_direct_ = x.direct;
           pause_if_asked();
         }),
      on(self_, [this](const step_computed& x) { take(x); }),
      on(self_,
         [this](const piece_failed& x) {
           options_.pieces->on_failed(x);
           if (!finished_) fail(report_.steps + 1, options_.pieces->in_words(x));
         }),
      on(self_,
         [this](const piece_lost& x) {
           if (!finished_) fail(report_.steps + 1, options_.pieces->in_words(x));
         }),
      on(self_,
         [this](const turn_missing& x) {
           if (!finished_)
             fail(report_.steps, "shard " + std::to_string(x.shard) +
                                     " of the recording has no turn for its gradient of step " +
                                     std::to_string(x.step));
         }),
      on(self_, [this](const give_up&) { finish(); }),
      on(self_, [this](const name_waits&) { name_waits_to(sender_of(self_)); }),
  };
}

void device_actor::on_weights(const shard_weights& x) {
  if (x.epoch != epoch_) return; // of the policy before; the wait for it is the fence's
  const instant taken = options_.time->now();
  if (options_.local)
    options_.local->receive(x.shard, x.values, x.met.values.get());
  else
    options_.model->use_weights(x.shard, x.values->as<float>().data(), x.values);
  held_[x.shard] = {x.version, x.values, options_.time->now() - taken};
  trace_answer(x, taken);
  if (x.met.values) comparison_.take(x.shard, x.met.step, x.met.values);
  barrier_wait_of_step_ = std::max(barrier_wait_of_step_, instant{x.waited});
  bound_wait_of_step_ = std::max(bound_wait_of_step_, instant{x.held});
  --missing_;
  if (missing_ == 0 && comparison_.ready()) return start_comparison();
  start_step_if_ready();
}

/// What came between the push and this answer.
void device_actor::trace_answer(const shard_weights& x, instant taken) {
  trace_track* const trace = options_.trace.get();
  if (!trace) return;
  if (at_fence_since_) {
    trace->wait(trace_kind::policy_switch, taken);
  } else {
    trace->wait(trace_kind::shard_mailbox, instant{x.taken}, x.shard);
    if (x.waited > 0) trace->wait(trace_kind::barrier, instant{x.taken + x.waited}, x.shard);
    if (x.held > 0) trace->wait(trace_kind::bound, instant{x.sent}, x.shard);
    trace->wait(trace_kind::shard_at_work, instant{x.sent}, x.shard);
    trace->wait(trace_kind::own_mailbox, taken, x.shard);
  }
  trace->work({trace_kind::read, taken, taken + held_[x.shard].read, x.shard, step_, x.version, x.version});
}

/// Between two steps: a gradient that is being computed, and steps of the worker's own, belong to the old
/// epoch.
void device_actor::pause_if_asked() {
  if (!next_epoch_ || computing_ || comparing_ || finished_) return;
  push_difference();
  epoch_ = *std::exchange(next_epoch_, std::nullopt);
  const bool was_waiting = missing_ > 0;
  missing_ = options_.shards.size();
  for (held_weights& held : held_) held.values.reset();
  direct_ = next_direct_;
  if (options_.local) options_.local->start_anew();
  comparison_.forget();
  end_starvation();
  at_fence_since_ = waiting_since_ = was_waiting ? waiting_since_ : options_.time->now();
  send(self_, options_.coordinator, worker_paused{options_.worker, epoch_, step_, batches_});
}

void device_actor::on_batch(const dealt_batch& x) {
  next_batch_ = x.values;
  start_step_if_ready();
}

void device_actor::start_step_if_ready() {
  if (missing_ > 0 || finished_ || computing_ || comparing_) return;
  // Not before: whether a pause comes before the answers or behind them must make no difference, for replays.
  if (options_.local && (next_batch_ || exhausted_) && !go_on_locally()) return;
  if (next_batch_) return start_step();
  if (exhausted_ && options_.local && options_.local->taken() > 0) {
    end_starvation();
    push_difference();
    return;
  }
  if (exhausted_) return finish();
  if (!starved_since_) starved_since_ = options_.time->now();
}

void device_actor::end_starvation() {
  if (!starved_since_) return;
  const instant now = options_.time->now();
  report_.feeder_wait += (now - *std::exchange(starved_since_, std::nullopt)).count();
  if (options_.trace) options_.trace->wait(trace_kind::batch, now);
}

void device_actor::start_step() {
  end_starvation();
  if (at_fence_since_) report_.barrier_wait += (options_.time->now() - *at_fence_since_).count();
  at_fence_since_.reset();
  report_.barrier_wait += std::exchange(barrier_wait_of_step_, instant{0}).count();
  report_.bound_wait += std::exchange(bound_wait_of_step_, instant{0}).count();

  std::shared_ptr<const batch> inputs = std::move(next_batch_);
  if (!options_.pieces) send(self_, options_.feeder, next_batch{options_.worker});
  ++batches_;
  batch_size_ = inputs->size;
  computing_ = gradients_.take();
  const std::uint64_t step = report_.steps + 1;
  try {
    std::optional<racing_read> racing;
    if (direct_) {
      racing.emplace();
      const instant read_since = options_.time->now();
      const float* const shared = options_.writer->begin_step();
      for (std::uint32_t i = 0; i < options_.shard_begins.size(); ++i)
        options_.model->use_weights(i, shared + options_.shard_begins[i], options_.writer);
      report_.times.read.add(options_.time->now() - read_since);
    } else if (options_.local) {
      options_.model->use_weights(0, options_.local->weights(), options_.local);
    }
    computing_since_ = options_.time->now();
    compute(std::move(inputs), computing_, [this] { finish_step(); });
    // Behind what the pieces are told, so that the feeder comes when the first of them rests.
    if (options_.pieces) send(self_, options_.feeder, next_batch{options_.worker});
  } catch (const std::exception& e) {
    fail(step, e.what());
  }
}

void device_actor::compute(std::shared_ptr<const batch> inputs, const std::shared_ptr<gradient>& out,
                           const completion& done) {
  if (options_.pieces) options_.pieces->use_racing_weights(direct_);
  options_.model->compute(options_.where, std::move(inputs), out, done);
}

void device_actor::take(const step_computed& x) {
  const std::uint64_t step = report_.steps + 1;
  try {
    options_.pieces->on_computed(x);
  } catch (const std::exception& e) {
    fail(step, e.what());
  }
}

void device_actor::finish_step() {
  ++report_.steps;
  report_.samples += batch_size_;
  const float loss = options_.model->loss();
  if (!std::isfinite(loss)) {
    ++report_.produced;
    ++report_.not_finite;
    note_computed();
    return end_with(loss_diverged{report_, report_.steps});
  }
  report_.loss_bits = std::bit_cast<std::uint32_t>(loss);
  ++unreported_.steps;
  unreported_.samples += batch_size_;
  unreported_.loss_sum += static_cast<double>(loss);
  const float scale = clip();
  const instant computed = note_computed();
  if (direct_)
    write(scale);
  else if (options_.local)
    step_locally(scale);
  else
    push(std::move(computing_), scale, computed);
  pause_if_asked();
  notify_progress(computed);
}

/// A step of the worker; those of its own count together, when their difference is pushed. Returns the
/// moment.
instant device_actor::note_computed() {
  const instant now = options_.time->now();
  computed_ += now - computing_since_;
  if (options_.trace) options_.trace->work({trace_kind::compute, computing_since_, now, 0, report_.steps});
  return now;
}

float device_actor::clip() const {
  if (options_.clip_norm == 0) return 1;
  double squares = sum_of_squares(computing_->dense.as<float>());
  for (const gradient_rows& part : computing_->sparse) {
    const auto end = std::ranges::find_if(part.rows, [](std::int32_t row) { return row < 0; });
    squares +=
        sum_of_squares(part.values.first(static_cast<std::size_t>(end - part.rows.begin()) * part.width));
  }
  return clip_factor(std::sqrt(squares), options_.clip_norm);
}

/// To all shards or to none. By value: only the messages may hold the gradient when this is over.
void device_actor::push(std::shared_ptr<const gradient> values, float scale, instant computed_at) {
  ++step_;
  ++report_.produced;
  missing_ = options_.shards.size();
  waiting_since_ = computed_at;
  const bool sampled = options_.sample_gap > 0 && step_ % options_.sample_gap == 0;
  if (sampled) comparison_.begin(step_, values);
  for (held_weights& held : held_)
    if (!sampled) held.values.reset();
  const instant computed = std::exchange(computed_, instant{0});
  for (std::size_t i = 0; i < options_.shards.size(); ++i)
    send(self_, options_.shards[i],
         push_gradient{options_.worker,
                       step_,
                       held_[i].version,
                       epoch_,
                       std::bit_cast<std::uint32_t>(scale),
                       values,
                       {held_[i].read, computed, waiting_since_},
                       std::move(held_[i].values)});
}

/// Between two steps, when all new weights are there.
void device_actor::start_comparison() {
  comparing_since_ = options_.time->now();
  comparing_ = gradients_.take();
  for (std::uint32_t s = 0; s < held_.size(); ++s) {
    const std::shared_ptr<const block>& met = comparison_.weights(s);
    options_.model->use_weights(s, met->as<float>().data(), met);
  }
  try {
    compute(comparison_.stale().source, comparing_, [this] { finish_comparison(); });
  } catch (const std::exception& e) {
    fail(report_.steps, e.what());
  }
}

void device_actor::finish_comparison() {
  comparison_.compare(*comparing_);
  report_.gradient_cosine = comparison_.cosines();
  comparing_.reset();
  for (std::uint32_t s = 0; s < held_.size(); ++s)
    options_.model->use_weights(s, held_[s].values->as<float>().data(), held_[s].values);
  if (options_.trace)
    options_.trace->work({trace_kind::compare, comparing_since_, options_.time->now(), 0, step_});
  pause_if_asked();
  start_step_if_ready();
}

void device_actor::step_locally(float scale) {
  if (options_.local->exchanges_first()) {
    options_.local->hold(std::move(computing_), scale);
    push_difference();
    return;
  }
  by_rule(options_.local->rule(), [&] { options_.local->step(*computing_, scale); });
  computing_.reset();
  if (options_.local->exchange_due())
    push_difference();
  else if (!next_epoch_)
    start_step_if_ready();
}

/// Takes the step that was held for the shards' answers; false if that failed.
bool device_actor::go_on_locally() {
  try {
    by_rule(options_.local->rule(), [this] { options_.local->go_on(); });
    return true;
  } catch (const std::exception& e) {
    fail(report_.steps, e.what());
    return false;
  }
}

/// Of the steps since the last exchange; false if there are none.
bool device_actor::push_difference() {
  if (!options_.local || options_.local->taken() == 0) return false;
  push(options_.local->difference(), 1, options_.time->now());
  return true;
}

void device_actor::write(float scale) {
  const instant begun = options_.time->now();
  std::uint64_t gap = 0;
  by_rule(options_.writer->rule(), [&] { gap = options_.writer->write(*computing_, scale); });
  report_.times.compute.add(std::exchange(computed_, instant{0}));
  const instant applied = options_.time->now();
  report_.times.apply.add(applied - begun);
  if (options_.trace)
    options_.trace->work({trace_kind::apply, begun, applied, options_.worker.value, report_.steps,
                          options_.writer->version_read(), options_.writer->version_read() + gap + 1});
  computing_.reset();
  ++report_.produced;
  ++report_.applied;
  report_.gaps.count(gap);
  gaps_.count(gap);
  if (gaps_.total() >= observations_per_notice) {
    send(self_, options_.tracker, staleness_observed{gaps_});
    gaps_.clear();
  }
  if (!next_epoch_) start_step_if_ready();
}

void device_actor::fail(std::uint64_t step, const std::string& why) {
  end_with(worker_failed{report_, step, why});
}

void device_actor::finish() {
  if (!finished_) end_with(worker_finished{report_});
}

/// Nobody need wait for this worker any longer, and the shards know it before the coordinator does: whatever
/// that tells them next comes after.
template <class Notice>
void device_actor::end_with(Notice notice) {
  finished_ = true;
  notice.report.trace = std::move(options_.trace);
  if (options_.pieces) notice.report.pieces = options_.pieces->end();
  for (const caf::actor& shard : options_.shards) send(self_, shard, worker_left{options_.worker});
  send(self_, options_.feeder, worker_left{options_.worker});
  send(self_, options_.coordinator, std::move(notice));
  self_->quit();
}

void device_actor::notify_progress(instant computed) {
  if (computed - last_notice_ < notice_interval) return;
  if (!gaps_.empty()) {
    send(self_, options_.tracker, staleness_observed{gaps_});
    gaps_.clear();
  }
  unreported_.span = (computed - last_notice_).count();
  unreported_.barrier_wait = report_.barrier_wait - barrier_wait_reported_;
  last_notice_ = computed;
  barrier_wait_reported_ = report_.barrier_wait;
  send(self_, options_.tracker, unreported_);
  unreported_ = {};
  unreported_.worker = options_.worker;
}

void device_actor::name_waits_to(const caf::actor& asker) const {
  const std::string who = "worker " + std::to_string(options_.worker.value);
  const auto pieces = options_.pieces ? options_.pieces->waits_for() : std::nullopt;
  if (pieces)
    send(self_, asker, wait_named{who + " waits for " + *pieces, computing_since_.count()});
  else if (starved_since_)
    send(self_, asker, wait_named{who + " waits for a batch from the feeder", starved_since_->count()});
  else if (missing_ > 0)
    send(self_, asker,
         wait_named{who + " waits for the weights of " + std::to_string(missing_) + " of " +
                        std::to_string(options_.shards.size()) + " shards after step " +
                        std::to_string(step_),
                    waiting_since_.count()});
}

} // namespace mailgrad

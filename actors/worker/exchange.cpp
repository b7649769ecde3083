#include <mailgrad/actors/worker/exchange.hpp>

#include <bit>

namespace mailgrad {

using messaging::send_anonymously;

/// Records what happened between the push and this answer. How the time on the wire is shared between both
/// ways cannot be known, so all of it stands behind the stay at the shard.
void shard_lines::trace(const shard_weights& answer, instant taken) const {
  trace_track* const track = of_.trace;
  if (!track || is_computing()) return;
  const weights_header& x = answer.header;
  const std::uint32_t shard = x.shard.value;
  if (at_fence_since_) {
    track->wait(trace_kind::policy_switch, taken);
  } else {
    if (x.stay) trace_stay(*x.stay, shard);
    if (x.stay && answer.payload.arrived) track->wait(trace_kind::wire, *answer.payload.arrived, shard);
    track->wait(trace_kind::own_mailbox, taken, shard);
  }
  track->work({trace_kind::read, taken, taken + held_[shard].read, shard, step_.value, x.version.value,
               x.version.value});
}

void shard_lines::trace_stay(const stay_at_shard& stay, std::uint32_t shard) const {
  const instant taken_up = waiting_since_ + instant{stay.in_mailbox};
  const instant answered = taken_up + instant{stay.until_answered};
  of_.trace->wait(trace_kind::shard_mailbox, taken_up, shard);
  if (stay.until_barrier > 0)
    of_.trace->wait(trace_kind::barrier, taken_up + instant{stay.until_barrier}, shard);
  if (stay.under_bound > 0) of_.trace->wait(trace_kind::bound, answered, shard);
  of_.trace->wait(trace_kind::shard_at_work, answered, shard);
}

void shard_lines::push(std::shared_ptr<const gradient> values, float scale, instant at,
                       std::optional<instant> spent, bool with_weights, trained_work held_back,
                       std::optional<sum_tag> sum) {
  ++step_;
  ++of_.report.produced;
  had_answered_.clear();
  missing_ = shards_.size();
  waiting_since_ = at;
  idle_since_.reset();
  for (held_weights& held : held_)
    if (!with_weights) held.values.reset();
  const gradient_id id{of_.run, of_.worker, of_.incarnation, step_};
  for (std::size_t i = 0; i < shards_.size(); ++i)
    send(shards_[i], push_gradient{{id,
                                    held_[i].version,
                                    epoch_,
                                    std::bit_cast<std::uint32_t>(scale),
                                    {held_[i].read, spent},
                                    trained() - held_back.batches,
                                    of_.report.samples - before_.samples - held_back.samples,
                                    sum},
                                   {values, std::move(held_[i].values), waiting_since_}});
}

void shard_lines::ask_whether_discarded() {
  predicted_missing_ = shards_.size();
  all_discard_ = true;
  for (std::size_t i = 0; i < shards_.size(); ++i)
    send(shards_[i],
         predict_verdict{of_.worker, of_.incarnation, {step_.value + 1}, held_[i].version, epoch_});
}

void shard_lines::begin_epoch(policy_epoch epoch) {
  epoch_ = epoch;
  had_answered_.clear(); // these answers are new
  const bool was_waiting = missing_ > 0;
  missing_ = shards_.size();
  for (held_weights& held : held_) held.values.reset();
  if (!was_waiting) waiting_since_ = of_.time.now();
  at_fence_since_ = waiting_since_;
}

void shard_lines::end_waits() {
  if (at_fence_since_ && !is_computing()) {
    const instant since = std::max(*at_fence_since_, idle_since_.value_or(*at_fence_since_));
    of_.report.barrier_wait += (of_.time.now() - since).count();
  }
  at_fence_since_.reset();
  of_.report.barrier_wait += std::exchange(at_barrier_, instant{0}).count();
  of_.report.bound_wait += std::exchange(at_bound_, instant{0}).count();
}

void shard_lines::keep(archive& a) {
  a.version(1);
  a.field("step", step_);
  std::vector<bool> answered;
  for (std::uint32_t s = 0; s < held_.size(); ++s) // also if it answers again, and that is under way
    answered.push_back(held_[s].values || had_answered(s));
  a.field("answered", answered);
  if (a.reads()) had_answered_ = std::move(answered);
}

namespace {

/// Makes an update by a worker's own rule. An exception gets the name of the rule.
template <class Update>
void update_by_rule(std::string_view rule, const Update& update) {
  try {
    update();
  } catch (const std::exception& e) {
    throw std::runtime_error("rule '" + std::string(rule) + "': " + e.what());
  }
}

sum_tag tag_of(const net::all_reduce::givers& who) {
  const auto first = std::ranges::find(who, true);
  return {{static_cast<std::uint32_t>(first - who.begin())},
          static_cast<std::uint32_t>(std::ranges::count(who, true))};
}

} // namespace

void exchange::receive(const shard_weights& x) {
  const instant taken = of_.time.now();
  of_.runner.use_weights(x.header.shard.value, x.payload.values);
  lines_.note(x, taken, of_.time.now() - taken);
}

void shard_exchange::take_repeat(const gradient& fresh) {
  if (const auto found = of_.runner.cosine_to(*comparison_.stale(), fresh)) {
    of_.report.gradient_cosine.add(*found);
    of_.report.cosines.add({of_.incarnation, comparison_.step(), *found});
  }
  comparison_.forget();
  for (std::uint32_t s = 0; s < lines_.count(); ++s) of_.runner.use_weights(s, lines_.weights(s));
}

void local_exchange::deliver(computed_gradient g) {
  spent_ += g.spent.value_or(instant{0});
  last_samples_ = g.samples;
  if (local_->exchanges_first()) {
    local_->hold(std::move(g.values), g.scale);
    flush();
    return;
  }
  update_by_rule(local_->rule(), [&] { local_->step(std::move(g.values), g.scale); });
  if (local_->exchange_due()) flush();
}

void local_exchange::go_on() {
  update_by_rule(local_->rule(), [this] { local_->go_on(); });
}

void summed_exchange::deliver(computed_gradient g) {
  if (g.values->covered || !g.values->addends.empty() || !g.values->sparse.empty())
    throw std::runtime_error("a sum over all workers needs one dense gradient of every weight, and that of "
                             "this model is none; run it without --all-reduce");
  const std::shared_ptr<gradient> values = g.values;
  summing_ = std::move(g);
  sums_->add(values->dense.on_host<float>(), values,
             [us = caf::actor_cast<caf::actor>(of_.self), step = lines_.step().value + 1](const auto& who) {
               send_anonymously(us, gradients_summed{{step}, tag_of(who)});
             });
}

void summed_exchange::take_sum(const gradients_summed& x) {
  if (!summing_ || x.step.value != lines_.step().value + 1) return;
  computed_gradient g = *std::exchange(summing_, std::nullopt);
  const instant now = of_.time.now();
  of_.report.barrier_wait += (now - g.at).count();
  if (of_.trace) of_.trace->wait(trace_kind::barrier, now);
  const bool carries = x.sum.carrier == of_.worker;
  lines_.push(carries ? std::move(g.values) : nullptr, g.scale, now, g.spent, false, {}, x.sum);
}

block_exchange::block_exchange(const worker_context& of, shard_lines& lines,
                               std::shared_ptr<hogwild_writer> writer, std::vector<std::size_t> shard_begins,
                               caf::actor tracker, notice_pace pace)
    : exchange(of, lines), writer_(std::move(writer)), shard_begins_(std::move(shard_begins)),
      notices_(of.self, std::move(tracker), of.time, pace) {}

void block_exchange::bind() {
  const instant since = of_.time.now();
  const float* const shared = writer_->begin_step();
  for (std::uint32_t s = 0; s < shard_begins_.size(); ++s)
    if (writer_->is_on_gpu())
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

} // namespace mailgrad

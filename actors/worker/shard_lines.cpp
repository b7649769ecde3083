#include <mailgrad/actors/worker/shard_lines.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace mailgrad {
using messaging::send;

shard_lines::shard_lines(const worker_context& of, std::vector<caf::actor> shards)
    : of_(of), shards_(std::move(shards)), held_(shards_.size()), missing_(shards_.size()),
      waiting_since_(of.time.now()) {}

void shard_lines::join() {
  const caf::actor me = caf::actor_cast<caf::actor>(of_.self);
  for (const caf::actor& shard : shards_) send(of_.self, shard, join_shard{of_.worker, of_.life, me});
  waiting_since_ = of_.time.now();
}

void shard_lines::leave() {
  for (const caf::actor& shard : shards_) send(of_.self, shard, worker_left{of_.worker, of_.life});
}

void shard_lines::note(const shard_weights& x, instant taken, instant read) {
  held_[x.header.shard.value] = {x.header.version, x.payload.values, read};
  trace(x, taken);
  if (x.header.stay) note_waits(*x.header.stay, taken);
  --missing_;
}

/// What lies under a step that the worker computes is no wait.
void shard_lines::note_waits(const stay_at_shard& stay, instant taken) {
  if (is_computing()) return;
  const instant most = idle_since_ ? taken - *idle_since_ : instant::max();
  at_barrier_ = std::max(at_barrier_, std::min(most, instant{stay.until_barrier}));
  at_bound_ = std::max(at_bound_, std::min(most, instant{stay.under_bound}));
}

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
                       std::optional<sum_mark> sum) {
  ++step_;
  ++of_.report.produced;
  had_answered_.clear();
  missing_ = shards_.size();
  waiting_since_ = at;
  idle_since_.reset();
  for (held_weights& held : held_)
    if (!with_weights) held.values.reset();
  const gradient_id id{of_.run, of_.worker, of_.life, step_};
  for (std::size_t i = 0; i < shards_.size(); ++i)
    send(of_.self, shards_[i],
         push_gradient{{id,
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
  foretold_missing_ = shards_.size();
  all_discard_ = true;
  for (std::size_t i = 0; i < shards_.size(); ++i)
    send(of_.self, shards_[i],
         foretell_gradient{of_.worker, of_.life, {step_.value + 1}, held_[i].version, epoch_});
}

std::optional<bool> shard_lines::take_foretold(const gradient_foretold& x) {
  if (foretold_missing_ == 0 || x.step.value != step_.value + 1) return std::nullopt;
  all_discard_ = all_discard_ && x.discarded;
  if (--foretold_missing_ > 0) return std::nullopt;
  return all_discard_;
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

void shard_lines::mark(std::uint64_t checkpoint, const caf::actor& collector) {
  for (const caf::actor& shard : shards_)
    send(of_.self, shard, checkpoint_mark{checkpoint, of_.worker, of_.life, step_, collector});
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

bool shard_lines::awaits_again() const {
  for (std::uint32_t s = 0; s < held_.size(); ++s)
    if (had_answered(s) && !held_[s].values) return true;
  return false;
}

std::string shard_lines::waits_for() const {
  return fmt::format("the weights of {} of {} shards after step {}", missing_, shards_.size(), step_.value);
}

} // namespace mailgrad

#include <mailgrad/actors/run/coordinator.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/run/remaining_batches.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

// The part of the coordinator by which workers come and go while the run goes on.

namespace mailgrad {
using messaging::on, messaging::send, messaging::send_after, messaging::sender_of, messaging::watch;

caf::message_handler coordinator::comings_and_goings() {
  return {
      on(self_, [this](const worker_joined& x) { on_joined(x); }),
      on(self_,
         [this](const worker_finished& x) {
           if (!seats_.is_of(x.report.worker, x.life)) return;
           anybody_went_early_ = anybody_went_early_ || !x.why_left.empty();
           account_for(x.report, false, x.in_block);
         }),
      on(self_, [this](const worker_lost& x) { on_lost(x); }),
      on(self_,
         [this](const worker_left& x) {
           on_parted({x, sender_of(self_)});
         }),
      on(self_, [this](const trace_told& x) { return on_trace(x); }),
      on(self_,
         [this](const shard_trace_told& x) {
           if (x.shard.value < reported_.size())
             options_.timelines.take(timeline_teller::of(x.shard), x.piece, options_.time->now());
           return trace_taken{};
         }),
      on(self_, [this](const trained_told& x) { on_trained(x); }),
      on(self_, [this](const share_ended& x) { on_share_ended(x); }),
      on(self_, [this](const undealt_counted& x) { on_undealt(x); }),
      on(self_, [this](const wait_over& x) { on_wait_over(x); }),
  };
}

/// A newcomer is watched while it waits for its seat, since no run must wait for a dead one.
void coordinator::on_joined(const worker_joined& x) {
  if ((x.late && !lets_in()) || !seats_.may_sit(x.worker, x.life)) return send(self_, x.device, give_up{});
  watch(self_, x.device, worker_lost{x.worker, {}, x.life});
  if (!x.late) return sit(x);
  newcomers_.push_back(x);
  seat_newcomers();
}

/// The connection between a worker and a parameter host has ended. What the worker said last may not have
/// come there, so the shard hears it from here, but not before all is known of the worker: others may have to
/// train what it was dealt.
void coordinator::on_parted(parting x) {
  if (!x.shard) return;
  const bool is_known = std::ranges::any_of(parted_, [&](const parting& other) {
    return other.shard == x.shard && other.worker.worker == x.worker.worker;
  });
  if (seats_.is_of(x.worker.worker, x.worker.life) && !is_known)
    parted_.push_back(std::move(x));
  else if (seats_.has_left(x.worker.worker, x.worker.life))
    pass_on(x);
}

/// A sum that lacks the gradient of a lost worker is never whole, and must not look so.
void coordinator::pass_on(const parting& x) {
  if (options_.needs_all && outcome_.lost[x.worker.worker.value]) return;
  send(self_, x.shard, x.worker);
}

void coordinator::pass_on_all_of(rank worker) {
  for (const parting& x : parted_)
    if (x.worker.worker == worker) pass_on(x);
  std::erase_if(parted_, [worker](const parting& x) { return x.worker.worker == worker; });
}

/// An answer comes always, or the worker would tell nothing more.
trace_taken coordinator::on_trace(const trace_told& x) {
  hear(sender_of(self_));
  if (seats_.is_of(x.worker, x.life))
    options_.timelines.take(timeline_teller::of(x.worker, x.life), x.piece, options_.time->now());
  return {};
}

/// In a replay of a run that diverged, who came then comes again.
bool coordinator::lets_in() const {
  const bool goes_on = outcome_.how == run_outcome::ending::completed || options_.replayed;
  return options_.elastic && !collecting_ && !abandoned_ && goes_on;
}

/// In a replay, brings every worker whose seat is free and whose turn it is.
void coordinator::bring_next() {
  for (std::uint32_t r = 0; r < seats_.count() && to_come_.any(); ++r)
    if (!seats_.is_present({r}) && !abandoned_)
      if (const auto life = to_come_.bring({r}, switcher_.epoch().value)) bring({r}, *life);
}

void coordinator::bring(rank worker, incarnation life) {
  brought_at_ = options_.time->now();
  send(self_, options_.late_workers, bring_worker{worker, life});
}

/// An earlier incarnation is fenced off first: it may be frozen, or have begun before its first message came
/// here.
void coordinator::seat_newcomers() {
  while (!newcomers_.empty()) {
    const worker_joined x = newcomers_.front();
    if (!seats_.may_sit(x.worker, x.life)) { // a later incarnation was faster
      newcomers_.pop_front();
      send(self_, x.device, give_up{});
      continue;
    }
    if (seats_.is_present(x.worker) && seats_.life_of(x.worker) < x.life) {
      if (const caf::actor before = seats_.device(x.worker)) send(self_, before, give_up{});
      return on_lost({x.worker, fmt::format("incarnation {} has taken its place", x.life.value),
                      seats_.life_of(x.worker)}); // which comes back here
    }
    if (shares_.has(x.worker) || switcher_.is_under_way() || checkpointer_.is_collecting()) return;
    newcomers_.pop_front();
    send(self_, x.device,
         seat_given{switcher_.epoch(), outcome_.workers[x.worker.value], checkpointer_.last()});
    sit(x);
  }
}

void coordinator::refuse_newcomers() {
  for (const worker_joined& x : std::exchange(newcomers_, {})) send(self_, x.device, give_up{});
}

/// What the shards have heard of a lost incarnation is all that is known of it. If they are lost as well, as
/// on one machine, it is what the worker had told of its progress.
void coordinator::note_trained(const trained_told& heard) {
  trained_told all = heard;
  if (shares_.nobody_knows()) {
    const told_losses::amount told = losses_.done_by(heard.worker);
    all.batches = std::max(all.batches, told.steps);
    all.samples = std::max(all.samples, told.samples);
    all.gradients = std::max(all.gradients, told.steps / std::max<std::uint64_t>(1, options_.local_steps));
  }
  worker_report& known = outcome_.workers[all.worker.value];
  known.produced += all.gradients;
  known.steps += all.batches;
  known.samples += all.samples;
  switcher_.on_counted(all.worker, known.steps);
  checkpointer_.on_counted(known);
  books_.on_counted(known);
  shares_.tell_feeder(all);
}

void coordinator::on_trained(const trained_told& x) {
  const auto all = shares_.take(x);
  if (!all) return;
  note_trained(*all);
  go_on_with_checkpoints();
  seat_newcomers();
  collect_if_all_accounted();
}

/// A run does not end before this is known of every lost worker, and no incarnation begins before it is known
/// of the one before it. If all shards are lost, the feeder knows of more batches than are counted.
void coordinator::on_share_ended(const share_ended& x) {
  if (!shares_.take(x)) return;
  worker_report& known = outcome_.workers[x.worker.value];
  known.own_batches = std::min(known.own_batches + x.own, known.steps);
  outcome_.lost_batches[x.worker.value] += x.lost;
  checkpointer_.on_counted(known);
  books_.on_counted(known);
  go_on_with_checkpoints();
  seat_newcomers();
  end_if_all_reported();
}

/// Whether nobody is left, nobody comes, and it is known whether anything is left to train.
bool coordinator::may_end() {
  if (collecting_ || seats_.anybody() || !newcomers_.empty() || to_come_.any()) return false;
  if (!options_.elastic || abandoned_ || outcome_.how != run_outcome::ending::completed) return true;
  if (!anybody_went_early_) return true; // all others have heard from the feeder that nothing is left
  if (shares_.any()) return false;
  if (!undealt_ && !std::exchange(counting_, true)) send(self_, options_.feeder, count_undealt{});
  return undealt_.has_value();
}

void coordinator::on_undealt(const undealt_counted& x) {
  if (!std::exchange(counting_, false)) return; // a worker has joined since
  undealt_ = x.batches;
  collect_if_all_accounted();
}

/// Begins to wait if it has not begun.
bool coordinator::waits_for_a_worker() {
  if (expects_nobody_ || undealt_.value_or(0) == 0 || options_.waits_for_workers <= instant{0}) return false;
  if (!waits_since_) {
    waits_since_ = options_.time->now();
    if (options_.waits_for_workers < instant::max())
      send_after(self_, options_.waits_for_workers, wait_over{++waits_});
  }
  return true;
}

/// Before it is known whether batches are left, a run of which nobody is left waits only if it is stopped:
/// else the checkpoint of its end is still to come. A run that collects its books takes no other.
run_phase coordinator::phase() const {
  if (switcher_.is_switching()) return run_phase::switches;
  const bool may_wait =
      options_.elastic && options_.waits_for_workers > instant{0} && !seats_.anybody() && !collecting_;
  return may_wait && (waits_since_ || (stop_when_kept_ && undealt_ != 0U)) ? run_phase::waits_for_worker
                                                                           : run_phase::trains;
}

/// The run takes a checkpoint at such an end, if it takes any.
std::string coordinator::nobody_left_in_words() const {
  const bool any_lost = std::ranges::find(outcome_.lost, true) != outcome_.lost.end();
  return fmt::format("nobody was left to train {}, since all workers had left{}; {}",
                     remaining_batches(outcome_.untrained), any_lost ? " or were lost" : "",
                     options_.checkpoints.writer ? "resume the run from its last checkpoint"
                                                 : "let the next run wait for another worker (--when-alone "
                                                   "wait) or take checkpoints (--checkpoint)");
}

void coordinator::on_wait_over(const wait_over& x) {
  const bool of_owner = x.number == 0;
  if (!of_owner && (!waits_since_ || x.number != waits_)) return;
  if (of_owner) {
    expects_nobody_ = true;
    return collect_if_all_accounted();
  }
  options_.waits_for_workers = instant{0};
  stop(run_outcome::ending::failed,
       fmt::format("no worker has come to train {}", remaining_batches(*undealt_)));
  collect_if_all_accounted();
}

} // namespace mailgrad

#include <mailgrad/actors/run/coordinator.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace mailgrad {
using messaging::on, messaging::send, messaging::sender_of, messaging::watch;

namespace {

std::string worker_at_step(const worker_report& r, std::uint64_t step) {
  return fmt::format("worker {} at its step {}", r.worker.value, step);
}

std::string last_finite(const worker_report& r) {
  const float loss = std::bit_cast<float>(r.loss_bits);
  return std::isnan(loss) ? "it had no finite loss before"
                          : "its last finite loss was " + loss_in_words(loss);
}

} // namespace

coordinator::coordinator(caf::event_based_actor* self, coordinator_options options)
    : self_(self), options_(std::move(options)), seats_(options_.workers, options_.ranks()),
      shares_(self, options_.shards, options_.feeder, options_.time), losses_(options_.ranks()),
      switcher_(self, options_.policies, options_.workers, options_.ranks(), options_.shards, options_.feeder,
                options_.time, options_.replayed ? &options_.replayed->end.switches : nullptr,
                options_.recorder),
      checkpointer_(self, options_.checkpoints, options_.workers, options_.ranks(), options_.shards,
                    options_.feeder, options_.time, [this] { return switcher_.schedule(); }),
      books_(self, options_.workers, options_.ranks(),
             options_.shards_tell_books ? options_.shards : std::vector<caf::actor>(), options_.books,
             options_.on_books, options_.time),
      rule_(options_.automatic.value_or(auto_options{})) {
  if (options_.replayed) to_come_ = recorded_seats(recorded_lives(*options_.replayed));
  outcome_.workers.resize(options_.ranks());
  outcome_.lost.resize(options_.ranks());
  outcome_.lost_batches.resize(options_.ranks());
  outcome_.shards.resize(options_.shards.size());
  reported_.resize(options_.shards.size());
  for (std::uint32_t r = 0; r < options_.ranks(); ++r) {
    if (r < options_.books.size()) outcome_.workers[r] = options_.books[r];
    outcome_.workers[r].worker = {r};
    outcome_.lost[r] = r < options_.lost_before.size() && options_.lost_before[r];
  }
}

caf::behavior coordinator::make_behavior() {
  for (std::uint32_t i = 0; i < options_.shards.size(); ++i)
    watch(self_, options_.shards[i], shard_lost{{i}});
  watch(self_, options_.feeder, feeder_lost{});
  if (options_.checkpoints.recorder) watch(self_, options_.checkpoints.recorder, recorder_lost{});
  if (options_.shares_credit) switcher_.share_credit();
  if (options_.resumed) switcher_.resume(*options_.resumed, options_.steps_before);
  hold_switches();
  switcher_.begin();
  checkpointer_.begin();
  bring_next();
  if (options_.automatic)
    send(self_, options_.tracker, watch_signals{options_.workers * options_.automatic->window});
  return running();
}

caf::message_handler coordinator::checkpoints() {
  return {
      on(self_, [this](const checkpoint_part& x) { on_part(x); }),
      on(self_,
         [this](const checkpoint_failed& x) {
           checkpointer_.on_failed(x);
           go_on_with_checkpoints();
         }),
      on(self_, [this](const worker_at_end& x) { on_end_of(x); }),
      on(self_, [this](const tests_judged& x) { checkpointer_.keep(x.so_far); }),
      on(self_,
         [this](const recorder_lost&) {
           checkpointer_.give_up();
           go_on_with_checkpoints();
         }),
      on(self_,
         [this](const checkpoint_due&) {
           checkpointer_.on_due();
           go_on_with_checkpoints();
         }),
      on(self_,
         [this](const request_checkpoint&) {
           checkpointer_.request();
           go_on_with_checkpoints();
         }),
      on(self_,
         [this](const checkpoint_written& x) {
           checkpointer_.on_written(x);
           if (options_.on_checkpoint) options_.on_checkpoint(checkpointer_.account());
           go_on_with_checkpoints();
           seat_newcomers();
           end_if_all_reported();
         }),
  };
}

caf::message_handler coordinator::books() {
  return {
      on(self_, [this](const gather_books& x) { books_.gather(x.request, switcher_.done()); }),
      on(self_, [this](const tell_books& x) { books_.tell(x.request, switcher_.done()); }),
      on(self_,
         [this](const worker_books& x) {
           hear(sender_of(self_));
           books_.take(x, switcher_.done());
         }),
      on(self_, [this](const shard_books& x) { books_.take(x, switcher_.done()); }),
      on(self_,
         [this](const worker_progress& x) {
           seats_.hear(sender_of(self_), x.worker, options_.time->now());
           losses_.take(x.worker, x.steps, x.samples, std::bit_cast<double>(x.loss_sum_bits));
           losses_.add(x.worker, x.sums);
           judge_loss(x);
         }),
  };
}

/// A replay ends as it was recorded. Earlier checkpoints stay, since a smaller rate can go on from there.
void coordinator::judge_loss(const worker_progress& x) {
  const auto why = options_.divergence.take(x.steps, x.samples, std::bit_cast<double>(x.loss_sum_bits));
  if (!why || options_.replayed || outcome_.how != run_outcome::ending::completed) return;
  checkpointer_.give_up();
  stop(run_outcome::ending::diverged, *why);
  collect_if_all_accounted();
}

/// While the parts are collected, no switch begins, and while a policy switches, no checkpoint does.
void coordinator::go_on_with_checkpoints() {
  checkpointer_.begin_if_due(phase());
  hold_switches();
  if (!stop_when_kept_ || checkpointer_.is_collecting() || checkpointer_.is_next()) return;
  const stop_training x = *std::exchange(stop_when_kept_, std::nullopt);
  if (outcome_.how == run_outcome::ending::completed) outcome_.enough = x.enough;
  stop(run_outcome::ending::stopped, x.why);
  collect_if_all_accounted(); // nobody ends whose end would call it, if the run waits for a worker
}

/// In a replay, a switch also waits for those who had joined before it.
void coordinator::hold_switches() {
  switcher_.hold_back(checkpointer_.is_collecting()               ? "a checkpoint"
                      : to_come_.any_due(switcher_.epoch().value) ? "a worker that had come before it"
                                                                  : "");
}

void coordinator::on_part(const checkpoint_part& x) {
  hear(sender_of(self_));
  checkpointer_.on_part(x);
  go_on_with_checkpoints();
  seat_newcomers();
}

/// The state of a run that is stopped or fails is no end from which it could be made longer.
void coordinator::on_end_of(const worker_at_end& x) {
  hear(sender_of(self_));
  if (!seats_.is_of(x.worker, x.life)) return;
  if (outcome_.how != run_outcome::ending::completed) checkpointer_.give_up_end();
  switcher_.free_credit();
  checkpointer_.on_end_of(x.worker);
  go_on_with_checkpoints();
}

/// If the run can go on from here, it takes a checkpoint before it ends, as one that is stopped does. The
/// others train until that is collected.
void coordinator::on_failed(const worker_failed& x) {
  const std::string why = worker_at_step(x.report, x.step) + ": " + x.why;
  const bool can_go_on = x.leaves_all && options_.elastic && !options_.replayed && !abandoned_;
  if (outcome_.how != run_outcome::ending::completed || !can_go_on || !checkpointer_.can_take()) {
    stop(run_outcome::ending::failed, why);
    return account_for(x.report);
  }
  end_as(run_outcome::ending::failed, why);
  kept_before_failure_ = checkpointer_.last();
  refuse_newcomers();
  checkpointer_.request();
  stop_when_kept_ = stop_training{why};
  account_for(x.report);
}

/// Whether a checkpoint that is due because of a failure is still to be written.
bool coordinator::keeps_end_of_failed() const {
  return kept_before_failure_ &&
         (checkpointer_.last() == *kept_before_failure_ || checkpointer_.is_collecting());
}

/// A run that is stopped can be resumed as if it had not been: its state is kept before the workers finish
/// their last steps.
void coordinator::stop_when_kept(const stop_training& x) {
  if (!stop_when_kept_) stop_when_kept_ = x;
  checkpointer_.request();
  go_on_with_checkpoints();
}

caf::behavior coordinator::running() {
  return caf::message_handler{
      on(self_,
         [this](const loss_diverged& x) {
           if (!seats_.is_of(x.report.worker, x.life)) return;
           if (x.report.not_finite == 0) checkpointer_.give_up(); // shards may have taken its gradient
           stop(run_outcome::ending::diverged, "the loss of " + worker_at_step(x.report, x.step) +
                                                   " is not finite; " + last_finite(x.report));
           account_for(x.report);
         }),
      on(self_,
         [this](const worker_failed& x) {
           if (seats_.is_of(x.report.worker, x.life)) on_failed(x);
         }),
      on(self_, [this](const shard_lost& x) { on_shard_lost(x); }),
      on(self_, [this](const shard_failed& x) { on_shard_failed(x); }),
      on(self_, [this](const feeder_lost& x) { on_feeder_lost(x); }),
      on(self_,
         [this](const feeder_report& x) {
           outcome_.feeder_trace = x.trace;
           end_if_all_reported();
         }),
      on(self_, [this](const request_switch& x) { switcher_.request(x); }),
      on(self_, [this](const step_reached& x) { switcher_.on_step(x); }),
      on(self_,
         [this](const worker_paused& x) {
           hear(sender_of(self_));
           switcher_.on_paused(x);
         }),
      on(self_, [this](const policy_switched& x) { on_switched(x); }),
      on(self_, [this](const signals_observed& x) { on_signals(x); }),
      on(self_, [this](const stop_training& x) { stop_when_kept(x); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
      on(self_, [this](const shard_report& x) { on_report(x); }),
      on(self_, [](const verdict_asked&) { return go_on{}; }),
      on(self_, [this](const name_waits&) { tell_waits(); }),
      on(self_,
         [this](const wait_named& x) {
           hear(sender_of(self_));
           if (options_.on_wait) options_.on_wait(x);
         }),
  }
      .or_else(comings_and_goings())
      .or_else(checkpoints())
      .or_else(books());
}

void coordinator::on_signals(const signals_observed& x) {
  if (switcher_.is_switching()) return;
  const bool mixed = std::exchange(switches_seen_, switcher_.done().size()) != switcher_.done().size();
  if (mixed) return;
  if (auto advice = rule_.judge(x.what, switcher_.policy()))
    switcher_.request({std::move(advice->policy), std::move(advice->why)});
}

void coordinator::on_switched(const policy_switched& x) {
  const std::size_t before = switcher_.done().size();
  hold_switches(); // who joins before the next one must not miss it
  switcher_.on_switched(x);
  if (options_.observer && switcher_.done().size() > before)
    send(self_, options_.observer, event_noted{switcher_.done().back()});
  bring_next();
  go_on_with_checkpoints();
  seat_newcomers();
}

void coordinator::sit(const worker_joined& x) {
  seats_.sit(x.worker, x.life, x.device);
  to_come_.sit(x.worker, x.life);
  seats_.hear(x.worker, options_.time->now());
  undealt_.reset();
  counting_ = false;
  waits_since_.reset();
  losses_.begin(x.worker);
  switcher_.on_joined(x.worker, x.device, x.life);
  checkpointer_.on_joined(x.worker, x.device);
  books_.on_joined(x.worker, x.device);
  go_on_with_checkpoints();
  if (abandoned_) send(self_, x.device, give_up{});
}

/// Where shards are not asked what they took of a lost worker, nobody knows what it did since the run was
/// resumed.
void coordinator::forget_what_nobody_knows(worker_report& lost) const {
  if (asks_shards_of_lost()) return;
  worker_report known;
  known.worker = lost.worker;
  known.steps = lost.steps;
  known.add(lost);
  lost = std::move(known);
}

/// The message also comes after a worker has finished, when its actor ends as it should.
void coordinator::on_lost(const worker_lost& x) {
  const rank worker = x.worker;
  std::erase_if(newcomers_, [&](const worker_joined& n) { return n.worker == worker && n.life == x.life; });
  if (to_come_.was_brought(worker, x.life))
    return abandon(fmt::format("worker {} does not come as incarnation {}{}", worker.value, x.life.value,
                               x.why.empty() ? "" : ": " + x.why));
  if (!seats_.is_of(worker, x.life)) return collect_if_all_accounted();
  const std::string why = x.why.empty() ? "" : ": " + x.why;
  last_lost_ = fmt::format("worker {}{}", worker.value, why);
  const worker_left gone{worker, x.life};
  forget_what_nobody_knows(outcome_.workers[worker.value]);
  losses_.give(outcome_.workers[worker.value], books_.copy_of(worker));
  if (asks_shards_of_lost()) {
    checkpointer_.await_count(worker);
    if (const auto nothing = shares_.begin(gone)) note_trained(*nothing);
  } else {
    for (const caf::actor& shard : options_.shards)
      if (!options_.needs_all) send(self_, shard, gone);
    send(self_, options_.feeder, gone);
  }
  outcome_.lost[worker.value] = true;
  anybody_went_early_ = true;
  if (options_.replayed)
    stop(run_outcome::ending::failed,
         fmt::format("worker {} is lost, and a replay needs all of them{}", worker.value, why));
  if (options_.needs_all)
    abandon(fmt::format("worker {} is lost, and the sums of MPI need all of them{}", worker.value, why));
  account_for(outcome_.workers[worker.value], true);
}

void coordinator::account_for(const worker_report& report, bool lost,
                              std::shared_ptr<saved_fields> in_block) {
  if (!seats_.is_present(report.worker)) return;
  if (!lost) options_.timelines.complete(timeline_teller::of(report.worker, seats_.life_of(report.worker)));
  seats_.leave(report.worker, lost);
  pass_on_all_of(report.worker);
  outcome_.workers[report.worker.value] = report;
  switcher_.on_gone(report.worker, report.steps);
  checkpointer_.on_gone(report, lost, std::move(in_block));
  books_.on_gone(report, lost, switcher_.done());
  bring_next();
  go_on_with_checkpoints();
  seat_newcomers();
  collect_if_all_accounted();
}

} // namespace mailgrad

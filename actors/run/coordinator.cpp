#include <mailgrad/actors/run/coordinator.hpp>

#include <bit>
#include <cmath>

namespace mailgrad {

namespace {

/// What a run without workers has not trained.
std::string remaining_batches(std::uint64_t count) {
  return count == 1 ? "the mini-batch that remains"
                    : "the " + std::to_string(count) + " mini-batches that remain";
}

std::string worker_at_step(const worker_report& r, std::uint64_t step) {
  return fmt::format("worker {} at its step {}", r.worker.value, step);
}

std::string last_finite(const worker_report& r) {
  const float loss = std::bit_cast<float>(r.loss_bits);
  return std::isnan(loss) ? "it had no finite loss before" : "its last finite loss was " + format_loss(loss);
}

/// "shard 0 is lost: out of memory"
std::string format_lost(const std::string& who, const std::string& why, bool several = false) {
  return who + (several ? " are lost" : " is lost") + (why.empty() ? "" : ": " + why);
}

std::string format_lost(std::span<const std::uint32_t> shards, const std::string& why) {
  return format_lost(listed("shard", shards), why, shards.size() > 1);
}

} // namespace

coordinator::coordinator(caf::event_based_actor* self, coordinator_options options)
    : actor_part(self), options_(std::move(options)), slots_(options_.workers, options_.ranks()),
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
  if (options_.replayed) to_come_ = recorded_slots(recorded_incarnations(*options_.replayed));
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
  for (std::uint32_t i = 0; i < options_.shards.size(); ++i) watch(options_.shards[i], shard_lost{{i}});
  watch(options_.feeder, feeder_lost{});
  if (options_.checkpoints.recorder) watch(options_.checkpoints.recorder, recorder_lost{});
  if (options_.shares_credit) switcher_.share_credit();
  if (options_.resumed) switcher_.resume(*options_.resumed, options_.steps_before);
  hold_switches();
  switcher_.begin();
  checkpointer_.begin();
  bring_next();
  if (options_.automatic)
    send(options_.tracker, watch_signals{options_.workers * options_.automatic->window});
  return running();
}

caf::message_handler coordinator::checkpoints() {
  return {
      on([this](const checkpoint_part& x) {
        hear(sender());
        checkpointer_.on_part(x);
        go_on_with_checkpoints();
        give_slots();
      }),
      on([this](const checkpoint_failed& x) {
        checkpointer_.on_failed(x);
        go_on_with_checkpoints();
      }),
      // The state of a run that is stopped or fails is no end from which it could be made longer.
      on([this](const worker_at_end& x) {
        hear(sender());
        if (!slots_.is_of(x.worker, x.incarnation)) return;
        if (!completes()) checkpointer_.give_up_end();
        switcher_.free_credit();
        checkpointer_.on_end_of(x.worker);
        go_on_with_checkpoints();
      }),
      on([this](const tests_judged& x) { checkpointer_.keep(x.so_far); }),
      on([this](const recorder_lost&) {
        checkpointer_.give_up();
        go_on_with_checkpoints();
      }),
      on([this](const checkpoint_due&) {
        checkpointer_.on_due();
        go_on_with_checkpoints();
      }),
      on([this](const request_checkpoint&) {
        checkpointer_.request();
        go_on_with_checkpoints();
      }),
      on([this](const checkpoint_written& x) {
        checkpointer_.on_written(x);
        if (options_.on_checkpoint) options_.on_checkpoint(checkpointer_.account());
        go_on_with_checkpoints();
        give_slots();
        end_if_all_reported();
      }),
  };
}

caf::message_handler coordinator::books() {
  return {
      on([this](const gather_books& x) { books_.gather(x.request, switcher_.done()); }),
      on([this](const tell_books& x) { books_.tell(x.request, switcher_.done()); }),
      on([this](const worker_books& x) {
        hear(sender());
        books_.take(x, switcher_.done());
      }),
      on([this](const shard_books& x) { books_.take(x, switcher_.done()); }),
      on([this](const worker_progress& x) {
        slots_.hear(sender(), x.worker, options_.time->now());
        losses_.take(x.worker, x.steps, x.samples, std::bit_cast<double>(x.loss_sum_bits));
        losses_.add(x.worker, x.sums);
        judge_loss(x);
      }),
  };
}

/// A replay ends as it was recorded. Earlier checkpoints stay, since a smaller rate can go on from there.
void coordinator::judge_loss(const worker_progress& x) {
  const auto why = options_.divergence.take(x.steps, x.samples, std::bit_cast<double>(x.loss_sum_bits));
  if (!why || options_.replayed || !completes()) return;
  checkpointer_.give_up();
  stop(ending::diverged, *why);
  collect_if_all_accounted();
}

/// While the parts are collected, no switch begins, and while a policy switches, no checkpoint does.
void coordinator::go_on_with_checkpoints() {
  checkpointer_.begin_if_due(phase());
  hold_switches();
  if (!stop_when_kept_ || checkpointer_.is_collecting() || checkpointer_.is_next()) return;
  const stop_training x = *std::exchange(stop_when_kept_, std::nullopt);
  if (completes()) outcome_.enough = x.enough;
  stop(ending::stopped, x.why);
  collect_if_all_accounted(); // nobody ends whose end would call it, if the run waits for a worker
}

/// If the run can go on from here, it takes a checkpoint before it ends, as one that is stopped does. The
/// others train until that is collected.
void coordinator::on_failed(const worker_failed& x) {
  const std::string why = worker_at_step(x.report, x.step) + ": " + x.why;
  const bool can_go_on = x.leaves_all && options_.elastic && !options_.replayed && !abandoned_;
  if (!completes() || !can_go_on || !checkpointer_.can_take()) {
    stop(ending::failed, why);
    return account_for(x.report);
  }
  end_as(ending::failed, why);
  kept_before_failure_ = checkpointer_.last();
  refuse_newcomers();
  checkpointer_.request();
  stop_when_kept_ = stop_training{why};
  account_for(x.report);
}

caf::behavior coordinator::running() {
  return losses_and_failures()
      .or_else(switches_and_ends())
      .or_else(comings_and_goings())
      .or_else(what_is_left())
      .or_else(checkpoints())
      .or_else(books());
}

caf::message_handler coordinator::losses_and_failures() {
  return {
      on([this](const loss_diverged& x) {
        if (!slots_.is_of(x.report.worker, x.incarnation)) return;
        if (x.report.not_finite == 0) checkpointer_.give_up(); // shards may have taken its gradient
        stop(ending::diverged,
             "the loss of " + worker_at_step(x.report, x.step) + " is not finite; " + last_finite(x.report));
        account_for(x.report);
      }),
      on([this](const worker_failed& x) {
        if (slots_.is_of(x.report.worker, x.incarnation)) on_failed(x);
      }),
      on([this](const shard_lost& x) { on_shard_lost(x); }),
      // A shard says so before its report. If workers had heard of it, the run has failed with the first of
      // them.
      on([this](const shard_failed& x) {
        if (outcome_.how == ending::failed || outcome_.how == ending::diverged) return;
        const std::string why = fmt::format("shard {} has failed: {}", x.shard.value, x.why);
        end_as(ending::failed, outcome_.why.empty() ? why : outcome_.why + "; " + why);
        outcome_.enough = false;
      }),
      on([this](const feeder_lost& x) {
        outcome_.feeder_lost = true;
        checkpointer_.give_up();
        abandon(format_lost("the feeder", x.why));
        end_if_all_reported();
      }),
      on([this](const feeder_report& x) {
        outcome_.feeder_trace = x.trace;
        end_if_all_reported();
      }),
  };
}

caf::message_handler coordinator::switches_and_ends() {
  return {
      on([this](const request_switch& x) { switcher_.request(x); }),
      on([this](const step_reached& x) { switcher_.on_step(x); }),
      on([this](const worker_paused& x) {
        hear(sender());
        switcher_.on_paused(x);
      }),
      on([this](const policy_switched& x) { on_switched(x); }),
      on([this](const signals_observed& x) {
        if (switcher_.is_switching()) return;
        const bool mixed = std::exchange(switches_seen_, switcher_.done().size()) != switcher_.done().size();
        if (mixed) return;
        if (auto advice = rule_.judge(x.what, switcher_.policy()))
          switcher_.request({std::move(advice->policy), std::move(advice->why)});
      }),
      // A run that is stopped can be resumed as if it had not been: its state is kept before the workers
      // finish their last steps.
      on([this](const stop_training& x) {
        if (!stop_when_kept_) stop_when_kept_ = x;
        checkpointer_.request();
        go_on_with_checkpoints();
      }),
      on([this](const give_up&) { self_->quit(); }),
      on([this](const shard_report& x) { on_report(x); }),
      on([](const verdict_asked&) { return go_on{}; }),
      on([this](const list_wait_reasons&) { tell_waits(); }),
      on([this](const wait_reason& x) {
        hear(sender());
        if (options_.on_wait) options_.on_wait(x);
      }),
  };
}

void coordinator::on_switched(const policy_switched& x) {
  const std::size_t before = switcher_.done().size();
  hold_switches(); // who joins before the next one must not miss it
  switcher_.on_switched(x);
  if (options_.observer && switcher_.done().size() > before)
    send(options_.observer, event_noted{switcher_.done().back()});
  bring_next();
  go_on_with_checkpoints();
  give_slots();
}

void coordinator::take(const worker_joined& x) {
  slots_.take(x.worker, x.incarnation, x.device);
  to_come_.take(x.worker, x.incarnation);
  slots_.hear(x.worker, options_.time->now());
  undealt_.reset();
  counting_ = false;
  waits_since_.reset();
  losses_.begin(x.worker);
  switcher_.on_joined(x.worker, x.device, x.incarnation);
  checkpointer_.on_joined(x.worker, x.device);
  books_.on_joined(x.worker, x.device);
  go_on_with_checkpoints();
  if (abandoned_) send(x.device, give_up{});
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
  std::erase_if(newcomers_,
                [&](const worker_joined& n) { return n.worker == worker && n.incarnation == x.incarnation; });
  if (to_come_.was_brought(worker, x.incarnation))
    return abandon(fmt::format("worker {} does not come as incarnation {}{}", worker.value,
                               x.incarnation.value, x.why.empty() ? "" : ": " + x.why));
  if (!slots_.is_of(worker, x.incarnation)) return collect_if_all_accounted();
  const std::string why = x.why.empty() ? "" : ": " + x.why;
  last_lost_ = fmt::format("worker {}{}", worker.value, why);
  const worker_left gone{worker, x.incarnation};
  forget_what_nobody_knows(outcome_.workers[worker.value]);
  losses_.give(outcome_.workers[worker.value], books_.copy_of(worker));
  if (asks_shards_of_lost()) {
    checkpointer_.await_count(worker);
    if (const auto nothing = shares_.begin(gone)) note_trained(*nothing);
  } else {
    for (const caf::actor& shard : options_.shards)
      if (!options_.needs_all) send(shard, gone);
    send(options_.feeder, gone);
  }
  outcome_.lost[worker.value] = true;
  anybody_went_early_ = true;
  if (options_.replayed)
    stop(ending::failed,
         fmt::format("worker {} is lost, and a replay needs all of them{}", worker.value, why));
  if (options_.needs_all)
    abandon(fmt::format("worker {} is lost, and the sums of MPI need all of them{}", worker.value, why));
  account_for(outcome_.workers[worker.value], true);
}

void coordinator::account_for(const worker_report& report, bool lost,
                              std::shared_ptr<saved_fields> in_block) {
  if (!slots_.is_present(report.worker)) return;
  if (!lost)
    options_.timelines.complete(timeline_teller::of(report.worker, slots_.incarnation_of(report.worker)));
  slots_.leave(report.worker, lost);
  const auto is_of_it = [&](const parting& x) { return x.worker.worker == report.worker; };
  for (const parting& x : parted_)
    if (is_of_it(x)) pass_on(x);
  std::erase_if(parted_, is_of_it);
  outcome_.workers[report.worker.value] = report;
  switcher_.on_gone(report.worker, report.steps);
  checkpointer_.on_gone(report, lost, std::move(in_block));
  books_.on_gone(report, lost, switcher_.done());
  bring_next();
  go_on_with_checkpoints();
  give_slots();
  collect_if_all_accounted();
}

caf::message_handler coordinator::comings_and_goings() {
  return {
      // A newcomer is watched while it waits for its slot, since no run must wait for a dead one.
      on([this](const worker_joined& x) {
        if ((x.late && !lets_in()) || !slots_.may_take(x.worker, x.incarnation))
          return send(x.device, give_up{});
        watch(x.device, worker_lost{x.worker, {}, x.incarnation});
        if (!x.late) return take(x);
        newcomers_.push_back(x);
        give_slots();
      }),
      on([this](const worker_finished& x) {
        if (!slots_.is_of(x.report.worker, x.incarnation)) return;
        anybody_went_early_ = anybody_went_early_ || !x.why_left.empty();
        account_for(x.report, false, x.in_block);
      }),
      on([this](const worker_lost& x) { on_lost(x); }),
      on([this](const worker_left& x) {
        on_parted({x, sender()});
      }),
      // An answer comes always, or the worker would tell nothing more.
      on([this](const trace_reported& x) {
        hear(sender());
        if (slots_.is_of(x.worker, x.incarnation))
          options_.timelines.take(timeline_teller::of(x.worker, x.incarnation), x.piece,
                                  options_.time->now());
        return trace_taken{};
      }),
      on([this](const shard_trace_reported& x) {
        if (x.shard.value < reported_.size())
          options_.timelines.take(timeline_teller::of(x.shard), x.piece, options_.time->now());
        return trace_taken{};
      }),
  };
}

/// What lost workers had trained, and what nobody has.
caf::message_handler coordinator::what_is_left() {
  return {
      on([this](const trained_reported& x) {
        const auto all = shares_.take(x);
        if (!all) return;
        note_trained(*all);
        go_on_with_checkpoints();
        give_slots();
        collect_if_all_accounted();
      }),
      on([this](const share_ended& x) { on_share_ended(x); }),
      on([this](const undealt_counted& x) {
        if (!std::exchange(counting_, false)) return; // a worker has joined since
        undealt_ = x.batches;
        collect_if_all_accounted();
      }),
      on([this](const wait_over& x) { on_wait_over(x); }),
  };
}

/// The connection between a worker and a parameter host has ended. What the worker said last may not have
/// come there, so the shard hears it from here, but not before all is known of the worker: others may have to
/// train what it was dealt.
void coordinator::on_parted(parting x) {
  if (!x.shard) return;
  const bool is_known = std::ranges::any_of(parted_, [&](const parting& other) {
    return other.shard == x.shard && other.worker.worker == x.worker.worker;
  });
  if (slots_.is_of(x.worker.worker, x.worker.incarnation) && !is_known)
    parted_.push_back(std::move(x));
  else if (slots_.has_left(x.worker.worker, x.worker.incarnation))
    pass_on(x);
}

/// In a replay, brings every worker whose slot is free and whose turn it is.
void coordinator::bring_next() {
  for (std::uint32_t r = 0; r < slots_.count() && to_come_.any(); ++r)
    if (!slots_.is_present({r}) && !abandoned_)
      if (const auto incarnation = to_come_.bring({r}, switcher_.epoch().value)) {
        brought_at_ = options_.time->now();
        send(options_.joining_workers, bring_worker{{r}, *incarnation});
      }
}

/// An earlier incarnation is fenced off first: it may be frozen, or have begun before its first message came
/// here.
void coordinator::give_slots() {
  while (!newcomers_.empty()) {
    const worker_joined x = newcomers_.front();
    if (!slots_.may_take(x.worker, x.incarnation)) { // a later incarnation was faster
      newcomers_.pop_front();
      send(x.device, give_up{});
      continue;
    }
    if (slots_.is_present(x.worker) && slots_.incarnation_of(x.worker) < x.incarnation) {
      if (const caf::actor before = slots_.device(x.worker)) send(before, give_up{});
      return on_lost({x.worker, fmt::format("incarnation {} has taken its place", x.incarnation.value),
                      slots_.incarnation_of(x.worker)}); // which comes back here
    }
    if (shares_.has(x.worker) || switcher_.is_under_way() || checkpointer_.is_collecting()) return;
    newcomers_.pop_front();
    send(x.device, slot_given{switcher_.epoch(), outcome_.workers[x.worker.value], checkpointer_.last()});
    take(x);
  }
}

/// What the shards have heard of a lost incarnation is all that is known of it. If they are lost as well, as
/// on one machine, it is what the worker had told of its progress.
void coordinator::note_trained(const trained_reported& heard) {
  trained_reported all = heard;
  if (shares_.nobody_knows()) {
    const reported_losses::amount told = losses_.done_by(heard.worker);
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

/// A run does not end before this is known of every lost worker, and no incarnation begins before it is known
/// of the one before it. If all shards are lost, the feeder knows of more batches than are counted.
void coordinator::on_share_ended(const share_ended& x) {
  if (!shares_.take(x)) return;
  worker_report& known = outcome_.workers[x.worker.value];
  known.local_batches = std::min(known.local_batches + x.own, known.steps);
  outcome_.lost_batches[x.worker.value] += x.lost;
  checkpointer_.on_counted(known);
  books_.on_counted(known);
  go_on_with_checkpoints();
  give_slots();
  end_if_all_reported();
}

/// Whether nobody is left, nobody comes, and it is known whether anything is left to train.
bool coordinator::may_end() {
  if (collecting_ || slots_.anybody() || !newcomers_.empty() || to_come_.any()) return false;
  if (!options_.elastic || abandoned_ || !completes()) return true;
  if (!anybody_went_early_) return true; // all others have heard from the feeder that nothing is left
  if (shares_.any()) return false;
  if (!undealt_ && !std::exchange(counting_, true)) send(options_.feeder, count_undealt{});
  return undealt_.has_value();
}

/// Begins to wait if it has not begun.
bool coordinator::waits_for_a_worker() {
  if (expects_nobody_ || undealt_.value_or(0) == 0 || options_.waits_for_workers <= instant{0}) return false;
  if (!waits_since_) {
    waits_since_ = options_.time->now();
    if (options_.waits_for_workers < instant::max())
      send_after(options_.waits_for_workers, wait_over{++waits_});
  }
  return true;
}

/// Before it is known whether batches are left, a run of which nobody is left waits only if it is stopped:
/// else the checkpoint of its end is still to come. A run that collects its books takes no other.
run_phase coordinator::phase() const {
  if (switcher_.is_switching()) return run_phase::switches;
  const bool may_wait =
      options_.elastic && options_.waits_for_workers > instant{0} && !slots_.anybody() && !collecting_;
  return may_wait && (waits_since_ || (stop_when_kept_ && undealt_ != 0U)) ? run_phase::waits_for_worker
                                                                           : run_phase::trains;
}

/// The run takes a checkpoint at such an end, if it takes any.
std::string coordinator::format_nobody_left() const {
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
  stop(ending::failed, fmt::format("no worker has come to train {}", remaining_batches(*undealt_)));
  collect_if_all_accounted();
}

/// Shards and workers tell of their own waits, also workers that have no slot yet.
void coordinator::tell_waits() {
  for (const auto& wait : {switcher_.blocked_on(slots_), checkpointer_.blocked_on(slots_),
                           shares_.blocked_on(), wait_for_a_worker(), wait_for_the_end()})
    if (wait && options_.on_wait) options_.on_wait(*wait);
  for (const caf::actor& shard : options_.shards) send(shard, list_wait_reasons{});
  for (std::uint32_t r = 0; r < slots_.used(); ++r)
    if (slots_.device({r})) send(slots_.device({r}), list_wait_reasons{});
  for (const worker_joined& x : newcomers_) send(x.device, list_wait_reasons{});
}

std::optional<wait_reason> coordinator::wait_for_a_worker() const {
  const instant now = options_.time->now();
  if (const auto next = to_come_.brought())
    return wait_reason{fmt::format("the replay waits for worker {} as incarnation {}", next->first.value,
                                   next->second.value),
                       (now - brought_at_).count()};
  if (!waits_since_) return std::nullopt;
  const std::string bound = options_.waits_for_workers < instant::max()
                                ? fmt::format(", {:.0f} s at most", in_seconds(options_.waits_for_workers))
                                : "";
  return wait_reason{
      fmt::format("the run waits for a worker to train {}{}", remaining_batches(*undealt_), bound),
      (now - *waits_since_).count()};
}

/// The first shard is asked for its report before all others. A checkpoint that is being collected names its
/// own wait, and so do the batches of lost workers.
std::optional<wait_reason> coordinator::wait_for_the_end() const {
  if (!collecting_ || checkpointer_.is_collecting()) return std::nullopt;
  const auto awaited = numbers_where(reported_.empty() || reported_[0] ? reported_.size() : 1,
                                     [this](std::uint32_t s) { return !reported_[s]; });
  if (awaited.empty() && !checkpointer_.is_writing() && shares_.awaits_feeder()) return std::nullopt;
  const std::string what = checkpointer_.is_writing() ? "the last checkpoint to be written"
                           : !awaited.empty()         ? "the report of " + listed("shard", awaited)
                                                      : "the timeline of the feeder";
  return wait_reason{"the end of the run waits for " + what,
                     (options_.time->now() - collects_since_).count()};
}

void coordinator::stop(ending how, std::string why) {
  if (completes()) end_as(how, std::move(why));
  checkpointer_.give_up_end();
  // In the recorded run the other workers finished the batches that they had been dealt, and so they do here.
  if (options_.replayed && how == ending::diverged && options_.replayed->end.ended == "diverged") return;
  send(options_.feeder, stop_dealing{});
  switcher_.stop();
  refuse_newcomers();
  if (options_.replayed) send_home();
}

void coordinator::on_shard_lost(const shard_lost& x) {
  if (reported_[x.shard.value]) return; // the shard is no longer needed
  const bool collecting = collecting_;
  reported_[x.shard.value] = true;
  const bool is_told = joins_lost(x);
  const std::string why = format_lost(lost_together_, x.why);
  if (!is_told && collecting && completes()) // its weights were still to come
    end_as(ending::failed, outcome_.why.empty() ? why : outcome_.why + "; " + why);
  switcher_.on_shard_lost(x.shard);
  checkpointer_.give_up();
  for (const trained_reported& told : shares_.on_shard_lost(x.shard)) note_trained(told);
  books_.on_shard_lost(x.shard, switcher_.done());
  abandon(why);
  if (collecting) ask_for_books();
}

/// A process that is gone takes all of its shards with it, which are named together. True if the words of the
/// run's end now name this one, too.
bool coordinator::joins_lost(const shard_lost& x) {
  if (lost_together_.empty() || first_lost_.why != x.why) {
    first_lost_ = x;
    lost_together_ = {x.shard.value};
    return false;
  }
  const std::string before = format_lost(lost_together_, x.why);
  lost_together_.push_back(x.shard.value);
  const std::size_t told = outcome_.why.find(before);
  if (told == std::string::npos) return false;
  outcome_.why.replace(told, before.size(), format_lost(lost_together_, x.why));
  return true;
}

/// A replay that ends early calls it as well, since workers could wait for ever for turns that are missing.
void coordinator::send_home() {
  abandoned_ = true;
  to_come_.clear();
  for (std::uint32_t r = 0; r < slots_.used(); ++r)
    if (slots_.device({r})) send(slots_.device({r}), give_up{});
}

void coordinator::collect_if_all_accounted() {
  if (!may_end() || (completes() && waits_for_a_worker())) return;
  outcome_.untrained = undealt_.value_or(0);
  if (outcome_.untrained > 0 && completes()) {
    outcome_.why = format_nobody_left();
    if (options_.on_failure) options_.on_failure(outcome_.why); // the report of such a run says "failed"
  }
  const bool all_trained = options_.waits_for_workers > instant{0} && undealt_ == 0U;
  if (slots_.all_lost() && !all_trained)
    stop(ending::failed, "all workers are lost, the last of them " + last_lost_);
  collecting_ = true;
  collects_since_ = options_.time->now();
  if (options_.feeder_traced) send(options_.feeder, report_feeder{});
  switcher_.stop(); // no worker is left, and shards that have reported switch no more
  if (!completes() && !keeps_end_of_failed()) return ask_for_books();
  checkpointer_.take_last([this] { ask_for_books(); });
}

void coordinator::on_report(const shard_report& x) {
  if (!collecting_ || x.shard.value >= reported_.size()) return; // of a process that is not as it should be
  outcome_.shards[x.shard.value] = x;
  options_.timelines.complete(timeline_teller::of(x.shard));
  reported_[x.shard.value] = true;
  books_.on_reported(x, switcher_.done());
  if (x.shard.value == 0) return ask_for_books();
  end_if_all_reported();
}

void coordinator::end_if_all_reported() {
  if (!collecting_ || !options_.on_end || std::ranges::count(reported_, false) > 0) return;
  if (options_.feeder_traced && !outcome_.feeder_trace && !outcome_.feeder_lost) return;
  if (shares_.awaits_feeder() && !outcome_.feeder_lost) return;
  if (checkpointer_.is_writing() || checkpointer_.has_last_to_take()) return;
  outcome_.workers.resize(slots_.used());
  outcome_.lost.resize(slots_.used());
  outcome_.lost_batches.resize(slots_.used());
  outcome_.switches = switcher_.done();
  outcome_.nonsense_above = options_.divergence.limit();
  outcome_.checkpoints = checkpointer_.account();
  outcome_.checkpoint_timeline = checkpointer_.end_timeline();
  outcome_.told = options_.timelines.placed();
  std::exchange(options_.on_end, nullptr)(std::move(outcome_));
  self_->quit();
}

} // namespace mailgrad

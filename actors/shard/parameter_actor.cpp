#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/actors/shard/wait_words.hpp>
#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

// What a parameter actor does when a turn of the order has come: it judges a gradient, and then updates and
// answers whoever may start.

// What a parameter actor tells of itself: waits, books, timeline and report.

// What a parameter actor does when memory of its card is lacking: it keeps its weights for whoever asks.

namespace mailgrad {

using messaging::on, messaging::send, messaging::sender_of;

namespace {

/// The policy of a shard under hogwild, which workers do not ask: each that joins may start.
std::unique_ptr<policy> policy_of(const policy_spec& chosen) {
  if (auto made = chosen.make()) return made;
  return std::make_unique<async_policy>();
}

/// The first shard judges no second gradient of a worker before the others have answered the first, so it is
/// never far ahead of them.
void require_near(std::size_t turns, std::uint32_t workers) {
  const std::size_t most = 1024 + std::size_t{64} * workers;
  if (turns > most)
    throw std::runtime_error(fmt::format("expected a first shard that is at most {} turns ahead of this one, "
                                         "found more",
                                         most));
}

} // namespace

parameter_actor::parameter_actor(caf::event_based_actor* self, parameter_actor_options options)
    : self_(self), options_(std::move(options)), turns_(*this, policy_of(options_.policy)),
      workers_(options_.workers, options_.ranks(), options_.run),
      watch_(self, options_.tracker, options_.time, options_.trace, options_.pace, trace_to_coordinator()),
      updater_(self, options_.weights, std::move(options_.helpers), options_.time),
      updates_(options_.weights, options_.cure, workers_, watch_, updater_),
      readers_(self, options_.weights, options_.watch, options_.time),
      order_({self, options_.weights->index(), options_.ranks(), std::move(options_.followers),
              options_.recorder, options_.replayed}),
      lease_(options_.weights, options_.store, options_.on_card),
      cut_({options_.run, *options_.weights, turns_, workers_, updates_, order_, lease_}),
      window_(self, std::move(options_.timer)) {
  options_.trace.reset();
  watch_.add_counts(
      [this] { return workers_.counts(options_.weights->index(), options_.weights->version()); });
  for (std::uint32_t r = 0; r < options_.workers; ++r) turns_.rule().join({r});
  order_.begin_policy(turns_.rule().shards_agree());
  updates_.weigh(turns_.rule().weighs());
  if (options_.resumed) resume();
  if (!options_.policy.traits().needs_shards) lease_.begin(); // with the weights of the checkpoint
}

/// Workers that had an answer get the same again when they come back. The others wait for theirs from now on.
void parameter_actor::resume() {
  const shard_state me{options_.run, *options_.weights, turns_, workers_, updates_, order_, lease_};
  const std::vector<push_gradient> beside = restore_shard(*options_.resumed, me, options_.same_workers);
  const instant now = options_.time->now();
  for (std::uint32_t r = 0; r < workers_.count() && options_.same_workers; ++r) {
    worker_slot& worker = workers_[{r}];
    if (r < options_.counted.size() && !options_.counted[r]) worker.account = {};
    if (r < options_.steps.size() && options_.steps[r] == step_number{}) worker.account.last_step = {};
    worker.arrived = now;
    count_in({r});
    // It had ended, or a later incarnation had not come here yet: it joins anew, and says where it stands.
    if (!worker.returns && r < options_.steps.size())
      worker.account.last_step = worker.waiting_step = options_.steps[r];
    if (worker.returns && worker.owed) workers_.wait({r}, now);
    if (!worker.returns || worker.owed) continue;
    if (worker.answer.values)
      updates_.has({r}, worker.answer.values);
    else
      worker.answer = {options_.weights->version(), updates_.weights_for({r}), {}};
  }
  workers_.add_up_ledgers();
  for (const push_gradient& x : beside) {
    workers_[x.header.id.worker].waits_since.reset(); // until it is judged
    order_.arrive(x, now.count());
  }
}

/// A worker that had left comes from the beginning of the resumed run, so a barrier waits for it. In a replay
/// the order says when it comes.
void parameter_actor::count_in(rank worker) {
  if (worker.value >= options_.workers || order_.replays() || workers_[worker].in_policy) return;
  workers_[worker].in_policy = true;
  turns_.rule().join(worker);
}

caf::behavior parameter_actor::make_behavior() {
  take_what_is_ready(); // of a checkpoint, before any worker returns
  options_.resumed.reset();
  return serving();
}

caf::behavior parameter_actor::serving() {
  return {
      on(self_, [this](const push_gradient& x) { or_fail([&] { on_push(x); }); }),
      on(self_, [this](const join_shard& x) { or_fail([&] { on_join(x); }); }),
      on(self_, [this](const worker_left& x) { or_fail([&] { on_leave(x); }); }),
      on(self_, [this](const tell_trained& x) { return trained(x); }),
      on(self_, [this](const foretell_gradient& x) { return foretell(x); }),
      on(self_,
         [this](const order_entry& x) {
           if (x.worker.value >= workers_.count()) return; // of a process that is not as it should be
           require_near(order_.ahead(), workers_.count());
           order_.expect(x);
           or_fail([this] { take_what_is_ready(); });
         }),
      on(self_, [this](const switch_policy& x) { or_fail([&] { on_switch(x); }); }),
      on(self_,
         [this](const free_credit&) {
           credit_is_free_ = true;
           tell_awaited();
         }),
      on(self_, [this](const window_over& x) { or_fail([&] { on_window_over(x); }); }),
      on(self_, [](const go_on&) {}), // left over from an update that a helper has ended
      on(self_,
         [this](const checkpoint_mark& x) {
           cut_.mark(x);
           report_cut();
         }),
      on(self_,
         [this](const take_checkpoint& x) {
           cut_.begin(x.number, sender_of(self_));
           report_cut();
         }),
      on(self_, [this](const give_up&) { quit_when_idle(); }),
      on(self_, [this](const report_shard&) { on_report_asked(); }),
      on(self_, [this](const trace_taken& x) { watch_.on_taken(x); }),
      on(self_, [this](const read_shard& x) { on_read(x, sender_of(self_)); }),
      on(self_, [this](const weights_copied&) { readers_.serve(); }),
      on(self_, [this](const copy_books&) { return books(); }),
      on(self_, [this](const name_waits&) { name_waits_to(sender_of(self_)); }),
  };
}

/// No actor waits for a card, so one whose lane is at work ends later.
void parameter_actor::quit_when_idle() {
  readers_.when_idle([this] { self_->quit(); });
}

/// An incarnation whose end is not known yet leaves when the next one joins. The first one of a resumed run
/// is who took part when it was kept.
void parameter_actor::on_join(const join_shard& x) {
  const bool returns = x.worker.value < workers_.count() && workers_[x.worker].returns;
  if (returns && x.life == workers_[x.worker].life) return come_back(x);
  if (returns || workers_.is_replaced_by(x)) on_leave({x.worker, workers_[x.worker].life});
  if (!workers_.join(x)) return;
  workers_[x.worker].heard_at = options_.time->now();
  watch_.begin_telling();
  if (order_.never_greets(x.worker, x.life) && order_.was_cut(x.worker, x.life))
    send_home(workers_[x.worker]);
  order_.join(x.worker, x.life);
  take_what_is_ready();
}

/// In a replay a worker that was lost is still there, and waits. It gets weights that it will not use, so
/// that it can end.
void parameter_actor::send_home(worker_slot& worker) {
  worker.owed = false;
  worker.waits_since.reset();
  worker.answer = {options_.weights->version(), options_.weights->snapshot(), {}};
  answer(worker, {});
}

/// A worker of the run that this one resumes. It goes on where it was: with the answer that it had, or has
/// got since, or waiting for one.
void parameter_actor::come_back(const join_shard& x) {
  worker_slot& worker = workers_[x.worker];
  const bool owed = worker.owed;
  if (!workers_.join(x)) return;
  worker.returns = false;
  worker.owed = owed;
  worker.heard_at = options_.time->now();
  watch_.begin_telling();
  order_.come_back(x.worker, x.life);
  if (!owed) answer(worker, {});
}

/// Sends a worker the weights that are kept for it.
void parameter_actor::answer(worker_slot& worker, const std::optional<stay_at_shard>& stay) {
  kept_answer x = keeps_answers() ? worker.answer : std::exchange(worker.answer, {});
  shard_weights told{
      {options_.weights->index(), x.version, epoch_, stay, x.met.step, cut_.last(), worker.discarded},
      {std::move(x.values), std::move(x.met.values)}};
  if (!is_elsewhere(workers_.rank_of(worker))) return send(self_, worker.device, std::move(told));
  told.payload.values = options_.weights->on_host(told.payload.values);
  told.payload.met = options_.weights->on_host(told.payload.met);
  readers_.when_copied([this, to = worker.device, told = std::move(told)] { send(self_, to, told); });
}

bool parameter_actor::is_elsewhere(rank worker) const {
  return worker.value < options_.elsewhere.size() && options_.elsewhere[worker.value];
}

void parameter_actor::report_cut() {
  auto part = cut_.finished();
  if (!part) return;
  if (!part->fields)
    return send(self_, cut_.collector(), checkpoint_failed{part->number, part->name, cut_.failure()});
  const std::uint64_t number = part->number;
  const std::string whose = part->name;
  try {
    readers_.when_copied([this, to = cut_.collector(), part = std::move(*part)] { send(self_, to, part); });
  } catch (const out_of_memory& e) { // for the mark behind the copies
    send(self_, cut_.collector(), checkpoint_failed{number, whose, e.what()});
  }
}

/// The order alone says whom the policy counts, so that all shards that follow it count the same workers. A
/// worker that has left already does so at a later turn.
void parameter_actor::greet(rank worker, incarnation life) {
  order_.announce(order_entry::of(order_entry::kind::joined, worker, life));
  worker_slot& newcomer = workers_[worker];
  newcomer.greeted = true;
  if (!newcomer.in_policy) { // its seat was empty, or an earlier incarnation has left
    newcomer.in_policy = true;
    turns_.rule().join(worker);
  }
  if (newcomer.device && newcomer.life == life) workers_.wait(worker, options_.time->now());
  release();
}

/// A sender that is fenced off costs nothing but this look. What comes from elsewhere is copied to the card
/// when it comes, also if its turn is still to come.
void parameter_actor::on_push(const push_gradient& from) {
  if (!workers_.awaits(from.header.id)) return;
  push_gradient x = from;
  x.payload.room.reset(); // `from` has it until this returns
  if (order_.is_followed() || !turns_.rule().first_awaited()) x.payload.credit.reset();
  cut_.before(x.header.id);
  workers_.admit(x, options_.time->now());
  worker_slot& worker = workers_[x.header.id.worker];
  if (x.header.epoch != epoch_) return drop_stray(x.header);
  if (order_.never_takes(x.header.id) && order_.was_cut(x.header.id.worker, x.header.id.life)) {
    workers_.lose_unjudged(x.header.id.worker);
    return send_home(worker);
  }
  if (order_.never_takes(x.header.id)) {
    workers_.discard_unjudged(x.header.id.worker, updates_.gap_of(x.header), "no turn");
    return send(self_, worker.device, turn_missing{options_.weights->index(), x.header.id.step});
  }
  if (!order_.is_followed()) worker.note_trained(x.header);
  bring(x);
  cut_.add(x);
  order_.arrive(x, worker.arrived.count());
  take_what_is_ready();
  watch_.tell_if_due();
}

/// If memory for it is lacking, nobody judges it any more.
void parameter_actor::bring(push_gradient& x) {
  try {
    x.payload.values = options_.weights->reachable(std::move(x.payload.values));
  } catch (const out_of_memory&) {
    workers_.lose_unjudged(x.header.id.worker);
    throw;
  }
}

void parameter_actor::on_leave(const worker_left& x) {
  cut_.before_leaving(x.worker);
  if (!workers_.leave(x)) return;
  order_.leave(x.worker, x.life);
  take_what_is_ready();
}

/// A shard that follows judges no gradient that the first shard has not judged, so it counts only those that
/// it has taken.
trained_told parameter_actor::trained(const tell_trained& x) {
  trained_told told{options_.weights->index(), x.worker, x.life};
  if (x.worker.value >= workers_.count() || workers_[x.worker].life != x.life) return told;
  told.batches = workers_[x.worker].batches;
  told.gradients = workers_[x.worker].heard;
  told.samples = workers_[x.worker].samples;
  return told;
}

/// Versions only grow, so a gradient that is too stale now will be so when it comes.
gradient_foretold parameter_actor::foretell(const foretell_gradient& x) const {
  const auto most = turns_.rule().most_stale();
  const bool discarded = most && x.epoch == epoch_ && options_.weights->version() - x.version_read > *most;
  return {options_.weights->index(), x.step, discarded};
}

void parameter_actor::on_switch(const switch_policy& x) {
  if (x.present.size() < workers_.count() || x.steps.size() < workers_.count()) return; // likewise
  next_policy_ = x;
  coordinator_ = sender_of(self_);
  switch_asked_ = options_.time->now();
  switch_if_all_taken();
}

bool parameter_actor::all_taken(const switch_policy& x) const {
  return order_.is_followed() ? order_.switch_is_next() : awaited_before(x, workers_.all()).empty();
}

void parameter_actor::switch_if_all_taken() {
  if (!next_policy_ || updater_.under_way() || !all_taken(*next_policy_)) return;
  const switch_policy x = *std::exchange(next_policy_, std::nullopt);
  for (std::uint32_t r = 0; r < workers_.count() && !order_.is_followed(); ++r)
    if (!x.present[r]) let_go({r}, workers_[{r}].life); // its own word may still be on its way
  order_.take_switch(std::ranges::count(x.present, 0) < std::ssize(x.present));
  begin(x);
  send(self_, coordinator_, policy_switched{options_.weights->index(), epoch_});
}

/// Under the new policy every worker starts from the present weights.
void parameter_actor::begin(const switch_policy& x) {
  watch_.flush_gaps(); // gaps under the old policy say nothing about the new one
  turns_.finish();
  lease_.end();
  const policy_spec chosen(x.policy, options_.ranks());
  turns_.begin(policy_of(chosen));
  order_.begin_policy(turns_.rule().shards_agree());
  updates_.weigh(turns_.rule().weighs());
  credit_is_free_ = false;
  if (!chosen.traits().needs_shards) lease_.begin();
  epoch_ = x.epoch;
  watch_.moment(trace_kind::change_policy, {}, turns_.rule().name());
  workers_.begin_policy(x.present, options_.time->now());
  for (std::uint32_t r = 0; r < workers_.count() && order_.replays(); ++r)
    if (!order_.has_greeted({r}, workers_[{r}].life)) workers_[{r}].waits_since.reset();
  for (std::uint32_t r = 0; r < workers_.count(); ++r)
    if (workers_[{r}].in_policy) turns_.rule().join({r});
  release(); // before anybody is let go, as where the order is given, since a cure may predict for all
  for (std::uint32_t r = 0; r < workers_.count() && !order_.is_followed(); ++r)
    if (workers_[{r}].left) let_go({r}, workers_[{r}].life); // the coordinator had not yet heard of it
  take_what_is_ready();
}

using messaging::drop_others, messaging::hold_others, messaging::on, messaging::send;

/// Stops at an update with helpers; what is ready then waits until that has ended.
void parameter_actor::take_what_is_ready() {
  while (!updater_.under_way()) {
    const auto ready = order_.next();
    if (!ready) break;
    if (ready->turn.what == order_entry::kind::left)
      let_go(ready->turn.worker, ready->turn.life(), ready->gradient.has_value());
    else if (ready->turn.what == order_entry::kind::joined)
      greet(ready->turn.worker, ready->turn.life());
    else if (ready->turn.what == order_entry::kind::kept)
      cut_.follow(ready->turn.step.value);
    else if (ready->turn.what == order_entry::kind::missed)
      take_missed(ready->turn, ready->gradient);
    else if (ready->turn.what == order_entry::kind::closed)
      take_closed(ready->turn);
    else if (ready->gradient)
      take(*ready->gradient, ready->turn.arrived);
    else
      take_lost(ready->turn);
  }
  switch_if_all_taken();
  watch_window();
  report_cut();
  tell_awaited();
}

/// The first shard says for all that follow it when a batch is closed, and a recording for those of a replay.
void parameter_actor::watch_window() {
  if (!order_.is_followed()) window_.watch(turns_.rule().closes_at());
}

void parameter_actor::on_window_over(const window_over& x) {
  order_.close(x.moment);
  take_what_is_ready();
}

/// A batch that was applied before its time was over is not closed any more.
void parameter_actor::take_closed(const order_entry& turn) {
  if (!order_.is_followed() && turns_.rule().closes_at() != turn.arrived) return;
  order_.announce(turn);
  turns_.close();
  release();
}

decision parameter_actor::judge(const order_entry& turn) {
  const version_number now = options_.weights->version();
  return turns_.judge(turn, {now.value - turn.gap});
}

/// `arrived` is the time by which the gradient is judged, from the shard whose order is followed.
void parameter_actor::take(const push_gradient& x, std::int64_t arrived) {
  const gradient_header& g = x.header;
  const order_entry turn{order_entry::kind::gradient, g.id.worker, g.id.step,
                         options_.weights->version() - g.version_read, arrived};
  order_.announce(turn);
  worker_slot& worker = workers_[g.id.worker];
  const bool waits = worker.device ? worker.life == g.id.life : worker.returns;
  if (worker.life == g.id.life && g.batches > worker.batches) worker.note_trained(g);
  if (waits) workers_.wait(g.id.worker, worker.arrived);
  workers_.produce(g.id.worker);
  watch_.idle(!updates_.nothing_waits(), worker.arrived, order_.is_followed());
  if (!order_.is_followed()) taking_ = g.id.worker;
  const std::uint64_t samples = worker.take_samples(g);
  const version_number before = options_.weights->version();
  const decision d = judge(turn);
  switch (d.what) {
  case verdict::apply:
    update(updates_.add(x));
    break;
  case verdict::merge:
  case verdict::defer:
    keep_waiting(x, samples, d.what);
    give_places();
    break;
  case verdict::discard:
    workers_.discard(g.id.worker, updates_.gap_of(g), std::string(d.reason), g.id.life);
    watch_.moment(trace_kind::discard, g, d.reason);
    break;
  }
  if (updater_.under_way()) return; // the answers follow the update
  taking_.reset();
  if (turns_.rule().holds_until_update() && options_.weights->version() == before)
    start_if_due(g.id.worker, g.id.worker);
  else
    release(g.id.worker);
}

void parameter_actor::keep_waiting(const push_gradient& x, std::uint64_t samples, verdict what) {
  if (what == verdict::defer && !turns_.rule().has_rounds())
    throw std::logic_error(fmt::format("policy '{}' defers a gradient to its next round, and has no rounds",
                                       turns_.rule().name()));
  updates_.add_waiting(x, turns_.place(what), samples);
  if (what == verdict::merge) turns_.update_if_due();
}

/// The first shard got a gradient that was lost on the way to this one. Its place in the batch stays empty,
/// so that the versions of all shards stay equal. In a replay that is ended early, an empty batch makes no
/// version.
void parameter_actor::take_lost(const order_entry& turn) {
  if (!options_.replayed) {
    order_.announce({order_entry::kind::missed, turn.worker, turn.step, turn.gap, turn.arrived});
    turns_.take_lost(judge(turn).what);
    return release();
  }
  const verdict what = judge(turn).what;
  turns_.add_lost(what);
  if (what == verdict::merge && updates_.no_gradient_waits() && turns_.rule().batch_complete())
    drop_batch();
  else if (what == verdict::merge)
    turns_.update_if_due();
  release();
}

/// The batch is of lost gradients alone, and makes no version.
void parameter_actor::drop_batch() {
  updates_.drop_lost(turns_.rule().has_rounds() ? 0 : turns_.rule().takes_first());
  turns_.updated();
}

/// In a replay the gradient comes that was lost in the recorded run. Its worker need not wait.
void parameter_actor::take_missed(const order_entry& turn, const std::optional<push_gradient>& late) {
  order_.announce(turn);
  order_entry here = turn;
  if (late) {
    here.gap = options_.weights->version() - late->header.version_read;
    worker_slot& worker = workers_[turn.worker];
    workers_.lose_unjudged(turn.worker);
    if (worker.device && worker.life == late->header.id.life) send_home(worker);
  }
  turns_.take_lost(judge(here).what);
  release();
}

/// A switch lets no gradient of another epoch through. If one comes nevertheless, it is not judged, since it
/// was computed under another policy.
void parameter_actor::drop_stray(const gradient_header& x) {
  worker_slot& worker = workers_[x.id.worker];
  workers_.discard_unjudged(x.id.worker, updates_.gap_of(x), "other epoch");
  watch_.moment(trace_kind::discard, x, "other epoch");
  workers_.wait(x.id.worker, worker.arrived);
  release();
}

/// A shard that judges on its own also tells its followers that the worker has left. `unjudged`: a gradient
/// has arrived whose turn did not come before.
void parameter_actor::let_go(rank worker, incarnation life, bool unjudged) {
  worker_slot& gone = workers_[worker];
  gone.account.unjudged += unjudged ? 1 : 0;
  if (order_.was_cut(worker, life) && gone.device && gone.life == life && gone.owed) send_home(gone);
  if (!gone.in_policy) return;
  gone.in_policy = false;
  order_.announce(order_entry::of(order_entry::kind::left, worker, life));
  turns_.leave(worker);
  give_places();
  updates_.leave(worker);
  release();
}

/// Only what a batch that is not complete has can be of use before it is.
void parameter_actor::give_places() {
  const auto next = turns_.rule().first_awaited();
  if (next && !updater_.under_way() && !updates_.nothing_waits()) updates_.give_places(*next);
}

bool parameter_actor::update(waits_in where, std::size_t first) {
  barrier_opened_ = options_.time->now();
  updates_.add_all(where, first);
  return update(1);
}

void parameter_actor::update_of_nothing() {
  updates_.add_nothing();
  update(1);
}

/// Returns whether the version is made. If not, helpers compute parts of it.
bool parameter_actor::update(double rate) {
  if (!may_ask_for_help()) {
    updater_.update_alone(rate);
    updates_.note_version();
    return true;
  }
  updater_.ask_for_help(rate);
  hold_others(self_);
  self_->become(caf::keep_behavior, updating());
  compute_part();
  return false;
}

/// False if a worker may be computing on another thread, which would get its answer late.
bool parameter_actor::may_ask_for_help() const {
  return updater_.divides() && taking_ && workers_.all_wait() && !options_.resumed;
}

caf::behavior parameter_actor::updating() {
  return {
      on(self_, [this](const go_on&) { compute_part(); }),
      on(self_, [this](const update_helped&) { end_update_with_help(); }),
      on(self_,
         [this](const update_failed& x) { updater_.fail(x.why); }), // as if this actor had computed the part
  };
}

void parameter_actor::compute_part() {
  if (updater_.compute_part()) end_update_with_help();
}

void parameter_actor::end_update_with_help() {
  self_->unbecome();
  drop_others(self_);
  updater_.end();
  if (updates_.note_version()) turns_.updated();
  release(std::exchange(taking_, std::nullopt));
  switch_if_all_taken();
  watch_window();
  tell_awaited();
}

void parameter_actor::release(std::optional<rank> just_taken) {
  workers_.each_waiting([&](rank r) { start_if_due(r, just_taken); });
}

/// Sends a worker that waits the present weights, if the policy lets it start, or those that it had once
/// more.
void parameter_actor::start_if_due(rank waiting, std::optional<rank> just_taken) {
  worker_slot& worker = workers_[waiting];
  if (!worker.waits_since || !turns_.may_start(waiting)) return;
  worker.owed = false;
  const auto stay = worker.end_wait(options_.time->now(), just_taken != waiting, barrier_opened_);
  if (turns_.renews(waiting) || !worker.answer.values)
    worker.answer = {options_.weights->version(), updates_.weights_for(waiting), {}};
  worker.answer.met = std::exchange(worker.met, {});
  if (!worker.returns) answer(worker, stay);
}

using messaging::send, messaging::sender_of;

void parameter_actor::name_waits_to(const caf::actor& asker) const {
  const shard_index me = options_.weights->index();
  const instant now = options_.time->now();
  if (watch_.is_ending())
    send(self_, asker,
         wait_named{fmt::format("shard {} waits for the coordinator to take its timeline", me.value),
                    (now - watch_.told_at()).count()});
  if (const auto copies = readers_.name_wait()) send(self_, asker, *copies);
  if (next_policy_)
    send(self_, asker, wait_for_switch(me, *next_policy_, switch_asked_, workers_.all(), now));
  for (const wait_named& w :
       waits_of_workers(me, turns_.rule().name(), workers_.all(), awaited_in_order(order_), now))
    send(self_, asker, w);
  if (!options_.waits_here) return;
  for (const wait_named& w : options_.waits_here()) send(self_, asker, w);
}

void parameter_actor::on_read(const read_shard& x, const caf::actor& asker) {
  const shard& weights = *options_.weights;
  shard_read answer{weights.index(), weights.version(), lease_.active(), {}};
  const snapshot racing = answer.in_block ? lease_.racing_values() : snapshot();
  if (answer.in_block && !racing) return send(self_, asker, answer);
  answer.in_block = false; // the asker gets copies
  const snapshot wanted = racing ? racing : weights.snapshot();
  const auto* const here = std::get_if<cuda_stream>(&weights.at()->where());
  if (here && here->device == x.card) {
    answer.values = wanted;
    return send(self_, asker, answer);
  }
  try {
    readers_.give(wanted, [this, asker, answer](const snapshot& values) mutable {
      answer.values = values;
      send(self_, asker, answer);
    });
  } catch (const out_of_memory&) {
    send(self_, asker, answer); // without values: that test fails, and the run goes on
  }
}

shard_books parameter_actor::books() const {
  shard_books x{{options_.weights->index(), options_.weights->version(), {}, {}, {}}};
  for (const worker_slot& worker : workers_.all().first(workers_.used()))
    x.so_far.workers.push_back(worker.account);
  return x;
}

std::function<void(trace_piece)> parameter_actor::trace_to_coordinator() {
  if (!options_.tells_trace_to) return nullptr;
  return [this](trace_piece piece) {
    send(self_, options_.tells_trace_to, shard_trace_told{options_.weights->index(), std::move(piece)});
  };
}

/// The rest of a timeline that is told comes first. Whoever asks again meanwhile gets one report. It may have
/// failed when no worker was left to hear of it, so the report is preceded by that.
void parameter_actor::on_report_asked() {
  if (watch_.is_ending()) return;
  watch_.end_telling([this, asker = sender_of(self_)] {
    const auto tell = [this, asker](const snapshot& values) {
      if (failure_) send(self_, asker, shard_failed{options_.weights->index(), *failure_});
      send(self_, asker, report(values));
    };
    try {
      lease_.fetch();
      readers_.give(options_.weights->snapshot(), tell);
    } catch (const out_of_memory&) {
      tell(lease_.values_at_end());
    }
  });
}

shard_report parameter_actor::report(const snapshot& values) {
  order_.flush();
  watch_.flush_gaps();
  updates_.note_distances(); // all have come, since `values` have
  shard_report r{options_.weights->index(), options_.weights->version(), {}, values, watch_.take_trace()};
  for (std::uint32_t w = 0; w < workers_.used(); ++w) {
    worker_account& account = r.workers.emplace_back(workers_[{w}].account);
    if (failure_)
      note_what_is_lost(account);
    else
      account.ledger.lost += updates_.waiting({w}); // in a batch that was never complete
    account.unjudged += order_.waiting({w});
    account.ledger.produced += account.unjudged;
    account.ledger.lost += account.unjudged;
  }
  return r;
}

/// What was counted for the update that failed is merged into it, and what waited is lost.
void parameter_actor::note_what_is_lost(worker_account& account) const {
  gradient_ledger& l = account.ledger;
  const std::uint64_t taken = l.applied + l.merged;
  l.merged += account.gaps.total() - std::min(account.gaps.total(), taken);
  l.lost += l.produced - std::min(l.produced, l.accounted_for());
}

/// An update that is under way makes a version, so it is told when that has ended.
void parameter_actor::tell_awaited() {
  if (updater_.under_way()) return;
  if (options_.awaits) tell_whom_it_awaits();
  updates_.release_credit();
}

void parameter_actor::tell_whom_it_awaits() {
  awaited now{std::nullopt, options_.weights->version()};
  if (!order_.is_followed() && !credit_is_free_) now.first = turns_.rule().first_awaited();
  const bool as_before = told_awaited_ && told_awaited_->first == now.first &&
                         (!now.first || told_awaited_->version == now.version);
  if (as_before) return;
  told_awaited_ = now;
  options_.awaits(now.first, now.version);
}

using messaging::on, messaging::send, messaging::sender_of;

/// A card that lacks memory works on, and an update that could not begin has changed nothing.
void parameter_actor::fail(const std::string& why) {
  failure_ = why;
  for (const worker_slot& worker : workers_.all())
    if (worker.device) send(self_, worker.device, shard_failed{options_.weights->index(), why});
  if (const auto number = cut_.give_up()) drop_checkpoint(*number, cut_.collector());
  self_->become(failed());
}

/// A collector that is not known yet comes with a mark, or asks itself.
void parameter_actor::drop_checkpoint(std::uint64_t number, const caf::actor& collector) {
  const std::string part = fmt::format("shard {}", options_.weights->index().value);
  if (collector) send(self_, collector, checkpoint_failed{number, part, *failure_});
}

caf::behavior parameter_actor::failed() {
  return {
      on(self_,
         [this](const push_gradient& x) {
           if (!workers_.awaits(x.header.id)) return;
           workers_.admit(x, options_.time->now());
           workers_.lose_unjudged(x.header.id.worker);
         }),
      on(self_,
         [this](const join_shard& x) {
           workers_.join(x);
           send(self_, x.device, shard_failed{options_.weights->index(), *failure_});
         }),
      on(self_, [this](const worker_left& x) { workers_.leave(x); }),
      on(self_, [this](const tell_trained& x) { return trained(x); }),
      on(self_, [this](const foretell_gradient& x) { return foretell(x); }),
      on(self_, [](const order_entry&) {}),
      on(self_, [](const switch_policy&) {}),
      on(self_, [](const free_credit&) {}),
      on(self_, [](const window_over&) {}),
      on(self_, [](const go_on&) {}),
      on(self_, [this](const checkpoint_mark& x) { drop_checkpoint(x.number, x.collector); }),
      on(self_, [this](const take_checkpoint& x) { drop_checkpoint(x.number, sender_of(self_)); }),
      on(self_, [this](const give_up&) { quit_when_idle(); }),
      on(self_, [this](const report_shard&) { on_report_asked(); }),
      on(self_, [this](const trace_taken& x) { watch_.on_taken(x); }),
      on(self_, [this](const read_shard& x) { on_read(x, sender_of(self_)); }),
      on(self_, [this](const weights_copied&) { readers_.serve(); }),
      on(self_, [this](const copy_books&) { return books(); }),
      on(self_, [this](const name_waits&) { name_waits_to(sender_of(self_)); }),
  };
}

} // namespace mailgrad

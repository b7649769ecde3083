#include <mailgrad/actors/shard/parameter_actor.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/shard/wait_words.hpp>
#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

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
    : self_(self), options_(std::move(options)), policy_(policy_of(options_.policy)),
      workers_(options_.workers, options_.ranks(), options_.run),
      watch_(self, options_.tracker, options_.time, options_.trace, options_.pace, trace_to_coordinator()),
      updater_(self, options_.weights, std::move(options_.helpers), options_.time),
      updates_(options_.weights, options_.cure, workers_, watch_, updater_),
      readers_(self, options_.weights, options_.watch, options_.time),
      order_({self, options_.weights->index(), options_.ranks(), std::move(options_.followers),
              options_.recorder, options_.replayed}),
      lease_(options_.weights, options_.store, options_.on_card),
      cut_({options_.run, *options_.weights, policy_, workers_, updates_, order_, lease_}),
      window_(self, std::move(options_.timer)) {
  options_.trace.reset();
  watch_.add_counts(
      [this] { return workers_.counts(options_.weights->index(), options_.weights->version()); });
  for (std::uint32_t r = 0; r < options_.workers; ++r) policy_->join({r});
  order_.begin_policy(policy_->shards_agree());
  updates_.weigh(policy_->weighs());
  if (options_.resumed) resume();
  if (!options_.policy.traits().needs_shards) lease_.begin(); // with the weights of the checkpoint
}

/// Workers that had an answer get the same again when they come back. The others wait for theirs from now on.
void parameter_actor::resume() {
  const shard_state me{options_.run, *options_.weights, policy_, workers_, updates_, order_, lease_};
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
  policy_->join(worker);
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
  const std::string name = part->name;
  try {
    readers_.when_copied([this, to = cut_.collector(), part = std::move(*part)] { send(self_, to, part); });
  } catch (const out_of_memory& e) { // for the mark behind the copies
    send(self_, cut_.collector(), checkpoint_failed{number, name, e.what()});
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
    policy_->join(worker);
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
  if (order_.is_followed() || !policy_->first_awaited()) x.payload.credit.reset();
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
  const auto most = policy_->most_stale();
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
  while (!updates_.nothing_waits()) {
    updates_.skip_to_waiting();
    apply_batch();
  }
  updates_.clear_rounds();
  lease_.end();
  const policy_spec chosen(x.policy, options_.ranks());
  policy_ = policy_of(chosen);
  order_.begin_policy(policy_->shards_agree());
  updates_.weigh(policy_->weighs());
  credit_is_free_ = false;
  if (!chosen.traits().needs_shards) lease_.begin();
  epoch_ = x.epoch;
  watch_.moment(trace_kind::change_policy, {}, policy_->name());
  workers_.begin_policy(x.present, options_.time->now());
  for (std::uint32_t r = 0; r < workers_.count() && order_.replays(); ++r)
    if (!order_.has_greeted({r}, workers_[{r}].life)) workers_[{r}].waits_since.reset();
  for (std::uint32_t r = 0; r < workers_.count(); ++r)
    if (workers_[{r}].in_policy) policy_->join({r});
  release(); // before anybody is let go, as where the order is given, since a cure may predict for all
  for (std::uint32_t r = 0; r < workers_.count() && !order_.is_followed(); ++r)
    if (workers_[{r}].left) let_go({r}, workers_[{r}].life); // the coordinator had not yet heard of it
  take_what_is_ready();
}

} // namespace mailgrad

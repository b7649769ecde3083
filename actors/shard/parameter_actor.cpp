#include <mailgrad/actors/shard/parameter_actor.hpp>

#include <mailgrad/actors/shard/wait_words.hpp>
#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/hogwild.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

cure_site site_of(const parameter_actor_options& options) {
  return {options.workers, options.weights->dense_size(), options.weights->base_learning_rate()};
}

std::unique_ptr<cure> cure_of(const parameter_actor_options& options) {
  try {
    return make_cure(options.cure, site_of(options));
  } catch (const std::bad_alloc&) {
    throw std::runtime_error("cure '" + options.cure + "' keeps state for each of " +
                             std::to_string(options.weights->dense_size()) + " weights and " +
                             std::to_string(options.workers) + " workers, for which memory is lacking");
  }
}

/// Hogwild has no object; whoever joins then may start.
std::unique_ptr<policy> policy_of(const std::string& text, std::uint32_t workers) {
  return make_policy(text == hogwild_policy::policy_name ? async_policy::policy_name : text, workers);
}

/// A gradient that no policy judges is discarded.
void count_unjudged(worker_account& account, std::uint64_t gap, const char* reason) {
  ++account.ledger.produced;
  ++account.ledger.discarded[reason];
  account.discarded_gaps.count(gap);
}

} // namespace

parameter_actor::parameter_actor(caf::event_based_actor* self, parameter_actor_options options)
    : self_(self), options_(std::move(options)), policy_(policy_of(options_.policy, options_.workers)),
      cure_(cure_of(options_), options_.weights, options_.workers), slots_(options_.workers),
      pending_(options_.weights, options_.workers),
      updater_(self, options_.weights, std::move(options_.hands), options_.time), turns_(options_.workers),
      log_(self, options_.recorder, options_.weights->index()),
      watch_(self, options_.tracker, options_.time, options_.trace),
      lease_(options_.weights, options_.store) {
  options_.trace.reset();
  for (std::uint32_t r = 0; r < options_.workers; ++r) policy_->join({r});
  if (options_.policy == hogwild_policy::policy_name) lease_.begin();
  if (!options_.replayed) return;
  for (const order_entry& turn : options_.replayed->turns[options_.weights->index()]) turns_.expect(turn);
}

caf::behavior parameter_actor::serving() {
  return {
      on(self_, [this](const push_gradient& x) { on_push(x); }),
      on(self_, [this](const join_shard& x) { on_join(x); }),
      on(self_, [this](const worker_left& x) { on_leave(x); }),
      on(self_,
         [this](const order_entry& x) {
           turns_.expect(x);
           take_turns();
           switch_if_all_taken();
         }),
      on(self_, [this](const switch_policy& x) { on_switch(x); }),
      on(self_, [](const go_on&) {}), // of an update that a hand has ended meanwhile
      on(self_, [this](const give_up&) { self_->quit(); }),
      on(self_, [this](const report_shard&) { return report(); }),
      on(self_, [this](const name_waits&) { name_waits_to(sender_of(self_)); }),
  };
}

void parameter_actor::on_join(const join_shard& x) {
  if (x.worker.value >= slots_.size()) return;
  slots_[x.worker.value].device = x.device;
  turns_.join(x.worker);
  if (follows())
    take_turns();
  else
    greet(x.worker);
  switch_if_all_taken();
}

void parameter_actor::greet(rank worker) {
  announce({order_entry::kind::joined, worker});
  if (slots_[worker.value].device) slots_[worker.value].waits_since = options_.time->now();
  release();
}

void parameter_actor::on_push(const push_gradient& x) {
  if (x.worker.value >= slots_.size() || !slots_[x.worker.value].device) return; // never joined, or left
  worker_slot& worker = slots_[x.worker.value];
  if (x.step <= worker.account.last_step) return; // taken before: delivered twice counts once
  worker.account.last_step = x.step;
  worker.arrived = options_.time->now();
  worker.waiting_step = x.step;
  worker.account.times.arrive(x.times, worker.arrived);
  if (x.epoch != epoch_) return drop_stray(x);
  if (options_.replayed && x.step > turns_.last_step(x.worker)) {
    count_unjudged(worker.account, options_.weights->version() - x.version_read, "no turn");
    return send(self_, worker.device, turn_missing{options_.weights->index(), x.step});
  }
  if (follows()) {
    turns_.arrive(x);
    take_turns();
  } else {
    take(x, worker.arrived.count());
  }
  switch_if_all_taken();
}

/// What a worker that leaves has sent stays in the batch it waits in.
void parameter_actor::on_leave(const worker_left& x) {
  if (x.worker.value >= slots_.size() || slots_[x.worker.value].left) return;
  slots_[x.worker.value].waits_since.reset();
  slots_[x.worker.value].device = nullptr;
  slots_[x.worker.value].left = true;
  turns_.forget(x.worker);
  if (follows())
    take_turns();
  else
    let_go(x.worker);
  switch_if_all_taken();
}

/// The fence lets none through; should one come, it is not judged by a policy that it was not computed under.
void parameter_actor::drop_stray(const push_gradient& x) {
  worker_slot& worker = slots_[x.worker.value];
  count_unjudged(worker.account, options_.weights->version() - x.version_read, "other epoch");
  watch_.moment(trace_kind::discard, x, "other epoch");
  worker.waits_since = worker.arrived;
  release();
}

void parameter_actor::tell_followers(const order_entry& turn) {
  if (!leads()) return;
  for (const caf::actor& shard : options_.followers) send(self_, shard, turn);
}

/// To the followers, and for the record.
void parameter_actor::announce(const order_entry& turn) {
  log_.note(turn);
  tell_followers(turn);
}

void parameter_actor::take_turns() {
  while (follows()) {
    const auto ready = turns_.next();
    if (!ready) break;
    if (ready->turn.what == order_entry::kind::left)
      let_go(ready->turn.worker);
    else if (ready->turn.what == order_entry::kind::joined)
      greet(ready->turn.worker);
    else if (ready->gradient)
      take(*ready->gradient, ready->turn.arrived);
    else
      take_lost(ready->turn);
  }
}

decision parameter_actor::judge(const order_entry& turn) {
  return policy_->judge(
      {turn.worker, turn.step, turn.version_read, options_.weights->version(), turn.arrived});
}

/// `arrived` is the time by which it is judged: at the shard whose order is followed.
void parameter_actor::take(const push_gradient& x, std::int64_t arrived) {
  const order_entry turn{order_entry::kind::gradient, x.worker, x.step, x.version_read, arrived};
  announce(turn);
  worker_slot& worker = slots_[x.worker.value];
  if (worker.device) worker.waits_since = worker.arrived;
  gradient_ledger& ledger = worker.account.ledger;
  ++ledger.produced;
  watch_.idle(!pending_.empty(), worker.arrived, follows());
  if (!follows()) taking_ = x.worker;
  const decision d = judge(turn);
  switch (d.what) {
  case verdict::apply:
    apply(x);
    break;
  case verdict::merge:
    merge(x);
    break;
  case verdict::discard:
    ++ledger.discarded[std::string(d.reason)];
    worker.account.discarded_gaps.count(options_.weights->version() - x.version_read);
    watch_.moment(trace_kind::discard, x, d.reason);
    break;
  }
  if (updater_.under_way()) return; // the answers follow the update
  taking_.reset();
  release(x.worker);
}

/// The first shard got a gradient that died on the way here: its place in the batch stays empty, so that
/// versions of all shards keep together. A replay that somebody ends early has nothing to keep together, and
/// leaves it at that.
void parameter_actor::take_lost(const order_entry& turn) {
  const bool merged = judge(turn).what == verdict::merge;
  if (merged && options_.replayed && pending_.empty() && policy_->batch_complete())
    policy_->batch_applied();
  else if (merged)
    apply_batch_if_complete();
  release();
}

/// A shard that judges on its own also tells its followers that the worker has left.
void parameter_actor::let_go(rank worker) {
  worker_slot& gone = slots_[worker.value];
  if (!gone.in_policy) return;
  gone.in_policy = false;
  announce({order_entry::kind::left, worker});
  policy_->leave(worker);
  apply_batch_if_complete();
  cure_.leave(worker);
  release();
}

void parameter_actor::on_switch(const switch_policy& x) {
  next_policy_ = x;
  coordinator_ = sender_of(self_);
  switch_asked_ = options_.time->now();
  switch_if_all_taken();
}

bool parameter_actor::all_taken(const switch_policy& x) const {
  return follows() ? turns_.switch_is_next() : awaited_before(x, slots_).empty();
}

void parameter_actor::switch_if_all_taken() {
  if (!next_policy_ || updater_.under_way() || !all_taken(*next_policy_)) return;
  const switch_policy x = *std::exchange(next_policy_, std::nullopt);
  if (follows()) turns_.take_switch();
  const order_entry turn{order_entry::kind::switched, {}};
  if (std::ranges::count(x.present, 0) < std::ssize(x.present)) log_.note(turn); // else it is for nobody
  tell_followers(turn);
  begin(x);
  send(self_, coordinator_, policy_switched{options_.weights->index(), epoch_});
}

/// Under the new policy everybody starts from the weights as they are.
void parameter_actor::begin(const switch_policy& x) {
  watch_.flush_gaps(); // those of the old policy tell nothing of the new one
  if (!pending_.empty()) apply_batch();
  lease_.end();
  policy_ = policy_of(x.policy, options_.workers);
  if (x.policy == hogwild_policy::policy_name) lease_.begin();
  epoch_ = x.epoch;
  watch_.moment(trace_kind::change_policy, {}, policy_->name());
  for (std::uint32_t r = 0; r < slots_.size(); ++r) {
    worker_slot& worker = slots_[r];
    worker.in_policy = x.present[r] != 0;
    worker.merged = false;
    worker.waits_since.reset();
    if (!worker.in_policy) continue;
    policy_->join({r});
    if (worker.device)
      worker.waits_since = options_.time->now(); // the wait until here is counted at the device
  }
  for (std::uint32_t r = 0; r < slots_.size() && !follows(); ++r)
    if (slots_[r].left) let_go({r}); // before those who keep the list had heard of it
  release();
  take_turns();
}

void parameter_actor::apply(const push_gradient& x) {
  const double rate = observe(x);
  const contribution what = cure_.applied(x, cure_.read_by(x.worker));
  updater_.add(x, &what);
  of_batch_ = false;
  ++slots_[x.worker.value].account.ledger.applied;
  update(rate);
}

void parameter_actor::merge(const push_gradient& x) {
  pending_.add({x, cure_.read_by(x.worker)},
               [this](const waiting_gradient& g, float share) { return counted(g, share); });
  slots_[x.worker.value].merged = true;
  apply_batch_if_complete();
}

void parameter_actor::apply_batch_if_complete() {
  if (policy_->batch_complete()) apply_batch();
}

/// The mean of the batch, or its sum.
void parameter_actor::apply_batch() {
  barrier_opened_ = options_.time->now();
  const float share =
      cure_.adds_up() ? 1 : 1.0F / static_cast<float>(std::max<std::size_t>(1, pending_.size()));
  pending_.hand_over(
      share, [this](const waiting_gradient& g, float part) { return counted(g, part); },
      [this](const push_gradient& x, const contribution* what) {
        updater_.add(x, what);
        ++slots_[x.worker.value].account.ledger.merged;
      });
  of_batch_ = true;
  update(1);
}

/// No version is made while a batch waits, so that it makes no difference when a gradient of it is counted.
contribution parameter_actor::counted(const waiting_gradient& g, float share) {
  const auto factor = static_cast<float>(observe(g.what));
  contribution what = cure_.applied(g.what, g.read);
  what.scale *= share * factor;
  return what;
}

void parameter_actor::update(double rate) {
  if (may_ask_for_help()) {
    updater_.ask_for_help(rate);
    hold_others(self_);
    self_->become(caf::keep_behavior, updating());
    return compute_part();
  }
  try {
    updater_.update_alone(rate);
  } catch (const std::exception& e) {
    fail_update(e.what());
  }
  note_update();
}

void parameter_actor::fail_update(const std::string& why) const {
  throw std::runtime_error("update " + std::to_string(options_.weights->version() + 1) + " by rule '" +
                           std::string(options_.weights->rule()) + "': " + why);
}

/// Not if another thread may be busy with a worker, and an answer to it would come late.
bool parameter_actor::may_ask_for_help() const {
  return updater_.divides() && taking_ && std::ranges::none_of(slots_, [](const worker_slot& worker) {
           return worker.in_policy && !worker.left && !worker.waits_since;
         });
}

caf::behavior parameter_actor::updating() {
  return {
      on(self_, [this](const go_on&) { compute_part(); }),
      on(self_, [this](const update_helped&) { end_update_with_help(); }),
      on(self_, [this](const update_failed& x) { fail_update(x.why); }), // as if it were ours
  };
}

void parameter_actor::compute_part() {
  bool complete = false;
  try {
    complete = updater_.compute_part();
  } catch (const std::exception& e) {
    fail_update(e.what());
  }
  if (complete) end_update_with_help();
}

void parameter_actor::end_update_with_help() {
  self_->unbecome();
  drop_others(self_);
  updater_.end();
  note_update();
  release(std::exchange(taking_, std::nullopt));
  switch_if_all_taken();
}

void parameter_actor::note_update() {
  const instant each = updater_.share_of_each();
  instant begun = updater_.begun();
  for (const push_gradient& x : updater_.gradients()) {
    slots_[x.worker.value].account.times.apply.add(each);
    watch_.applied(x, options_.weights->version(), begun, each);
    begun += each;
  }
  updater_.clear();
  if (of_batch_) policy_->batch_applied();
}

/// The gap is taken where it counts: just before the version that this gradient helps to make.
double parameter_actor::observe(const push_gradient& x) {
  const std::uint64_t gap = options_.weights->version() - x.version_read;
  worker_slot& worker = slots_[x.worker.value];
  worker.account.gaps.count(gap);
  watch_.gap(gap, worker.arrived);
  if (x.read) sample(x);
  if (cure_.draws_workers()) worker.met = {x.step, options_.weights->snapshot()};
  return cure_.factor(gap);
}

/// The device that asked for it compares its gradient with one at the weights that this one meets.
void parameter_actor::sample(const push_gradient& x) {
  worker_slot& worker = slots_[x.worker.value];
  worker.account.weight_gap.add(options_.weights->distance_to(*x.read));
  worker.met = {x.step, options_.weights->snapshot()};
}

/// Whoever is let go with its own gradient has not waited.
void parameter_actor::release(std::optional<rank> just_taken) {
  for (std::uint32_t r = 0; r < slots_.size(); ++r) {
    worker_slot& worker = slots_[r];
    if (!worker.waits_since || !policy_->may_start({r})) continue;
    const bool by_others = just_taken != rank{r};
    const bool at_barrier = by_others && worker.merged && barrier_opened_ > *worker.waits_since;
    const bool at_bound = by_others && !worker.merged && worker.waiting_step > 0;
    const instant waited = at_barrier ? barrier_opened_ - *worker.waits_since : instant{0};
    const instant now = options_.time->now();
    const instant held = at_bound ? now - *worker.waits_since : instant{0};
    worker.waits_since.reset();
    worker.merged = false;
    send(self_, worker.device,
         shard_weights{options_.weights->index(), options_.weights->version(), epoch_, waited.count(),
                       held.count(), cure_.weights_for({r}), worker.arrived.count(), now.count(),
                       std::exchange(worker.met, {})});
  }
}

void parameter_actor::name_waits_to(const caf::actor& asker) const {
  const std::uint32_t me = options_.weights->index();
  if (next_policy_) send(self_, asker, wait_for_switch(me, *next_policy_, switch_asked_, slots_));
  for (const wait_named& w : waits_of_workers(me, policy_->name(), slots_)) send(self_, asker, w);
}

shard_report parameter_actor::report() {
  log_.flush();
  lease_.fetch();
  shard_report r{options_.weights->index(),
                 options_.weights->version(),
                 {},
                 options_.weights->snapshot(),
                 watch_.take_trace()};
  for (const worker_slot& worker : slots_) r.workers.push_back(worker.account);
  for (std::uint32_t w = 0; w < r.workers.size(); ++w) {
    worker_account& account = r.workers[w];
    account.ledger.lost += pending_.of({w}); // their batch was never complete
    account.unjudged = turns_.waiting({w});
    account.ledger.produced += account.unjudged;
    account.ledger.lost += account.unjudged;
  }
  return r;
}

} // namespace mailgrad
